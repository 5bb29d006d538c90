"""Typed children: their first prompt, their tools, their leave, and who waits."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from prong.command import Background, Interrupt, Refused, Stop
from prong.event import TaskFinished
from prong.team import by_hand
from prong.testing import Clock, Script, Step, call, delay, inside, say, world
from shared.typed import agent, of, result

pytestmark = pytest.mark.anyio


@pytest.mark.spec("T1", "S8", "S1")
async def test_a_foreground_child_gives_its_last_reply_back():
    """The parent waits; the child saw its brief alone, and its end is told with its figures."""
    script = Script(
        [agent("BRIEF: find x", "general-purpose", name="finder"), say("Done.")],
        {"BRIEF": [call("Grep", {"pattern": "x"}), say("x is in a.py:1")]},
    )
    async with world(script, files={"a.py": "x = 1\n", "AGENTS.md": "Be kind."}) as w:
        turn = await w.session.run("SECRET of the user")
        first = of(w, "BRIEF")[0]

        assert turn.text == "Done."
        assert "x is in a.py:1" in result(w)
        assert "[agent finder (general-purpose): completed; 1 tool uses, " in result(w)
        assert len(first["messages"]) == 1
        assert "SECRET" not in str(first)
        assert "You are Prong" not in str(first["system"])
        assert str(w.root) in first["system"][1]["text"]
        assert "Be kind." in str(first["system"])


@pytest.mark.spec("S2")
async def test_explore_only_reads_and_leaves_instructions_out():
    """Explore has no tool that writes, no Agent, no instructions, and the model set for it."""
    script = Script([agent("BRIEF", "Explore"), say("Done.")], {"BRIEF": [say("Found.")]})
    settings = '{"exploreModel": "claude-haiku-5-5"}'
    async with world(script, files={"AGENTS.md": "Be kind."}, settings=settings) as w:
        await w.session.run("Go")
        (body,) = of(w, "BRIEF")
        names = {tool["name"] for tool in body["tools"]}

        assert body["model"] == "claude-haiku-5-5"
        assert names & {"Write", "Edit", "NotebookEdit", "Agent", "AskUserQuestion"} == set()
        assert {"Read", "Grep", "Glob", "Bash"} <= names
        assert "Be kind." not in str(body["system"])


@pytest.mark.spec("S5")
async def test_unknown_and_denied_types_are_different_errors():
    """An unknown type lists the known ones; a denied one names the rule."""
    script = [agent("x", "Nobody"), agent("x", "Explore"), agent("x"), say("Done.")]
    deny = ("Agent(Explore)", "Agent(general-purpose)")
    async with world(script, deny=deny) as w:
        await w.session.run("Go")

        unknown, denied, default = result(w, 1), result(w, 2), result(w, 3)
        assert "there is no agent type 'Nobody'" in unknown
        assert "Explore, Plan, general-purpose, worker" in unknown
        assert "Agent(Explore) is forbidden by" in denied
        assert "Agent(general-purpose) is forbidden by" in default


@pytest.mark.spec("S6")
async def test_a_childs_mode_is_never_wider_than_the_trees():
    """A type that bypasses permissions writes nothing that the session would have asked for."""
    types = '{"bold": {"description": "d", "prompt": "p", "permissionMode": "bypassPermissions"}}'
    script = Script(
        [agent("BRIEF", "bold"), say("Done.")],
        {"BRIEF": [call("Write", {"file_path": "new.txt", "content": "x"}), say("Tried.")]},
    )
    async with world(script, agents=types) as w:
        await w.session.run("Go")

        assert not (w.root / "new.txt").exists()
        assert "needs permission" in str(of(w, "BRIEF")[-1]["messages"][-1])


@pytest.mark.spec("S6")
async def test_a_childs_mode_may_be_stricter():
    """A type in plan mode does not write though the session may."""
    types = '{"timid": {"description": "d", "prompt": "p", "permissionMode": "plan"}}'
    script = Script(
        [agent("BRIEF", "timid", run_in_background=False), say("Done.")],
        {"BRIEF": [call("Write", {"file_path": "new.txt", "content": "x"}), say("Tried.")]},
    )
    async with world(script, agents=types, mode="acceptEdits") as w:
        await w.session.run("Go")

        assert not (w.root / "new.txt").exists()


@pytest.mark.spec("S10")
async def test_agents_nest_three_deep_and_no_deeper():
    """The third agent below the main one cannot start a fourth."""
    script = Script(
        [agent("ONE", "worker"), say("Done.")],
        {
            "ONE": [agent("TWO", "worker"), say("1")],
            "TWO": [agent("THREE", "worker"), say("2")],
            "THREE": [agent("FOUR", "worker"), say("3")],
        },
    )
    async with world(script) as w:
        await w.session.run("Go")

        assert "nested 3 deep already" in str(of(w, "THREE")[-1]["messages"][-1])
        assert of(w, "FOUR") == []


@pytest.mark.spec("S7")
async def test_a_type_may_start_only_the_types_it_names():
    """`Agent(worker)` in a type's tools refuses every other type, and lists only that one."""
    types = '{"lead": {"description": "d", "prompt": "p", "tools": "Read, Agent(worker)"}}'
    script = Script(
        [agent("BRIEF", "lead"), say("Done.")],
        {"BRIEF": [agent("SUB", "Explore"), agent("SUB", "worker"), say("1")], "SUB": [say("2")]},
    )
    async with world(script, agents=types) as w:
        await w.session.run("Go")
        bodies = of(w, "BRIEF")
        about = next(t["description"] for t in bodies[0]["tools"] if t["name"] == "Agent")

        assert "not permitted here" in str(bodies[1]["messages"][-1])
        assert "- worker:" in about
        assert "- Explore:" not in about
        assert len(of(w, "SUB")) == 1


