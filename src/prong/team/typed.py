"""Typed children: what differs from a fork is the first prompt, the kit and who waits.

Being in the foreground is a way of waiting and nothing else. The child runs as a task like any
other; its parent waits for it until it ends or until the wait is given up, and then the same
running task notifies instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import msgspec

from prong.agent import Agent, Hooks
from prong.agent.lineage import Lineage
from prong.agent.spec import AgentType
from prong.cost.budget import Purse
from prong.entry import user_text
from prong.journal.note import ChildSpec
from prong.prompt import Head, Prompt
from prong.provider import Provider
from prong.team.child import Child
from prong.team.isolation import QuietDesk, make_agent
from prong.team.notice import neutral
from prong.tools.base import Done, Failed, Outcome, TaskHandle, done
from prong.tools.filter import denied_uses
from prong.tools.kit import Kit
from prong.tools.rule import BadRule, Rule, parse_rule

TYPED_TURNS = 200
"""Requests a typed child may make, if its type says nothing else."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Made:
    """What a typed child is made of, beside what the table of isolation says."""

    provider: Provider
    head: Head
    kit: Kit
    hooks: Hooks
    model: str
    """The model as it was named, by which it can be found again."""
    spawns: tuple[str, ...] | None = None
    context_tokens: int | None = None
    max_output: int | None = None
    images: bool = True
    warnings: tuple[str, ...] = ()
    """What of the type's definition could not be honoured."""


class MakeChild(Protocol):
    """Makes the parts of a typed child."""

    def __call__(
        self, parent: Agent, kind: AgentType, *, model: str | None, background: bool
    ) -> Made:
        """Make them.

        Raises ProngError if the model cannot be used.
        """
        ...


def brief(kind: AgentType, prompt: str) -> str:
    """Say what a child is to do."""
    return f"{kind.initial_prompt}\n\n{prompt}" if kind.initial_prompt else prompt


def first_prompt(made: Made, text: str) -> Prompt:
    """Make a prompt of a head and one message: nothing of the parent's conversation is in it."""
    return Prompt(made.head).append(user_text(text))


def typed_agent(
    parent: Agent,
    spec: ChildSpec,
    kind: AgentType,
    made: Made,
    prompt: Prompt,
    *,
    purse: Purse,
    new: dict[str, Any],
) -> Agent:
    """Make a typed child's agent; `new` is what the supervisor gives every child's context."""
    return make_agent(
        parent,
        "typed",
        agent={
            "path": spec.path,
            "lineage": Lineage("typed", spec.parent, spec.path.count("/")),
            "prompt": prompt,
            "provider": made.provider,
            "kit": made.kit,
            "policy": parent.policy.narrow(mode=kind.permission_mode, rules=_forbidding(kind)),
            "hooks": made.hooks,
            "desk": parent.desk,
            "emit": new["emit"],
            "limits": msgspec.structs.replace(
                parent.limits, max_turns=kind.max_turns or TYPED_TURNS
            ),
            "purse": purse,
            "context_tokens": made.context_tokens,
            "max_output": made.max_output,
        },
        context={**new, "images": made.images, "reads": parent.context.reads.hand_on()},
    )


def hush(child: Child, *, bubbles: bool) -> None:
    """See to it that a child asks nobody for leave while nobody waits for it."""
    if not bubbles:
        desk = child.agent.desk
        child.agent.desk = QuietDesk(desk, lambda: child.waiting is None)


def _forbidding(kind: AgentType) -> list[Rule]:
    """Make deny rules of entries such as `Bash(rm:*)` in a type's deny list."""
    parsed = [
        parse_rule(text, effect="deny", source="flag")
        for text in denied_uses(kind.disallowed_tools)
    ]
    return [rule for rule in parsed if not isinstance(rule, BadRule)]


class Waiting:
    """A parent's wait for a child that is in the foreground."""

    def __init__(self) -> None:
        """Begin to wait."""
        self._over = anyio.Event()
        self.why = ""
        """Why the wait was given up; empty if it was not."""

    def end(self) -> None:
        """Note that the child has ended."""
        self._over.set()

    def detach(self) -> None:
        """Give up the wait; the child goes on."""
        self.why = "the user wished it"
        self._over.set()

    async def over(self, seconds: float | None) -> None:
        """Wait for either, so many seconds at most."""
        with anyio.move_on_after(seconds):
            await self._over.wait()
            return
        self.why = f"it took longer than {seconds:g} s"


def started(child: Child, handle: TaskHandle, notes: tuple[str, ...] = ()) -> Done:
    """Say that a child works in the background, and where its output goes."""
    told = (
        f"{child.kind} agent {handle.task_id} works in the background. Its report will come as a "
        f"task notification; go on with other work. Output file: {handle.output_file}"
    )
    return done("\n".join([told, *notes]))


def moved(child: Child, handle: TaskHandle, why: str) -> Done:
    """Say that a child that was waited for goes on in the background."""
    return done(
        f"{child.kind} agent {handle.task_id} goes on in the background ({why}); nothing was "
        f"restarted. Its report will come as a task notification. "
        f"Output file: {handle.output_file}"
    )


def finished(child: Child, seconds: float, notes: tuple[str, ...] = ()) -> Outcome:
    """Give what a child gave back to the parent that waited for it."""
    ending = child.ending()
    usage = ending.usage
    foot = (
        f"[agent {child.spec.task_id} ({child.kind}): {ending.status}; {usage.tool_uses} tool "
        f"uses, {usage.tokens} tokens, {seconds:.1f} s]"
    )
    text = neutral(ending.result.strip()) or "(it said nothing)"
    if ending.status == "completed":
        return done("\n\n".join([text, *notes, foot]))
    return Failed("\n\n".join([neutral(ending.summary), text, *notes, foot]))
