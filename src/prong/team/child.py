"""A child agent as a task: its loop, its log, its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from prong.agent import Agent, loop
from prong.cost import Row
from prong.cost.receipt import Receipt
from prong.entry import Reply, Text, User
from prong.errors import ProngError
from prong.event import Event, ReplyFinished, ToolStarted
from prong.host.worktree import Kept, Removed
from prong.journal.note import ChildSpec, ChildStatus, MessagesUnread
from prong.prompt import Node, Prompt
from prong.team.fan import Fan
from prong.team.fork import Report, parse_report
from prong.team.handback import Finding, check, warning
from prong.team.log import Log
from prong.team.notice import TaskUsage
from prong.team.survey import survey
from prong.team.work import Ending

if TYPE_CHECKING:
    from prong.team.typed import Waiting
    from prong.team.workplace import Workplace


@dataclass(slots=True)
class Child:
    """One child, running or not."""

    spec: ChildSpec
    agent: Agent
    fan: Fan | None = None
    status: ChildStatus = "running"
    runs: int = 1
    """How often it was started; a message to a finished child starts it again."""
    text: str = ""
    """The text of its last reply."""
    detail: str = ""
    rows: list[Row] = field(default_factory=list[Row])
    """Its requests in this process."""
    receipt: Receipt = field(default_factory=lambda: Receipt(task_id="", agent=""))
    miss: str = ""
    """Why a request of its read less from the cache than it should have."""
    used_at: float = 0.0
    """When its last request was sent, on the agent's clock."""
    tool_uses: int = 0
    since: tuple[int, int] = (0, 0)
    """Requests and tool uses before this run: each notice tells what its own run took."""
    unread: list[str] = field(default_factory=list[str])
    """Messages that it has not taken yet."""
    waiting: Waiting | None = None
    """The parent's wait for it, while it is in the foreground."""
    findings: tuple[Finding, ...] = ()
    """What is suspicious about its result."""
    _surveyed: tuple[Node | None, str, tuple[Finding, ...]] | None = None
    inspect: Callable[[str], Awaitable[tuple[Finding, ...]]] | None = None
    """Looks through its result before the parent gets it."""
    admit: Callable[[], Awaitable[None]] | None = None
    """Waits until nobody else changes its files."""
    waits_for: tuple[str, ...] = ()
    """Those that had its files when it was started."""
    leave: Callable[[], Awaitable[None]] | None = None
    """Stops whatever it has started and forgets it."""
    on_end: Callable[[Child], None] | None = None
    prepare: Callable[[], Awaitable[None]] | None = None
    """Makes ready what it works in; it cannot begin if that fails."""
    may_stop: Callable[[bool], Awaitable[bool]] | None = None
    """Asks whether it may stop now; given whether it was told before to go on."""
    close: Callable[[], Awaitable[None]] | None = None
    """Lets go of what it worked in."""
    arrived: bool = False
    """Whether hooks were told of its start and not of its end."""
    workplace: Workplace | None = None
    """What its worktree is made from, if it is to have one."""
    compose: Callable[[str], Prompt] | None = None
    """Makes its first prompt with a text after its directive, as long as it has sent nothing."""
    outcome: Kept | Removed | None = None
    """What became of its worktree."""

    def tell(self, *texts: str) -> None:
        """Send it messages, stored until it has taken them: a kill must not lose one."""
        for text in texts:
            self.unread.append(text)
            self.agent.inbox.put(message(text, self.spec), taken=partial(self._took, text))
        self.agent.recorder.note(self.spec.path, MessagesUnread(self.unread))

    def _took(self, text: str) -> None:
        self.unread.remove(text)
        self.agent.recorder.note(self.spec.path, MessagesUnread(self.unread))

    @property
    def notice_id(self) -> str:
        """Identifies the notice of this run."""
        return self.spec.task_id if self.runs == 1 else f"{self.spec.task_id}#{self.runs}"

    @property
    def kind(self) -> str:
        """What faces call it."""
        return self.spec.kind if self.spec.kind == "fork" else self.spec.type

    @property
    def flags(self) -> tuple[Finding, ...]:
        """What a reader of its result should be warned of."""
        return (*(self.findings or check(self.text)), *self._met())

    def _met(self) -> tuple[Finding, ...]:
        """Look through what it has read; asked for several times at its end, done once."""
        prompt = self.agent.prompt
        if self._surveyed is None or self._surveyed[:2] != (prompt.tip, self.text):
            self._surveyed = (prompt.tip, self.text, survey(prompt, self.spec.base, self.text))
        return self._surveyed[2]

    @property
    def report(self) -> Report:
        """Its report, by field."""
        return parse_report(self.text)

    def watch(self, event: Event, log: Log) -> None:
        """Write to the log what the child says and does."""
        match event:
            case ReplyFinished(text=text) if text:
                self.text = text
                log.take(f"{text}\n".encode())
            case ToolStarted(title=title):
                self.tool_uses += 1
                log.take(f"* {title}\n".encode())
            case _:
                pass

    async def run(self, log: Log) -> Ending:
        """Work to the end, the child's own background tasks included."""
        emit = self.agent.emit

        def told(event: Event) -> None:
            self.watch(event, log)
            emit(event)

        self.agent.emit = self.agent.context.emit = told
        try:
            await self._course()
        except ProngError as error:
            self.status, self.detail = "failed", str(error)
        except Exception:
            self.status = "failed"
            raise
        finally:
            if self.close is not None:
                with anyio.CancelScope(shield=True):
                    await self.close()
        return self._ending()

    async def _course(self) -> None:
        if self.prepare is not None:
            await self.prepare()
        if self.fan is not None:
            await self.fan.admit(self.spec.task_id)
        if self.admit is not None:
            await self.admit()
        stopped = await self._work()
        self.text = stopped.text or self.text
        if self.inspect is not None:
            self.findings = await self.inspect(self.text)
        self.status = "completed" if stopped.why == "done" else "failed"
        self.detail = stopped.detail

    async def _work(self) -> loop.Stopped:
        # A child whose last reply was stored just before the process died has nothing to ask.
        stopped = None if self.agent.inbox else _said(self.agent.prompt)
        again = False
        while True:
            stopped = stopped or await loop.run(self.agent)
            if stopped.why != "done":
                return stopped
            if self.agent.context.tasks.busy():
                # Its own background commands still run: it is woken by what they report.
                await self.agent.inbox.wait()
            elif self.may_stop is None or await self.may_stop(again):
                return stopped
            else:
                again = True
            stopped = None

    async def release(self) -> None:
        """Leave the fan-out and whatever was held."""
        self.agent.on_began = self.agent.on_paid = None
        self.agent.purse.close()
        if self.leave is not None:
            await self.leave()
        # Last, with nothing to wait for between this and the notice: siblings whose notices go
        # out together must not see this one as gone before its own is there.
        if self.fan is not None:
            self.fan.left(self.spec.task_id)

    def crashed(self, error: Exception) -> Ending:
        """Fail by a failure that nobody foresaw; its trace is in the log."""
        return self._failed(f"a failure inside Prong ({error!r})")

    def cut_short(self, *, stopped: bool, log: Log) -> Ending:
        """Say what there is of a child that was stopped, or that ended with the session."""
        del log
        if self.status == "running" or stopped:
            self.status = "killed"
            self.detail = "it was stopped" if stopped else "the session ended"
        return self._ending()

    def _failed(self, detail: str) -> Ending:
        self.status, self.detail = "failed", detail
        return self._ending()

    def _ending(self) -> Ending:
        # Once, also if it fails: the failure is an end of its own.
        told, self.on_end = self.on_end, None
        if told is not None:
            told(self)
        return self.ending()

    def ending(self) -> Ending:
        """Say how it ended and what it leaves."""
        name = f'{self.kind} "{self.spec.description}"'
        rows, uses = self.since
        usage = TaskUsage(
            tokens=sum(row.usage.input + row.usage.output for row in self.rows[rows:]),
            tool_uses=self.tool_uses - uses,
        )
        match self.status:
            case "completed":
                summary = f"{name} completed"
            case "killed":
                summary = f"{name} was stopped"
            case _:
                summary = f"{name} failed: {self.detail}"
        result = self.text
        if self.status == "completed" and self.spec.kind == "fork" and not self.report.structured:
            result = f"[This report is not of the agreed form.]\n{result}"
        if self.status != "completed" and result:
            result = f"[Unfinished: what follows is the last that it said.]\n{result}"
        if flagged := warning(self.flags):
            result = f"{flagged}\n\n{result}"
        if self.outcome is not None:
            result = f"{result}\n\n{left_behind(self.outcome)}".strip()
        return Ending(
            status="failed" if self.status == "running" else self.status,
            summary=summary,
            result=result,
            usage=usage,
        )


