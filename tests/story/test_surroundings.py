"""What a session takes from its surroundings: hooks, instructions, skills, settings, trust."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prong.command import UseSkill
from prong.event import PermissionAsked, ToolFinished, Warned
from prong.testing import Worlds, call, say
from shared.served import patient

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11")]


def hooks(**commands: str) -> dict[str, str]:
    """Make the user's settings with one hook per event."""
    made: dict[str, Any] = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in commands.items()
    }
    return {"~/.prong/settings.json": json.dumps({"hooks": made})}


LIST = call("Bash", {"command": "ls"})
MAKE = call("Bash", {"command": "touch made"})


async def test_a_hook_blocks_a_call(world: Worlds) -> None:
    """Exit code 2 keeps a call from running, and its words reach the model."""
    files = hooks(PreToolUse="echo not on my watch >&2; exit 2")
    async with world([LIST, say("I see.")], files=files) as w:
        await w.session.run("Go")
        assert w.told(ToolFinished)[0].failed
        assert "not on my watch" in w.server.records[1].request.last_text


@pytest.mark.parametrize(
    ("decision", "step", "made"),
    [("allow", MAKE, True), ("deny", MAKE, False), ("ask", LIST, False)],
)
async def test_a_hook_decides(world: Worlds, decision: str, step: Any, made: bool) -> None:
    """A hook answers the question of permission, or puts one where there was none."""
    out = json.dumps({"hookSpecificOutput": {"permissionDecision": decision}})
    async with world([step, say("I see.")], files=hooks(PreToolUse=f"echo '{out}'")) as w:
        await w.session.run("Go")
        assert (w.root / "made").exists() == made
        assert w.told(ToolFinished)[0].failed == (decision != "allow")
        assert not w.told(PermissionAsked), "nobody is there to be asked"


async def test_a_hook_cannot_lift_a_denial(world: Worlds) -> None:
    """A hook's leave does not count against a deny rule."""
    out = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow"}})
    files = hooks(PreToolUse=f"echo '{out}'")
    async with world([MAKE, say("I see.")], files=files, deny=("Bash(touch:*)",)) as w:
        await w.session.run("Go")
        assert not (w.root / "made").exists()


async def test_hooks_speak_to_the_model(world: Worlds) -> None:
    """Context of SessionStart, UserPromptSubmit and PostToolUse stands where it belongs."""
    said = json.dumps({"hookSpecificOutput": {"additionalContext": "AFTER"}})
    files = hooks(
        SessionStart="echo START", UserPromptSubmit="echo SUBMIT", PostToolUse=f"echo '{said}'"
    )
    async with world([LIST, say("Fine.")], files=files) as w:
        await w.session.run("Go")
        first = w.server.records[0].body.decode()
        assert first.index("START") < first.index("SUBMIT") < first.index('"Go"')
        assert "AFTER" in w.server.records[1].request.last_text


async def test_a_hook_refuses_a_message(world: Worlds) -> None:
    """A refused message never reaches the model, and the user is told why."""
    async with world([], files=hooks(UserPromptSubmit="echo too rude >&2; exit 2")) as w:
        turn = await w.session.run("Go")
        assert turn.why == "refused"
        assert any("too rude" in e.text for e in w.told(Warned))
        assert not w.server.records


async def test_a_stop_hook_sends_the_agent_back(world: Worlds) -> None:
    """A Stop hook that blocks makes the agent go on, once told that it did."""
    command = "grep -q 'stop_hook_active\": *true' || { echo run the tests >&2; exit 2; }"
    async with world([say("Done."), say("Tests pass.")], files=hooks(Stop=command)) as w:
        turn = await w.session.run("Go")
        assert turn.text == "Tests pass."
        assert "run the tests" in w.server.records[1].request.last_text


async def test_instructions(world: Worlds) -> None:
    """Instructions of home and project stand in the head; nested ones come with a file."""
    files = {
        "~/.prong/AGENTS.md": "Be brief.",
        "AGENTS.md": "Use tabs.",
        "sub/AGENTS.md": "Here use spaces.",
        "sub/a.py": "x = 1\n",
        "sub/b.py": "y = 1\n",
    }
    script = [
        call("Read", {"file_path": "sub/a.py"}),
        call("Read", {"file_path": "sub/b.py"}),
        say("Done."),
    ]
    async with world(script, files=files) as w:
        await w.session.run("Go")
        first = w.server.records[0].body.decode()
        assert first.index("Be brief.") < first.index("Use tabs.")
        assert "Here use spaces." not in first
        assert "Here use spaces." in w.server.records[1].request.last_text
        assert w.server.records[2].body.decode().count("Here use spaces.") == 1


SKILL = "---\nname: greet\ndescription: How to greet\n---\nSay moin to $ARGUMENTS.\n"


