"""What happens to a child, from its start to its end.

`course` is the whole of it, in order: hooks are asked, its workspace is made, it waits for its
turn, it is told what to do, it lives, its result is looked through, its workspace is given back.
`ChildTask` is that course as a piece of background work, and `launch` starts it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec

from prong.agent import Verdict
from prong.agent.life import Turn
from prong.agent.limit import StopRefusals
from prong.agent.speaker import speaking
from prong.cost.receipt import issued
from prong.entry import Text, User, user_text
from prong.errors import JournalError, NotPossibleNow, ProngError
from prong.event import Event, InputTaken, Warned
from prong.host.worktree import Worktree
from prong.ids import AgentPath
from prong.journal.note import ChildEnded, ChildSpec, FanPlanned, ReceiptClosed, ReceiptOpened
from prong.team import fork
from prong.team.announce import announce, tell_end
from prong.team.child import Child
from prong.team.claim import Claims, declared
from prong.team.injection import Classifier, check, inspect, warning
from prong.team.log import Log
from prong.team.member_record import Joined, Teams, member_brief
from prong.team.registry import Registry
from prong.team.remote_workers import FarWorkspace, RemoteWorkers
from prong.team.result import ending_of
from prong.team.runner import Inline, Runner
from prong.team.task import TaskBoard, TaskNames
from prong.team.work import Ending
from prong.team.workspace import Workspace, WorktreeSettings, close_workspace, open_workspace
from prong.text import load_text
from prong.tools.tool import TaskHandle

_GRACE = 10.0
"""Seconds that hooks have when a child has been stopped: somebody waits for its end."""

_NOT_STARTED = "it could not be started"


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """What the children of a session use together."""

    board: TaskBoard
    emit: Callable[[AgentPath, Event], None]
    """Tells the faces something about the agent of that path."""
    registry: Registry
    journal: Path
    worktrees: WorktreeSettings
    runner: Runner = msgspec.field(default_factory=Inline)
    """Where their agents run, but for those on other machines."""
    remote: RemoteWorkers = RemoteWorkers()
    """The other machines."""
    teams: Teams | None = None
    """The teams whose members run here, if there may be any."""
    claims: Claims | None = None
    """Keeps writers of the same files apart, if the session's agents have files of their own."""
    classifier: Classifier | None = None
    """Looks at what children give back, beside the rules."""


async def course(child: Child, services: Services) -> None:
    """Lead a child from its start to its end, by which its status says how it ended."""
    with speaking(child.spec.path):
        await _lead(child, services)


async def _lead(child: Child, services: Services) -> None:
    workspace, joined, started = None, None, False
    try:
        notes = await _may(child, "SubagentStart")
        started = True
        workspace = await open_workspace(child, services.worktrees, services.remote)
        if workspace is not None and workspace.notice:
            notes += await _may(child, "WorktreeCreate")
        await _wait_turn(child, services)
        joined = await _join(child, services)
        _begin(child, workspace, notes)
        until, runner = _StopDecision(child, joined).is_over, _runner(child, workspace, services)
        turn = await runner.live(child.agent, until=until)
        base, prompt = child.spec.base, child.agent.conversation.prompt
        findings = await inspect(child.text, prompt, base, services.classifier)
        child.end("completed" if turn.ok else "failed", turn.detail, findings)
    except ProngError as error:
        child.end("failed", str(error))
    finally:
        with anyio.CancelScope(shield=True):
            if started and child.status != "completed":
                await _tell_end(child)
            if joined is not None:
                await joined.leave()
            await _release(child, services)
            if workspace is not None:
                await _close_workspace(child, workspace)


def _runner(child: Child, workspace: Workspace | FarWorkspace | None, services: Services) -> Runner:
    """Choose where the agent of a child runs: where its files are."""
    if not isinstance(workspace, FarWorkspace):
        return services.runner
    from prong.team.remote import RemoteRunner

    return RemoteRunner(child, workspace)


async def _close_workspace(child: Child, workspace: Workspace | FarWorkspace) -> None:
    await close_workspace(child, workspace)
    if child.spec.worktree is None:
        await _announce(child, "WorktreeRemove", worktree=workspace.worktree)


async def _wait_turn(child: Child, services: Services) -> None:
    """Wait until siblings have written what this one can read, and until its files are free."""
    if child.account.fan is not None:
        await child.account.fan.admit(child.spec.task_id, child.agent)
    if services.claims is not None:
        await services.claims.admit(child.spec.task_id)