@pytest.mark.spec("S8")
async def test_a_name_means_one_task():
    """A name that an agent or a command has is refused; no other is given in its place."""
    command = {"command": "true", "run_in_background": True}
    script = Script(
        [
            call("Bash", command),
            agent("BRIEF", "worker", name="bob"),
            agent("BRIEF", "worker", name="bob"),
            agent("BRIEF", "worker", name="task-1"),
        ],
        {"BRIEF": [say("Bob is done.")]},
        forever=say("Heard."),
    )
    async with world(script, allow=("Bash",)) as w:
        await w.session.run("Go")

        told = [str(body["messages"]) for body in w.bodies()][-1]
        assert "'bob' is taken already; choose another name" in told
        assert "'task-1' is taken already; choose another name" in told
        assert [one.spec.task_id for one in inside(w.session).supervisor.children] == ["bob"]


@pytest.mark.spec("T2")
async def test_a_background_child_reports_by_notice():
    """The parent gets id and output file at once; the report comes as a notice."""
    script = Script(
        [agent("BRIEF", "worker", run_in_background=True, name="bob"), say("Going on.")],
        {"BRIEF": [say("Bob is done.")]},
        forever=say("Heard."),
    )
    async with world(script) as w:
        turn = await w.session.run("Go")
        told = result(w, 1)

        assert "bob works in the background" in told
        assert "Output file: " in told
        assert turn.text == "Heard."
        assert "Bob is done." in str(w.bodies()[-1]["messages"][-1])
        path = told.split("Output file: ")[1].split()[0]
        assert "Bob is done." in (await anyio.Path(path).read_text())


