"""A model in a process of our own: no key, no network, and forks that share what is computed."""

from prong.provider.local.embedded import Local, Plan
from prong.provider.local.engine_process import Engine
from prong.provider.local.grammar import Forced, Framed
from prong.provider.local.pool import Engines

__all__ = ["Engine", "Engines", "Forced", "Framed", "Local", "Plan"]
