"""The coordinator's session: what it may use, what its workers are, and that it stays so."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from prong.errors import UsageError
from prong.event import TaskFinished, TaskStarted, ToolFinished, Warned
from prong.provider.api import LINEAGE
from prong.testing import Request, Script, Step, World, Worlds, call, calls, inside, refuse, say

pytestmark = pytest.mark.anyio

HOOK = '{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"%s"}]}]}}'
ALLOW = (
    'echo \'{\\"hookSpecificOutput\\":{\\"hookEventName\\":\\"PreToolUse\\",'
    '\\"permissionDecision\\":\\"allow\\"}}\''
)


def worker(prompt: str, **more: object):
    return ("Agent", {"description": "a part", "prompt": prompt, **more})


@pytest.mark.spec("C1")
@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
async def test_exactly_its_tools(world: Worlds, api: str) -> None:
    """The coordinator is offered three tools, and no other runs, whatever a hook says."""
    script = [
        calls(("Bash", {"command": "touch made"}), ("Write", {"file_path": "x", "content": "y"})),
        call("EnterPlanMode"),
        say("I see."),
    ]
    settings = HOOK % ALLOW
    async with world(
        script, api=api, coordinator=True, mode="bypassPermissions", settings=settings
    ) as w:
        await w.session.run("Go")
        assert w.started.tools == ("Agent", "SendMessage", "TaskStop")
        assert [e.failed for e in w.told(ToolFinished)] == [True] * 3
        assert list(w.root.iterdir()) == []
        assert "never uses Bash" in w.server.records[1].body.decode()


@pytest.mark.spec("C1")
async def test_one_who_insists_is_stopped(world: Worlds) -> None:
    """Three identical calls of a closed tool end the turn."""
    script = Script(forever=call("Bash", {"command": "ls"}))
    async with world(script, coordinator=True) as w:
        turn = await w.session.run("Go")
        assert turn.why == "error"
        assert "closed to it" in turn.detail


@pytest.mark.spec("C1", "F2")
async def test_forks_are_off(world: Worlds) -> None:
    """Forks are refused by name and by hand; another type than worker is refused too."""
    script = [
        calls(worker("x", subagent_type="fork"), worker("x", subagent_type="Explore")),
        say("I see."),
    ]
    async with world(script, coordinator=True, mode="bypassPermissions") as w:
        await w.session.run("Go")
        told = w.server.records[1].body.decode()
        assert "forks are off: a coordinator" in told
        assert "the types are: worker" in told
        with pytest.raises(UsageError, match="forks are off"):
            await w.session.fork(["x"])


@pytest.mark.spec("C3")
@pytest.mark.parametrize(
    ("tools", "has"),
    [
        ("simple", ["Read", "Edit", "Bash"]),
        (
            "full",
            [
                "Read",
                "Write",
                "Edit",
                "NotebookEdit",
                "Glob",
                "Grep",
                "Bash",
                "TodoWrite",
                "WebFetch",
            ],
        ),
    ],
)
async def test_workers(world: Worlds, tools: str, has: list[str]) -> None:
    """Workers start from nothing in the background with the tools that the coordinator is told."""
    routes = {"Look at it.": [say("Scope: it")]}
    script = Script([calls(worker("Look at it.")), say("One looks."), say("Seen.")], routes=routes)
    async with world(script, coordinator=True, worker_tools=tools) as w:
        await w.session.run("Secret of the user")
        child = next(r for r in w.server.records if "Look at it." in r.request.last_text)
        assert [tool["name"] for tool in child.json["tools"]] == has
        assert "Secret of the user" not in child.body.decode()
        told = w.server.records[0].body.decode()
        assert f"Tools: {', '.join(sorted(has))}" in told
        pad = w.parts.agent.policy.policy.scratchpad
        assert pad in told
        assert pad in child.body.decode()
        assert [e.kind for e in w.told(TaskStarted)] == ["worker"]
        assert any("works in the background" in r.request.last_text for r in w.server.records)


@pytest.mark.spec("C7")
async def test_the_scratchpad(world: Worlds) -> None:
    """Workers share the scratchpad without questions, and nothing else by links or dots."""
    async with world(opens=False) as w, w.open(coordinator=True) as session:
        pad = inside(session).agent.policy.policy.scratchpad
        outside = pad.rpartition("/")[0]
        steps = [
            call("Write", {"file_path": f"{pad}/a.txt", "content": "one"}),
            call("Bash", {"command": f"mkdir {pad}/sub && cp {pad}/a.txt {pad}/sub/b.txt"}),
            call("Bash", {"command": f"echo two > {pad}/c.txt"}),
            call("Read", {"file_path": f"{pad}/sub/b.txt"}),
            call("Write", {"file_path": f"{pad}/../x.txt", "content": "no"}),
            call("Write", {"file_path": f"{pad}/link/x.txt", "content": "no"}),
            call("Bash", {"command": f"echo no > {pad}/link/y.txt"}),
            call("Bash", {"command": f"touch {pad}/../z.txt"}),
            call("Write", {"file_path": f"{outside}/outbox.jsonl", "content": "no"}),
            say("Done."),
        ]
        (w.root / "sub").mkdir()
        Path(pad, "link").symlink_to(w.root / "sub")
        w.server.service.player.push(
            [calls(worker("Use the pad.")), say("Started."), say("Seen.")],
            {"Use the pad.": steps},
        )
        await session.run("Go")
        ended = [e for e in w.told(ToolFinished) if e.name != "Agent"]
        failed = [e.failed for e in ended]
        assert failed == [False] * 4 + [True] * 5, [e.text for e in ended]
        assert list((w.root / "sub").iterdir()) == []
        assert list(Path(outside).glob("*.txt")) == []


@pytest.mark.spec("C4")
async def test_writers_of_one_file_take_turns(world: Worlds) -> None:
    """Two workers on one file work one after another, and the coordinator is told of it."""

    def append(word: str):
        wait = "until [ -e go ]; do sleep 0.02; done"
        code = f"{wait}; printf '{word} ' >> shared.txt; sleep 0.2; echo {word} >> shared.txt"
        return [call("Bash", {"command": code}), say(f"Wrote {word}.")]

    routes = {"Do one.": append("one"), "Do two.": append("two"), "Do three.": append("three")}
    started = calls(
        worker("Do one.", name="first", files=["shared.txt"]),
        worker("Do two.", name="second", files=["*.txt"]),
        worker("Do three.", name="third", files=["other"]),
    )
    script = Script([started, say("Started.")], routes=routes, forever=say("Noted."))
    async with world(script, coordinator=True, mode="bypassPermissions") as w:
        # Whoever writes first is still at it when the others are started.
        await w.session.run("Go", wait_tasks=False)
        w.write("go", "")
        await w.session.wait_settled()
        assert (w.root / "shared.txt").read_text() == "one one\ntwo two\n"
        told = w.server.records
        results = next(r for r in told if "works in the background" in r.request.last_text)
        body = results.body.decode()
        assert body.count("has not begun yet") == 1
        assert "overlap those of first" in body
        refused = [e for e in w.told(ToolFinished) if e.failed]
        assert len(refused) == 1
        assert "not among the files that are yours" in refused[0].text


@pytest.mark.spec("C4")
async def test_what_is_no_set_of_files_is_said(world: Worlds) -> None:
    """Files outside of the project or beside a worktree are refused, and no worker starts."""
    both = worker("x", files=["a"], isolation="worktree")
    script = [calls(worker("x", files=["../elsewhere"]), both), say("I see.")]
    async with world(script, coordinator=True) as w:
        await w.session.run("Go")
        assert "is not in" in w.server.records[1].body.decode()
        assert "leave out either it or" in w.server.records[1].body.decode()
        assert not w.told(TaskStarted)


@pytest.mark.spec("C3")
async def test_resumed(world: Worlds) -> None:
    """A resumed coordinator is one without the flag, and goes on with workers by SendMessage."""
    routes = {
        "Do one.": [call("Bash", {"command": "echo 1 >> one.txt"}), say("Did one.")],
        "Again.": [call("Bash", {"command": "echo 2 >> one.txt"}), say("Did two.")],
    }
    steps = [
        calls(worker("Do one.", name="w1", files=["one.txt"])),
        say("Started."),
        say("Done."),
        calls(("SendMessage", {"to": "w1", "message": "Again."}), ("Bash", {"command": "ls"})),
        say("Told."),
        say("Done."),
    ]
    async with world(Script(steps, routes=routes), opens=False, mode="bypassPermissions") as w:
        async with w.open(coordinator=True) as session:
            await session.run("Go")
        async with w.open(continue_last=True) as session:
            assert (await session.run("Once more")).text == "Done."
            assert w.started.tools == ("Agent", "SendMessage", "TaskStop")
        assert (w.root / "one.txt").read_text() == "1\n2\n"
        failed = [e.name for e in w.told(ToolFinished) if e.failed]
        assert failed == ["Bash"]
        assert not [e for e in w.told(Warned) if "tools have changed" in e.text]


def send(to: str, text: str):
    return call("SendMessage", {"to": to, "message": text})


@pytest.mark.spec("C5")
async def test_messages_reach_a_running_a_stopped_and_a_failed_worker(world: Worlds) -> None:
    """A running worker reads it at its next step; a stopped or failed one goes on with it."""
    wait = call("Bash", {"command": "until [ -e go ]; do sleep 0.02; done"})
    mine = {
        "Go": calls(worker("Begin.", name="w1", files=["a.txt"])),
        "Blue please": send("w1", "Do it in blue."),
        "Stop it": call("TaskStop", {"task_id": "w1"}),
        "Red please": send("w1", "Now in red."),
        "Green please": send("w1", "And in green."),
    }
    steps = [
        wait,
        call("Bash", {"command": "sleep 600"}),
        call("Bash", {"command": "echo red >> a.txt"}),
        refuse("No."),
        call("Bash", {"command": "echo green >> a.txt"}),
        say("Did green."),
    ]

    def model(request: Request) -> Step:
        if request.headers[LINEAGE] == "main":
            return mine.get(request.last_text, say("Noted."))
        return steps.pop(0)

    async with world(model, coordinator=True, mode="bypassPermissions") as w:
        await w.session.run("Go", wait_tasks=False)
        await w.session.run("Blue please", wait_tasks=False)
        (w.root / "go").touch()
        while len(own := sent_by(w, "main/w1")) < 2:
            await anyio.sleep(0.01)
        assert "Do it in blue." in own[1].body.decode()
        for said in ("Stop it", "Red please", "Green please"):
            await w.session.run(said)
        assert (w.root / "a.txt").read_text() == "red\ngreen\n"
        statuses = [e.status for e in w.told(TaskFinished)]
        assert statuses == ["killed", "failed", "completed"]
        assert steps == []


@pytest.mark.spec("C4", "C5")
async def test_workers_go_on_after_a_resume(world: Worlds) -> None:
    """Workers that ended with the session go on by messages, still one after another."""
    mine = {
        "Go": calls(
            worker("One.", name="w1", files=["a.txt"]), worker("Two.", name="w2", files=["a.txt"])
        ),
        "Go on": calls(
            ("SendMessage", {"to": "w1", "message": "Now."}),
            ("SendMessage", {"to": "w2", "message": "Now."}),
        ),
    }

    def model(request: Request) -> Step:
        path, text = request.headers[LINEAGE], request.last_text
        if path == "main":
            return mine.get(text, say("Noted."))
        name = path[-2:]
        code = f"until [ -e go ]; do sleep 0.02; done; sleep 0.1; echo {name} >> a.txt; echo wrote"
        return say("Did it.") if "wrote" in text else call("Bash", {"command": code})

    async with world(model, opens=False, mode="bypassPermissions") as w:
        async with w.open(coordinator=True) as session:
            await session.run("Go", wait_tasks=False)
            while not sent_by(w, "main/w1"):
                await anyio.sleep(0.01)
            assert not sent_by(w, "main/w2")
        async with w.open(continue_last=True) as session:
            (w.root / "go").touch()
            await session.run("Go on")
        assert (w.root / "a.txt").read_text() == "w1\nw2\n"
        assert "overlap those of w1" in sent_by(w, "main")[-1].body.decode()


def sent_by(w: World, path: str):
    return [r for r in w.server.records if r.headers[LINEAGE] == path]


@pytest.mark.spec("C1")
async def test_what_makes_no_sense_is_refused(world: Worlds) -> None:
    """A session cannot become a coordinator's later, and has no answer by schema."""
    async with world([say("Hi.")], opens=False) as w:
        async with w.open() as session:
            await session.run("Hi")
        with pytest.raises(UsageError, match="was not begun by a coordinator"):
            async with w.open(continue_last=True, coordinator=True):
                pass
        with pytest.raises(UsageError, match="JSON schema"):
            async with w.open(coordinator=True, json_schema='{"type":"object"}'):
                pass
        with pytest.raises(UsageError, match="workerTools"):
            async with w.open(coordinator=True, worker_tools="most"):
                pass


@pytest.mark.spec("P2")
async def test_plan_mode_binds_workers(world: Worlds) -> None:
    """In plan mode workers only read, and the coordinator is told how it ends."""
    routes = {"Do it.": [call("Bash", {"command": "touch made"}), say("Could not.")]}
    script = Script([calls(worker("Do it.")), say("Started."), say("I see.")], routes=routes)
    async with world(script, coordinator=True, mode="plan", allow=("Bash",)) as w:
        await w.session.run("Go")
        assert not (w.root / "made").exists()
        assert "ends plan mode by changing" in w.server.records[0].body.decode()