async def _join(child: Child, services: Services) -> Joined | None:
    """Let a member of a team be at work in it.

    Raises ProngError if it cannot.
    """
    if child.spec.member is None or child.member is None:
        return None
    if services.teams is None:
        raise NotPossibleNow("this session has no teams; start it with --team")
    return await services.teams.join(child.agent, child.spec.member, child.member)


def _begin(
    child: Child, workspace: Workspace | FarWorkspace | None, notes: tuple[str, ...]
) -> None:
    """Tell a child what to do, of its worktree, and what hooks add; that again if it was told."""
    spec, agent = child.spec, child.agent
    told = (workspace.notice if workspace is not None else "", *notes)
    notice = "\n\n".join(part for part in told if part)
    if child.has_begun:
        if notice:
            kind = "directive" if spec.kind == "fork" else "user"
            agent.inbox.put(User((Text(notice),), kind))
        return
    told = "\n\n".join(part for part in (_brief(spec), notice) if part)
    if spec.kind == "fork":
        agent.conversation.extend(fork.child(agent.conversation.prompt, told, carrier=spec.carrier))
    else:
        agent.conversation.append(user_text(told))
    agent.emit(InputTaken(kind="directive" if spec.kind == "fork" else "user", text=told))


def _brief(spec: ChildSpec) -> str:
    """Put together what a child is told at first: how it works, and what it is to do."""
    if spec.member is not None:
        return member_brief(spec.member, spec.brief, forked=spec.kind == "fork")
    return f"{load_text('fork')}\n{spec.brief}" if spec.kind == "fork" else spec.brief


class _StopDecision(msgspec.Struct):
    """Decides after every turn of a child whether it may stop."""

    child: Child
    joined: Joined | None = None
    """It as a member of a team, if it is one: such a child stops when it has agreed to."""
    refusals: StopRefusals = msgspec.field(default_factory=StopRefusals)
    """How hooks keep it from stopping, over all its turns."""
    uses: int = 0
    """How many calls it had made when it was last asked."""

    async def is_over(self, turn: Turn) -> bool:
        """Say whether a turn was the last; a child that hooks keep from stopping is told why."""
        child, agent = self.child, self.child.agent
        if turn.why != "done":
            return True
        if agent.inbox or agent.context.tasks.busy():
            # Its own background commands still run: it is woken by what they report.
            return False
        if self.joined is not None and not await self.joined.is_leaving(turn):
            return False
        if child.emitter.tool_uses != self.uses:
            self.uses = child.emitter.tool_uses
            self.refusals.worked()
        verdict = await _announce(
            child, "SubagentStop", status="completed", stop_hook_active=self.refusals.active
        )
        why = self.refusals.refusal(verdict, agent.emit)
        if why is None:
            return not agent.inbox
        kind = "directive" if child.spec.kind == "fork" else "reminder"
        agent.inbox.put(User((Text(why),), kind))
        return False


async def _release(child: Child, services: Services) -> None:
    """Stop what a child has started and forget it: nothing of it outlives the child."""
    await services.board.stop_owned(child.spec.path)
    if services.claims is not None:
        services.claims.leave(child.spec.task_id)


async def _announce(
    child: Child, event: str, *, worktree: Worktree | None = None, **more: Any
) -> Verdict:
    """Tell the hooks of an event of a child; they select by its type."""
    spec = child.spec
    tree = worktree or spec.worktree
    payload: dict[str, Any] = {
        "agent_path": spec.path,
        "agent_id": spec.task_id,
        "agent_type": spec.type,
        "task_id": spec.task_id,
        "parent_path": spec.parent,
        "description": spec.description,
        "run": child.run.number,
        "worktree_path": tree.path if tree else "",
        "worktree_branch": tree.branch if tree else "",
        **more,
    }
    if event == "SubagentStop":
        payload["last_assistant_message"] = child.text
    verdict = await child.agent.consult(event, payload, matcher=spec.type, heeds=False)
    for told in verdict.warnings:
        child.agent.emit(Warned(text=told))
    return verdict


async def _may(child: Child, event: str) -> tuple[str, ...]:
    """Tell the hooks of an event that they may forbid; gives what they have for the child.

    Raises UsageError with their reason if they do.
    """
    verdict = await _announce(child, event)
    if verdict.block is not None:
        raise NotPossibleNow(f"a {event} hook refused it: {verdict.block}")
    return verdict.context


async def _tell_end(child: Child) -> None:
    """Tell the hooks of a child that failed or was stopped: they cannot keep it."""
    with anyio.move_on_after(_GRACE):
        status = "failed" if child.status == "failed" else "killed"
        await _announce(child, "SubagentStop", status=status, stop_hook_active=False)


