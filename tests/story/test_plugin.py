"""Plug-ins of folders: what they bring, under which names, and what of them is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from prong.command import UseSkill
from prong.config.plugin import Plugin, read_plugin, wants
from prong.config.skill_search import find_brought
from prong.errors import ConfigError
from prong.testing import Script, World, Worlds, call, say
from shared.served import patient

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11", "S3")]

SERVER = str(Path(__file__).parent.with_name("door") / "mcp_echo_server.py")
HOOK = (
    'cat >> "${CLAUDE_PLUGIN_ROOT}/told"; echo "$CLAUDE_PLUGIN_DATA" >> "$CLAUDE_PLUGIN_ROOT/data"'
)


def event(name: str, **hook: Any) -> dict[str, Any]:
    return {name: [{"hooks": [{"type": "command", **hook}]}]}


def plugin(folder: Path, files: dict[str, Any], **manifest: Any) -> Path:
    """Write a plug-in: texts as they are, other values as JSON."""
    every = {".claude-plugin/plugin.json": {"name": "kit", **manifest}, **files}
    for name, content in every.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def read(folder: Path) -> Plugin:
    return read_plugin(folder, folder.parent / "data")


WHOLE: dict[str, Any] = {
    "skills/tidy/SKILL.md": "---\nallowed-tools: Bash(touch:*)\n---\nIn ${CLAUDE_PLUGIN_ROOT}, tidy $0.",
    "commands/ship it.md": "---\ndescription: Ships\n---\nShip !`cat ${CLAUDE_PLUGIN_ROOT}/note`.",
    "note": "noted",
    "agents/looker.md": "---\nname: looker\ndescription: Looks\n---\nYou look in ${CLAUDE_PLUGIN_ROOT}.",
    "hooks/hooks.json": {"description": "d", "hooks": event("UserPromptSubmit", command=HOOK)},
    ".mcp.json": {
        "echo": {"command": sys.executable, "args": [SERVER], "cwd": "${CLAUDE_PLUGIN_ROOT}"}
    },
}


async def opened(w: World, **more: Any) -> None:
    """Use all that the plug-in brings."""
    async with w.open(plugin_dirs=[w.folder / "kit"], **more) as session:
        await session.run(UseSkill("kit:tidy", "up"))
        await session.run(UseSkill("ship-it"))
        await session.run("Look")


async def test_everything_that_a_plugin_brings_works(world: Worlds, tmp_path: Path) -> None:
    """Skills, commands, agents, hooks and servers are there, named after it, and find its folder."""
    start = {"description": "d", "prompt": "Look.", "subagent_type": "kit:looker"}
    script = Script(
        [say("tidied"), say("shipped"), call("Agent", start), say("end")], {"Look.": [say("x")]}
    )
    async with world(script, opens=False, folder=tmp_path) as w:
        folder = plugin(tmp_path / "kit", WHOLE)
        await opened(w, settings=patient())
        bodies = [str(body) for body in w.bodies()]

        assert f"In {folder}, tidy up." in bodies[0]
        assert "Ship noted." in bodies[1]
        assert any(f"You look in {folder}." in body for body in bodies)
        assert "mcp__plugin_kit_echo__say" in bodies[0]
        assert "tidy up." in (folder / "told").read_text()
        assert (folder / "data").read_text().startswith(f"{w.home}/.prong/plugins/data/kit\n")
        assert (w.home / ".prong/plugins/data/kit").is_dir()


async def test_bare_leaves_what_is_named_by_hand(world: Worlds, tmp_path: Path) -> None:
    """`--bare` is only what options say: the plug-in's folder is one of these."""
    async with world([say("x")] * 3, opens=False, folder=tmp_path) as w:
        plugin(tmp_path / "kit", WHOLE)
        await opened(w, bare=True)

        assert "tidy up." in str(w.bodies()[0])


