"""What a child gets of its parent, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import anyio
import pytest
from msgspec import Struct
from msgspec.structs import replace

from prong.agent import Agent, CacheWatch, Conversation, ModelClient, RunState, Sent, TurnLimits
from prong.agent.agent import Renewal
from prong.agent.gate import CheckedCall
from prong.config.model import Chosen
from prong.cost import Billing
from prong.entry import Call, CallId, Usage
from prong.event import Todo, Warned
from prong.provider import pick
from prong.team import by_hand
from prong.team.account import ChildAccount
from prong.team.child import Child
from prong.team.isolation import (
    AGENT,
    BILLING,
    CLIENT,
    CONTEXT,
    CONVERSATION,
    ChildKind,
    How,
    Share,
    _build,
    nobody,
)
from prong.team.supervisor import _OwnDelegation
from prong.team.taskset import TaskSet
from prong.testing import Script, call, say, world
from prong.tools.delegate import PlainAgentArguments
from prong.tools.policy_box import NarrowBox
from prong.tools.tool import Context, Reads, Tool

pytestmark = [pytest.mark.spec("S9")]

PARTS: dict[str, tuple[type[Struct], Mapping[str, Share], Callable[[Agent], Any]]] = {
    "agent": (Agent, AGENT, lambda agent: agent),
    "conversation": (Conversation, CONVERSATION, lambda agent: agent.conversation),
    "client": (ModelClient, CLIENT, lambda agent: agent.client),
    "billing": (Billing, BILLING, lambda agent: agent.client.billing),
    "context": (Context, CONTEXT, lambda agent: agent.context),
}
"""Each part of an agent: its class, its table, and where it is."""

ROWS: list[tuple[str, str, ChildKind]] = [
    (part, name, kind)
    for part, (_, rows, _) in PARTS.items()
    for name in rows
    for kind in ("fork", "typed")
]


async def _children(w: Any) -> dict[ChildKind, Child]:
    session = w.session
    await session.run("Begin")
    (forked,) = by_hand.fork(w.parts.supervisor, w.parts.agent, ["FORKED"])
    await by_hand.wait(w.parts.supervisor, [forked])
    typed = w.parts.supervisor.child("typed")
    assert typed is not None
    return {"fork": forked, "typed": typed}


def _script() -> Script:
    arguments = {
        "description": "look",
        "prompt": "TYPED",
        "subagent_type": "general-purpose",
        "name": "typed",
    }
    return Script(
        [call("Agent", arguments), say("Done.")],
        {"TYPED": [say("Typed.")], "FORKED": [say("Scope: x\nResult: y")]},
        forever=say("Done."),
    )


class _Elsewhere:
    """Gives no permission."""

    async def check(self, agent: Agent, call: Call, tool: Tool, args: Any) -> CheckedCall:
        return CheckedCall(call, tool, args, refused=f"{agent.path} has none")

    async def outside(self, agent: Agent, checked: CheckedCall, why: str) -> CheckedCall | None:
        return None


def _fill(agent: Agent) -> None:
    """Give a parent a value of its own in every field that could reach a child by oversight."""
    context = agent.context
    agent.renewal = Renewal(agent.conversation.prompt.head, agent.kit)
    context.env["A"] = "1"
    context.images = False
    context.outputs[CallId("c0")] = "half of it"
    context.reads.hashes["/read"] = "digest"
    context.todos = (Todo(content="its own", status="pending"),)
    context.cwd = f"{context.cwd}/below"
    conversation, client = agent.conversation, agent.client
    conversation.last = Sent(
        node=conversation.prompt.tip,
        usage=Usage(read=7),
        length=11,
        response_id="reply-1",
        at=1234.5,
    )
    conversation.base = conversation.prompt.tip
    client.settings = replace(client.settings, context_tokens=123_456, max_output=789)
    client.observer = CacheWatch()
    agent.gate = _Elsewhere()
    agent.run.limits = TurnLimits(max_turns=3)
    agent.run.halt("No more.")
    agent.run.end_with("The end.")
    agent.run.repeats.refuse_for_good(Call(CallId("c0"), "Bash", "{}"))


def _emits(w: Any, emit: Any, path: str) -> bool:
    emit(Warned(text=f"from {path}"))
    last = w.envelopes[-1]
    return last.agent == path and last.event == Warned(text=f"from {path}")


Check: TypeAlias = Callable[[Any, Agent, Child], bool]
"""Takes the world, the parent and its child, and says whether the field is as it should be."""

# What is made for a child differs field by field, so each has an expectation of its own.
GIVEN: dict[str, Check] = {
    "context.team": lambda w, p, c: c.agent.context.team is None,
    "agent.path": lambda w, p, c: c.agent.path == f"{p.path}/{c.spec.task_id}",
    "agent.lineage": lambda w, p, c: (
        (c.agent.lineage.origin, c.agent.lineage.parent, c.agent.lineage.depth)
        == (c.spec.kind, p.path, p.lineage.depth + 1)
    ),
    "agent.conversation": lambda w, p, c: c.agent.conversation is not p.conversation,
    "agent.client": lambda w, p, c: c.agent.client is not p.client,
    "agent.kit": lambda w, p, c: set(c.agent.kit.names) < set(p.kit.names),
    "agent.context": lambda w, p, c: c.agent.context is not p.context,
    "agent.policy": lambda w, p, c: (
        isinstance(c.agent.policy, NarrowBox) and c.agent.policy._parent is p.policy
    ),
    "agent.hooks": lambda w, p, c: c.agent.hooks is not p.hooks,
    "agent.emit": lambda w, p, c: _emits(w, c.agent.emit, c.spec.path),
    "agent.run": lambda w, p, c: (
        c.agent.run == RunState(limits=TurnLimits(max_turns=200), prompt_id=p.run.prompt_id)
    ),
    "conversation.path": lambda w, p, c: c.agent.conversation.path == c.agent.path,
    "conversation.prompt": lambda w, p, c: (
        c.agent.conversation.prompt.extends(p.conversation.prompt)
        if c.spec.kind == "fork"
        else c.agent.conversation.prompt.depth <= 1
        and c.agent.conversation.prompt.head is not p.conversation.prompt.head
    ),
    "conversation.emit": lambda w, p, c: _emits(w, c.agent.conversation.emit, c.spec.path),
    "conversation.last": lambda w, p, c: (
        c.agent.conversation.last == (p.conversation.last if c.spec.kind == "fork" else Sent())
    ),
    "conversation.base": lambda w, p, c: (
        c.account.fan is not None and c.agent.conversation.base is c.account.fan.base.tip
    ),
    "client.provider": lambda w, p, c: c.agent.client.provider is not p.client.provider,
    "client.billing": lambda w, p, c: c.agent.client.billing is not p.client.billing,
    "client.settings": lambda w, p, c: (
        c.agent.client.settings == replace(p.client.settings, context_tokens=None, max_output=None)
    ),
    "client.observer": lambda w, p, c: (
        isinstance(c.agent.client.observer, ChildAccount) and c.agent.client.observer is c.account
    ),
    "billing.budget": lambda w, p, c: (
        c.agent.client.billing.budget is not p.client.billing.budget
        and c.agent.client.billing.budget._parent is p.client.billing.budget
    ),
    "context.emit": lambda w, p, c: _emits(w, c.agent.context.emit, c.spec.path),
    "context.ask": lambda w, p, c: c.agent.context.ask is nobody,
    "context.tasks": lambda w, p, c: (
        isinstance(c.agent.context.tasks, TaskSet)
        and c.agent.context.tasks.agent == c.spec.path
        and c.agent.context.tasks.board is w.parts.tasks
    ),
    "context.keeps_back": lambda w, p, c: c.agent.context.keeps_back == c.agent.policy.keeps_back,
    "context.images": lambda w, p, c: c.agent.context.images and not p.context.images,
    "context.agents": lambda w, p, c: (
        isinstance(c.agent.context.agents, _OwnDelegation)
        and c.agent.context.agents.path == c.spec.path
        and c.agent.context.agents.supervisor is w.parts.supervisor
    ),
}


def _is(how: How, name: str, mine: Any, its: Any, fresh: Any) -> bool:
    """Compare a field of a child that has done nothing yet with its parent's."""
    if how == "shared":
        return its is mine
    if how == "cloned":
        if isinstance(mine, Reads):
            return bool(mine.hashes) and its.hashes == mine.hashes and its.hashes is not mine.hashes
        return bool(mine) and its == mine and not (isinstance(mine, dict) and its is mine)
    assert how == "empty"
    if name == "inbox":
        return its is not mine and len(its) == 0
    return its == fresh and its != mine


