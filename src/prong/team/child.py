"""A child agent, as data: what it is, how far its run has come, what it has given back.

What happens to it is in `course`. Its fields change only through the methods here.
"""

from __future__ import annotations

from functools import partial

import msgspec

from prong.agent import Agent
from prong.entry import Text, User
from prong.host.slug import slug_from
from prong.host.worktree import Kept, Removed, Worktree
from prong.journal.note import ChildEnded, ChildRun, ChildSpec, ChildStatus, MessagesUnread
from prong.team.account import ChildAccount
from prong.team.emitter import Emitter
from prong.team.fork import ForkReport, parse_report
from prong.team.injection import Finding
from prong.team.member_record import MemberRecord


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run of a child has come, which lasts from its start or a message to its end."""

    number: int = 1
    since: tuple[int, int] = (0, 0)
    """Requests and tool uses before it: each notice tells what its own run took."""
    status: ChildStatus = "running"
    detail: str = ""
    """Why it ended so, where that needs words."""
    findings: tuple[Finding, ...] = ()
    """What is suspicious about its result."""
    outcome: Kept | Removed | None = None
    """What became of the child's worktree."""


class Child(msgspec.Struct):
    """One child, running or not."""

    spec: ChildSpec
    agent: Agent
    account: ChildAccount
    emitter: Emitter
    run: RunStatus = msgspec.field(default_factory=RunStatus)
    """The latest."""
    unread: list[str] = msgspec.field(default_factory=list[str])
    """Messages that it has not taken yet."""
    member: MemberRecord | None = None
    """What is kept of it as a member of a team, if it is one."""

    @property
    def status(self) -> ChildStatus:
        """How its latest run ended, or that it runs."""
        return self.run.status

    @property
    def text(self) -> str:
        """The text of its last reply."""
        return self.emitter.text

    @property
    def report(self) -> ForkReport:
        """Its report, by field."""
        return parse_report(self.text)

    @property
    def notice_id(self) -> str:
        """Identifies the notice of this run."""
        number = self.run.number
        return self.spec.task_id if number == 1 else f"{self.spec.task_id}#{number}"

    @property
    def kind(self) -> str:
        """What faces call it."""
        if self.spec.member is not None:
            return "teammate"
        return self.spec.kind if self.spec.kind == "fork" else self.spec.type

    @property
    def has_begun(self) -> bool:
        """Whether it was told what to do: before that its conversation is what it shares."""
        prompt = self.agent.conversation.prompt
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
        self.agent.conversation.note(MessagesUnread(list(self.unread)))

    def run_again(self, *, notify: bool = True) -> None:
        """Begin another run on the very prompt, so that its cache is read again.

        With `notify` a typed child tells of its end by a notice, also if it was waited for before.
        """
        before = self.run
        since = (len(self.account.rows), self.emitter.tool_uses)
        self.run = RunStatus(number=before.number + 1, since=since, outcome=before.outcome)
        self.account.alone()
        self.agent.client.billing.budget.restart()
        if self.member is not None:
            self.member.begin_again()
        if self.spec.kind == "typed" and notify:
            self.notify()
        self.agent.conversation.note(ChildRun(self.run.number))

    def notify(self) -> None:
        """Let its end be a notice from now on: nobody waits for it."""
        self._respec(msgspec.structs.replace(self.spec, notify=True))

    def enter(self, worktree: Worktree, *, lease: int = 0, node: str = "") -> None:
        """Work in a worktree from now on; on another machine with the number of a worker there."""
        self.run = msgspec.structs.replace(self.run, outcome=None)
        known = self.spec
        lease, node = lease or known.lease, node or known.node
        self._respec(msgspec.structs.replace(known, worktree=worktree, lease=lease, node=node))

    def leave(self, outcome: Kept | Removed) -> None:
        """Take note of what became of its worktree; raises JournalError if that is not stored."""
        self.run = msgspec.structs.replace(self.run, outcome=outcome)
        if isinstance(outcome, Removed):
            self._respec(msgspec.structs.replace(self.spec, worktree=None, node=""))

    def _respec(self, spec: ChildSpec) -> None:
        if spec != self.spec:
            self.spec = spec
            self.agent.conversation.note(spec)

    def end(
        self, status: ChildStatus, detail: str = "", findings: tuple[Finding, ...] = ()
    ) -> None:
        """Say how its run ended."""
        self.run = msgspec.structs.replace(
            self.run, status=status, detail=detail, findings=findings
        )

    @property
    def ended(self) -> ChildEnded:
        """What is stored of its end, so that a resumed session need not run it again."""
        run = self.run
        return ChildEnded(
            run=run.number,
            status=run.status,
            detail=run.detail,
            tool_uses=self.emitter.tool_uses,
            outcome=run.outcome,
            requests=len(self.account.rows),
            since=run.since,
        )


def slug_of(spec: ChildSpec) -> str:
    """Name a child's worktree by its own name, or by its work if it has none."""
    # Older journals have children that are named after their calls.
    old = spec.call_id and spec.task_id.startswith(spec.call_id)
    return slug_from(spec.description if spec.counted or old else spec.task_id)


def _message(text: str, spec: ChildSpec) -> User:
    """Make the entry by which a message reaches a child; only a fork's is a directive."""
    kind = "directive" if spec.kind == "fork" else "user"
    return User((Text(f"Message from the agent that started you:\n\n{text}"),), kind)