@pytest.mark.spec("T5")
async def test_a_child_that_takes_long_goes_on_in_the_background():
    """After the time set the parent goes on; nothing restarts, and one notice brings the rest."""
    script = Script(
        [agent("BRIEF", "worker"), say("Going on.")],
        {"BRIEF": [call("Glob", {"pattern": "*"}), delay(0.4, then=say("Late."))]},
        forever=say("Heard."),
    )
    clock = Clock()
    async with world(script, clock=clock, settings='{"foregroundSeconds": 0.1}') as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            # Both have asked twice: the parent has gone on, and the child still works.
            while len(w.server.records) < 4 or not clock.sleepers:
                await anyio.sleep(0.01)
            clock.advance(0.4)

        assert "goes on in the background" in result(w, 1)
        assert w.session.last is not None
        assert w.session.last.text == "Heard."
        assert len(of(w, "BRIEF")) == 2
        assert str(w.bodies()[-1]).count("<task-notification>") == 1
        assert "Late." in str(w.bodies()[-1]["messages"][-1])


@pytest.mark.spec("T5")
async def test_a_child_is_sent_to_the_background_by_a_call():
    """`to_background` ends the wait and not the work."""
    script = Script(
        [agent("BRIEF", "worker", name="bob"), say("Going on.")],
        {"BRIEF": [delay(0.3, then=say("Late."))]},
        forever=say("Heard."),
    )
    clock = Clock()
    async with world(script, clock=clock) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            while isinstance(await w.session.send(Background("bob")), Refused):
                await anyio.sleep(0.01)
            while len(w.server.records) < 3 or not clock.sleepers:
                await anyio.sleep(0.01)
            clock.advance(0.3)

        assert "bob goes on in the background" in result(w, 1)
        assert len(of(w, "BRIEF")) == 1
        assert "Late." in str(w.bodies()[-1]["messages"][-1])


@pytest.mark.spec("T1")
async def test_an_interrupt_stops_the_child_that_is_waited_for_and_no_other():
    """The parent's interrupt ends its wait and that child; background work goes on."""
    script = Script(
        [
            agent("QUIET", "worker", run_in_background=True, name="quiet"),
            agent("BRIEF", "worker", name="loud"),
            say("Heard."),
        ],
        {"BRIEF": [delay(30.0)], "QUIET": [delay(0.6, then=say("Quiet is done."))]},
        forever=say("Heard."),
    )
    async with world(script) as w:
        session = w.session
        async with anyio.create_task_group() as group:
            group.start_soon(session.run, "Go")
            while not of(w, "BRIEF"):
                await anyio.sleep(0.01)
            await session.send(Interrupt())
        loud, quiet = (
            inside(session).supervisor.child("loud"),
            inside(session).supervisor.child("quiet"),
        )
        assert loud is not None
        assert quiet is not None

        assert loud.status == "killed"
        await by_hand.wait(inside(session).supervisor, [quiet])
        assert quiet.status == "completed"
        assert inside(session).tasks.running() == 0


@pytest.mark.spec("T6", "T8")
async def test_stopping_an_agent_stops_what_it_started():
    """A stopped agent's background command dies with it, and what it said is kept."""
    command = {"command": "sleep 77", "run_in_background": True}
    script = Script(
        [agent("BRIEF", "worker", run_in_background=True, name="bob"), say("Going on.")],
        {"BRIEF": [say("I begin.", then=call("Bash", command)), say("I wait.")]},
        forever=say("Heard."),
    )
    async with world(script, allow=("Bash",), settings='{"fork": {"enabled": false}}') as w:
        session = w.session
        await session.run("Go", wait_tasks=False)
        while inside(session).tasks.running("main/bob") == 0:
            await anyio.sleep(0.01)
        child = inside(session).supervisor.child("bob")
        assert child is not None
        while len(of(w, "BRIEF")) < 2 or child.text != "I wait.":
            await anyio.sleep(0.01)

        assert child.status == "running"
        await session.send(Stop("bob"))

        assert child.status == "killed"
        assert inside(session).tasks.running() == 0
        await session.wait_settled()
        last = str(w.bodies()[-1]["messages"][-1])
        assert "<status>killed</status>" in last
        assert "I wait." in last