def _fresh(cls: type[Struct], name: str) -> Any:
    defaults = reversed(cls.__struct_defaults__)
    default: Any = dict(zip(reversed(cls.__struct_fields__), defaults, strict=False)).get(name)
    return default.factory() if hasattr(default, "factory") else default


async def _observe() -> dict[tuple[str, str, str], bool]:
    """Start a fork and a typed child, and say of each field whether it is as the table says.

    Both are looked at before they have done anything: they were launched and did not run yet.
    """
    seen: dict[tuple[str, str, str], bool] = {}
    async with world(_script(), mode="dontAsk", moves_prefix="forks by hand") as w:
        session, parent = w.session, w.parts.agent
        await session.run("Begin")
        _fill(parent)
        (forked,) = by_hand.fork(w.parts.supervisor, parent, ["FORKED"])
        args = PlainAgentArguments(
            description="look",
            prompt="TYPED",
            subagent_type="general-purpose",
            name="other",
            model="claude-haiku-5-5",
            run_in_background=True,
        )
        await w.parts.supervisor.delegate(parent.path, [(CallId("c1"), args)])
        typed = w.parts.supervisor.child("other")
        assert typed is not None
        assert not forked.account.rows
        assert not typed.account.rows
        children: dict[ChildKind, Child] = {"fork": forked, "typed": typed}
        for part, name, kind in ROWS:
            cls, table, of = PARTS[part]
            how, child = table[name].of(kind), children[kind]
            if how in {"new", "wrapped"}:
                good = GIVEN[f"{part}.{name}"](w, parent, child)
            else:
                mine, its = getattr(of(parent), name), getattr(of(child.agent), name)
                good = _is(how, name, mine, its, _fresh(cls, name))
            seen[part, name, kind] = good
    return seen


