"""Many children over data: one for each item, so many at once, with results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import anyio

from prong.errors import BadInput, ProngError
from prong.session.parts import Parts
from prong.team import by_hand
from prong.team.child import Child
from prong.team.result import ChildResult

_Item = TypeVar("_Item")

AT_ONCE = 8
"""Children that work at the same time, unless the caller says otherwise."""

StartChildren: TypeAlias = Callable[[Sequence[str]], Awaitable[list[Child]]]
"""Starts a child for each of some briefs, as one fan-out."""
FollowChild: TypeAlias = Callable[[Child], Awaitable[ChildResult]]
"""Waits for a child, and gives what it gave back."""


def make_briefs(items: Iterable[_Item], brief: str | Callable[[_Item], str]) -> list[str]:
    """Say what is to be done with each item, before anything is.

    Raises BadInput if that is not a text for each.
    """
    if isinstance(brief, str):
        if "{}" not in brief:
            raise BadInput("the brief is the same for all items; write {} where the item goes")
        return [brief.replace("{}", str(item)) for item in items]
    texts = [cast("object", brief(item)) for item in items]
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise BadInput(f"the brief of each item must be a text; of one it is {text!r}")
    return cast("list[str]", texts)


def starter(
    parts: Parts,
    kind: str | None,
    *,
    more: str,
    model: str | None,
    isolation: str | None,
) -> StartChildren:
    """Make what starts children: agents of a type, or forks of the conversation as it is now.

    Raises BadInput if forks are to have another model.
    """
    supervisor, agent = parts.supervisor, parts.agent
    if kind is None:
        if model is not None:
            raise BadInput("forks run on their parent's model; leave model out, or name an agent")
        point = by_hand.fork_point(agent)

        async def fork(briefs: Sequence[str]) -> list[Child]:
            parts.must_live()
            kept = isolation or ""
            return by_hand.fork(supervisor, agent, briefs, at=point, isolation=kept, more=more)

        return fork

    begin = partial(
        by_hand.start_agent, supervisor, agent, kind, model=model, isolation=isolation, more=more
    )

    async def start(briefs: Sequence[str]) -> list[Child]:
        parts.must_live()
        begun: list[Child] = []
        try:
            begun.extend(begin(brief) for brief in briefs)
        except ProngError:
            # Nobody will wait for those.
            for child in begun:
                await supervisor.services.board.stop(child.spec.task_id)
            raise
        return begun

    return start


async def map_children(
    briefs: Sequence[str], start: StartChildren, follow: FollowChild, *, limit: int
) -> list[ChildResult]:
    """Start children for briefs, so many at once: those that begin together are one fan-out.

    Whoever comes later reads what the first have written to the cache.
    Raises BadInput if the limit is none, and what `start` raises.
    """
    if limit < 1:
        raise BadInput(f"limit is {limit}; it must be above 0")
    found: dict[int, ChildResult] = {}
    waiting = deque(enumerate(briefs))

    async def work(number: int, child: Child) -> None:
        found[number] = await follow(child)
        while waiting:
            number, brief = waiting.popleft()
            (child,) = await start([brief])
            found[number] = await follow(child)

    first = [waiting.popleft() for _ in range(min(limit, len(briefs)))]
    children = await start([brief for _, brief in first]) if first else []
    await _all([(work, number, child) for (number, _), child in zip(first, children, strict=True)])
    return [found[number] for number in range(len(briefs))]


async def follow_all(follow: FollowChild, children: Sequence[Child]) -> list[ChildResult]:
    """Wait for children that run, all at once."""
    found: dict[int, ChildResult] = {}

    async def work(number: int, child: Child) -> None:
        found[number] = await follow(child)

    await _all([(work, number, child) for number, child in enumerate(children)])
    return [found[number] for number in range(len(children))]


async def _all(
    works: Sequence[tuple[Callable[[int, Child], Coroutine[Any, Any, None]], int, Child]],
) -> None:
    """Do all of them beside each other; a failure is raised bare, and stops the others."""
    try:
        async with anyio.create_task_group() as group:
            for work, number, child in works:
                group.start_soon(work, number, child)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
