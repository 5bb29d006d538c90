"""The four layers by which an agent's tools are chosen."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.agent.lineage import CONTAINED
from prong.tools.filter import (
    IN_BACKGROUND,
    NEVER,
    NOT_CUSTOM,
    TEAMMATE,
    Request,
    filter_kit,
    is_mcp,
    unmatched,
)
from prong.tools.rule import TOOLS

pytestmark = pytest.mark.spec("S7")

PLAIN = ("Read", "Write", "Edit", "Bash", "Grep", "Glob", "Agent", "SendMessage", "Skill")
MCP = ("mcp__git__status", "mcp__web__AskUserQuestion", "mcp__a_b__TaskStop")
ALL = (*PLAIN, *sorted(NEVER), *sorted(NOT_CUSTOM), *sorted(TEAMMATE - {"Agent", "SendMessage"}))


@st.composite
def respelt(draw: st.DrawFn) -> str:
    """Spell a tool's name in another way: case, separators, patterns, brackets."""
    name = draw(st.sampled_from((*ALL, *MCP)))
    return draw(
        st.sampled_from(
            (
                name,
                name.lower(),
                name.upper(),
                f" {name} ",
                f"{name}(*)",
                f"{name[:2]}*",
                "*",
                f"?{name[1:]}",
                f"*{name[-3:]}",
                "Task",
            )
        )
    )


LISTS = st.lists(respelt(), max_size=6).map(tuple)
REQUESTS = st.builds(
    Request,
    custom=st.booleans(),
    background=st.booleans(),
    plan=st.booleans(),
    teammate=st.booleans(),
    allow=st.none() | LISTS,
    deny=LISTS,
)
KITS = st.lists(st.sampled_from((*ALL, *MCP)), unique=True).map(tuple)


def letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


@given(KITS, REQUESTS)
def test_a_filter_only_takes_away(kit: tuple[str, ...], request: Request):
    """What is kept and what is removed make up the kit, in its order; each has a reason."""
    found = filter_kit(kit, request)
    removed = [one.tool for one in found.removed]

    assert [name for name in kit if name not in removed] == list(found.kept)
    assert set(removed) | set(found.kept) == set(kit)
    assert all(one.why for one in found.removed)


@given(KITS, REQUESTS)
def test_no_definition_brings_back_what_no_agent_may_have(kit: tuple[str, ...], request: Request):
    """However lists are worded, the first layer holds; its one exception is a teammate's plan."""
    kept = set(filter_kit(kit, request).kept) & NEVER

    assert kept <= ({"ExitPlanMode"} if request.plan and request.teammate else set())


@given(KITS, REQUESTS, st.sets(st.sampled_from(MCP)))
def test_tools_of_servers_that_cannot_be_used_are_not_offered(
    kit: tuple[str, ...], request: Request, usable: set[str]
):
    """What is offered can be used: of the servers' tools only the usable ones pass."""
    found = filter_kit(kit, msgspec.structs.replace(request, usable=frozenset(usable)))

    assert {name for name in found.kept if is_mcp(name)} <= usable


@given(KITS, REQUESTS)
def test_custom_types_never_get_what_is_closed_to_them(kit: tuple[str, ...], request: Request):
    """The second layer holds for every custom definition."""
    kept = set(filter_kit(kit, request).kept)

    assert not (request.custom and kept & NOT_CUSTOM)


@given(KITS, REQUESTS)
def test_the_background_is_an_allow_list(kit: tuple[str, ...], request: Request):
    """In the background only listed tools pass, and exactly the listed exceptions."""
    kept = {name for name in filter_kit(kit, request).kept if not is_mcp(name)}
    allowed = set(IN_BACKGROUND)
    allowed |= {"ExitPlanMode"} if request.plan and request.teammate else set()
    allowed |= TEAMMATE if request.teammate else set()

    assert not request.background or kept <= allowed


@given(KITS, REQUESTS, st.sampled_from(PLAIN), st.booleans())
def test_a_denied_tool_is_gone_in_any_spelling(
    kit: tuple[str, ...], request: Request, name: str, upper: bool
):
    """A type's deny list holds whatever the case, and goes before its allow list."""
    spelt = name.upper() if upper else name.lower()
    denying = Request(
        custom=request.custom,
        background=request.background,
        plan=request.plan,
        teammate=request.teammate,
        allow=(name, "*"),
        deny=(spelt,),
    )

    assert name not in filter_kit((*kit, name), denying).kept


