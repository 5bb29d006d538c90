"""Prong: parallel coding agents whose forks come with a receipt.

async with prong.open_session(model="claude-sonnet-5-5", cwd=".") as session:
    turn = await session.run("What does the scheduler do when a task fails?")
    print(turn.text, session.cost)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prong.about import __version__

if TYPE_CHECKING:
    from prong.agent.spec import AgentType
    from prong.config.function_hook import hook
    from prong.cost.receipt import Receipt
    from prong.entry import Usage
    from prong.errors import (
        BudgetSpent,
        ConfigError,
        JournalError,
        ProngError,
        ProviderError,
        UsageError,
    )
    from prong.event import (
        Envelope,
        Event,
        PermissionAsked,
        QuestionAsked,
    )
    from prong.question import Answer
    from prong.session import Client, Options, Session, Turn, open_session, run
    from prong.team.result import ChildResult
    from prong.tools.function import tool

# Names are looked up when they are first used, so that `prong --version` need not load a session.
_HOMES = {
    "AgentType": "agent.spec",
    "Answer": "question",
    "BudgetSpent": "errors",
    "Client": "session",
    "ConfigError": "errors",
    "Envelope": "event",
    "Event": "event",
    "ChildResult": "team.result",
    "JournalError": "errors",
    "Options": "session",
    "PermissionAsked": "event",
    "ProngError": "errors",
    "ProviderError": "errors",
    "QuestionAsked": "event",
    "Receipt": "cost.receipt",
    "Session": "session",
    "Turn": "session",
    "Usage": "entry",
    "UsageError": "errors",
    "hook": "config.function_hook",
    "open_session": "session",
    "run": "session",
    "tool": "tools.function",
}

__all__ = [
    "AgentType",
    "Answer",
    "BudgetSpent",
    "ChildResult",
    "Client",
    "ConfigError",
    "Envelope",
    "Event",
    "JournalError",
    "Options",
    "PermissionAsked",
    "ProngError",
    "ProviderError",
    "QuestionAsked",
    "Receipt",
    "Session",
    "Turn",
    "Usage",
    "UsageError",
    "__version__",
    "hook",
    "open_session",
    "run",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'prong' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"prong.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
