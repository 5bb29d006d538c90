"""Which agent speaks: a context variable that travels through every await.

Whoever runs an agent's turns says so once; everything that is awaited or started in there knows it.
What is sent in an agent's name is held against it, so that no mix-up of objects in a process with
many agents can put words into another's mouth.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from prong.errors import NotPossibleNow
from prong.ids import AgentPath

_SPEAKER: ContextVar[AgentPath | None] = ContextVar("speaker", default=None)


@contextmanager
def speaking(path: AgentPath) -> Generator[None, None, None]:
    """Be the agent of that path for the length of a block."""
    token = _SPEAKER.set(path)
    try:
        yield
    finally:
        _SPEAKER.reset(token)


def must_be(path: AgentPath) -> None:
    """Make sure that it is this agent that speaks.

    Raises NotPossibleNow if it is another, or nobody has said who it is.
    """
    if (who := _SPEAKER.get()) != path:
        raise NotPossibleNow(f"{who or 'nobody'} cannot send anything in the name of {path}")