@pytest.fixture(scope="module")
def seen() -> dict[tuple[str, str, str], bool]:
    return anyio.run(_observe)


@pytest.mark.parametrize(("part", "name", "kind"), ROWS)
def test_a_field_is_as_its_row_says(
    seen: dict[tuple[str, str, str], bool], part: str, name: str, kind: str
):
    """Each field of a fork and of a typed child is shared, cloned, empty, new or wrapped."""
    assert seen[part, name, kind]


@pytest.mark.parametrize("part", PARTS)
def test_every_field_has_a_row(part: str):
    """A field that is added without a row is found here, and a row without a field too."""
    cls, table, _ = PARTS[part]

    assert set(cls.__struct_fields__) == set(table)


class _Wider(Context, kw_only=True):
    """A context to which somebody has added a field."""

    secret: str = ""


@pytest.mark.anyio
async def test_a_new_field_without_a_row_stops_every_spawn():
    """Children are built from the table: without a row for every field none is made."""
    async with world([say("Hi.")]) as w:
        with pytest.raises(AssertionError, match="secret"):
            _build(_Wider, w.parts.agent.context, CONTEXT, "fork", _context(w))


@pytest.mark.anyio
@pytest.mark.parametrize("part", PARTS)
async def test_what_is_new_has_to_be_given(part: str):
    """Nothing that a table calls new or wrapped is ever the parent's by oversight."""
    cls, table, of = PARTS[part]
    async with world([say("Hi.")]) as w:
        for kind in ("fork", "typed"):
            with pytest.raises(AssertionError, match="was not given"):
                _build(cls, of(w.parts.agent), table, kind, {})