async def test_an_exec_hook_finds_the_folder_too(world: Worlds, tmp_path: Path) -> None:
    """Arguments that no shell sees are filled in, and the program has the folder in its environment."""
    script = 'import os, sys; open(sys.argv[1], "w").write(os.environ["CLAUDE_PLUGIN_ROOT"])'
    hook = event(
        "UserPromptSubmit", command=sys.executable, args=["-c", script, "${CLAUDE_PLUGIN_ROOT}/o"]
    )
    async with world([say("x")], opens=False, folder=tmp_path) as w:
        folder = plugin(tmp_path / "kit", {}, hooks=hook)
        async with w.open(plugin_dirs=[folder]) as session:
            await session.run("Hi")

        assert (folder / "o").read_text() == str(folder)


def test_a_manifest_may_name_other_places(tmp_path: Path) -> None:
    """Files and folders that are named come beside the usual ones, each once."""
    folder = plugin(
        tmp_path / "kit",
        {
            "commands/a.md": "a",
            "more/b.md": "b",
            "c.md": "c",
            "own/one/SKILL.md": "o",
            "alone/SKILL.md": "s",
            "team/x.md": "---\ndescription: d\n---\np",
            "h.json": {"hooks": event("Stop", command="true")},
            "servers.json": {"mcpServers": {"s": {"command": "run"}}},
        },
        commands=["./commands/a.md", "./more", "c.md"],
        skills=["./own", "./alone/"],
        agents="./team/x.md",
        hooks="./h.json",
        mcpServers="./servers.json",
        lspServers={"x": {}},
    )
    found = read(folder)

    assert sorted(place.name for place in found.skills) == [
        "kit:a",
        "kit:a",
        "kit:alone",
        "kit:b",
        "kit:c",
        "kit:one",
    ]
    assert [place.path.name for place in found.agents] == ["x.md"]
    assert wants(found) == ["hook Stop runs true", "server plugin_kit_s runs run"]
    assert found.problems == ()
    assert found.unheeded == ("not supported, without effect: lspServers",)


