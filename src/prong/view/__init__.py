"""A session as a face draws it: `view = fold(view, envelope)`."""

from prong.view.close import endings
from prong.view.fold import fold, fold_all, settled
from prong.view.series import Series
from prong.view.state import (
    Accounted,
    AgentView,
    AskedView,
    Called,
    Figures,
    Item,
    Live,
    PartialReply,
    QueuedView,
    ReceiptView,
    Replied,
    Restarted,
    Said,
    TaskView,
    TurnEnded,
    View,
)

__all__ = [
    "Accounted",
    "AgentView",
    "AskedView",
    "Called",
    "Figures",
    "Item",
    "Live",
    "PartialReply",
    "QueuedView",
    "ReceiptView",
    "Replied",
    "Restarted",
    "Said",
    "Series",
    "TaskView",
    "TurnEnded",
    "View",
    "endings",
    "fold",
    "fold_all",
    "settled",
]
