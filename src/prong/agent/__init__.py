"""One agent: its loop, its calls, its inbox, its life."""

from prong.agent import loop
from prong.agent.agent import Agent
from prong.agent.client import Client, ModelSettings, NoObserver, Observer
from prong.agent.compact import compact
from prong.agent.conversation import Conversation, Sent, recalled
from prong.agent.hook import Hooks, Verdict
from prong.agent.inbox import Inbox
from prong.agent.life import Life, Turn
from prong.agent.limit import Limits, RunState
from prong.agent.question import OpenQuestions, Respond
from prong.agent.request import request

__all__ = [
    "Agent",
    "Client",
    "Conversation",
    "Hooks",
    "Inbox",
    "Life",
    "Limits",
    "ModelSettings",
    "NoObserver",
    "Observer",
    "OpenQuestions",
    "Respond",
    "RunState",
    "Sent",
    "Turn",
    "Verdict",
    "compact",
    "loop",
    "recalled",
    "request",
]
