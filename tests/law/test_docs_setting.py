import re
from pathlib import Path

import msgspec
import pytest

from prong.config import setting
from prong.config.hook import EVENTS
from prong.config.setting_type import INSIDE
from prong.config.value import (
    AgentValues,
    ForkValues,
    HandbackValues,
    McpValues,
    RemoteValues,
    SandboxValues,
    TeamValues,
    Values,
    WebValues,
)
from prong.hook_call import INPUTS

PAGE = (Path(__file__).parents[2] / "docs/settings.md").read_text("utf-8")
KEYS = PAGE.partition("## Keys")[2].partition("## Trust")[0]


def rows(text: str) -> dict[str, str]:
    """Read the tables of a page: the first cell's name, and the rest of the row."""
    return dict(re.findall(r"^\| `([\w$]+)` \| (.*) \|$", text, re.MULTILINE))


def test_every_key_is_documented_and_no_other():
    """docs/settings.md lists exactly the keys that are read."""
    known = {*setting._KINDS, *setting._STRUCTURED} - {"$schema"}
    inner = {"enabled", "dispatch", "schedule", "turns", "breakEven", "wake"}
    inner |= {"base", "symlinkDirectories", "permissionMode", *INSIDE["team"], *INSIDE["sandbox"]}
    inner |= {*INSIDE["remote"], *INSIDE["mcp"], *INSIDE["web"]}

    assert set(rows(KEYS)) == known | inner


def test_what_needs_trust_says_so():
    """A key that an untrusted folder cannot set is marked in docs/settings.md."""
    marked = {key for key, text in rows(KEYS).items() if text.endswith("; trust")}

    assert marked == setting._WIDENING | {"hooks"}


def test_every_hook_event_is_named():
    """docs/hooks.md says of each event when it happens, and of no other."""
    page = (Path(__file__).parents[2] / "docs/hooks.md").read_text("utf-8")
    events = page.partition("## Events")[2].partition("## ")[0]
    assert set(re.findall(r"^\| ([A-Z]\w+) \|", events, re.MULTILINE)) == set(EVENTS)


def test_every_field_of_a_hook_is_named():
    """docs/hooks.md names each field that hooks are told."""
    page = (Path(__file__).parents[2] / "docs/hooks.md").read_text("utf-8")
    named = {field.name for kind in INPUTS.values() for field in msgspec.structs.fields(kind)}
    assert {name for name in named if f"`{name}`" not in page} == set()


def test_every_key_has_a_type():
    """What files may hold and what the rest of the program reads are the same keys."""
    assert {field.encode_name for field in msgspec.structs.fields(Values)} == set(setting._KINDS)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("fork", ForkValues),
        ("agents", AgentValues),
        ("team", TeamValues),
        ("remote", RemoteValues),
        ("handback", HandbackValues),
        ("sandbox", SandboxValues),
        ("mcp", McpValues),
        ("web", WebValues),
    ],
)
def test_every_key_inside_has_a_type(key, kind):
    """Likewise for the keys of settings that are objects."""
    assert {field.encode_name for field in msgspec.structs.fields(kind)} == set(INSIDE[key])
