"""What a child gets of its parent, field by field."""

from __future__ import annotations

import dataclasses
from typing import Any

import anyio
import pytest

from prong.agent import Agent
from prong.team.child import Child
from prong.team.isolation import AGENT, CONTEXT, How, Kind, QuietDesk, Row, _build, make_agent
from prong.testing import Script, call, say, world
from prong.tool.base import Context, Reads

pytestmark = [pytest.mark.spec("S9")]

ROWS: list[tuple[str, str, Kind]] = [
    (table, name, kind)
    for table, rows in (("agent", AGENT), ("context", CONTEXT))
    for name in rows
    for kind in ("fork", "typed")
]


async def _children(w: Any) -> dict[Kind, Child]:
    session = w.session
    await session.run("Begin")
    (forked,) = await session.supervisor.fork(session.agent, ["FORKED"])
    await session.supervisor.wait([forked])
    typed = session.supervisor.child("typed")
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


def _is(how: How, parent: Any, child: Any) -> bool:
    if how == "shared":
        return child is parent or (child == parent and isinstance(parent, float | int | str))
    if how == "cloned":
        changeable = isinstance(parent, dict | Reads)
        return child == parent and (child is not parent or not changeable)
    if how == "empty":
        # Filled by the child's own work from then on; what counts is that it is not the parent's.
        return child is not parent or not child
    return child is not parent


# Values that a child's own work has changed by the time it has ended.
_MOVED = {"prompt", "sent", "base", "last_usage", "last_length", "last_id", "last_at", "reads"}


async def _observe() -> dict[tuple[str, str, str], bool]:
    """Start a fork and a typed child, and say of each field whether it is as the table says."""
    seen: dict[tuple[str, str, str], bool] = {}
    async with world(_script(), files={"a.py": "x = 1\n"}, moves_prefix="forks by hand") as w:
        w.session.agent.context.env["A"] = "1"
        children = await _children(w)
        for table, name, kind in ROWS:
            row: Row = (AGENT if table == "agent" else CONTEXT)[name]
            parent, child = w.session.agent, children[kind].agent
            mine = getattr(parent if table == "agent" else parent.context, name)
            its = getattr(child if table == "agent" else child.context, name)
            plain = its is None or isinstance(its, bool | int | float | str)
            same_model = name == "provider"
            seen[table, name, kind] = (
                name in _MOVED or plain or same_model or _is(row.of(kind), mine, its)
            )
    return seen


@pytest.fixture(scope="module")
def seen() -> dict[tuple[str, str, str], bool]:
    return anyio.run(_observe)


@pytest.mark.parametrize(("table", "name", "kind"), ROWS)
def test_a_field_is_as_its_row_says(
    seen: dict[tuple[str, str, str], bool], table: str, name: str, kind: str
):
    """Each field of a fork and of a typed child is shared, cloned, empty, new or wrapped."""
    assert seen[table, name, kind]


@pytest.mark.parametrize(("cls", "table"), [(Agent, AGENT), (Context, CONTEXT)])
def test_every_field_has_a_row(cls: type, table: dict[str, Row]):
    """A field that is added without a row is found here, and a row without a field too."""
    assert {field.name for field in dataclasses.fields(cls)} == set(table)


@dataclasses.dataclass(slots=True, kw_only=True)
class _Wider(Context):
    """A context to which somebody has added a field."""

    secret: str = ""


@pytest.mark.anyio
async def test_a_new_field_without_a_row_stops_every_spawn():
    """Children are built from the table: without a row for every field none is made."""
    async with world([say("Hi.")]) as w:
        with pytest.raises(AssertionError, match="secret"):
            _build(_Wider, w.session.agent.context, CONTEXT, "fork", _context(w))


@pytest.mark.anyio
async def test_what_is_new_has_to_be_given():
    """Nothing that the table calls new or wrapped is ever the parent's by oversight."""
    async with world([say("Hi.")]) as w:
        for kind in ("fork", "typed"):
            with pytest.raises(AssertionError, match="was not given"):
                make_agent(w.session.agent, kind, agent={}, context=_context(w))


def _context(w: Any) -> dict[str, Any]:
    context = w.session.agent.context
    return {
        "emit": context.emit,
        "ask": context.ask,
        "tasks": context.tasks,
        "agents": None,
        "images": True,
    }


@pytest.mark.anyio
async def test_reads_are_cloned_for_a_fork_and_empty_for_a_typed_child():
    """A fork knows what its parent read; a typed child must read before it edits."""
    script = _script()
    script.steps.insert(0, call("Read", {"file_path": "a.py"}))
    async with world(script, files={"a.py": "x = 1\n"}, moves_prefix="forks by hand") as w:
        children = await _children(w)
        known = w.session.agent.context.reads.hashes

        assert known
        assert children["fork"].agent.context.reads.hashes == known
        assert children["fork"].agent.context.reads is not w.session.agent.context.reads
        assert children["typed"].agent.context.reads.hashes == {}


@pytest.mark.anyio
async def test_a_childs_changes_never_reach_its_parent():
    """What a child does to its environment, list, folder and record stays with the child."""
    async with world(_script(), moves_prefix="forks by hand") as w:
        children = await _children(w)
        context = w.session.agent.context
        before = (dict(context.env), context.todos, context.cwd, dict(context.reads.hashes))
        for child in children.values():
            mine = child.agent.context
            mine.env["X"] = "1"
            mine.reads.hashes["/x"] = "y"
            mine.cwd = "/elsewhere"
            child.agent.refusals["Agent", "{}"] += 1

        assert (context.env, context.todos, context.cwd, context.reads.hashes) == before
        assert not w.session.agent.refusals


@pytest.mark.anyio
async def test_depth_and_path_are_one_below_the_parents():
    """A child is one deeper than its parent, and named below it."""
    async with world(_script(), moves_prefix="forks by hand") as w:
        for kind, child in (await _children(w)).items():
            assert child.agent.lineage.depth == 1
            assert child.agent.lineage.origin == kind
            assert child.agent.path.startswith("main/")


@pytest.mark.anyio
async def test_a_typed_child_in_the_background_opens_no_prompt():
    """Its desk answers for nobody once nobody waits for it, whoever sits at the session's."""
    async with world(_script(), attended=True, moves_prefix="forks by hand") as w:
        typed = (await _children(w))["typed"]

        assert isinstance(typed.agent.desk, QuietDesk)
        assert typed.waiting is None
        assert not typed.agent.desk.answerable
        assert w.session.agent.desk.answerable