@given(REQUESTS, st.sampled_from(sorted(NEVER | NOT_CUSTOM)))
def test_another_spelling_in_the_kit_does_not_pass(request: Request, name: str):
    """A tool that comes under another spelling of a closed name is closed too."""
    closed = Request(
        custom=True, background=request.background, allow=request.allow, deny=request.deny
    )
    for spelt in (name.lower(), name.upper(), "_".join(name), f"{name[:4]}-{name[4:]}"):
        assert filter_kit([spelt], closed).kept == ()


@given(st.sampled_from(sorted(IN_BACKGROUND | TEAMMATE)))
def test_a_look_alike_of_an_allowed_tool_does_not_pass(name: str):
    """In the background a tool passes by its very name, not by one that looks like it."""
    for spelt in (name.lower(), f"{name}_", "_".join(name), f"mcp__{name}"):
        assert filter_kit([spelt], Request(background=True, teammate=True)).kept == ()


@given(st.sampled_from(MCP), st.booleans(), st.booleans())
def test_tools_of_servers_pass(name: str, custom: bool, background: bool):
    """A server's tool passes every layer, unless the type's own lists speak of servers' tools."""
    kit = [name]

    assert filter_kit(kit, Request(custom=custom, background=background)).kept == (name,)
    assert filter_kit(kit, Request(background=background, allow=("Read",))).kept == (name,)
    assert filter_kit(kit, Request(allow=("mcp__other__x",))).kept == ()
    assert filter_kit(kit, Request(allow=("*",))).kept == (name,)
    assert filter_kit(kit, Request(deny=("mcp__*",))).kept == ()
    assert filter_kit(kit, Request(deny=(name.rpartition("__")[0],))).kept == ()


def test_an_empty_list_allows_nothing_and_denies_nothing():
    """An empty allow list is a list; an empty deny list takes nothing away and gives nothing."""
    assert filter_kit(PLAIN, Request(allow=())).kept == ()
    assert filter_kit(ALL, Request(deny=())).kept == filter_kit(ALL, Request()).kept


@pytest.mark.parametrize(
    ("allow", "spawns"),
    [
        (("Read", "Agent(worker, researcher)"), ("worker", "researcher")),
        (("Task(worker)",), ("worker",)),
        (("Agent()",), ()),
        (("Agent",), None),
        (("*",), None),
        (("Read",), None),
        (None, None),
    ],
)
def test_a_bracket_bounds_which_agents_may_be_started(
    allow: tuple[str, ...] | None, spawns: tuple[str, ...] | None
):
    """`Agent(worker)` keeps the tool and bounds the types it may start."""
    assert filter_kit(("Agent", "Read"), Request(allow=allow)).spawns == spawns


def test_a_bracket_that_is_not_understood_widens_nothing():
    """`Bash(git:*)` in an allow list does not give the whole of Bash."""
    found = filter_kit(("Bash", "Read"), Request(allow=("Bash(git:*)", "Read")))

    assert found.kept == ("Read",)
    assert "narrows it to Bash(git:*), which is not possible" in found.removed[0].why


def test_entries_that_speak_of_no_tool_are_found():
    """A misspelt name is told; a pattern, another spelling or a server's tool is none."""
    entries = ("Raed", "read", "*Edit", "Bash(rm:*)", "mcp__x", "Web*")

    assert unmatched(entries, ("Read", "Edit", "Bash")) == ["Raed", "Web*"]


def test_every_name_is_that_of_a_tool():
    """Nothing is kept from agents, or let through to them, that is not there."""
    assert {*NEVER, *NOT_CUSTOM, *IN_BACKGROUND, *TEAMMATE, *CONTAINED} <= TOOLS
    assert not {"TeamJoin", "SetPermissionMode", "EnterWorktree", "TaskClaim"} & TOOLS


def test_each_removal_names_its_layer():
    """The layers are asked in order, and the first that objects is named."""
    request = Request(custom=True, background=True, allow=("Read",), deny=("Bash",))
    found = filter_kit(("TaskStop", "Agent", "Bash", "Edit", "Read"), request)

    assert [(one.tool, one.layer) for one in found.removed] == [
        ("TaskStop", "every agent"),
        ("Agent", "background"),
        ("Bash", "own lists"),
        ("Edit", "own lists"),
    ]
    assert found.kept == ("Read",)