class ChildTask(msgspec.Struct):
    """A child's course as background work: one run of it, which ends exactly once."""

    child: Child
    services: Services
    ended: bool = False

    @property
    def kind(self) -> str:
        """What faces call it."""
        return self.child.kind

    @property
    def endless(self) -> bool:
        """Whether nobody can wait for its end: it sleeps until somebody has work for it."""
        teams = self.services.teams
        return teams is not None and teams.rests(self.child.spec.path)

    async def run(self, log: Log) -> Ending:
        """Lead the child to its end, its own background tasks included."""
        child, delivery = self.child, self.services.board.delivery
        child.emitter.log_to(log)
        with delivery.reading(child.spec.path, child.agent.inbox):
            await course(child, self.services)
        return self._end()

    async def release(self) -> None:
        """Give back what was reserved, and leave the fan-out."""
        self.child.agent.client.billing.budget.close()
        # Last, with nothing to wait for between this and the notice: siblings whose notices go
        # out together must not see this one as gone before its own is there.
        _leave(self.child)

    def crashed(self, error: Exception) -> Ending:
        """Fail by a failure that nobody foresaw; its trace is in the log."""
        self.child.end("failed", f"a failure inside Prong ({error!r})")
        return self._end()

    def cut_short(self, *, stopped: bool, log: Log) -> Ending:
        """Say what there is of a child that was stopped, or that ended with the session."""
        del log
        if self.child.status == "running" or stopped:
            self.child.end("killed", "it was stopped" if stopped else "the session ended")
        return self._end()

    def _end(self) -> Ending:
        # Once, also if it fails: the failure is an end of its own.
        if not self.ended:
            self.ended = True
            end(self.child, self.services)
        return ending_of(self.child)


def _leave(child: Child) -> None:
    """Let a child be one of its fan-out no longer."""
    if child.account.fan is not None:
        child.account.fan.left(child.spec.task_id)


def end(child: Child, services: Services) -> None:
    """Store a child's end and issue its receipt; a full disk must not keep it from ending."""
    spec, agent, run = child.spec, child.agent, child.run
    if run.status != "completed":
        child.end(run.status, run.detail, check(child.text, agent.conversation.prompt, spec.base))
    price = services.registry.prices.of(agent.conversation.prompt.head.model)
    receipt = child.account.close(run.status, price, "notice" if spec.notify else "returned")
    try:
        agent.conversation.note(ReceiptClosed(receipt), child.ended)
    except JournalError as error:
        agent.emit(Warned(text=str(error)))
    else:
        agent.emit(issued(receipt))
    if told := warning(child.run.findings):
        agent.emit(Warned(text=told))
    tell_end(child)
    services.registry.retire(child)


class Launched(msgspec.Struct, frozen=True):
    """A child that has been started."""

    handle: TaskHandle
    behind: tuple[str, ...] = ()
    """Those that have its files, and for whose end it waits."""


def begin(child: Child, services: Services) -> Launched:
    """Store a new child, and start it.

    Whatever fails, nobody waits for it then. Raises ProngError, OSError.
    """
    spec, conversation, fan = child.spec, child.agent.conversation, child.account.fan
    try:
        if fan is not None:
            if not fan.first:
                conversation.recorder.note(spec.parent, FanPlanned(spec.task_id, fan.stored))
            fan.join(spec.task_id)
        conversation.store(ReceiptOpened(child.account.receipt), spec)
        services.registry.add(child)
        return launch(child, services)
    except BaseException:
        services.registry.remove(child)
        _leave(child)
        child.agent.client.billing.budget.close()
        with contextlib.suppress(JournalError):
            conversation.note(ChildEnded(1, "failed", _NOT_STARTED))
        raise


def launch(child: Child, services: Services, *, resumed: bool = False) -> Launched:
    """Run a child's course as a task.

    Raises UsageError if the session is closing.
    """
    spec, board, behind = child.spec, services.board, ()
    if services.claims is not None and spec.kind == "typed" and not spec.isolation:
        behind = tuple(services.claims.enter(spec.task_id, declared(spec)))
    announce(child, resumed=resumed)
    try:
        handle = board.start(
            ChildTask(child, services),
            title=spec.description,
            names=TaskNames(spec.task_id, notice=child.notice_id, call=spec.call_id),
            agent=spec.parent,
            emit=child.emitter.emit,
            notify=spec.notify,
        )
    except BaseException:
        if services.claims is not None:
            services.claims.leave(spec.task_id)
        child.end("failed", _NOT_STARTED)
        tell_end(child)
        raise
    return Launched(handle, behind)
