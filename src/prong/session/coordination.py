"""What makes a session a coordinator's: its tools, its one type of agent, its prompt."""

from __future__ import annotations

import os
from typing import cast

import msgspec

from prong.agent.spec import AgentTypes
from prong.config.place import Place
from prong.errors import BadInput, NotPossibleNow
from prong.event import MAIN
from prong.journal.note import CoordinatorSet, ToolSet
from prong.session.foundation import Foundation
from prong.system.path_form import real_path
from prong.team.coordinator import describe_workers, worker_type
from prong.team.pull import SECONDS, Pulls
from prong.team.route import WORKER
from prong.team.typed import filtered, offered
from prong.text import load_text
from prong.tools.kit import Kit
from prong.tools.policy_box import PolicyBox
from prong.tools.tool import Tool


class Coordination(msgspec.Struct, frozen=True):
    """A coordinator's own parts of a session."""

    kit: Kit
    types: AgentTypes
    role: tuple[str, str]
    """Its system prompt, and what is true of this session's workers."""


def make_pulls(base: Foundation) -> Pulls:
    """Make what watches pull requests for the main agent."""
    place = base.place
    return Pulls(
        host=base.host,
        board=base.board,
        agent=MAIN,
        recorder=base.journal,
        emit=base.emit,
        env={"PATH": place.env.get("PATH", os.defpath), **base.env},
        seconds=place.settings.values.pull_seconds or SECONDS,
    )


def worker_tools(base: Foundation) -> ToolSet | None:
    """Say which tools the workers of a coordinator have; None if the session is no coordinator's.

    Raises UsageError if the session cannot be a coordinator's, or for a wrong set of tools.
    """
    if base.replay is None:
        return _wanted(base.place)
    tools = base.noted.worker_tools
    if base.place.options.coordinator and tools is None:
        raise NotPossibleNow(
            "the session was not begun by a coordinator and cannot become one: its tools are part "
            "of its conversation; start a new one, or leave out --coordinator"
        )
    return tools


def coordinate(
    place: Place, pool: Kit, policy: PolicyBox, pulls: Pulls, tools: ToolSet
) -> Coordination:
    """Make what a coordinator has of its own; `pool` holds what workers' tools are chosen from."""
    pulls.recorder.note(pulls.agent, CoordinatorSet(tools))
    shared = place.settings.values.scratchpad
    scratchpad = _scratchpad(pulls.board.storage) if shared else ""
    policy.revise(msgspec.structs.replace(policy.policy, scratchpad=scratchpad))
    return parts(place, pool, tools=tools, scratchpad=scratchpad, more=_pull_tools(place, pulls))


def _wanted(place: Place) -> ToolSet | None:
    options = place.options
    if not options.coordinator:
        return None
    if not place.settings.values.background:
        raise BadInput(
            "a coordinator's workers are in the background, and the setting background is false; "
            "change it or leave out --coordinator"
        )
    if options.json_schema is not None:
        raise BadInput("a coordinator has no tool to answer by a JSON schema; leave out one")
    wanted = options.worker_tools or place.settings.values.worker_tools or "full"
    if wanted not in {"simple", "full"}:
        raise BadInput(f"workerTools is {wanted!r}; it must be simple or full")
    return cast("ToolSet", wanted)


def _scratchpad(storage: str) -> str:
    """Make the folder that all workers share."""
    path = os.path.join(storage, "scratchpad")  # noqa: PTH118 - strings throughout
    os.makedirs(path, mode=0o700, exist_ok=True)  # noqa: PTH103 - strings throughout
    return real_path(path)


def _pull_tools(place: Place, pulls: Pulls) -> tuple[Tool, ...]:
    """Offer pull requests where they can be watched: in a repository, with `gh` at hand."""
    import shutil

    inside = os.path.exists(os.path.join(place.root, ".git"))  # noqa: PTH110, PTH118 - strings
    if not inside or shutil.which("gh", path=place.env.get("PATH")) is None:
        return ()
    from prong.tools.pull_activity import SubscribePullActivity

    return (SubscribePullActivity(pulls.subscribe),)


def parts(
    place: Place, pool: Kit, *, tools: ToolSet, scratchpad: str, more: tuple[Tool, ...] = ()
) -> Coordination:
    """Make a coordinator's parts; `pool` holds what workers' tools are chosen from."""
    from prong.tools.background import TaskStop
    from prong.tools.delegate import SendMessage, WorkerAgent

    kind = worker_type(place.types[WORKER], tools=tools, scratchpad=scratchpad)
    names = [tool.name for tool in offered(pool, kind)]
    kept = filtered(kind, names, background=True, private=place.servers.private).kept
    skills = [skill.name for skill in place.skills if skill.for_model]
    targets = tuple(place.settings.values.remote.targets)
    return Coordination(
        Kit(
            [
                WorkerAgent(description=load_text("tool/AgentCoordinator"), targets=targets),
                SendMessage(),
                TaskStop(),
                *more,
            ]
        ),
        AgentTypes({WORKER: kind}),
        (load_text("coordinator"), describe_workers(kept, skills, scratchpad)),
    )
