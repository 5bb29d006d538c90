"""A guard that cannot be read stops the start, in every face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prong.config.setting import load_settings
from prong.config.slip import check_rule
from prong.config.trust import needs_trust
from prong.errors import ConfigError, UsageError
from prong.testing import Worlds, call, say
from prong.tools.rule import TOOLS, Effect

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L5", "L11")]

TOUCH = call("Bash", {"command": "touch made"})

BROKEN = {
    "trailing comma": ('{"permissions": {\n"deny": ["Bash",]}}', 2),
    "comment": ('{\n// mine\n"permissions": {"deny": ["Bash"]}}', 2),
    "text for a list": ('{"permissions": {\n"deny": "Bash"}}', 2),
    "unclosed rule": ('{"permissions": {"deny": [\n"Bash(rm:*"]}}', 2),
    "unclosed file": ('{"permissions": {"deny": ["Bash"]}', 1),
    "case of a tool": ('{"permissions": {"deny": ["Read(.env)",\n"bash"]}}', 2),
    "case of a server": ('{"permissions": {"deny": [\n"Mcp__x"]}}', 2),
    "blank in a rule": ('{"permissions": {"ask": [\n"Bash (rm:*)"]}}', 2),
    "number for a rule": ('{"permissions": {"ask": [\n7]}}', 2),
    "case of a key": ('{"permissions": {\n"Deny": ["Bash"]}}', 2),
    "case of the key above": ('{\n"Permissions": {"deny": ["Bash"]}}', 2),
    "list for an object": ('{\n"permissions": ["Bash"]}', 2),
    "unknown mode": ('{"permissions": {\n"defaultMode": "readonly"}}', 2),
    "key twice": ('{"permissions": {"deny": ["Bash"]},\n"permissions": {"allow": []}}', 1),
    "list twice": ('{"permissions": {"deny": ["Bash"],\n"deny": []}}', 1),
    "no object": ('["Bash"]', 1),
    "servers to leave out": ('{\n"disabledMcpjsonServers": "x"}', 2),
    "case of a bound": ('{\n"maxBudgetUSD": 1}', 2),
}
"""Settings that were meant to hold something back, and the line at which they do not."""

NEAR = {
    "misspelt key": ('{\n"permission": {"deny": ["Bash"]}}', 2),
    "misspelt list": ('{"permissions": {\n"denny": ["Bash"]}}', 2),
    "misspelt tool": ('{"permissions": {"deny": [\n"Bassh"]}}', 2),
    "list at the top": ('{\n"deny": ["Bash"]}', 2),
    "hook event": ('{"hooks": {\n"PreToolUze": []}}', 2),
}
"""The same, where a near miss is enough: in files that are only ours."""

PLACES = [
    f"{where}{folder}/{name}"
    for where in ("~/", "")
    for folder in (".prong", ".claude")
    for name in ("settings.json", "settings.local.json")
    if not (where and "local" in name)
]


def put(tmp_path: Path, place: str, text: str) -> tuple[str, str, str]:
    home, root = tmp_path / "home", tmp_path / "project"
    path = home / place[2:] if place.startswith("~/") else root / place
    for folder in (home, root, path.parent):
        folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(home), str(root), str(path)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("trusted", [True, False])
def test_a_guard_that_cannot_be_read_is_fatal(
    tmp_path: Path, place: str, name: str, trusted: bool
) -> None:
    """Wherever it stands and whoever is trusted, it is named with its file and line."""
    text, line = BROKEN[name]
    home, root, path = put(tmp_path, place, text)
    fatal = load_settings(home, root, trusted=trusted).fatal

    assert [(one.path, one.line) for one in fatal[:1]] == [(path, line)]


@pytest.mark.parametrize("name", NEAR)
def test_a_near_miss_is_fatal_in_files_of_ours(tmp_path: Path, name: str) -> None:
    """What is very much like a guard is taken for one that was meant."""
    text, line = NEAR[name]
    home, root, path = put(tmp_path, "~/.prong/settings.json", text)
    (fatal,) = load_settings(home, root, trusted=False).fatal

    assert (fatal.path, fatal.line) == (path, line)


@pytest.mark.parametrize(
    "text",
    [
        '{"permissions": {"deny": ["SomeToolOfTheirs", "mcp__x__y", "Task(Explore)", "WebFetch"]}}',
        '{"permissions": {"allow": ["bash", "Bash(", 7]}}',
        '{"permissions": {"additionalDirectories": 7, "somethingNew": true}}',
        '{"deny": ["x"], "permission": 1, "model": 7, "theirs": {}}',
        '{"hooks": {"TheirEvent": 7, "PostToolUse": [{"hooks": [{"type": "prompt"}]}]}}',
    ],
)
def test_what_holds_nothing_back_does_not_stop(tmp_path: Path, text: str) -> None:
    """A file of another program may say what only that program knows, and allow badly."""
    home, root, _ = put(tmp_path, "~/.claude/settings.json", text)

    assert load_settings(home, root, trusted=True).fatal == ()


@pytest.mark.parametrize(
    "hooks", ["[]", '{"PreToolUse": 7}', '{"PreToolUse": [{"hooks": [{"type": "prompt"}]}]}']
)
@pytest.mark.parametrize("trusted", [True, False])
def test_a_hook_that_could_block_is_a_guard(tmp_path: Path, hooks: str, trusted: bool) -> None:
    """It stops the start where it would count; an untrusted folder's hooks count for nothing."""
    home, root, _ = put(tmp_path, ".claude/settings.json", f'{{"hooks": {hooks}}}')

    assert bool(load_settings(home, root, trusted=trusted).fatal) == trusted


