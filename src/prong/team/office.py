"""Starts typed children, waits for those in the foreground, and takes them up again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import msgspec

from prong.agent import Agent
from prong.agent.spec import AgentType
from prong.cost.budget import Bounds, Purse
from prong.cost.mark import takes_marks
from prong.cost.receipt import Receipt
from prong.entry import CallId
from prong.errors import UsageError
from prong.journal.note import ChildSpec
from prong.journal.read import Replay
from prong.prompt import Prompt
from prong.team import typed
from prong.team.child import Child
from prong.team.claim import Claims, FileBox
from prong.team.fileset import BadSet, FileSet, read_set
from prong.team.revival import revived
from prong.team.task import TaskBoard
from prong.team.workplace import barred
from prong.tools.base import Failed, Outcome, TaskHandle
from prong.tools.delegate import AnyAgentArguments, WorkerArguments

PATIENCE = 120.0
"""Seconds a parent waits for a child before it goes on without it."""


class Employer(Protocol):
    """What the office needs of the supervisor."""

    board: TaskBoard

    def at(self, path: str) -> Child | None:
        """Find a child by its path."""
        ...

    def free(self, name: str) -> str:
        """Give a name that no other agent has."""
        ...

    def surroundings(self, spec: ChildSpec) -> dict[str, Any]:
        """Make what is new in every child's context."""
        ...

    def begin(self, child: Child) -> TaskHandle:
        """Launch a new child."""
        ...


@dataclass(slots=True, kw_only=True)
class Office:
    """Starts typed children."""

    types: Mapping[str, AgentType]
    """The types of agents that can be named."""
    make_child: typed.MakeChild
    task_budget: Bounds
    """What every child may spend at most, of its parent's budget."""
    patience: float | None = PATIENCE
    """Seconds a parent waits for a child in the foreground; None waits for ever."""
    claims: Claims | None = None
    """Keeps writers of the same files apart, if the session's agents have files of their own."""

    async def delegate(
        self,
        employer: Employer,
        parent: Agent,
        call_id: CallId,
        args: AnyAgentArguments,
        type_name: str,
    ) -> Outcome:
        """Start a typed child, and wait for it unless it works in the background.

        Raises ProngError if its model cannot be used.
        """
        kind = self.types[type_name]
        isolation = args.isolation or kind.isolation
        why = _forbidden(employer.at(parent.path), kind) or barred(parent, isolation)
        if why is not None:
            return Failed(why)
        files = self._files(parent, args)
        if isinstance(files, BadSet):
            return Failed(files.why)
        background = args.background or kind.background
        made = self.make_child(parent, kind, model=args.model, background=background)
        task_id = employer.free(args.name or call_id)
        purse = parent.purse.child(f"agent {task_id}", self.task_budget)
        if isinstance(purse, str):
            return Failed(f"no agent was started: {purse}")
        spec = ChildSpec(
            task_id=task_id,
            path=f"{parent.path}/{task_id}",
            parent=parent.path,
            kind="typed",
            type=kind.name,
            description=args.description,
            call_id=call_id,
            notify=background,
            model=made.model,
            spawns=made.spawns,
            budget=purse.bounds,
            files=files.patterns if files is not None else None,
            isolation="worktree" if isolation else "",
        )
        brief = typed.brief(kind, args.prompt)
        prompt = typed.first_prompt(made, brief)
        agent = _agent(employer, parent, spec, kind, made, prompt, purse)
        child = self._hire(Child(spec, self._bound(agent, spec)), kind, prompt)
        child.compose = lambda more: typed.first_prompt(made, f"{brief}\n\n{more}")
        child.waiting = None if background else typed.Waiting()
        handle = employer.begin(child)
        if child.waiting is None:
            return typed.started(child, handle, (*held_back(child), *made.warnings))
        return await self._attend(employer.board, child, child.waiting, made.warnings)

    def _hire(self, child: Child, kind: AgentType, prompt: Prompt) -> Child:
        """Open a child's account and put it on record."""
        spec = child.spec
        child.receipt = Receipt(
            task_id=spec.task_id,
            agent=spec.path,
            kind="typed",
            bytes_first=len(prompt),
            counts_writes=takes_marks(prompt.head),
            delivered="pending",
        )
        typed.hush(child, bubbles=kind.permission_mode == "bubble")
        child.agent.recorder.keep(spec.path, prompt)
        child.agent.recorder.note(spec.path, spec)
        return child

    def take_up(
        self, employer: Employer, parent: Agent, spec: ChildSpec, replay: Replay, purse: Purse
    ) -> Child:
        """Make a typed child of what the journal has of it.

        Raises ProngError if its type or its model is not there any more.
        """
        kind = self.types.get(spec.type)
        if kind is None:
            raise UsageError(f"there is no agent type {spec.type!r} any more")
        made = self.make_child(parent, kind, model=spec.model or None, background=spec.notify)
        prompt = replay.agents[spec.path]
        agent = _agent(employer, parent, spec, kind, made, prompt, purse)
        child = revived(spec, self._bound(agent, spec), replay)
        typed.hush(child, bubbles=kind.permission_mode == "bubble")
        return child

    def _files(self, parent: Agent, args: AnyAgentArguments) -> FileSet | BadSet | None:
        if self.claims is None or not isinstance(args, WorkerArguments) or args.files is None:
            return None
        if args.isolation:
            return BadSet("a worktree is a copy of all files; leave out either it or `files`")
        root = parent.policy.policy.root
        return read_set(args.files, root=root, resolve=parent.context.host.resolve)

    def _bound(self, agent: Agent, spec: ChildSpec) -> Agent:
        """Let an agent write only what is its own."""
        if self.claims is not None and not spec.isolation:
            agent.policy = FileBox(agent.policy, self.claims, spec.task_id, _declared(spec))
        return agent

    def claim(self, child: Child) -> None:
        """Take the files of a child that is about to run; it waits if another has them."""
        claims, task_id = self.claims, child.spec.task_id
        if claims is not None and child.spec.kind == "typed" and not child.spec.isolation:
            child.waits_for = tuple(claims.enter(task_id, _declared(child.spec)))
            child.admit = lambda: claims.admit(task_id)

    def yield_files(self, task_id: str) -> None:
        """Let others have the files of a child that has ended."""
        if self.claims is not None:
            self.claims.leave(task_id)

    async def _attend(
        self, board: TaskBoard, child: Child, waiting: typed.Waiting, notes: tuple[str, ...]
    ) -> Outcome:
        """Wait for a child; whoever interrupts the parent stops it, with all that it started."""
        begun, task_id = anyio.current_time(), child.spec.task_id
        try:
            await waiting.over(self.patience)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await board.stop(task_id, agent=child.spec.parent)
            raise
        if waiting.why and child.status == "running" and board.runs(task_id):
            notifies(child)
            handle = board.promote(task_id)
            assert handle is not None
            return typed.moved(child, handle, waiting.why)
        await board.wait_ended(task_id)
        child.waiting = None
        return typed.finished(child, anyio.current_time() - begun, notes)


