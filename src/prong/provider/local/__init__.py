"""A model in a process of our own: no key, no network, and forks that share what is computed."""

from prong.provider.local.grammar import Forced, Framed
from prong.provider.local.pool import Engines
from prong.provider.local.process import Engine
from prong.provider.local.provider import Local, Plan

__all__ = ["Engine", "Engines", "Forced", "Framed", "Local", "Plan"]