@pytest.mark.spec("T2", "T6")
async def test_tools_look_after_agents():
    """TaskOutput tells what an agent has said so far and waits; TaskStop ends it for good."""
    script = Script(
        [
            agent("BRIEF", "worker", run_in_background=True, name="bob"),
            delay(1.0, then=call("TaskOutput", {"task_id": "bob", "block": True, "timeout": 600})),
            call("TaskStop", {"task_id": "bob"}),
            call("TaskOutput", {"task_id": "bob"}),
            call("TaskStop", {"task_id": "bob"}),
            call("TaskStop", {"task_id": "nobody"}),
            say("Heard."),
        ],
        {"BRIEF": [say("I begin.", then=call("Glob", {"pattern": "*"})), delay(30.0)]},
        forever=say("Heard."),
    )
    clock = Clock()
    async with world(script, clock=clock, files={"a.py": ""}) as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            # It is asked about once it has begun and gone on.
            while clock.sleepers < 2:
                await anyio.sleep(0.01)
            clock.advance(1.0)
        told = [result(w, number) for number in range(2, 7)]
        child = w.parts.supervisor.child("bob")
        assert child is not None

        assert told[0].startswith("bob is running. Output file: ")
        assert "I begin." in told[0]
        assert "* " in told[0], "what it does is told as well as what it says"
        assert "bob and everything it started was stopped" in told[1]
        assert "was stopped" in told[2]
        assert "I begin." not in told[2], "TaskOutput gives what is new"
        assert told[3].startswith("Too late.")
        assert "no task 'nobody'" in told[4]
        assert child.status == "killed"
        # The notice is the only other word of it.
        assert str(w.bodies()[-1]).count("<status>killed</status>") == 1
        assert "I begin." in Path(told[0].split("Output file: ")[1].split()[0]).read_text()


@pytest.mark.spec("T2")
async def test_the_output_of_a_running_agent_can_be_followed():
    """The output file holds each reply and each step as soon as they are there."""
    script = Script(
        [agent("BRIEF", "worker", run_in_background=True, name="bob"), say("Going on.")],
        {"BRIEF": [say("I begin.", then=call("Glob", {"pattern": "*.py"})), delay(30.0)]},
        forever=say("Heard."),
    )
    async with world(script, files={"a.py": ""}) as w:
        await w.session.run("Go", wait_tasks=False)
        path = anyio.Path(result(w, 1).split("Output file: ")[1].split()[0])
        with anyio.fail_after(50):
            while len(of(w, "BRIEF")) < 2:
                await anyio.sleep(0.01)

        assert w.parts.tasks.runs("bob")
        shown = (await path.read_text()).splitlines()
        assert shown[0] == "I begin."
        assert shown[1].startswith("* ")
        await w.session.send(Stop("bob"))


@pytest.mark.spec("T8")
async def test_a_child_is_not_done_before_its_commands_are():
    """It is woken by the end of its own background command and reports after that."""
    line = "until [ -e go ]; do sleep 0.02; done; echo over"
    command = {"command": line, "run_in_background": True}
    script = Script(
        [agent("BRIEF", "worker"), say("Done.")],
        {"BRIEF": [call("Bash", command), say("I wait."), say("It is over.")]},
    )
    async with world(script, allow=("Bash",), settings='{"fork": {"enabled": false}}') as w:
        async with anyio.create_task_group() as group:
            group.start_soon(w.session.run, "Go")
            while len(of(w, "BRIEF")) < 2:
                await anyio.sleep(0.01)
            (w.root / "go").touch()

        assert "It is over." in result(w)
        assert "<task-notification>" in str(of(w, "BRIEF")[-1]["messages"][-1])
        assert "TaskStop" not in str(of(w, "BRIEF")), "it is told of no tool that it lacks"


