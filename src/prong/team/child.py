"""A child agent, as data: what it is, how far it has come, what it has given back.

What happens to it is in `course`. Its fields change only through the methods here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from prong.agent import Agent
from prong.cost import Row
from prong.entry import Reply, Text, User
from prong.event import Event, ReplyFinished, ToolStarted
from prong.host.worktree import Kept, Removed, Worktree
from prong.journal.note import ChildEnded, ChildRun, ChildSpec, ChildStatus, MessagesUnread
from prong.prompt import Prompt
from prong.team.account import ChildAccount
from prong.team.fork import Report, parse_report
from prong.team.injection import Finding
from prong.team.log import Log
from prong.team.wait import Wait


class Voice:
    """Speaks in a child's name to the faces, and keeps a log and a count of what it does."""

    def __init__(self, path: str, emit: Callable[[str, Event], None]) -> None:
        """Take the child's path, and the way to the faces."""
        self._path = path
        self._tell = emit
        self._log: Log | None = None
        self.text = ""
        """The text of its last reply."""
        self.tool_uses = 0

    def emit(self, event: Event) -> None:
        """Tell of an event."""
        match event:
            case ReplyFinished(text=text, sidecar="") if text:
                self.text = text
                self._write(text)
            case ToolStarted(title=title):
                self.tool_uses += 1
                self._write(f"* {title}")
            case _:
                pass
        self._tell(self._path, event)

    def _write(self, text: str) -> None:
        if self._log is not None:
            self._log.take(f"{text}\n".encode())

    def log_to(self, log: Log) -> None:
        """Write what the child says and does to the log of its run."""
        self._log = log

    def remember(self, text: str, tool_uses: int) -> None:
        """Go on from where an earlier process was."""
        self.text, self.tool_uses = text, tool_uses


@dataclass(slots=True)
class Child:
    """One child, running or not."""

    spec: ChildSpec
    agent: Agent
    account: ChildAccount
    voice: Voice
    status: ChildStatus = "running"
    detail: str = ""
    """Why it ended so, where that needs words."""
    runs: int = 1
    """How often it was started; a message to a finished child starts it again."""
    since: tuple[int, int] = (0, 0)
    """Requests and tool uses before this run: each notice tells what its own run took."""
    unread: list[str] = field(default_factory=list[str])
    """Messages that it has not taken yet."""
    wait: Wait | None = None
    """The parent's wait for it, while it is in the foreground."""
    waits_for: tuple[str, ...] = ()
    """Those that had its files when it was started."""
    findings: tuple[Finding, ...] = ()
    """What is suspicious about its result."""
    outcome: Kept | Removed | None = None
    """What became of its worktree."""

    @property
    def text(self) -> str:
        """The text of its last reply."""
        return self.voice.text

    @property
    def report(self) -> Report:
        """Its report, by field."""
        return parse_report(self.text)

    @property
    def rows(self) -> list[Row]:
        """Its requests."""
        return self.account.rows

    @property
    def notice_id(self) -> str:
        """Identifies the notice of this run."""
        return self.spec.task_id if self.runs == 1 else f"{self.spec.task_id}#{self.runs}"

    @property
    def kind(self) -> str:
        """What faces call it."""
        return self.spec.kind if self.spec.kind == "fork" else self.spec.type

    @property
    def has_begun(self) -> bool:
        """Whether it was told what to do: before that its conversation is what it shares."""
        prompt = self.agent.prompt
        return prompt.depth > 0 and prompt.digest != self.spec.base

    def tell(self, *texts: str) -> None:
        """Send it messages, stored until it has taken them: a kill must not lose one."""
        for text in texts:
            self.unread.append(text)
            self.agent.inbox.put(_message(text, self.spec), taken=partial(self._took, text))
        self._note_unread()

    def _took(self, text: str) -> None:
        self.unread.remove(text)
        self._note_unread()

    def _note_unread(self) -> None:
        self.agent.recorder.note(self.spec.path, MessagesUnread(list(self.unread)))

    def run_again(self, *, notify: bool = True) -> None:
        """Begin another run on the very prompt, so that its cache is read again.

        With `notify` a typed child tells of its end by a notice, also if it was waited for before.
        """
        self.runs += 1
        self.since = (len(self.account.rows), self.voice.tool_uses)
        self.status, self.detail, self.findings = "running", "", ()
        self.account.alone()
        self.agent.budget.restart()
        if self.spec.kind == "typed" and notify:
            self.notify()
        self.agent.recorder.note(self.spec.path, ChildRun(self.runs))

    def recall(self, last: ChildEnded, run: int) -> None:
        """Be where an earlier process left it; it runs if the last of its runs has not ended."""
        self.runs = run
        if last.run < run:
            self.since = (last.requests, last.tool_uses)
            return
        self.status, self.detail, self.outcome = last.status, last.detail, last.outcome
        self.since = last.since

    def hold_up(self) -> Wait:
        """Let the parent wait for it."""
        self.wait = Wait()
        return self.wait

    def let_go(self) -> None:
        """Nobody waits for it any more."""
        self.wait = None

    def notify(self) -> None:
        """Let its end be a notice from now on: nobody waits for it."""
        self.wait = None
        if not self.spec.notify:
            self._respec(msgspec.structs.replace(self.spec, notify=True))

    def wait_for(self, others: tuple[str, ...]) -> None:
        """Take note of those that have its files."""
        self.waits_for = others

    def enter(self, worktree: Worktree | None) -> None:
        """Have a worktree from now on, or none any more."""
        self._respec(msgspec.structs.replace(self.spec, worktree=worktree))

    def _respec(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.agent.recorder.note(spec.path, spec)

    def leave_behind(self, outcome: Kept | Removed | None) -> None:
        """Take note of what became of its worktree."""
        self.outcome = outcome

    def suspect(self, findings: tuple[Finding, ...]) -> None:
        """Take note of what is suspicious about its result."""
        self.findings = findings

    def end(self, status: ChildStatus, detail: str = "") -> None:
        """Say how it ended."""
        self.status, self.detail = status, detail

    def note_end(self) -> None:
        """Store how it ended, so that a resumed session need not run it again."""
        self.agent.recorder.note(
            self.spec.path,
            ChildEnded(
                run=self.runs,
                status=self.status,
                detail=self.detail,
                tool_uses=self.voice.tool_uses,
                outcome=self.outcome,
                requests=len(self.account.rows),
                since=self.since,
            ),
        )


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


def _message(text: str, spec: ChildSpec) -> User:
    """Make the entry by which a message reaches a child; only a fork's is a directive."""
    kind = "directive" if spec.kind == "fork" else "user"
    return User((Text(f"Message from the agent that started you:\n\n{text}"),), kind)
