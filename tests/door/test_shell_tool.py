from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import msgspec
import pytest

from prong.entry import CallId, Text
from prong.event import MAIN, Event, TodosChanged, ToolOutput
from prong.host import LocalHost
from prong.question import Question
from prong.team.delivery import Delivery
from prong.team.outbox import Outbox
from prong.team.task import TaskBoard
from prong.team.taskset import TaskSet
from prong.tools.access import Running
from prong.tools.ask_user import AskUserQuestion
from prong.tools.background import TaskOutput, TaskStop
from prong.tools.derive import derive
from prong.tools.ground import Sandboxing
from prong.tools.kit import Kit
from prong.tools.policy import Policy
from prong.tools.shell import PART, Bash, BashArguments
from prong.tools.todo import TodoWrite
from prong.tools.tool import CallOutcome, Context, Done, Failed, Reads, Tool
from shared.outbox import notices_in
from shared.sandbox import kernel

pytestmark = [pytest.mark.anyio, pytest.mark.door]
CALL = CallId("call-1")


@dataclass
class World:
    context: Context
    board: TaskBoard
    outbox: Outbox
    events: list[Event]
    answers: list[str | None]
    asked: list[Question]

    async def call(self, tool: Tool, **arguments: object) -> CallOutcome:
        args = msgspec.convert(arguments, tool.arguments)
        return await tool.run(CALL, args, self.context)

    async def bash(self, command: str, **arguments: object) -> str:
        """Run a command that works and give what the model sees."""
        return text(await self.call(Bash(), command=command, **arguments))


@asynccontextmanager
async def world(folder: Path) -> AsyncGenerator[World]:
    root = folder / "root"
    root.mkdir()
    events: list[Event] = []
    answers: list[str | None] = []
    asked: list[Question] = []

    async def ask(questions: Sequence[Question]) -> str | None:
        asked.extend(questions)
        return answers.pop(0)

    storage = str(folder / "storage")
    with Outbox(f"{storage}/outbox") as outbox:
        async with anyio.create_task_group() as group:
            delivery = Delivery(outbox, events.append)
            board = TaskBoard(group=group, storage=storage, delivery=delivery)
            context = Context(
                host=LocalHost(str(root), storage=storage),
                reads=Reads(),
                emit=events.append,
                ask=ask,
                tasks=TaskSet(board, MAIN, events.append),
            )
            yield World(context, board, outbox, events, answers, asked)
            await board.close()


def text(outcome: CallOutcome) -> str:
    assert isinstance(outcome, Done), outcome
    return "".join(p.text for p in outcome.parts if isinstance(p, Text))


def why(outcome: CallOutcome) -> str:
    assert isinstance(outcome, Failed), outcome
    return outcome.why


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


async def pid_in(path: Path) -> int:
    with anyio.fail_after(40):
        while not (path.exists() and path.read_text().endswith("\n")):
            await anyio.sleep(0.01)
    return int(path.read_text())


@pytest.mark.spec("L2")
async def test_output_and_exit_code(tmp_path: Path) -> None:
    """Both streams come back in order; an exit code other than 0 is a failure that says so."""
    async with world(tmp_path) as w:
        assert await w.bash("echo a; echo b >&2; echo c") == "a\nb\nc"
        assert await w.bash("true") == "(no output)"
        assert why(await w.call(Bash(), command="echo bad; exit 7")) == "Exit code 7\nbad"
        assert why(await w.call(Bash(), command="false")) == "Exit code 1"
        assert "SIGKILL" in why(await w.call(Bash(), command="kill -9 $$"))
        assert "Exit code 127" in why(await w.call(Bash(), command="no-such-program-here"))
        assert "syntax error" in why(await w.call(Bash(), command="if then"))
        assert await w.bash("cat") == "(no output)"


