"""Forks as the command line and the interactive prompt show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prong.face.plain import Talk
from prong.face.terminal import Terminal
from prong.session import Session
from prong.testing import Script, Worlds, call, forks, report, say
from prong.testing.program import Program
from prong.testing.repository import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.door]

ECHO = call("Bash", {"command": "sleep 0.1; echo x"})
PARTS = ["Part 1.", "Part 2.", "Part 3."]
LEAD = "Do what follows with care, as one part of several, and report: "


class Typing:
    """Enters commands at the prompt, and gives the lines that they show."""

    def __init__(self, session: Session, capsys: pytest.CaptureFixture[str]) -> None:
        self._talk = Talk(session, Terminal(), session.events(since=None))
        self._capsys = capsys

    async def enter(self, line: str) -> list[str]:
        self._capsys.readouterr()
        await self._talk._carrier.obey(line)
        return self._capsys.readouterr().out.splitlines()


def script() -> Script:
    return Script(
        [forks(*PARTS), say("waiting"), say("all done")],
        {part: [ECHO, report()] for part in PARTS},
    )


@pytest.mark.spec("L12", "F16")
async def test_json_has_the_receipts(world: Worlds, program: Any) -> None:
    """The run ends when all forks are done and told of, and json output has their receipts."""
    async with world(script(), opens=False) as w:
        words = ("-p", "Go", "--output-format", "json", "--permission-mode", "bypassPermissions")
        done = await program.run(w, *words)
        result = json.loads(done.stdout)
        assert done.returncode == 0
        assert (result["text"], result["why"]) == ("all done", "done")
        assert len(result["receipts"]) == 3
        for receipt in result["receipts"]:
            assert receipt["status"] == "completed"
            assert receipt["read"] > 0
            assert receipt["saved"] > 0
            assert receipt["reason"]
        assert result["usage"]["output"] == sum(r.usage.output for r in w.server.records)


@pytest.mark.spec("L12", "F16", "X1")
async def test_stream_json_shows_children_with_their_path(world: Worlds, program: Any) -> None:
    """Every event of a child has its path; starts, ends and receipts of all of them are there."""
    async with world(script(), opens=False) as w:
        mode = ("--permission-mode", "bypassPermissions")
        done = await program.run(w, "-p", "Go", "--output-format", "stream-json", *mode)
        *lines, result = [json.loads(line) for line in done.stdout.splitlines()]
        assert result["text"] == "all done"
        children = {line["agent"] for line in lines} - {"main"}
        assert len(children) == 3
        for path in children:
            kinds = [line["event"]["type"] for line in lines if line["agent"] == path]
            assert kinds.count("task_started") == kinds.count("task_finished") == 1
            assert kinds.count("receipt_issued") == 1
            assert kinds.index("task_started") < kinds.index("request_sent")
            assert "tool_started" in kinds
            assert kinds[-1] == "task_finished"


@pytest.mark.spec("F2", "L12")
async def test_headless_without_a_policy_has_no_forks(world: Worlds, program: Any) -> None:
    """With nobody to answer and no policy, a fork by name is refused and the run goes on."""
    asked = Script([forks("Part 1.", subagent_type="fork"), say("I see.")])
    async with world(asked, opens=False) as w:
        done = await program.run(w, "-p", "Go")
        assert done.stdout == b"I see.\n"
        assert "forks are off" in w.server.records[1].request.last_text


@pytest.mark.spec("F21", "F22", "T6", "X2")
async def test_the_commands_of_the_prompt(
    world: Worlds, capsys: pytest.CaptureFixture[str]
) -> None:
    """/fork, /tasks, /tell, /stop and /receipt do what they say, in 80 columns."""
    played = Script(
        [say("Hello.")],
        {
            "Part 1.": [report("one"), report("more")],
            "Part 2.": [call("Bash", {"command": "sleep 60"})],
        },
        forever=say("ok"),
    )
    async with world(played, mode="bypassPermissions") as w:
        await w.session.run("Hi")
        talk = Typing(w.session, capsys)

        assert await talk.enter("/tasks") == ["nothing has run in the background"]
        lines = await talk.enter(f"/fork {LEAD}Part 1. / {LEAD}Part 2.")
        assert [line.split()[:2] for line in lines] == [["fork-1,", "fork-2"]]
        await w.parts.tasks.wait_ended("fork-1")
        lines = await talk.enter("/tasks")
        assert lines[0].startswith("fork-1  completed  Do what follows")
        assert lines[1].startswith("fork-2  running")
        await talk.enter("/stop fork-2")
        await w.session.wait_settled()
        await talk.enter("/tell fork-1 And now?")
        await w.session.wait_settled()
        assert "fork-2  killed" in (await talk.enter("/tasks"))[1]
        lines = await talk.enter("/receipt")
        assert sum(line.startswith("fork-") for line in lines) == 2
        assert "read" in "\n".join(lines)
        assert max(map(len, lines)) <= 80
        for line in ("/tell fork-1", "/stop", "/fork  "):
            assert (await talk.enter(line))[0].startswith("say w")
        assert "no such receipt" in (await talk.enter("/receipt x"))[0]
        assert "Too late" in (await talk.enter("/stop fork-1"))[0]


@pytest.mark.spec("F21", "W1")
async def test_forks_by_hand_in_worktrees(
    world: Worlds, capsys: pytest.CaptureFixture[str]
) -> None:
    """/fork --worktree gives each fork a working copy; the flag is no part of what it is told."""
    write = call("Write", {"file_path": "b.txt", "content": "made\n"})
    parts = {"Part 1.": [write, report("one")], "Part 2.": [report("two")]}
    async with world(
        Script([say("Hello.")], parts, forever=say("ok")), mode="bypassPermissions"
    ) as w:
        repo = Repo(w.root)
        repo.git("init", "-q")
        await w.session.run("Hi")
        talk = Typing(w.session, capsys)
        await talk.enter(f"/fork --worktree {LEAD}Part 1. / {LEAD}Part 2.")
        await w.session.wait_settled()

        one, two = w.parts.supervisor.children
        assert one.spec.worktree is not None
        assert (Path(one.spec.worktree.path) / "b.txt").read_text() == "made\n"
        assert not (w.root / "b.txt").exists()
        assert two.spec.worktree is None, "nothing was done there"
        assert "--worktree" not in str(w.bodies())
        assert "say what" in (await talk.enter("/fork --worktree"))[0]


@pytest.mark.spec("F21", "X1")
async def test_a_mistyped_flag_of_fork_starts_nothing(
    world: Worlds, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named with the one that was meant; behind `--` any text is the fork's."""
    script = Script([say("Hello.")], {"--workree": [report("one")]}, forever=say("ok"))
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Hi")
        talk = Typing(w.session, capsys)
        for slip, meant in (("--workree", "--worktree"), ("--remot:box", "--remote")):
            said = (await talk.enter(f"/fork {slip} change it"))[0]
            assert f"no option {slip}; did you mean {meant}?" in said
        assert "--worktree and --remote[:NAME]" in (await talk.enter("/fork --bogus x"))[0]
        assert not w.parts.supervisor.children

        await talk.enter(f"/fork -- --workree {LEAD}change it")
        await w.session.wait_settled()
        assert len(w.parts.supervisor.children) == 1
        assert f"--workree {LEAD}change it" in str(w.bodies())
        assert "-- --workree" not in str(w.bodies())