def held_back(child: Child) -> tuple[str, ...]:
    """Say for whom a child waits before it begins, if it does."""
    if not child.waits_for:
        return ()
    others = ", ".join(child.waits_for)
    why = f"its files overlap those of {others}"
    return (f"It has not begun yet: {why}, so it waits for that to end and then begins by itself.",)


def _declared(spec: ChildSpec) -> FileSet | None:
    return None if spec.files is None else FileSet(spec.files)


def notifies(child: Child) -> None:
    """Let the end of a child be a notice from now on: nobody waits for it."""
    child.waiting = None
    if not child.spec.notify:
        child.spec = msgspec.structs.replace(child.spec, notify=True)
        child.agent.recorder.note(child.spec.path, child.spec)


def _agent(
    employer: Employer,
    parent: Agent,
    spec: ChildSpec,
    kind: AgentType,
    made: typed.Made,
    prompt: Prompt,
    purse: Purse,
) -> Agent:
    new = employer.surroundings(spec)
    return typed.typed_agent(parent, spec, kind, made, prompt, purse=purse, new=new)


def _forbidden(own: Child | None, kind: AgentType) -> str | None:
    """Say why an agent may not start agents of a type; None if it may."""
    spawns = own.spec.spawns if own is not None else None
    if spawns is not None and kind.name not in spawns:
        return (
            f"agents of type {kind.name!r} are not permitted here: your own type may start "
            f"only {', '.join(spawns) or 'none'}"
        )
    return None