@pytest.mark.parametrize(
    ("command", "code", "output"),
    [
        ("cd sub; cat <<'E'\n$x 'quoted' \"too\"\nE", 0, "$x 'quoted' \"too\""),
        ("cd sub; cat <<E\nlast line is the delimiter\nE", 0, "last line is the delimiter"),
        ("cd sub # a comment", 0, ""),
        ("cd sub; exit 3", 3, ""),
        ("set -eu; cd sub; false; echo no", 1, ""),
        ("set -o noclobber; cd sub; (exit 5)", 5, ""),
        ("cd sub; trap 'echo mine' EXIT", 0, "mine"),
        ("cd sub; (cd /; trap 'echo inner' EXIT); echo $?", 0, "inner\n0"),
        ("set -x; cd sub", 0, "+ cd sub"),
        ("cd sub && exec echo gone", 0, "gone"),
        ("pwd() { echo fake; }; cd sub; echo $LINENO\necho $LINENO", 0, "1\n2"),
        ("cd sub; kill -TERM $$", -15, ""),
        ("\ncd sub\n", 0, ""),
    ],
)
@pytest.mark.spec("L2")
async def test_following_the_folder_disturbs_nothing(
    tmp_path: Path, command: str, code: int, output: str
) -> None:
    """Exit codes, here-documents, traps and line numbers are as if the command stood alone."""
    async with world(tmp_path) as w:
        sub = tmp_path / "root" / "sub"
        sub.mkdir()
        outcome = await w.call(Bash(), command=command)

        said = text(outcome) if code == 0 else why(outcome)
        head = {0: "", -15: "Ended by signal SIGTERM"}.get(code, f"Exit code {code}")
        assert said == ("\n".join(s for s in (head, output) if s) or "(no output)")
        followed = "trap 'echo mine'" not in command and "exec" not in command
        assert w.context.cwd == (str(sub) if followed else "")


@pytest.mark.spec("L2")
async def test_cd_lasts_inside_the_project_only(tmp_path: Path) -> None:
    """The next command starts where the last ended, unless that is outside the root or gone."""
    async with world(tmp_path) as w:
        root = os.path.realpath(tmp_path / "root")
        odd = f"{root}/a b\n'c"
        assert (
            await w.bash(
                'mkdir -p "$D" && cd "$D" && ln -s /tmp out'.replace('"$D"', "$'a b\\n\\'c'")
            )
            == "(no output)"
        )
        assert w.context.cwd == odd
        assert await w.bash("pwd") == odd
        assert Bash().access(BashArguments(command="ls"), w.context) == (Running("ls", odd),)

        left = await w.bash("cd out; echo there")
        assert left.startswith("there\nThe shell ended in /tmp, outside the project")
        assert w.context.cwd == root

        assert await w.bash("mkdir gone; cd gone") == "(no output)"
        assert await w.bash("rmdir ../gone") == "(no output)"
        assert (await w.bash("pwd")).startswith(f"{root}\n{root}/gone is gone")
        assert not list(Path(w.context.host.storage.path).glob("*.cwd"))


@pytest.mark.spec("L2")
async def test_a_terminal_text_becomes_plain(tmp_path: Path) -> None:
    """Escapes, NUL, bad UTF-8 and rewritten lines do not reach the model."""
    async with world(tmp_path) as w:
        raw = r"\033[1;31mred\033[0m \033]0;title\007t\0u\n10%%\r50%%\r100%%\r\ncr\r\n\377é\033(B\n"
        assert await w.bash(f"printf '{raw}'") == "red tu\n100%\ncr\n\ufffdé"


@pytest.mark.spec("L2")
async def test_long_output_keeps_both_ends_and_a_file(tmp_path: Path) -> None:
    """The middle of a long output is left out, counted, and all of it is in a file."""
    async with world(tmp_path) as w:
        out = await w.bash("seq 1 100000")
        whole = "".join(f"{n}\n" for n in range(1, 100001))

        assert out.startswith(whole[:PART])
        assert out.endswith(whole[-PART:].rstrip("\n"))
        assert f"[{len(whole) - 2 * PART} characters left out here" in out
        (kept,) = Path(w.context.host.storage.path, "output").iterdir()
        assert str(kept) in out
        assert kept.read_text() == whole
        assert len(out) <= Bash().budget


