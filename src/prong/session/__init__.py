"""A session: the composition root, its journal, its settings."""

from prong.config.option import Options
from prong.session.bus import Subscription
from prong.session.driver import Turn
from prong.session.opening import open_session
from prong.session.session import Session

__all__ = ["Options", "Session", "Subscription", "Turn", "open_session"]
