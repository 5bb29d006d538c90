"""One agent: what it knows, what it can do, whom it asks and tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct, field

from prong.agent.call_match import CallMatch
from prong.agent.client import ModelClient
from prong.agent.conversation import Conversation, Reason
from prong.agent.gate import CheckedCall
from prong.agent.inbox import Inbox
from prong.agent.limit import RunState, Spent
from prong.agent.lineage import Lineage
from prong.agent.open_questions import OpenQuestions
from prong.agent.verdict import Hooks, Verdict
from prong.entry import Call
from prong.event import Event, InputTaken, Warned
from prong.host import Host
from prong.ids import AgentPath, task_of
from prong.prompt import Head, Prompt
from prong.tools.agent_policy import AgentPolicy
from prong.tools.kit import Kit
from prong.tools.tool import Context, Tool


class Gate(Protocol):
    """Decides on calls in the place of an agent's own rules, hooks and user."""

    async def check(self, agent: Agent, call: Call, tool: Tool, args: Any) -> CheckedCall:
        """Say whether a call may run, and as what."""
        ...

    async def outside(self, agent: Agent, checked: CheckedCall, why: str) -> CheckedCall | None:
        """Say whether a call that failed for its sandbox may run again without; None if not."""
        ...


class Renewal(Struct, frozen=True):
    """What an agent's next new prompt begins with: other tools than its present one."""

    head: Head
    kit: Kit


class Agent(Struct, kw_only=True):
    """One agent."""

    path: AgentPath
    """`main`, or the parent's path and a name."""
    lineage: Lineage
    """Where it comes from; decides what it may do."""
    conversation: Conversation
    client: ModelClient
    """How its requests are sent and paid for."""
    kit: Kit
    context: Context
    """What its tools work with."""
    policy: AgentPolicy
    hooks: Hooks
    questions: OpenQuestions
    gate: Gate | None = None
    """Decides on its calls, where that is done elsewhere; None is here, by its own rules."""
    emit: Callable[[Event], None]
    inbox: Inbox = field(default_factory=Inbox)
    run: RunState = field(default_factory=RunState)
    renewal: Renewal | None = None
    """What waits for the next new prompt; a head that was sent never changes."""

    @property
    def upcoming(self) -> Renewal:
        """What a new prompt begins with, and the tools that go with it."""
        return self.renewal or Renewal(self.conversation.prompt.head, self.kit)

    async def consult(
        self,
        event: str,
        payload: dict[str, Any],
        matcher: str = "",
        call: CallMatch | None = None,
        *,
        heeds: bool = True,
    ) -> Verdict:
        """Ask the hooks, and tell them what is known of the agent.

        What they have to say is told to the user, and may end the run; unless somebody else is to
        heed it.
        """
        verdict = await self.hooks.fire(event, {**known_of(self), **payload}, matcher, call)
        if not heeds:
            return verdict
        for text in verdict.warnings:
            self.emit(Warned(text=text))
        if verdict.stop is not None:
            self.run.halt(verdict.stop)
        return verdict

    def restart(
        self, prompt: Prompt, *, reason: Reason, detail: str, kit: Kit | None = None
    ) -> None:
        """Go on under a new prompt; a call that stood in the old one may be made again.

        `kit` is what its head tells of, if that is neither the present one nor the renewal.
        """
        self.conversation.restart(prompt, reason=reason, detail=detail)
        self.run.repeats.forget()
        if kit is None and self.renewal is not None and prompt.head is self.renewal.head:
            kit = self.renewal.kit
        if kit is not None:
            self.kit, self.renewal = kit, None

    def renew(self, kit: Kit, renewal: Renewal | None) -> None:
        """Have these tools under the present prompt, and begin the next new one with a renewal."""
        self.kit, self.renewal = kit, renewal

    def move(self, host: Host, cwd: str, policy: AgentPolicy) -> None:
        """Work in another place from now on, by the rules that hold there."""
        self.context.move(host, cwd, policy.keeps_back)
        self.policy = policy

    def take_inbox(self) -> int:
        """Put what waits before the model; gives how many entries that were."""
        items = self.inbox.drain()
        if items:
            self.run.repeats.forget()
        for entry, taken in items:
            self.conversation.append(entry)
            self.emit(InputTaken(kind=entry.kind, text=entry.text))
            if taken is not None:
                taken()
        return len(items)


def equip(agent: Agent) -> None:
    """Find out before the first command what the system holds; what it does not is said."""
    if why := agent.policy.equip(agent.context.host):
        agent.emit(Warned(text=why))


def known_of(agent: Agent) -> dict[str, Any]:
    """Give what hooks are told of an agent, whatever has happened to it."""
    mode = agent.policy.policy.mode
    cwd = agent.context.cwd or agent.context.host.root
    known: dict[str, Any] = {"cwd": cwd, "permission_mode": mode}
    if agent.run.prompt_id:
        known["prompt_id"] = agent.run.prompt_id
    if agent.lineage.parent:
        known |= {"agent_id": task_of(agent.path), "agent_type": agent.lineage.type}
    return known


def spent_by(agent: Agent, turns: int) -> Spent | None:
    """Say which bound has been reached or cannot be kept; asked before every request."""
    if spent := agent.run.limits.spent(turns):
        return spent
    why = agent.client.billing.spent(agent.conversation.prompt.head.model)
    return None if why is None else Spent("budget", why)