@pytest.mark.spec("L2")
async def test_output_is_streamed(tmp_path: Path) -> None:
    """What is printed is seen while the command still runs, in few and small events."""
    async with world(tmp_path) as w:
        gate = tmp_path / "gate"
        seen = 0

        async def let_go() -> None:
            nonlocal seen
            while not (seen := len([e for e in w.events if isinstance(e, ToolOutput)])):
                await anyio.sleep(0.01)
            gate.touch()

        async with anyio.create_task_group() as group:
            group.start_soon(let_go)
            await w.bash(f"echo early; until test -e {gate}; do sleep 0.02; done; seq 100000")
        live = [e for e in w.events if isinstance(e, ToolOutput)]
        assert seen
        assert live[0].text.startswith("early")
        assert live[-1].text.endswith("100000\n")
        assert all(len(e.text) <= 2001 for e in live)


@pytest.mark.spec("L2")
async def test_a_command_that_never_ends_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the time limit everything it started is killed, and what it printed is returned."""
    async with world(tmp_path) as w:
        pids = [tmp_path / "outer", tmp_path / "inner"]
        command = f"echo begun; echo $$ >{pids[0]}; bash -c 'echo $$ >{pids[1]}; sleep 1000; :'; :"
        outcomes: list[CallOutcome] = []

        async def call() -> None:
            outcomes.append(await w.call(Bash(), command=command, timeout=300_000))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            for path in pids:
                await pid_in(path)
            # It has begun, and its time is up: that is the clock's affair, not the machine's.
            loop = asyncio.get_running_loop()
            now = loop.time
            monkeypatch.setattr(loop, "time", lambda: now() + 300)

        (outcome,) = outcomes
        assert why(outcome).startswith("begun\nStopped after 300 s")
        assert "run_in_background" in why(outcome)
        assert not [p for p in pids if alive(await pid_in(p))]


@pytest.mark.spec("L2")
async def test_a_flood_is_stopped(tmp_path: Path) -> None:
    """A command that prints without end is killed long before its time is up."""
    async with world(tmp_path) as w:
        outcome = await w.call(Bash(), command="yes")

        assert "printed more than 32 MB" in why(outcome)
        assert why(outcome).startswith("y\ny\n")
        assert len(why(outcome)) <= Bash().budget


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("sleep 1000 & echo $! >{pid}; echo on", True),
        ("nohup sleep 1000 >/dev/null 2>&1 & echo $! >{pid}; echo on", True),
        ("sleep 1000 >/dev/null 2>&1 & echo $! >{pid}; disown; echo on", False),
    ],
)
@pytest.mark.spec("L2")
async def test_what_is_left_running_is_killed(tmp_path: Path, command: str, told: bool) -> None:
    """`cmd &` neither holds up the call nor outlives it, and the model is told what to do instead."""
    async with world(tmp_path) as w:
        pid = tmp_path / "pid"
        out = await w.bash(command.format(pid=pid))

        assert out.startswith("on")
        assert ("run_in_background" in out) == told
        assert not alive(await pid_in(pid))


@pytest.mark.spec("L2")
async def test_cancelling_kills_the_group(tmp_path: Path) -> None:
    """When the turn is interrupted, the command and its children die before the call is left."""
    async with world(tmp_path) as w:
        pid = tmp_path / "pid"
        number = 0
        async with anyio.create_task_group() as group:
            group.start_soon(w.bash, f"bash -c 'echo $$ >{pid}; sleep 1000; :'; :")
            number = await pid_in(pid)
            group.cancel_scope.cancel()
        assert number
        assert not alive(number)
        assert not list(Path(w.context.host.storage.path).glob("*.cwd"))


@pytest.mark.spec("L2", "T2", "T3")
async def test_the_background_way(tmp_path: Path) -> None:
    """A background command returns at once, lasts as long as its jobs, and ends in a notice."""
    async with world(tmp_path) as w:
        gate = tmp_path / "gate"
        started = await w.bash(
            f"until test -e {gate}; do sleep 0.02; done && echo served &",
            run_in_background=True,
            description="serve things",
        )
        assert "task-1" in started
        assert "is running" in text(await w.call(TaskOutput(), task_id="task-1"))

        gate.touch()
        ended = text(await w.call(TaskOutput(), task_id="task-1", block=True))

        assert ended.startswith('Background command "serve things" completed (exit code 0)')
        assert ended.endswith("served")
        assert [n.status for n in notices_in(w.outbox.deliver("main"))] == ["completed"]


@pytest.mark.spec("T6")
async def test_stopping_by_tool(tmp_path: Path) -> None:
    """TaskStop ends a task; an id nobody knows is a failure in words."""
    async with world(tmp_path) as w:
        await w.bash("sleep 1000", run_in_background=True)
        assert "stopped" in text(await w.call(TaskStop(), task_id="task-1"))
        assert w.board.running() == 0
        assert "no task 'task-9'" in why(await w.call(TaskStop(), task_id="task-9"))
        assert "no task 'task-9'" in why(await w.call(TaskOutput(), task_id="task-9"))


@pytest.mark.spec("L2")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("  \n", "empty"),
        ("echo \0", "NUL"),
        ("echo \ud800", "Unicode"),
        ("x" * 3_000_000, "started"),
    ],
)
async def test_a_command_that_cannot_be_run(tmp_path: Path, command: str, reason: str) -> None:
    """What bash could never get is refused in words the model can act on."""
    async with world(tmp_path) as w:
        assert reason in why(await w.call(Bash(), command=command))
        assert reason in why(await w.call(Bash(), command=command, run_in_background=True))


@pytest.mark.spec("L2")
async def test_the_list_of_things_to_do(tmp_path: Path) -> None:
    """TodoWrite replaces the list and tells the faces."""
    async with world(tmp_path) as w:
        todos = [
            {"content": "a", "status": "completed"},
            {"content": "b", "status": "in_progress", "activeForm": "doing b"},
        ]
        assert text(await w.call(TodoWrite(), todos=todos)) == "The list is kept: 1 of 2 done."
        assert [t.active for t in w.context.todos] == ["", "doing b"]
        assert w.events == [TodosChanged(todos=w.context.todos)]
        assert "one at a time" in text(await w.call(TodoWrite(), todos=[todos[1], todos[1]]))
        with pytest.raises(msgspec.ValidationError):
            await w.call(TodoWrite(), todos=[{"content": "", "status": "pending"}])


@pytest.mark.spec("L2")
async def test_questions(tmp_path: Path) -> None:
    """Answers come back beside their questions; with nobody there the model is told to decide."""
    async with world(tmp_path) as w:
        options = [{"label": "yes"}, {"label": "no", "description": "not now"}]
        first = {"question": "Go?", "header": "go", "options": options, "multiSelect": True}
        second = {"question": "Sure?", "options": options}
        w.answers += ["yes", "yes\nno", None]

        assert text(await w.call(AskUserQuestion(), questions=[first])) == "The user answered: yes"
        both = text(await w.call(AskUserQuestion(), questions=[first, second]))
        assert both == "The user answered:\n- Go? yes\n- Sure? no"
        assert "Nobody is there" in why(await w.call(AskUserQuestion(), questions=[second]))
        assert (w.asked[0].multiple, w.asked[0].options[1].description) == (True, "not now")
        twins = {"question": "Same?", "options": [options[0], options[0]]}
        assert "same label" in why(await w.call(AskUserQuestion(), questions=[twins]))
        with pytest.raises(msgspec.ValidationError):
            await w.call(AskUserQuestion(), questions=[{"question": "?", "options": options[:1]}])


async def test_each_tool_is_described_to_the_model() -> None:
    """Every tool here has a text of its own and a schema with all of its arguments."""
    tools: list[Tool] = [Bash(), TodoWrite(), AskUserQuestion(), TaskOutput(), TaskStop()]

    for tool, spec in zip(tools, Kit(tools).specs(), strict=True):
        names = msgspec.json.decode(spec.schema)["properties"]
        assert list(names) == [f.encode_name for f in msgspec.structs.fields(tool.arguments)]
        assert spec.description


@kernel
async def test_a_task_that_cannot_be_kept_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there can be no file for its output, the command is ended and its temporary folder goes."""
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    async with world(tmp_path) as w:
        (tmp_path / "storage/tasks").write_text("in the way\n")
        host = w.context.host
        sandbox = Sandboxing(on=True, ability=host.ability)
        profile = derive(Policy(root=host.root, home=host.home, sandbox=sandbox), None, reads=True)
        args = BashArguments(command="sleep 1000", run_in_background=True)

        outcome = await Bash().run_in(CALL, args, w.context, profile)

        assert "The output file could not be made" in why(outcome)
        # Beside them there is only what is put over hidden files.
        assert not [one for one in temp.glob("prong-*/*") if one.name.isdigit()]