def left_behind(outcome: Kept | Removed) -> str:
    """Say what became of a child's worktree, and what is in it."""
    if isinstance(outcome, Removed):
        return "[Nothing was changed in its worktree, so that is gone again.]"
    lines = [f"[Its worktree is kept: {outcome.path}", f"Branch: {outcome.branch}"]
    lines.append(f"Commits: {_some([commit[:12] for commit in outcome.commits])}")
    lines.append(f"Files changed: {_some(outcome.files)}")
    if outcome.uncommitted:
        lines.append("Not all of this is committed")
    if not (outcome.commits or outcome.files):
        lines.append(f"Kept because {outcome.why}")
    return "\n".join(lines) + "]"


def _some(texts: Sequence[str], most: int = 20) -> str:
    """Name some; whatever a file is called, it stays on its line."""
    shown = ["".join(c if c.isprintable() else "?" for c in text) for text in texts[:most]]
    more = len(texts) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more else "")


def _said(prompt: Prompt) -> loop.Stopped | None:
    """Read the end of a conversation as the end of a run, if it is one."""
    if prompt.tip is None or prompt.tip.kind != "reply":
        return None
    reply = prompt.head.dialect.read(prompt.tip.role, prompt.tip.data)
    assert isinstance(reply, Reply)
    return None if reply.calls else loop.Stopped(reply.text, "done")


def last_text(prompt: Prompt) -> str:
    """Give the text of the last reply that has any."""
    node = prompt.tip
    while node is not None:
        if node.kind == "reply":
            reply = prompt.head.dialect.read(node.role, node.data)
            if isinstance(reply, Reply) and reply.text:
                return reply.text
        node = node.parent
    return ""


def message(text: str, spec: ChildSpec) -> User:
    """Make the entry by which a message reaches a child; only a fork's is a directive."""
    kind = "directive" if spec.kind == "fork" else "user"
    return User((Text(f"Message from the agent that started you:\n\n{text}"),), kind)