@pytest.mark.spec("F16", "X1")
async def test_a_fan_out_takes_a_line_for_each_and_one_for_all(
    world: Worlds, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three forks by hand: one line at their start, one each with result and receipt, one sum."""
    played = Script(
        [say("Hello.")],
        {part: [report(f"word {part[5]}")] for part in PARTS},
        forever=say("ok"),
    )
    async with world(played, mode="bypassPermissions") as w:
        await w.session.run("Hi")
        talk = Talk(w.session, Terminal(), w.session.events(since=None))
        await talk._carrier.obey("/fork Part 1. / Part 2. / Part 3.")
        await w.session.wait_settled()
        for envelope in talk._events.drain():
            if envelope.agent != "main":
                talk._take_in(envelope)
        lines = capsys.readouterr().out.splitlines()

    assert lines[0] == "fork-1, fork-2, fork-3 work in the background; /tell ID TEXT reaches one"
    assert [line.partition(" · ")[0] for line in sorted(lines[1:4])] == [
        f"fork-{number} completed: word {number}" for number in (1, 2, 3)
    ]
    assert all("tokens cached, $0.0" in line for line in lines[1:4])
    assert lines[4].startswith("3 forks: $0.0")
    assert "saved $0.0" in lines[4]
    assert len(lines) == 5


@pytest.mark.spec("X1")
async def test_a_long_report_is_shown_whole_on_demand(
    world: Worlds, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first lines stand under its task, and /report gives all of them."""
    told = "\n".join(f"line {number}" for number in range(9))
    played = Script([say("Hello.")], {"Part 1.": [report(told)]}, forever=say("ok"))
    async with world(played, mode="bypassPermissions") as w:
        await w.session.run("Hi")
        talk = Typing(w.session, capsys)
        await talk.enter("/fork Part 1.")
        await w.session.wait_settled()
        assert await talk.enter("/report fork-1") == told.splitlines()
        assert (await talk.enter("/report nobody"))[0].startswith("there is no agent 'nobody'")


@pytest.mark.spec("X2")
async def test_what_stands_in_for_an_outcome_is_not_shown(world: Worlds, program: Program) -> None:
    """Line by line a dispatched fork has its own lines; the placeholder is for the model alone."""
    async with world(script(), opens=False) as w:
        done = await program.run(w, "--permission-mode", "bypassPermissions", stdin=b"Go\n/quit\n")
        told = done.stdout.decode()
    assert told.count(" started: ") == 3
    assert "Dispatched" not in told
