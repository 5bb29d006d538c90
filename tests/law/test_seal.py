"""Sealed folders: no tool, no rule and no mode opens what is in them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from prong.host.sandbox import Ability
from prong.tools.access import Reading, Writing
from prong.tools.derive import reading, working, worktree
from prong.tools.ground import Ground, Sandboxing, keeps_back, why_unread
from prong.tools.policy import Ask, Deny, Mode, Policy, decide
from prong.tools.seal import holds_sealed, is_sealed, seal_pattern, sealed_in
from shared.gate import HOME, MODES, policy, rule, run

pytestmark = pytest.mark.spec("L13")

STORE = f"{HOME}/.prong"
KEY = f"{STORE}/teams/red/keys/ann"
TOKEN = f"{STORE}/mcp-tokens/0f.json"
START = f"{STORE}/teams/red/start/ann.json"
SOCKETS = "/tmp/prong-7"
WHOLE = Ability(kind="landlock", abi=7, filters=True, views=True, why="")


def sealed(mode: Mode = "bypassPermissions", store: str = STORE) -> Policy:
    rules = (rule("allow", "Read"), rule("allow", "Bash"), rule("allow", "Edit"))
    return replace(policy(mode, *rules), sealed=sealed_in((store,), (SOCKETS,)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "path",
    [
        KEY,
        f"{STORE}/teams/red/keys",
        KEY.replace("keys", "KEYS"),
        START,
        TOKEN,
        SOCKETS,
        f"{SOCKETS}/1f",
    ],
)
def test_no_tool_reads_or_writes_a_key(mode: Mode, path: str) -> None:
    """Whatever mode and rules say, file tools are refused, and searches leave secrets out."""
    above = path.rpartition("/")[0]
    for tool in ("Read", "Grep", "Glob"):
        assert isinstance(decide(sealed(mode), tool, [Reading(path)]), Deny)
    assert isinstance(decide(sealed(mode), "Write", [Writing(path)]), Deny)
    assert keeps_back(sealed(mode), path, within=above)
    assert keeps_back(sealed(mode), path, within=path)
    assert why_unread(sealed(mode), path)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "line",
    [
        f"cat {KEY}",
        f"cat {TOKEN}",
        "cd ~/.prong && cat mcp-tokens/*",
        "cat ~/.prong/teams/red/keys/ann",
        "cat ~/.prong/teams/*/keys/*",
        "cd ~/.prong/teams/red && cat keys/ann",
        f"wc -c < {KEY}",
        f"cp {KEY} .",
        f"tar c {STORE}/teams/red/keys",
        f"python3 x.py --key={KEY}",
        f"true; echo $(base64 {KEY})",
        f"cat {START}",
        "cat ~/.prong/teams/*/start/*",
        f"nc -U {SOCKETS}/1f",
    ],
)
def test_a_command_that_names_a_key_is_refused(mode: Mode, line: str) -> None:
    """The gate refuses it in every mode, with or without a sandbox."""
    for box in (Sandboxing(), Sandboxing(on=True, ability=WHOLE)):
        assert isinstance(run(replace(sealed(mode), sandbox=box), line), Deny), line


@pytest.mark.parametrize(
    "line",
    [
        "grep -r x ~",
        "grep -r x ~/.prong",
        "rg --hidden x /",
        'cat "$HOME"/x/teams/a/keys/b',
        'cat "$HOME"/x/teams/a/start/b',
    ],
)
def test_what_may_come_there_is_asked_where_nothing_hides_it(line: str) -> None:
    """Without a sandbox the gate asks about searches above a key; with one it need not."""
    held = replace(sealed(), sandbox=Sandboxing(on=True, ability=WHOLE))
    loose = replace(sealed(), sandbox=Sandboxing(on=True, ability=WHOLE, outside=("grep:*",)))

    assert isinstance(run(sealed(), line), Ask)
    assert not isinstance(run(held, line), Ask | Deny)
    if line.startswith("grep"):
        assert isinstance(run(loose, line), Ask)


@pytest.mark.parametrize("line", ["grep -r x .", "cat $f", "ls ~", "cat ~/.prong/settings.json"])
def test_everything_else_is_as_before(line: str) -> None:
    """What leads to no key is not asked about for it."""
    assert not isinstance(run(sealed(), line), Ask | Deny)


def test_every_profile_hides_keys() -> None:
    """All three profiles name the folders, and hold fast what leads there in an open folder."""
    value = replace(sealed(store="/r/state"), sandbox=Sandboxing(on=True, ability=WHOLE))
    ground = Ground("/r/w", "/r/w", ("/r",), "/r/.git/worktrees/w", "/r/.git", "prong/w")
    for profile in (reading(value), working(value), worktree(value, ground)):
        for name in ("keys", "start"):
            found = [one for one in profile.hidden if one.base == f"/r/state/teams/*/{name}"]
            assert len(found) == 1
            assert re.fullmatch(found[0].regex, f"/r/state/teams/x/{name}/y")
        assert [one.base for one in profile.hidden if one.base == SOCKETS] == [SOCKETS]
    assert {"/r/state", "/r/state/teams"} <= set(working(value).pinned)
    assert "/r" not in working(value).pinned


names = st.text("abK*.[(é", min_size=1, max_size=3).filter(lambda name: name not in {".", ".."})


@given(
    *(st.lists(names, min_size=1, max_size=3), names, st.lists(names, max_size=2)),
    st.sampled_from(["keys", "start"]),
)
def test_each_folder_above_a_key_is_known_to_hold_it(
    above: list[str], team: str, below: list[str], name: str
) -> None:
    """Whatever is sealed, every folder on the way there may hold it, and no other name is sealed."""
    store = "/" + "/".join(above)
    patterns = sealed_in((store,))
    path = "/".join([store, "teams", team, name, *below])

    assert is_sealed(patterns, path)
    assert all(holds_sealed(patterns, path[:at] or "/") for at, c in enumerate(path) if c == "/")
    assert [one for one in patterns if re.fullmatch(seal_pattern(one), path)] != []
    assert not is_sealed(patterns, f"{store}/teams/{team}/{name}x")
    assert not is_sealed(patterns, f"{store}/teams/{name}")
