"""One agent: its loop, its calls, its inbox, its life."""

from prong.agent import loop
from prong.agent.agent import Agent, NoWatch, Sent, Watch, recalled
from prong.agent.compact import compact
from prong.agent.hook import Hooks, NoHooks, Verdict
from prong.agent.inbox import Inbox
from prong.agent.life import Life, Turn
from prong.agent.limit import Limits
from prong.agent.question import OpenQuestions, Respond
from prong.agent.request import request

__all__ = [
    "Agent",
    "Hooks",
    "Inbox",
    "Life",
    "Limits",
    "NoHooks",
    "NoWatch",
    "OpenQuestions",
    "Respond",
    "Sent",
    "Turn",
    "Verdict",
    "Watch",
    "compact",
    "loop",
    "recalled",
    "request",
]