async def test_skills(world: Worlds) -> None:
    """A skill is listed to the model, loaded by the Skill tool, and started by the user."""
    files = {"~/.claude/skills/greet/SKILL.md": SKILL}
    script = [call("Skill", {"skill": "greet", "args": "Ada"}), say("Moin, Ada."), say("Moin.")]
    async with world(script, files=files) as w:
        await w.session.run("Greet Ada")
        assert "How to greet" in w.server.records[0].body.decode()
        assert "Say moin to Ada." in w.server.records[1].request.last_text
        await w.session.send(UseSkill("greet", "Bob"))
        await w.session.wait_settled()
        assert "Say moin to Bob." in w.server.records[2].request.last_text


async def test_settings_reach_commands(world: Worlds) -> None:
    """`env` of the settings is in the environment of commands and hooks."""
    settings = {
        "env": {"COLOUR": "blue"},
        "hooks": {"SessionStart": [{"hooks": [{"command": "echo hook is $COLOUR"}]}]},
    }
    script = [call("Bash", {"command": "echo it is $COLOUR"}), say("Done.")]
    files = {"~/.prong/settings.json": json.dumps(settings)}
    async with world(script, files=files, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert "hook is blue" in w.server.records[0].body.decode()
        assert "it is blue" in w.server.records[1].request.last_text


PROJECT = {
    ".prong/settings.json": json.dumps(
        {
            "hooks": {"SessionStart": [{"hooks": [{"command": "touch ran"}]}]},
            "permissions": {"allow": ["Bash(touch:*)"], "deny": ["Bash(ls:*)"]},
        }
    ),
    ".mcp.json": json.dumps({"mcpServers": {"evil": {"command": "touch", "args": ["served"]}}}),
}


async def test_an_untrusted_folder_runs_nothing(world: Worlds) -> None:
    """Its hooks, servers and leave are left out with a warning; what it forbids still holds."""
    async with world([MAKE, LIST, say("Done.")], files=PROJECT) as w:
        await w.session.run("Go")
        assert [e.failed for e in w.told(ToolFinished)] == [True, True]
        made = {p.name for p in w.root.iterdir()}
        assert made == {".prong", ".mcp.json"}
        warned = "\n".join(w.warnings)
        assert "trust" in warned
        assert "evil" in warned
        assert "hook" in warned


async def test_a_trusted_folder_is_heard(world: Worlds) -> None:
    """Once trusted, its hooks run and its rules count; a server that fails is told."""
    steps, given = [MAKE, LIST, say("Done.")], {"files": PROJECT, "settings": patient()}
    async with world(steps, trusted=True, **given) as w:
        await w.session.run("Go")
        assert (w.root / "ran").exists()
        assert [e.failed for e in w.told(ToolFinished)] == [False, True]
        assert any("evil" in text for text in w.warnings)


async def test_bare_takes_nothing(world: Worlds) -> None:
    """A bare session sees no instructions, hooks or rules."""
    files = PROJECT | {"AGENTS.md": "Use tabs."}
    async with world([say("Hi.")], files=files, trusted=True, bare=True) as w:
        await w.session.run("Go")
        assert not (w.root / "ran").exists()
        assert "Use tabs." not in w.server.records[0].body.decode()
        assert w.warnings == []


async def test_a_broken_file_does_not_hide_the_rest(world: Worlds) -> None:
    """A wrong value is named with its line, and everything else still works."""
    files = {
        "~/.prong/settings.json": '{\n  "model": 7\n}',
        ".prong/settings.json": json.dumps({"permissions": {"deny": ["Bash(ls:*)"]}}),
        "~/.claude/skills/bad/SKILL.md": "---\nname: bad\n",
        "~/.claude/skills/greet/SKILL.md": SKILL,
    }
    async with world([LIST, say("Hi.")], files=files) as w:
        await w.session.run("Go")
        assert w.told(ToolFinished)[0].failed
        assert w.session.records.skill("greet") is not None
        warned = "\n".join(w.warnings)
        assert "settings.json:2" in warned
        assert "bad/SKILL.md:1" in warned


@pytest.mark.anyio
async def test_an_open_store_is_closed_to_others_and_told_once(world: Worlds) -> None:
    """A `~/.prong` that others could read becomes private; one that was chosen stays as it is."""
    async with world([], opens=False) as w:
        w.store.mkdir(mode=0o755)
        chosen = w.folder / "chosen"
        chosen.mkdir(mode=0o755)
        for _ in range(2):
            async with w.open():
                assert w.store.stat().st_mode & 0o777 == 0o700
        async with w.open(store=str(chosen)):
            assert chosen.stat().st_mode & 0o777 == 0o755
        assert sum("could be read by other users" in text for text in w.warnings) == 1
