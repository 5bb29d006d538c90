"""Children that a session's caller starts by hand, and waits for.

They go the road of all children. What differs is that no call of a model asks for them: what cannot
be is raised, and what they give back is given to the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import msgspec

from prong.agent import Agent
from prong.agent.answer import unanswered
from prong.entry import CallId, plain
from prong.errors import BadInput, NotPossibleNow
from prong.host.target import read_isolation
from prong.prompt import Prompt
from prong.team.child import Child
from prong.team.course import launch
from prong.team.make import PlannedFork
from prong.team.result import ChildResult
from prong.team.route import DEFAULT, FORK, NoRoute
from prong.team.supervisor import Supervisor, WaitedChild
from prong.team.typed import known_type
from prong.team.workspace import barred
from prong.tools.delegate import PlainAgentArguments, WaitedAgentArguments
from prong.tools.tool import Failed


def fork_point(parent: Agent) -> Prompt:
    """Give the conversation from which an agent can be forked.

    A reply whose calls still run is left out: it could not be sent without their results.
    """
    prompt = parent.conversation.prompt
    while unanswered(prompt):
        assert prompt.tip is not None
        prompt = Prompt(prompt.head, prompt.tip.parent)
    return prompt


def fork(
    supervisor: Supervisor,
    parent: Agent,
    directives: Sequence[str],
    *,
    at: Prompt | None = None,
    notify: bool = False,
    isolation: str = "",
    more: str = "",
) -> list[Child]:
    """Fork an agent from its conversation as it stands, or stood; all are one fan-out.

    After its directive each is told `more`, which its description leaves out.
    Raises NotPossibleNow if forks are off, or may not have such an isolation.
    """
    mode = supervisor.settings.forks
    if not mode.on:
        remedy = f"; {mode.remedy}" if mode.remedy else ""
        raise NotPossibleNow(f"forks are off: {mode.why_off}{remedy}")
    remote = supervisor.services.remote
    if isolation and (why := barred(parent, isolation, remote)) is not None:
        raise NotPossibleNow(why)
    chosen = read_isolation(isolation)
    told = [_told(text, more) for text in directives]
    fan, _ = supervisor.plan(parent, at or fork_point(parent), told, notify=notify)
    return [
        supervisor.begin_fork(
            parent,
            fan,
            supervisor.registry.numbered("fork"),
            PlannedFork(_short(text), whole, chosen),
            notify=notify,
        )
        for text, whole in zip(directives, told, strict=True)
    ]


def start_agent(
    supervisor: Supervisor,
    parent: Agent,
    kind: str,
    brief: str,
    *,
    model: str | None = None,
    isolation: str | None = None,
    more: str = "",
) -> Child:
    """Start an agent of a type, which knows nothing but its brief.

    Raises UnknownName if there is no such type, NotPossibleNow if it cannot be started.
    """
    if kind == FORK:
        raise BadInput("a fork is no type of agent; session.fork makes one")
    known_type(supervisor.resolver.types, kind)
    args = WaitedAgentArguments(
        description=_short(brief),
        prompt=_told(brief, more),
        subagent_type=kind,
        model=model,
        isolation=isolation,
    )
    route = supervisor.route(parent, args)
    if isinstance(route, NoRoute):
        raise NotPossibleNow(route.why)
    begun = supervisor.start(parent, CallId(""), args, route, "", None)
    if not isinstance(begun, WaitedChild):
        raise NotPossibleNow(getattr(begun, "why", "the agent could not be started"))
    return begun.child


def begin(supervisor: Supervisor, parent: Agent, given: dict[str, Any]) -> str:
    """Start an agent in the background as Agent would, for arguments of it; it reports by a notice.

    Without a type that is a fork, or where forks are off an agent for anything. Gives what to say
    of it. Raises NotPossibleNow if it cannot be started.
    """
    if "subagent_type" not in given and supervisor.settings.forks.on:
        (child,) = fork(supervisor, parent, [given["prompt"]], notify=True)
        return f"{child.spec.task_id} works on it and will report"
    args = msgspec.convert({**given, "run_in_background": True}, PlainAgentArguments)
    if "subagent_type" not in given:
        args = msgspec.structs.replace(args, subagent_type=DEFAULT)
    route = supervisor.route(parent, args)
    begun = supervisor.start(parent, CallId(""), args, route, "", None)
    if isinstance(begun, WaitedChild):
        begun.child.notify()
        return f"{begun.child.spec.task_id} works on it and will report"
    if isinstance(begun, Failed):
        raise NotPossibleNow(begun.why)
    return plain(begun.parts).partition(". ")[0]


async def wait(supervisor: Supervisor, children: Sequence[Child]) -> list[ChildResult]:
    """Wait until children have ended; gives what each of them gave back.

    To cancel this stops those of whose end nobody else will hear.
    """
    board = supervisor.services.board
    try:
        for child in children:
            await board.wait_ended(child.spec.task_id)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as stopping:
                for child in children:
                    if not child.spec.notify:
                        stopping.start_soon(partial(board.stop, child.spec.task_id))
        raise
    return [supervisor.result(child) for child in children]


async def ask_again(supervisor: Supervisor, child: Child, text: str) -> ChildResult:
    """Tell a child that has ended something more, and wait for what it says to that."""
    child = supervisor.unarchived(child.spec.parent, child.spec.task_id) or child
    child.tell(text)
    child.run_again(notify=False)
    launch(child, supervisor.services)
    (result,) = await wait(supervisor, [child])
    return result


def _told(text: str, more: str) -> str:
    return f"{text}\n\n{more}" if more else text


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
