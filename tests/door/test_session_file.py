"""Sessions as pages and files: shown, written, taken over from other programs, and removed."""

from __future__ import annotations

import json
import os
import re
import resource
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.errors import BadInput, JournalFull, NotPossibleNow
from prong.event import PromptMoved
from prong.face.export import as_html, as_markdown
from prong.face.owned_file import write_owned
from prong.face.session_file import write_page
from prong.journal.entry_trail import read_whole
from prong.session import clean_sessions, cleaning, import_session, importable
from prong.session.cleaning import clean_daily
from prong.testing import Script, Worlds, call, inside, report, say
from prong.testing.repository import Repo
from shared.claude_file import claude, claude_slug

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("L8")]

HOSTILE = "\x1b[2J\x1b]0;PWNED\x07<script>alert(1)</script> ``` # no heading"


async def test_everything_that_was_said_is_shown(world: Worlds, program: Any) -> None:
    """`prong show` prints every word, as Markdown, as HTML or in lines; nothing takes control."""
    steps = [call("Bash", {"command": "echo LOUD"}), say(f"All is well. {HOSTILE}")]
    async with world(steps, opens=False) as w:
        done = await program.run(w, "-p", "Speak", "--allowedTools", "Bash", "--name", HOSTILE)
        assert done.returncode == 0, done.stderr
        shown = {
            form: (await program.run(w, "show", "--format", form)).stdout.decode()
            for form in ("markdown", "html", "jsonl", "outline")
        }
        plain = (await program.run(w, "show")).stdout.decode()
    assert plain == shown["markdown"]
    for form, page in shown.items():
        assert "\x1b" not in page, form
        assert "\x07" not in page, form
        assert "All is well." in page, form
    assert "## User\n\nSpeak" in plain
    assert '### Bash\n\n```\n{\n  "command": "echo LOUD"' in plain
    assert "### Bash gave\n\n```\nLOUD" in plain
    assert "<script>" not in shown["html"]
    assert "src=" not in shown["html"]
    lines = [json.loads(one) for one in shown["jsonl"].splitlines()]
    assert [one["type"] for one in lines] == ["user", "assistant", "user", "assistant"]


@pytest.mark.moves_prefix("a summary begins anew")
async def test_a_page_has_what_a_summary_took_away(world: Worlds) -> None:
    """What was said before a summary, and by agents, stands on the page too."""
    from prong.command import Compact

    script = Script(
        [say("LONG AGO " * 1_000), say("SUM"), say("Now.")], routes={"ONE": [report("FOUND")]}
    )
    async with world(script, mode="dontAsk") as w:
        await w.session.run("Go")
        await w.session.send(Compact())
        await w.session.run("On")
        await w.session.fork(["ONE"])
        whole = await w.session.records.whole()
    for page in (as_markdown(whole), as_html(whole)):
        assert "LONG AGO" in page
        assert "SUM" in page
        assert "Agent main/fork-1" in page
        assert page.count("Now.") == 1, "a fork's page has what it said itself"


async def test_a_file_is_written_once(world: Worlds, program: Any) -> None:
    """`prong export` chooses the format by the name, and replaces no file."""
    async with world([say("Done.")], opens=False) as w:
        await program.run(w, "-p", "Speak")
        for name, begins in (("a.md", "# "), ("a.html", "<!doctype"), ("a.jsonl", "{")):
            done = await program.run(w, "export", "-o", name)
            assert done.returncode == 0, done.stderr
            assert (w.root / name).read_text().startswith(begins)
            assert (w.root / name).stat().st_mode & 0o077 == 0
        again = await program.run(w, "export", "-o", "a.md")
        assert again.returncode == 2
        assert b"there already" in again.stderr
        for ending in ("", "-2", "-3"):
            done = await program.run(w, "export", "--format", "html")
            assert done.stdout.endswith(f"{ending}.html\n".encode()), done.stderr
        assert len([*w.root.glob("prong-*.html")]) == 3, "a name that nobody gave is not refused"
        (path,) = (w.store / "projects").glob("*/*.jsonl")
        with pytest.raises(NotPossibleNow, match="cannot be written"):
            write_page(read_whole(path), w.root, "no/such/folder.md")