@pytest.mark.spec("T7")
async def test_a_finished_child_goes_on_by_message_after_a_restart_too():
    """A message continues a typed child's own prompt, in this process and in the next.

    Each notice tells what its own run took.
    """
    look = call("Glob", {"pattern": "*"})
    script = Script(
        [agent("BRIEF", "worker", name="bob"), say("Done.")],
        {"BRIEF": [look, say("First."), look, say("Second."), look, say("Third.")]},
        forever=say("Heard."),
    )
    async with world(script, opens=False) as w:
        async with w.open() as session:
            await session.run("Go")
            await session.say("And now?", to="bob")
            await session.wait_settled()
            name = session.id
        async with w.open(resume=name) as session:
            await session.say("And then?", to="bob")
            await session.wait_settled()
        bodies = of(w, "BRIEF")

        assert len(bodies) == 6
        assert "First." in str(bodies[5]["messages"][3])
        for number, runs in ((2, bodies[2:4]), (3, bodies[4:6])):
            records = [r for r in w.server.records if r.json in runs]
            tokens = sum(r.usage.input + r.usage.output for r in records)
            *_, told = str(w.bodies()[-1]["messages"]).split(f"<run>{number}</run>")
            usage = told.partition("<usage>")[2]
            assert usage.startswith(f"<tokens>{tokens}</tokens><tool-uses>1</tool-uses><duration")
        assert "Third." in str(w.bodies()[-1]["messages"][-1])
        assert [e.status for e in w.told(TaskFinished)] == ["completed"] * 3


@pytest.mark.spec("T11")
async def test_old_children_are_let_go_and_read_again():
    """Only the last finished children stay in memory; an older one is woken from the journal."""
    count = 70
    steps = [
        Step(tuple(agent("BRIEF", "worker", name=f"w{n}").parts[0] for n in range(a, a + 10)))
        for a in range(0, count, 10)
    ]
    script = Script([*steps, say("Done.")], {}, forever=say("Ready."))
    async with world(script, moves_prefix="many children share one brief") as w:
        session = w.session
        await session.run("Go")

        assert len(inside(session).supervisor.children) < count
        assert len(session.receipts()) == count
        # Whoever ended first, of the first ten.
        supervisor = inside(session).supervisor
        old = next(f"w{n}" for n in range(10) if supervisor.child(f"w{n}") is None)

        await session.say("Once more.", to=old)
        await session.wait_settled()

        assert supervisor.child(old) is not None


@pytest.mark.spec("S2")
@pytest.mark.parametrize("kind", ["Explore", "Plan"])
@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
async def test_agents_that_only_read_cannot_write(kind: str, mode: str):
    """Whatever the tree may do, their shell runs only what is proven to read."""
    child = [
        call("Bash", {"command": "touch x; rm a.txt"}),
        call("Bash", {"command": "cat a.txt"}),
        say("Done."),
    ]
    script = Script([agent("BRIEF", kind), say("Done.")], {"BRIEF": child})
    async with world(script, files={"a.txt": "alpha\n"}, mode=mode) as w:
        await w.session.run("Go")
        await w.session.wait_settled()
        bodies = [str(body["messages"][-1]) for body in of(w, "BRIEF")]

        assert "agents of your type only read" in bodies[1]
        assert "alpha" in bodies[2]
        assert sorted(path.name for path in w.root.iterdir()) == ["a.txt"]


@pytest.mark.spec("S9", "L3")
async def test_a_child_works_from_its_parents_record_of_reads():
    """What its parent read a child may edit by exact text, but not replace unseen."""
    write = call("Write", {"file_path": "a.py", "content": "all new\n"})
    edit = call("Edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"})
    script = Script(
        [call("Read", {"file_path": "a.py"}), agent("BRIEF", "general-purpose"), say("Done.")],
        {"BRIEF": [write, edit, say("Edited.")]},
    )
    files = {"a.py": "x = 1\n"}
    async with world(script, files=files, mode="bypassPermissions") as w:
        await w.session.run("Go")
        last = str(of(w, "BRIEF")[-1]["messages"])

        assert "a.py has not been read yet" in last
        assert "edited a.py: 1 replacement" in last
        assert (w.root / "a.py").read_text() == "x = 2\n"
        child = w.parts.supervisor.children[0].agent.context.reads
        assert child.hashes != w.parts.agent.context.reads.hashes
