"""What requests cost and where the cache marks go."""

from prong.cost.billing import Billing
from prong.cost.fact import Fact, fact, window
from prong.cost.ledger import Charge, Ledger, Total, total
from prong.cost.mark import lifetime, markable, plan
from prong.cost.price import Price, Prices, price, read_prices

__all__ = [
    "Billing",
    "Charge",
    "Fact",
    "Ledger",
    "Price",
    "Prices",
    "Total",
    "fact",
    "lifetime",
    "markable",
    "plan",
    "price",
    "read_prices",
    "total",
    "window",
]