@contextmanager
def _files_up_to(size: int) -> Generator[None]:
    """Let no file grow beyond a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """Of a file for which there is no room nothing stays that would be in the way of a next try."""
    path = tmp_path / "page.html"
    told = r"page.html cannot be written \(File too large\)"
    with _files_up_to(5_000), pytest.raises(NotPossibleNow, match=told):
        write_owned(path, b"x" * 9_000)
    assert not path.exists()
    write_owned(path, b"x" * 9_000)
    assert path.read_bytes() == b"x" * 9_000


async def test_only_a_plain_file_is_said_to_be_removable(tmp_path: Path) -> None:
    """Nobody is advised to remove a folder, a device or a link so that a page can be written."""
    (tmp_path / "page").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "page")
    with pytest.raises(NotPossibleNow, match=r"name another file, or remove that one first$"):
        write_owned(tmp_path / "page", b"x")
    for path in (tmp_path / "link", tmp_path, Path("/dev/null"), Path("/dev/stdout")):
        with pytest.raises(NotPossibleNow, match=r"is there already; name another file$"):
            write_owned(path, b"x")
    assert (tmp_path / "page").read_text() == "mine"


async def test_a_session_is_taken_over_whole_or_not_at_all(tmp_path: Path) -> None:
    """Wherever the room ends, nothing of it stays, and no session is named that is not there."""
    source, home = claude(tmp_path / "x.jsonl"), tmp_path / "store"
    import_session(source, cwd=str(tmp_path), home=home, name="It")
    (whole,) = home.glob("projects/*/*.jsonl")
    size = whole.stat().st_size
    whole.unlink()
    for room in (10, *range(300, size, 300), size - 20):
        with _files_up_to(room), pytest.raises(JournalFull, match=r"free some space") as caught:
            import_session(source, cwd=str(tmp_path), home=home, name="It")
        assert re.search("nothing (of .* was taken over|was stored yet): ", str(caught.value))
        assert "--resume" not in str(caught.value)
        assert not [one for one in home.rglob("*") if one.is_file()], room
    import_session(source, cwd=str(tmp_path), home=home, name="It")


@pytest.mark.moves_prefix("what was taken over goes on under a new head")
async def test_a_session_of_another_program_goes_on(world: Worlds, program: Any) -> None:
    """What was said there is before the model here, with its calls; that it is new is said."""
    async with world([say("I go on.")], opens=False) as w:
        claude(w.home / ".claude/projects/x/s.jsonl")
        done = await program.run(w, "import", str(w.home / ".claude/projects/x/s.jsonl"), "--json")
        assert done.returncode == 0, done.stderr
        made = json.loads(done.stdout)
        assert (made["program"], made["entries"]) == ("Claude Code", 4)
        assert "new prompt" in made["text"]
        async with w.open(resume=made["id"]) as session:
            assert (await session.run("And?")).text == "I go on."
            moved = [one.event for one in w.envelopes if isinstance(one.event, PromptMoved)]
            assert [one.reason for one in moved] == ["model"]
            assert "(imported)" in moved[0].detail
            assert "imported" not in inside(session).agent.conversation.prompt.head.model
        body = w.server.records[0].body
        for word in (b"MEND IT", b"MultiEdit", b"EDITED", b"Done.", b"And?"):
            assert word in body
        assert (await program.run(w, "verify", made["id"])).returncode == 0


async def test_an_export_can_be_taken_over(world: Worlds, program: Any) -> None:
    """The lines that are written are lines that can be read."""
    steps = [call("Bash", {"command": "echo LOUD"}), say("Done.")]
    async with world(steps, opens=False) as w:
        await program.run(w, "-p", "Speak", "--allowedTools", "Bash")
        await program.run(w, "export", "-o", "a.jsonl")
        made = json.loads((await program.run(w, "import", "a.jsonl", "--json")).stdout)
        first, second = [
            (await program.run(w, "show", *words)).stdout.split(b"## User", 1)[1]
            for words in ([made["id"]], [])
        ]
        assert first == second
        assert made["notes"] == []


async def test_a_newcomer_is_told_what_can_be_taken_over(world: Worlds, program: Any) -> None:
    """Where there is no session yet, those of other programs are named, and can be listed."""
    async with world([], opens=False) as w:
        claude(w.home / f".claude/projects/{claude_slug(w.root)}/s.jsonl", cwd=str(w.root))
        listed = await program.run(w, "sessions")
        assert b"1 session of Claude Code or Codex can be taken over" in listed.stderr
        assert b"MEND IT" in (await program.run(w, "import")).stdout


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is no session"),
        (b"\x00\xff" * 500, "is no session"),
        (b'{"a": 1}\n' * 100, "is no session"),
        (b"[" * 100_000, "is no session"),
        (b'{"crc":"00000000","k":"open"}\n', "is a session of prong"),
    ],
)
def test_what_is_no_session_is_refused(tmp_path: Path, data: bytes, why: str) -> None:
    """Any other file is refused with the reason, and nothing is stored."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    with pytest.raises(BadInput, match=why):
        import_session(path, cwd=str(tmp_path), home=tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_those_of_this_folder_are_listed(tmp_path: Path) -> None:
    """Sessions of other programs that were held here are found where those keep them."""
    cwd, home = "/w/my.project", tmp_path
    claude(home / ".claude/projects/-w-my-project/s.jsonl", cwd=cwd)
    claude(home / ".claude/projects/-w-other/t.jsonl")
    for name, folder in (("a", cwd), ("b", "/elsewhere")):
        path = home / f".codex/sessions/2026/01/02/rollout-{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        meta = {"type": "session_meta", "payload": {"id": name, "cwd": folder}}
        typed = {"type": "event_msg", "payload": {"type": "user_message", "message": "TYPED"}}
        path.write_text(f"{json.dumps(meta)}\n{json.dumps(typed)}\n")
    found = {(one.program, one.path.name, one.title) for one in importable(cwd, home=home)}
    assert found == {
        ("Claude Code", "s.jsonl", "MEND IT"),
        ("Codex", "rollout-a.jsonl", "TYPED"),
    }


def aged(path: Path, days: float) -> None:
    then = time.time() - days * 86_400
    os.utime(path, (then, then))


@pytest.mark.moves_prefix("two sessions")
async def test_old_sessions_are_removed(world: Worlds, program: Any) -> None:
    """Only those to which nothing was written for so long, with all that is kept of them."""
    async with world([say("One."), say("Two.")], opens=False) as w:
        await program.run(w, "-p", "Old")
        (old,) = (w.store / "projects").glob("*/*.jsonl")
        await program.run(w, "-p", "New")
        aged(old, 31)
        assert clean_sessions(30, home=w.store, dry=True).removed == (old.stem,)
        assert old.exists()
        done = await program.run(w, "sessions", "--clean", "30")
        assert done.stdout.decode() == f"{old.stem}: removed\n"
        assert not list(old.parent.glob(f"{old.stem}*"))
        assert len(list(old.parent.glob("*.jsonl"))) == 1


async def test_what_something_hangs_on_is_kept(world: Worlds) -> None:
    """A session that is open, damaged, or whose agent has unmerged work is kept, with the reason."""
    script = Script(
        [say("ok")],
        routes={"W": [call("Bash", {"command": "echo x > new.txt"}), report()]},
    )
    async with world(script, opens=False, mode="bypassPermissions") as w:
        repo = Repo(w.root)
        for words in ("init -q", "config user.name Tester", "config user.email t@example.invalid"):
            repo.git(*words.split())
        repo.write("a.txt", "one\n")
        repo.commit("first")
        async with w.open() as session:
            path = inside(session).journal.path
            await session.run("Go")
            await session.fork(["W"], isolation="worktree")
            aged(path, 40)
            (kept,) = clean_sessions(30, home=w.store).kept
            assert kept.why == "it is open in another process"
        aged(path, 40)
        (kept,) = clean_sessions(30, home=w.store).kept
        assert "unmerged work" in kept.why
        path.write_bytes(path.read_bytes().replace(b"fork-1", b"fork-2", 1))
        aged(path, 40)
        (kept,) = clean_sessions(30, home=w.store).kept
        assert "damaged" in kept.why
        assert path.exists()


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing for another day because the machine is slow."""
    monkeypatch.setattr(cleaning, "_PATIENCE", 600.0)


@pytest.mark.usefixtures("_patient")
async def test_the_setting_removes_once_a_day(world: Worlds) -> None:
    """With `cleanupPeriodDays` a start removes what is old, says so, and not again that day."""
    async with world([say("One.")], settings='{"cleanupPeriodDays": 20}') as w:
        old = claude(w.home / "x.jsonl")
        made = [import_session(old, cwd=str(w.root), home=w.store).id for _ in range(2)]
        paths = [next((w.store / "projects").glob(f"*/{one}.jsonl")) for one in made]
        # The start has cleaned too, in its own time, when these were not old yet.
        with anyio.fail_after(40):
            while not (w.store / "cleaned").exists():
                await anyio.sleep(0.01)
        for path in paths:
            aged(path, 21)
        (w.store / "cleaned").unlink()
        told = clean_daily(20, home=w.store, spare="", clock=time.time)
        assert told.startswith("2 sessions older than 20 days removed")
        assert "cleanupPeriodDays" in told
        assert clean_daily(20, home=w.store, spare="", clock=time.time) == ""
        assert w.session.records.snapshot is not None


@pytest.mark.usefixtures("_patient")
async def test_a_session_removes_others_and_not_itself(world: Worlds) -> None:
    """The start of a session removes an old one and tells the user."""
    async with world([say("One.")], opens=False) as w:
        made = import_session(claude(w.home / "x.jsonl"), cwd=str(w.root), home=w.store)
        path = next((w.store / "projects").glob(f"*/{made.id}.jsonl"))
        aged(path, 21)
        async with w.open(settings='{"cleanupPeriodDays": 20}') as session:
            await session.run("Go")
        assert not path.exists()
        assert any("1 session older than 20 days removed" in text for text in w.warnings)
        assert len(list((w.store / "projects").glob("*/*.jsonl"))) == 1


async def test_what_another_program_is_told_is_said_once(world: Worlds) -> None:
    """Keys of its settings without effect here are named in one line; wishes that hold are not."""
    theirs = {"spinnerVerbs": ["x"], "outputStyle": "x", "includeCoAuthoredBy": False}
    files = {"~/.claude/settings.json": json.dumps({**theirs, "cleanupPeriodDays": 90})}
    async with world([say("One.")], files=files) as w:
        await w.session.run("Go")
        told = [text for text in w.warnings if "another program" in text]
    assert len(told) == 1
    assert "spinnerVerbs" in told[0]
    assert "outputStyle" in told[0]
    assert "includeCoAuthoredBy" not in told[0]
    assert "cleanupPeriodDays" not in told[0]