def test_guards_of_another_program_are_not_passed_over(tmp_path: Path) -> None:
    """What that program would keep and Prong does not is said."""
    text = '{"sandbox": {"enabled": true},\n"permissions": {"disableBypassPermissionsMode": "disable"}}'
    home, root, path = put(tmp_path, "~/.claude/settings.json", text)

    warned = load_settings(home, root, trusted=True).warnings
    assert [one.split(" is a guard of another program")[0] for one in warned] == [
        f"{path}:2: 'permissions.disableBypassPermissionsMode'",
        f"{path}:1: 'sandbox'",
    ]


@pytest.mark.parametrize("effect", ["deny", "ask", "allow"])
@pytest.mark.parametrize(
    "text",
    ["bash", "BASH(rm:*)", "read(.env)", "Bash(", "web_fetch", "b*h", "Bsah(rm:*)", "Raed(.env)"],
)
async def test_a_flag_with_a_slip_is_an_error(world: Worlds, effect: str, text: str) -> None:
    """A rule of an option that names no tool, but one by its case or its letters, starts no session."""
    with pytest.raises(UsageError, match=r"did you mean|is wrong"):
        async with world([say("Hi.")], **{effect: (text,)}):
            pass


NO_HOSTS = [
    *("https://a.example", "a.example", "domain:", "domain:a.example:80", "domain:a.example/x"),
    *("Domain:a.example", "domain: a.example", "domain:.a.example", "domain:bücher.example"),
]


@pytest.mark.parametrize("text", [*(f"WebFetch({one})" for one in NO_HOSTS), "WebSearch(words)"])
async def test_a_rule_for_pages_that_matches_none_is_an_error(world: Worlds, text: str) -> None:
    """What was to be forbidden would be fetched; in other programs' files too that stops it."""
    with pytest.raises(UsageError, match="would have no effect"):
        async with world([say("Hi.")], deny=(text,)):
            pass
    for effect in ("deny", "ask"):
        found = check_rule(text, effect, foreign=True)
        assert found is not None
        assert not found.harmless
    # What allows nothing lets nobody in.
    found = check_rule(text, "allow", foreign=True)
    assert found is not None
    assert found.harmless


@pytest.mark.parametrize(
    "host", ["a.example", "*.A.example", "127.0.0.*", "::1", "xn--bcher-kva.de"]
)
def test_a_rule_for_pages_names_a_host(host: str) -> None:
    """A name, one with a star, or a number of either kind."""
    for effect in ("deny", "ask", "allow"):
        assert check_rule(f"WebFetch(domain:{host})", effect, foreign=False) is None


async def test_it_stops_the_library(world: Worlds) -> None:
    """No session opens, and nothing is left of one."""
    async with world([TOUCH, say("Done.")], opens=False, mode="bypassPermissions") as w:
        w.write(".claude/settings.json", BROKEN["trailing comma"][0])
        with pytest.raises(ConfigError, match=r"settings\.json:2: is not valid JSON"):
            async with w.open():
                pass
        assert not w.server.records


@pytest.mark.parametrize("name", BROKEN)
async def test_it_stops_the_program(world: Worlds, program: Any, name: str) -> None:
    """`prong -p` ends with exit code 2, file and line, before any request."""
    async with world([TOUCH, say("Done.")], opens=False) as w:
        w.write(".claude/settings.json", BROKEN[name][0])
        done = await program.run(w, "-p", "Go", "--permission-mode", "bypassPermissions")
        assert done.returncode == 2
        assert f"settings.json:{BROKEN[name][1]}: " in done.stderr.decode()
        assert not w.server.records