@pytest.mark.parametrize("key", ["commands", "skills", "agents", "hooks", "mcpServers"])
@pytest.mark.parametrize("path", ["../out", "/etc", "link", "./a/../../out", "gone"])
def test_a_path_outside_of_a_plugin_is_refused(tmp_path: Path, key: str, path: str) -> None:
    """What a manifest names has to lie in the plug-in, links followed; it is named if not."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out/x.md").write_text("---\nname: x\ndescription: d\n---\nout")
    folder = plugin(tmp_path / "kit", {"a/b.md": "b"}, **{key: path})
    (folder / "link").symlink_to(tmp_path / "out")
    found = read(folder)

    assert (found.skills, found.agents, found.hooks, found.servers) == ((), (), (), ())
    (problem,) = found.problems
    assert f"'{key}' names" in problem.why


def test_links_out_of_a_plugin_are_not_followed(tmp_path: Path) -> None:
    """A link to `/` in a folder of parts, and a file that is a link to elsewhere, bring nothing."""
    folder = plugin(tmp_path / "kit", {"skills/ok/SKILL.md": "fine"})
    (tmp_path / "secret").write_text("---\nname: s\ndescription: d\n---\nsecret")
    for kind in ("agents", "commands"):
        (folder / kind).mkdir()
        (folder / kind / "root").symlink_to("/")
        (folder / kind / "x.md").symlink_to(tmp_path / "secret")
    (folder / "skills/out").symlink_to("/")
    (folder / ".mcp.json").symlink_to(tmp_path / "secret")
    found = read(folder)

    assert found.agents == ()
    assert found.servers == ()
    assert any("leads out of the plug-in" in problem.why for problem in found.problems)


async def test_what_leads_out_is_no_skill_either(world: Worlds, tmp_path: Path) -> None:
    """A command that is a link to a file outside is left out when a session begins, and said."""
    async with world([say("x")], opens=False, folder=tmp_path) as w:
        folder = plugin(tmp_path / "kit", {"commands/ok.md": "fine"})
        (tmp_path / "secret").write_text("secret")
        (folder / "commands/bad.md").symlink_to(tmp_path / "secret")
        async with w.open(plugin_dirs=[folder]) as session:
            assert [name for name in session.records.skills if ":" in name] == ["kit:ok"]
            assert any("leads out" in text for text in w.warnings)


def test_large_skills_and_folders_are_bounded(tmp_path: Path) -> None:
    """A skill of 50 MB is left out, and of very many files only so many are looked at."""
    folder = plugin(tmp_path / "kit", {"skills/ok/SKILL.md": "fine"})
    (folder / "skills/big").mkdir()
    with (folder / "skills/big/SKILL.md").open("wb") as file:
        file.truncate(50_000_000)
    (folder / "commands").mkdir()
    (folder / "commands/0.md").touch()
    for number in range(1, 20_000):
        # Quicker by far than as many files.
        (folder / f"commands/{number}.md").hardlink_to(folder / "commands/0.md")
    found = read(folder)

    assert len(found.skills) <= 10_002
    skills = find_brought([place for place in found.skills if "skills" in str(place.path)])
    assert [skill.name for skill in skills.skills] == ["kit:ok"]
    assert "is larger than" in skills.problems[0].why
    assert any("more than 10,000 names" in problem.why for problem in found.problems)


@pytest.mark.parametrize(
    "hook",
    [
        {"command": "x", "timeout": -1},
        {"command": "bash", "args": []},
        {"type": "unheard-of"},
    ],
)
def test_a_guard_that_cannot_be_honoured_keeps_the_plugin_out(
    tmp_path: Path, hook: dict[str, Any]
) -> None:
    """Neither half a hook nor a plug-in without its hook: the session does not begin."""
    folder = plugin(
        tmp_path / "kit", {"skills/ok/SKILL.md": "fine"}, hooks=event("PreToolUse", **hook)
    )
    assert read(folder).fatal


async def test_a_session_does_not_begin_unguarded(world: Worlds, tmp_path: Path) -> None:
    """A plug-in that is named and whose guard cannot be honoured is an error, with its file."""
    async with world([], opens=False, folder=tmp_path) as w:
        hooks = event("PreToolUse", command="bash", args=[])
        folder = plugin(tmp_path / "kit", {"hooks/hooks.json": {"hooks": hooks}})
        with pytest.raises(ConfigError, match=r"hooks\.json"):
            async with w.open(plugin_dirs=[folder]):
                pass


@pytest.mark.parametrize("manifest", ["{", "[]", '{"name": "!!"}'])
def test_a_broken_manifest_is_named(tmp_path: Path, manifest: str) -> None:
    """What cannot be read is refused with its file."""
    folder = plugin(tmp_path / "kit", {".claude-plugin/plugin.json": manifest})
    with pytest.raises(ConfigError, match=r"plugin\.json"):
        read(folder)


def test_a_folder_that_brings_nothing_is_no_plugin(tmp_path: Path) -> None:
    """Any folder can be named by mistake; it is said."""
    with pytest.raises(ConfigError, match="is no plug-in"):
        read_plugin(tmp_path, tmp_path / "data")


async def test_plugins_that_another_program_has_are_named(world: Worlds, tmp_path: Path) -> None:
    """What its settings enable and was not added here is said in one line, with how to add it."""
    enabled = {"kit@here": True, "old@market": True, "lost@market": True, "off@market": False}
    there = {"version": 2, "plugins": {"old@market": [{"installPath": "/there/old"}]}}
    async with world([], opens=False, folder=tmp_path) as w:
        w.write("~/.claude/settings.json", json.dumps({"enabledPlugins": enabled}))
        w.write("~/.claude/plugins/installed_plugins.json", json.dumps(there))
        async with w.open(plugin_dirs=[plugin(tmp_path / "kit", WHOLE)]):
            (told,) = [text for text in w.warnings if "enables" in text]

        assert told.endswith("not added here: old (prong plugin add /there/old), lost")