def _context(w: Any) -> dict[str, Any]:
    context = w.parts.agent.context
    return {
        "emit": context.emit,
        "ask": context.ask,
        "tasks": context.tasks,
        "agents": None,
        "images": True,
    }


@pytest.mark.anyio
async def test_reads_are_cloned():
    """Both know which bytes their parent read; a typed child has seen none of them."""
    script = _script()
    script.steps.insert(0, call("Read", {"file_path": "a.py"}))
    files = {"a.py": "x = 1\n"}
    async with world(script, mode="dontAsk", files=files, moves_prefix="forks by hand") as w:
        children = await _children(w)
        known = w.parts.agent.context.reads

        assert known.hashes
        for child in children.values():
            its = child.agent.context.reads
            assert its.hashes == known.hashes
            assert its.hashes is not known.hashes
            assert its.unseen == (set(known.hashes) if child.spec.kind == "typed" else set())


@pytest.mark.anyio
async def test_a_childs_changes_never_reach_its_parent():
    """What a child does to its environment, list, folder and record stays with the child."""
    async with world(_script(), mode="dontAsk", moves_prefix="forks by hand") as w:
        children = await _children(w)
        context = w.parts.agent.context
        before = (dict(context.env), context.todos, context.cwd, dict(context.reads.hashes))
        closed = Call(CallId("c"), "Agent", "{}")
        for child in children.values():
            mine = child.agent.context
            mine.env["X"] = "1"
            mine.reads.note("/x", "y")
            mine.cwd = "/elsewhere"
            child.agent.run.repeats.refuse_for_good(closed)

        assert (context.env, context.todos, context.cwd, context.reads.hashes) == before
        assert w.parts.agent.run.repeats.refuse_for_good(closed) == 1


@pytest.mark.anyio
async def test_depth_and_path_are_one_below_the_parents():
    """A child is one deeper than its parent, and named below it."""
    async with world(_script(), mode="dontAsk", moves_prefix="forks by hand") as w:
        for kind, child in (await _children(w)).items():
            assert child.agent.lineage.depth == 1
            assert child.agent.lineage.origin == kind
            assert child.agent.path.startswith("main/")


@pytest.mark.anyio
async def test_a_child_asks_for_leave_where_its_parent_does_and_puts_no_question():
    """Its permission requests join the session's; a question to the user it cannot put."""
    async with world(_script(), attended=True, moves_prefix="forks by hand") as w:
        for child in (await _children(w)).values():
            assert child.agent.questions is w.parts.agent.questions
            assert await child.agent.context.ask(()) is None


@pytest.mark.anyio
async def test_a_child_of_the_same_model_sees_as_much_as_its_parent():
    """Whether pictures can be shown goes with the model: the parent's, or one of its own."""
    async with world(_script(), mode="dontAsk", moves_prefix="forks by hand") as w:
        w.parts.agent.context.images = False
        assert {c.agent.context.images for c in (await _children(w)).values()} == {False}


@pytest.mark.parametrize(
    ("model", "images"), [("local", False), ("local:x.gguf", False), ("gpt-4.1", True)]
)
def test_a_model_in_our_own_engine_reads_text_alone(model: str, images: bool):
    """It is never sent a picture, whoever is moved to it."""
    endpoint, name = pick(model, env={"OPENAI_API_KEY": "sk-test"})

    assert Chosen(model, name, endpoint).images is images