@pytest.mark.parametrize("words", [("--plain",), ("trust",), ("agents",)])
async def test_it_stops_the_other_faces(
    world: Worlds, program: Any, words: tuple[str, ...]
) -> None:
    """The terminal does not open, and nobody is asked to trust what cannot be read."""
    async with world([say("Hi.")], opens=False) as w:
        w.write(".prong/settings.json", BROKEN["comment"][0])
        done = await program.run(w, *words)
        assert done.returncode == 2
        assert "settings.json:2: " in done.stderr.decode()
        assert not (w.home / ".prong/trust.json").exists()


async def test_a_flag_stops_the_program(world: Worlds, program: Any) -> None:
    """`--disallowed-tools bash` forbids nothing, so nothing starts."""
    async with world([TOUCH], opens=False) as w:
        done = await program.run(w, "-p", "Go", "--disallowed-tools", "bash")
        assert (done.returncode, w.server.records) == (2, [])
        assert "did you mean Bash?" in done.stderr.decode()


def test_trust_can_be_taken_back_whatever_a_file_says(tmp_path: Path) -> None:
    """What a folder wants cannot be listed if its settings cannot be read."""
    home, root, _ = put(tmp_path, ".prong/settings.json", "{")
    with pytest.raises(ConfigError):
        needs_trust(home, root)


def test_a_type_that_forbids_by_a_slip_is_not_started(tmp_path: Path) -> None:
    """An agent file whose `disallowedTools` would forbid nothing is reported and left out."""
    from prong.config.agents import find_types

    head = "---\nname: careful\ndescription: x\ndisallowedTools: bash(rm:*)\n---\nWork.\n"
    home, root, path = put(tmp_path, "~/.prong/agents/careful.md", head)
    found = find_types(home, root, root, trusted=True)
    assert "careful" not in found.types
    assert [(one.path, one.line) for one in found.problems] == [(path, 4)]


@pytest.mark.parametrize("effect", ["allow", "ask", "deny"])
def test_every_tool_can_be_named(effect: Effect) -> None:
    """No tool that there is counts as a slip of another; one alone only stands for others."""
    from prong.config.option import Options
    from prong.config.place import look_around
    from prong.session.toolbox import built_in_names

    names = built_in_names(look_around(Options(bare=True)))
    assert set(names) <= TOOLS
    for name in (*names, *TOOLS - {"McpCall"}, "mcp__server__tool", "*", "mcp__*", "Web*"):
        assert check_rule(name, effect, foreign=False) is None
        if not name.startswith("Web"):
            assert check_rule(f"{name}(x)", effect, foreign=True) is None


def test_an_unknown_tool_is_mentioned(tmp_path: Path) -> None:
    """A rule about a tool that there is not, nor one alike, does no harm and is said."""
    rule = {"permissions": {"deny": ["Teleport"]}}
    home, root, path = put(tmp_path, "~/.prong/settings.json", json.dumps(rule))
    settings = load_settings(home, root, trusted=True)
    assert settings.fatal == ()
    assert settings.warnings == (
        f"{path}: the deny rule 'Teleport' names no tool there is; it has no effect",
    )


@pytest.mark.spec("S5")
async def test_a_guard_that_names_a_type_or_skill_by_a_slip_is_mentioned(world: Worlds) -> None:
    """Elsewhere there may be one of that name, so that it is said and nothing is stopped."""
    idle = ("Agent(Exploer)", "Agent(explore)", "Agent(frok)", "Skill(reviw)")
    sound = (
        "Agent(Explore)",
        "Agent(fork)",
        "Agent(Exp*)",
        "Agent(deploy)",
        "Agent",
        "Skill(review)",
    )
    skill = {".prong/skills/review/SKILL.md": "---\nname: review\ndescription: x\n---\nLook.\n"}
    async with world(
        [], files=skill, trusted=True, deny=(*idle, *sound), allow=("Agent(Plna)",)
    ) as w:
        said = [text for text in w.warnings if "holds nothing back" in text]

    assert [text.split("`")[1] for text in said] == list(idle)
    assert said[0] == (
        "`Agent(Exploer)` (deny rule, flag settings) holds nothing back here: there is no 'Exploer'; "
        "did you mean Agent(Explore)?"
    )
