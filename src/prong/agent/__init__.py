"""One agent: its loop, its calls, its inbox, its life."""

from prong.agent import loop
from prong.agent.agent import Agent
from prong.agent.client import ModelClient, ModelSettings
from prong.agent.compact import compact
from prong.agent.conversation import Conversation, Sent, recalled
from prong.agent.inbox import Inbox
from prong.agent.life import Life, Turn
from prong.agent.limit import RunState, TurnLimits
from prong.agent.observer import CacheWatch, Observer
from prong.agent.open_questions import OpenQuestions, Respond
from prong.agent.request import request
from prong.agent.verdict import Hooks, Verdict

__all__ = [
    "Agent",
    "CacheWatch",
    "Conversation",
    "Hooks",
    "Inbox",
    "Life",
    "ModelClient",
    "ModelSettings",
    "Observer",
    "OpenQuestions",
    "Respond",
    "RunState",
    "Sent",
    "Turn",
    "TurnLimits",
    "Verdict",
    "compact",
    "loop",
    "recalled",
    "request",
]
