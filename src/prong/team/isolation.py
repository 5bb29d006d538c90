"""What a child gets of its parent: tables, and the function that makes children by them.

Nothing is shared unless a table says so. A field that is added to `Agent` or to one of its parts
without a row here is a mistake that a test and every spawn find.

    shared   the parent's own object, on purpose
    cloned   a copy of the parent's, on its own from then on
    empty    as a new agent has it
    new      made for this child by whoever starts it
    wrapped  the parent's, seen through something that makes it safe for a child
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, cast

import msgspec

from prong.agent import Agent, Conversation, ModelClient
from prong.cost import Billing
from prong.cost.budget import Budget
from prong.question import Question
from prong.tools.tool import Context

How: TypeAlias = Literal["shared", "cloned", "empty", "new", "wrapped"]
ChildKind: TypeAlias = Literal["fork", "typed"]

_T = TypeVar("_T", bound=msgspec.Struct)


class Share(msgspec.Struct, frozen=True):
    """How one field comes to a child."""

    fork: How
    typed: How
    why: str

    def of(self, kind: ChildKind) -> How:
        """Say how it comes to a child of this kind."""
        return self.fork if kind == "fork" else self.typed


def _both(how: How, why: str) -> Share:
    return Share(how, how, why)


AGENT: Mapping[str, Share] = {
    "path": _both("new", "names the child below its parent"),
    "lineage": _both("new", "one deeper than the parent's"),
    "conversation": _both("new", "by a table below"),
    "client": _both("new", "by a table below"),
    "kit": Share("shared", "new", "a fork's head is its parent's, tools included"),
    "context": _both("new", "by a table below"),
    "policy": _both("wrapped", "a view that can only be stricter than the tree's"),
    "hooks": _both("new", "the same commands with a record of the child's own"),
    "questions": _both("shared", "a child's requests are shown beside its parent's, with its name"),
    "gate": _both("empty", "its calls are decided on here, by its own policy"),
    "emit": _both("new", "speaks in the child's name"),
    "inbox": _both("empty", "what waits for the parent is not for the child"),
    "renewal": _both("empty", "news of servers reaches a child by what it is started with"),
    "run": _both("new", "bounds of the child's own, about what the user said to its parent"),
}
"""Every field of `Agent`."""

CONVERSATION: Mapping[str, Share] = {
    "path": _both("new", "the child's"),
    "prompt": _both("new", "a fork's extends its parent's; a typed child sees nothing of it"),
    "recorder": _both("shared", "one journal for the whole session"),
    "emit": _both("new", "speaks in the child's name"),
    "secrets": _both("shared", "what is masked is masked for all"),
    "last": _both("new", "a fork's goes on from its parent's last request"),
    "base": Share("new", "empty", "the fork base"),
}
"""Every field of `Conversation`."""

CLIENT: Mapping[str, Share] = {
    "provider": Share("shared", "new", "a fork is of its parent's model"),
    "billing": _both("new", "by a table below"),
    "settings": Share("shared", "new", "what the model can read and write belongs to the model"),
    "observer": _both("new", "the child's account: what it shares, reads and pays"),
    "clock": _both("shared", "the time is the same for all"),
}
"""Every field of `ModelClient`."""

BILLING: Mapping[str, Share] = {
    "prices": _both("shared", "a table that nobody changes"),
    "ledger": _both("shared", "one bill for the whole session"),
    "budget": _both("new", "below the parent's, so that what is spent counts in both"),
}
"""Every field of `Billing`."""

CONTEXT: Mapping[str, Share] = {
    "host": _both("shared", "the same files and storage, unless a worktree is given"),
    "reads": _both("cloned", "a typed child's says of all that it was not seen; see decision 013"),
    "emit": _both("new", "speaks in the child's name"),
    "ask": _both("new", "a child never opens a question to the user by itself"),
    "tasks": _both("new", "the child's door to the one board: no process escapes the session"),
    "cwd": _both("cloned", "where the parent is; the child's `cd` moves the child alone"),
    "todos": Share("cloned", "empty", "changes never reach the parent's list"),
    "env": _both("cloned", "changes never reach the parent's processes"),
    "images": Share("shared", "new", "belongs to the model"),
    "agents": _both("new", "the child's own door to the supervisor"),
    "team": _both("new", "a member's own door to its team; nobody else has one"),
    "outputs": _both("empty", "the parent's calls are not the child's"),
    "keeps_back": _both("new", "by the child's own rules, which hold those of the tree"),
}
"""Every field of `Context`."""


class ChildFields(TypedDict):
    """What whoever starts a child has made for it, by field: what is new or wrapped has to be here.

    What is shared, cloned or empty may be here too: that is the explicit choice to differ.
    """

    agent: Mapping[str, Any]
    conversation: Mapping[str, Any]
    client: Mapping[str, Any]
    budget: Budget
    context: Mapping[str, Any]


def make_agent(parent: Agent, kind: ChildKind, **given: Unpack[ChildFields]) -> Agent:
    """Make a child by the tables."""
    policy = given["agent"].get("policy", parent.policy)
    context = {"keeps_back": policy.keeps_back, **given["context"]}
    own, budget = parent.client, {"budget": given["budget"]}
    billing = _build(Billing, own.billing, BILLING, kind, budget)
    client = {**given["client"], "billing": billing}
    parts = {
        "conversation": _build(
            Conversation, parent.conversation, CONVERSATION, kind, given["conversation"]
        ),
        "client": _build(ModelClient, own, CLIENT, kind, client),
        "context": _build(Context, parent.context, CONTEXT, kind, context),
    }
    return _build(Agent, parent, AGENT, kind, {**given["agent"], **parts})


def _build(
    cls: type[_T],
    parent: Any,
    table: Mapping[str, Share],
    kind: ChildKind,
    given: Mapping[str, Any],
) -> _T:
    fields = {*cls.__struct_fields__}
    assert fields == table.keys(), f"no row for {fields ^ table.keys()}"
    assert not given.keys() - table.keys(), f"{cls.__name__} has no {given.keys() - table.keys()}"
    values: dict[str, Any] = {}
    for name, row in table.items():
        how = row.of(kind)
        if name in given:
            values[name] = given[name]
        elif how == "shared":
            values[name] = getattr(parent, name)
        elif how == "cloned":
            values[name] = _clone(getattr(parent, name))
        elif how != "empty":
            raise AssertionError(f"{cls.__name__}.{name} is {how} and was not given")
    return cls(**values)


def _clone(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(cast("dict[Any, Any]", value))
    if isinstance(value, str | tuple):
        return value  # pyright: ignore[reportUnknownVariableType] # cannot be changed
    return value.clone()


async def nobody(questions: Sequence[Question]) -> str | None:
    """Answer for the user that nobody is there: what a child's tools may ask is this."""
    del questions
    return None
