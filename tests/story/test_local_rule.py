"""Rules that are kept for later sessions by the answer to a request."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import anyio
import msgspec
import pytest

from prong import Answer, PermissionAsked, QuestionAsked
from prong.command import Accepted, Command, Refused
from prong.config.local_rule import LocalRules
from prong.config.trust import Trust, needs_trust
from prong.errors import ConfigError
from prong.event import RequestSettled, ToolFinished
from prong.provider import Secrets
from prong.testing import Script, Step, World, Worlds, call, forks, report, say
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L5", "X2")]

TOUCH = call("Bash", {"command": "touch made"})
FILE = ".prong/settings.local.json"
RULE = "Bash(touch:*)"


async def asked_of(w: World) -> PermissionAsked:
    with anyio.fail_after(50):
        while not (open_now := list(w.session.view().questions.values())):
            await anyio.sleep(0.01)
    asked = open_now[0].asked
    assert isinstance(asked, PermissionAsked)
    return asked


def stored(w: World) -> list[str]:
    return json.loads((w.root / FILE).read_text())["permissions"]["allow"]


@pytest.mark.moves_prefix("a second session")
async def test_always_is_kept_for_later_sessions(world: Worlds) -> None:
    """The rule that was shown is stored, said, private, and asked for in no later session."""
    script = [TOUCH, say("One."), TOUCH, say("Two.")]
    async with world(script, attended=True) as w:
        await w.session.say("Go")
        asked = await asked_of(w)
        assert (asked.file, asked.suggestion) == (str(w.root / FILE), (RULE,))
        outcome = await w.session.send(Answer(asked.request_id, remember="project"))
        assert outcome == Accepted(f"stored in {asked.file}: {RULE}")
        await w.session.wait_settled()
        assert stored(w) == [RULE]
        assert stat.S_IMODE((w.root / FILE).stat().st_mode) == 0o600
        assert (w.root / ".prong/.gitignore").read_text().split() == [
            "settings.local.json",
            ".gitignore",
        ]
        async with w.open() as later:
            await later.run("Again")
        assert len(w.told(PermissionAsked)) == 1
        assert not w.warnings


@pytest.mark.moves_prefix("a second session")
async def test_only_the_users_own_rules_count_in_a_folder_without_trust(world: Worlds) -> None:
    """What else stands in the file is withheld as before, until the folder is trusted."""
    files = {FILE: '{"permissions": {"allow": ["Bash(rm *)"]}}'}
    script = [TOUCH, say("One."), call("Bash", {"command": "rm made"}), say("Two.")]
    async with world(script, files=files, attended=True) as w:
        await w.session.say("Go")
        asked = await asked_of(w)
        await w.session.send(Answer(asked.request_id, remember="project"))
        await w.session.wait_settled()
        assert stored(w) == ["Bash(rm *)", RULE]
        assert needs_trust(str(w.home), str(w.root)) == ["permissions.allow Bash(rm *)"]
        Trust(str(w.home)).distrust(str(w.root))
        assert needs_trust(str(w.home), str(w.root)) == [f"permissions.allow Bash(rm *), {RULE}"]
        async with w.open() as later:
            assert "Bash(rm *)" in w.warnings[-1]
            await later.say("Again")
            await later.send(Answer((await asked_of(w)).request_id, allow=False))
            await later.wait_settled()
        assert (w.root / "made").exists()


async def test_the_rest_of_the_file_stays(world: Worlds) -> None:
    """Other settings, their order and other letters than ASCII are kept; a rule stands once."""
    before = {"theme": "dark", "permissions": {"deny": ["Bash(rm *)"]}, "größe": 1.5}
    async with world([TOUCH, TOUCH, say("x")], attended=True, opens=False) as w:
        w.write(FILE, json.dumps(before, ensure_ascii=False))
        Trust(str(w.home)).trust(str(w.root))
        async with w.open() as session:
            await session.say("Go")
            asked = await asked_of(w)
            await session.send(Answer(asked.request_id, remember="project"))
            await session.wait_settled()
        text = (w.root / FILE).read_text()
        assert json.loads(text) == {
            "theme": "dark",
            "permissions": {"deny": ["Bash(rm *)"], "allow": [RULE]},
            "größe": 1.5,
        }
        assert "größe" in text
        assert not list((w.root / ".prong").glob("*.tmp"))
        assert "rules" not in json.loads(Trust(str(w.home)).path.read_text())


def damage(path: Path, how: str) -> None:
    other = path.with_name("other.json")
    path.parent.mkdir(exist_ok=True)
    match how:
        case "link":
            other.write_text("{}")
            path.symlink_to(other)
        case "hard link":
            other.write_text("{}")
            os.link(other, path)
        case "folder link":
            path.parent.rename(path.parent.with_name("elsewhere"))
            path.parent.symlink_to("elsewhere")
        case "pipe":
            os.mkfifo(path)
        case text:
            path.write_text(text)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("link", "is a link"),
        ("hard link", "is a link"),
        ("folder link", "is a link"),
        ("pipe", "no plain file"),
        ("{", "is not valid JSON"),
        ("[]", "must hold a JSON object"),
        ('{"permissions": []}', "'permissions' must be an object"),
        ('{"permissions": {"allow": "Bash"}}', "must be a list"),
        ('{"x": 1, "x": 2}', "a key twice"),
    ],
)
async def test_a_file_that_cannot_be_written_is_left(world: Worlds, how: str, told: str) -> None:
    """A damaged or linked file is not touched; the answer is refused, and the question waits."""
    async with world([TOUCH, say("x")], attended=True) as w:
        await w.session.say("Go")
        asked = await asked_of(w)
        damage(w.root / FILE, how)
        before = how.startswith(("{", "[")) and (w.root / FILE).read_bytes()
        outcome = await w.session.send(Answer(asked.request_id, remember="project"))
        assert isinstance(outcome, Refused)
        assert told in outcome.why
        assert FILE in outcome.why
        assert asked.request_id in w.session.view().questions
        assert not w.session.records.rules
        assert not before or (w.root / FILE).read_bytes() == before
        assert not Trust(str(w.home)).path.exists()
        await w.session.send(Answer(asked.request_id))
        await w.session.wait_settled()
        assert (w.root / "made").exists()


async def test_a_function_is_told_and_its_yes_holds_once(world: Worlds) -> None:
    """If `respond` wants a rule kept that cannot be, that is said, and the call runs this once."""

    async def respond(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
        return Answer(asked.request_id, remember="project")

    async with world([TOUCH, TOUCH, say("x")], respond=respond, opens=False) as w:
        (w.root / ".prong").symlink_to("nowhere")
        async with w.open() as session:
            await session.run("Go")
        assert [("is a link" in text, "this once" in text) for text in w.warnings] == [
            (True, True),
            (True, True),
        ]
        assert len(w.told(PermissionAsked)) == 2


async def test_a_forks_question_is_kept_too(world: Worlds) -> None:
    """What is said to a fork is stored for the project, and settles what siblings ask."""
    steps = {name: [TOUCH, report()] for name in ("Part 1.", "Part 2.")}
    script = Script([forks("Part 1.", "Part 2."), say("x")], steps, forever=say("done"))
    async with world(script, attended=True) as w:
        await w.session.say("Go")
        with anyio.fail_after(50):
            while len(w.session.view().questions) < 2:
                await anyio.sleep(0.01)
        asked = await asked_of(w)
        await w.session.send(Answer(asked.request_id, remember="project"))
        await w.session.wait_settled()
        assert stored(w) == [RULE]
        assert {e.outcome for e in w.told(RequestSettled)} == {"allowed"}


async def test_agents_cannot_write_the_file(world: Worlds) -> None:
    """A stored rule for all edits does not cover the settings it stands in."""
    read = call("Read", {"file_path": FILE})
    write = call("Write", {"file_path": FILE, "content": "{}"})
    local = '{"permissions": {"allow": ["Edit(/**)"]}}'
    async with world(
        [read, write, say("x")], files={FILE: local}, trusted=True, attended=True
    ) as w:
        await w.session.say("Go")
        asked = await asked_of(w)
        assert "protected" in asked.why
        assert (asked.suggestion, asked.file) == ((), "")
        outcome = await w.session.send(Answer(asked.request_id, remember="project"))
        assert isinstance(outcome, Refused)
        await w.session.send(Answer(asked.request_id, allow=False))
        await w.session.wait_settled()
        assert (w.root / FILE).read_text() == local


def test_no_key_is_stored(tmp_path: Path) -> None:
    """A rule that holds a known key is kept in no file."""
    key = "sk-test-0123456789abcdef"
    rules = LocalRules(str(tmp_path), Trust(str(tmp_path)), Secrets((key,)), trusted=True)
    assert rules.offer([RULE])
    assert not rules.offer([RULE, f"Bash(curl -H {key}:*)"])
    with pytest.raises(ConfigError, match="belongs in no file"):
        rules.add([f"Bash(curl -H {key}:*)"])
    assert not (tmp_path / FILE).exists()


async def test_without_settings_nothing_is_kept(world: Worlds) -> None:
    """A bare session, which reads no settings, offers no rule for later ones."""
    async with world([TOUCH, say("x")], attended=True, bare=True) as w:
        await w.session.say("Go")
        asked = await asked_of(w)
        assert (asked.suggestion, asked.file) == ((RULE,), "")
        await w.session.send(Answer(asked.request_id, remember="session"))
        await w.session.wait_settled()
        assert not w.told(ToolFinished)[0].failed


def test_older_answers_are_read() -> None:
    """An answer as programs wrote it before is read: `always` is the rest of the session."""
    read = msgspec.json.Decoder(Command).decode
    old = read(b'{"type": "answer", "request_id": "ask-1", "always": true}')
    assert old == Answer("ask-1", always=True)
    assert isinstance(old, Answer)
    assert old.remember == "session"
    assert read(b'{"type": "answer", "request_id": "a"}') == Answer("a")


@pytest.mark.spec("W3", "P2")
async def test_a_yes_to_a_fork_in_a_worktree_is_for_that_worktree(world: Worlds) -> None:
    """For the session it edits there unasked; the same file of the project is asked for all the same.

    It is not stored for later sessions, whose worktrees may have the same name.
    """

    def write(name: str) -> Step:
        return call("Write", {"file_path": name, "content": "x\n"})

    script = Script(
        [forks("Part 1.", isolation="worktree"), say("I wait."), write("new.txt"), say("Well.")],
        {"Part 1.": [write("new.txt"), write("src/more.txt"), report("done")]},
    )
    async with world(script, attended=True) as w:
        Repo(w.root).git("init", "-q")
        await w.session.say("Go")
        asked = await asked_of(w)
        tree = w.root / ".prong/worktrees/part-1"
        assert asked.suggestion == (f"Edit(/{tree}/**)",)
        assert asked.file == ""
        assert str(tree / "new.txt") in asked.why
        await w.session.send(Answer(asked.request_id, remember="session"))
        with anyio.fail_after(50):
            while not (tree / "src/more.txt").exists():
                await anyio.sleep(0.01)
        later = await asked_of(w)
        assert later.request_id != asked.request_id
        assert later.suggestion == ("Edit(/new.txt)",)
        assert not (w.root / "new.txt").exists()
        await w.session.send(Answer(later.request_id, allow=False))
        await w.session.wait_settled()
