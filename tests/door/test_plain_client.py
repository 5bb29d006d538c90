"""The plain door: sessions without `async`, in scripts and where a loop runs already."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, get_overloads

import anyio
import anyio.from_thread
import msgspec
import pytest

import prong
from prong.command import Accepted, Interrupt, Rename
from prong.errors import BadInput, NotPossibleNow, SessionEnded
from prong.event import SessionFinished, ToolStarted, TurnFinished
from prong.session.loop_thread import LoopThread
from prong.testing import Script, Server, call, report, say, stall

pytestmark = [pytest.mark.door, pytest.mark.spec("B6")]


class Served:
    """A scripted server in a loop of its own, as a plain test needs it."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, folder: Path) -> None:
        self._portal = portal
        self._folder = folder

    def options(self, script: Any) -> dict[str, Any]:
        """Serve a script, and give the options of a session that asks it."""
        server = Server(script)
        self.server = self._stack(server)
        project = self._folder / "project"
        project.mkdir(exist_ok=True)
        return {
            "model": "claude-sonnet-5-5",
            "base_url": self.server.url,
            "cwd": project,
            "store": self._folder / "store",
            "env": {"HOME": str(self._folder / "home"), "PATH": os.environ.get("PATH", "")},
        }

    def _stack(self, server: Server) -> Server:
        manager = self._portal.wrap_async_context_manager(server)
        self.closers = [*getattr(self, "closers", []), manager]
        return manager.__enter__()

    def close(self) -> None:
        for manager in getattr(self, "closers", []):
            manager.__exit__(None, None, None)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Serve scripts to plain code."""
    (tmp_path / "home").mkdir()
    with anyio.from_thread.start_blocking_portal() as portal:
        made = Served(portal, tmp_path)
        yield made
        made.close()


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "prong"]


class Line(msgspec.Struct):
    number: int


def test_one_call_is_enough(served: Served) -> None:
    """`prong.run` opens, asks, waits and closes; nothing is left."""
    turn = prong.run("Hi", **served.options([say("Hello.")]))
    assert (turn.text, turn.why) == ("Hello.", "done")
    assert threads() == []


def test_one_call_gives_a_value(served: Served) -> None:
    """With `returns` the turn has a checked value."""
    turn = prong.run("Hi", returns=Line, **served.options([say('{"number": 3}')]))
    assert turn.value == Line(3)


def test_commands_and_functions_run(served: Served) -> None:
    """Shell commands, plain functions and async ones work in the client's own loop."""

    @prong.tool(read_only=True)
    def plain() -> str:
        return threading.current_thread().name

    @prong.tool(read_only=True)
    async def waiting() -> str:
        await anyio.sleep(0)
        return threading.current_thread().name

    steps = [call("Bash", {"command": "echo $((6*7))"}), call("plain"), call("waiting"), say("ok")]
    with prong.Client(**served.options(steps), tools=[plain, waiting]) as client:
        assert client.run("Go").text == "ok"
        told = [one.request.last_text for one in served.server.records]
    assert "42" in told[1]
    assert "worker thread" in told[2]
    assert "prong" in told[3]


@pytest.mark.anyio
async def test_it_works_where_a_loop_runs(served: Served) -> None:
    """Inside a running loop, as in a notebook, a call simply waits; so does a client over cells."""
    turn = prong.run("Hi", **served.options([say("Hello.")]))
    assert turn.text == "Hello."
    client = prong.Client(**served.options([say("One."), say("Two.")]))
    assert client.run("1").text == "One."
    await anyio.sleep(0)
    assert client.run("2").text == "Two."
    client.close()
    assert threads() == []


def test_a_client_has_what_a_session_has(served: Served) -> None:
    """It says, forks, maps, starts agents, tells of itself, and sends commands."""
    script = Script(
        routes={
            "START": [say("ok")],
            "ONE": [report()],
            "TWO": [report()],
            "LINE 1": [say('{"number": 1}')],
            "LINE 2": [say('{"number": 2}')],
            "BRIEF": [say("found")],
            "three words": [say("A short title")],
        }
    )
    with prong.Client(**served.options(script), mode="dontAsk") as client:
        client.run("START")
        assert [one.status for one in client.fork(["ONE", "TWO"])] == ["completed"] * 2
        values = client.map([1, 2], "LINE {}", returns=Line)
        assert [one.value.number for one in values] == [1, 2]
        assert client.agent("Explore", "BRIEF").text == "found"
        assert client.aside("a title of three words") == "A short title"
        assert client.send(Rename("new")) == Accepted(text="new")
        assert len(client.receipts()) == 5
        assert client.view().main.state == "idle"
        assert client.usage.input > 0
        assert client.last is not None
        assert client.ask(lambda session: session.records.outline())
        assert (client.model, client.mode) == ("claude-sonnet-5-5", "dontAsk")
        assert client.id in repr(client)


def test_events_are_waited_for_one_by_one(served: Served) -> None:
    """The iterator gives what has come and waits for more; after the end it ends."""
    steps = [call("Glob", {"pattern": "*"}), say("ok")]
    client = prong.Client(**served.options(steps))
    with client.events() as events:
        client.say("Go")
        seen: list[str] = []
        for envelope in events:
            seen.append(type(envelope.event).__name__)
            if isinstance(envelope.event, TurnFinished):
                break
    assert ToolStarted.__name__ in seen
    rest = client.events(since=None)
    client.close()
    assert [type(one.event) for one in rest][-1:] == [SessionFinished]
    assert client.events().drain()
    assert client.view().main.state == "completed"


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_function_answers_questions(served: Served, kind: str) -> None:
    """A plain one is asked in the thread that waits, where the user sits."""
    asked_in: list[threading.Thread] = []

    def plain(agent: str, asked: Any) -> prong.Answer:
        del agent
        asked_in.append(threading.current_thread())
        return prong.Answer(asked.request_id)

    async def waiting(agent: str, asked: Any) -> prong.Answer:
        return plain(agent, asked)

    given = served.options([call("Bash", {"command": "touch made"}), say("ok")])
    with prong.Client(**given, respond=plain if kind == "plain" else waiting) as client:
        client.run("Go")
    assert (given["cwd"] / "made").exists()
    here = asked_in == [threading.current_thread()]
    assert here == (kind == "plain")


def test_a_question_is_answered_though_nobody_waits(served: Served) -> None:
    """After `say` nobody waits: the function is called in a thread."""
    answered = threading.Event()

    def respond(agent: str, asked: Any) -> prong.Answer:
        del agent
        answered.set()
        return prong.Answer(asked.request_id)

    given = served.options([call("Bash", {"command": "touch made"}), say("ok")])
    with prong.Client(**given, respond=respond) as client:
        client.say("Go")
        assert answered.wait(50)
        client.wait_settled()
        assert (given["cwd"] / "made").exists()


def test_a_function_that_fails_is_told(served: Served) -> None:
    """What it raises ends the turn with its name, as in an async session."""

    def respond(agent: str, asked: Any) -> prong.Answer:
        raise KeyError(agent)

    given = served.options([call("Bash", {"command": "touch made"}), say("ok")])
    with prong.Client(**given, respond=respond) as client:
        turn = client.run("Go")
    assert turn.why == "error"
    assert "the respond function failed: KeyError" in turn.detail


def test_what_is_used_after_the_end_says_so(served: Served) -> None:
    """A closed client raises SessionEnded; to close it again does nothing."""
    client = prong.Client(**served.options([say("ok")]))
    client.close()
    client.close()
    with pytest.raises(SessionEnded, match="the session has ended"):
        client.run("Hi")
    assert client.cost == 0


def test_an_error_of_opening_leaves_nothing(served: Served) -> None:
    """What is wrong is raised where the client is made, and its thread has ended."""
    with pytest.raises(prong.UsageError, match="yolo"):
        prong.Client(**served.options([]), mode="yolo")
    with pytest.raises(BadInput, match="max-turns"):
        prong.run("Hi", max_turns=0, **served.options([]))
    assert threads() == []


def test_its_own_loop_cannot_wait_for_itself(served: Served) -> None:
    """An async function that calls its own client gets an error, which the model is told."""

    @prong.tool(read_only=True)
    async def again() -> str:
        return client.run("Hi").text

    client = prong.Client(**served.options([call("again"), say("ok")]), tools=[again])
    with client:
        assert client.run("Go").text == "ok"
        assert "would wait for itself" in served.server.records[1].request.last_text
    assert issubclass(NotPossibleNow, prong.UsageError)


def test_threads_use_it_together(served: Served) -> None:
    """Several threads may call at once; one interrupts what another waits for."""
    with prong.Client(**served.options([stall(60)])) as client:
        turns: list[prong.Turn] = []
        other = threading.Thread(target=lambda: turns.append(client.run("Go")))
        other.start()
        with client.events() as events:
            for envelope in events:
                if type(envelope.event).__name__ == "RequestSent":
                    break
        client.send(Interrupt())
        other.join(50)
    assert [turn.why for turn in turns] == ["interrupted"]


def test_ctrl_c_interrupts_the_turn(served: Served) -> None:
    """KeyboardInterrupt is raised once the turn has been interrupted, and the session lives on."""
    with prong.Client(**served.options([stall(60), say("again")])) as client:

        def press() -> None:
            for envelope in client.events():
                if type(envelope.event).__name__ == "RequestSent":
                    break
            os.kill(os.getpid(), signal.SIGINT)

        pressing = threading.Thread(target=press)
        pressing.start()
        with pytest.raises(KeyboardInterrupt):
            client.run("Go")
        pressing.join()
        client.wait_settled()
        assert client.last is not None
        assert client.last.why == "interrupted"
        assert client.run("Go on").text == "again"


def test_ctrl_c_before_the_loop_has_heard_of_a_call(served: Served) -> None:
    """A loop that is busy may take a call over later: one that was interrupted never begins."""
    held, free, here = threading.Event(), threading.Event(), threading.get_ident()

    def hold(_: prong.Session) -> None:
        held.set()
        free.wait()

    def press() -> None:
        while "start_task_soon" not in frames_of(here):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        while "start_task_soon" in frames_of(here):
            time.sleep(0.01)
        free.set()

    with prong.Client(**served.options([say("Hello.")])) as client:
        holding = threading.Thread(target=client.ask, args=(hold,))
        holding.start()
        held.wait()
        pressing = threading.Thread(target=press)
        pressing.start()
        with pytest.raises(KeyboardInterrupt):
            client.run("Go")
        pressing.join()
        holding.join()
        client.wait_settled()
        assert served.server.records == []


def frames_of(thread: int) -> list[str]:
    """Name the functions that a thread is in."""
    return [
        frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[thread])
    ]


@pytest.fixture(params=[False, True], ids=["", "slow"])
def slow_to_raise(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let this thread be slow, or not, where an exception comes out of what a call asks it."""

    def look(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not LoopThread.call.__code__:
            return None
        if event == "exception":
            time.sleep(1)
        return look

    before = sys.gettrace()
    if request.param:
        sys.settrace(look)
    yield
    sys.settrace(before)


@pytest.mark.usefixtures("slow_to_raise")
def test_ctrl_c_at_a_question_interrupts_too(served: Served) -> None:
    """Who is asked can press it as well: the call does not run, and the turn ends."""

    def respond(agent: str, asked: Any) -> prong.Answer:
        raise KeyboardInterrupt

    given = served.options([call("Bash", {"command": "touch made"}), say("ok")])
    with prong.Client(**given, respond=respond) as client:
        with pytest.raises(KeyboardInterrupt):
            client.run("Go")
        client.wait_settled()
        assert client.last is not None
        assert client.last.why == "interrupted"
    assert not (given["cwd"] / "made").exists()


_SCRIPT = """
import prong, sys
client = prong.Client(model="claude-sonnet-5-5", base_url=sys.argv[1], store=sys.argv[2], bare=True)
print(client.run("Hi").text)
client.say("Stay")
print(client.id)
"""


def test_a_script_that_forgets_to_close_ends_cleanly(served: Served) -> None:
    """At the program's end the session is closed, though a turn runs: nothing hangs."""
    given = served.options([say("Hello."), stall(60)])
    argv = [sys.executable, "-c", _SCRIPT, given["base_url"], str(given["store"])]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=given["env"],
        cwd=given["cwd"],
    )
    assert (done.returncode, done.stderr) == (0, "")
    text, session = done.stdout.split()
    assert text == "Hello."
    (events,) = given["store"].rglob(f"*{session}*/events.jsonl")
    last = events.read_text().splitlines()[-1]
    assert '"session_finished"' in last


_NO_LOOP = """
import os, resource
import anyio._backends._asyncio, prong.session.plain_client
with open("/dev/null") as last:
    resource.setrlimit(resource.RLIMIT_NOFILE, (last.fileno(), 4096))
    try:
        prong.session.plain_client.Client(model="claude-sonnet-5-5")
    except OSError as error:
        print(error.strerror)
"""


def test_a_client_without_a_loop_is_an_error(tmp_path: Path) -> None:
    """Where no event loop can be made, that is raised: nobody waits for it for ever."""
    argv = [sys.executable, "-c", _NO_LOOP]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert done.stdout == "Too many open files\n", done.stderr


def test_its_methods_are_those_of_a_session() -> None:
    """Each public method of a session is one of a client, with its parameters, its overloads' too."""
    own = {name for name in dir(prong.Session) if not name.startswith("_")}
    assert own <= {name for name in dir(prong.Client) if not name.startswith("_")} | {"records"}
    for name in own:
        theirs = getattr(prong.Session, name)
        if inspect.iscoroutinefunction(theirs) and name != "close":
            ours = getattr(prong.Client, name)
            assert not inspect.iscoroutinefunction(ours)
            assert inspect.signature(ours) == inspect.signature(theirs)
            assert ours.__doc__ == theirs.__doc__
        elif inspect.isfunction(theirs):
            mine = list(inspect.signature(getattr(prong.Client, name)).parameters.values())
            assert mine == list(inspect.signature(theirs).parameters.values())


@pytest.mark.timeout(240)
def test_the_types_are_those_of_a_session(tmp_path: Path) -> None:
    """A type checker knows what each form of a call gives."""
    assert get_overloads(prong.Session.run)
    code = """
import prong
from typing import assert_type
from prong.session.answer_type import ValueResult, ValueTurn
client = prong.Client()
assert_type(client.run("x"), prong.Turn)
assert_type(client.run("x", returns=int), ValueTurn[int])
assert_type(client.fork(["x"], returns=int), list[ValueResult[int]])
assert_type(client.map([1], "{}"), list[prong.ChildResult])
assert_type(prong.run("x", mode="plan"), prong.Turn)
assert_type(prong.run("x", returns=str), ValueTurn[str])
"""
    file = tmp_path / "typed.py"
    file.write_text(code)
    checker = Path(sys.executable).with_name("basedpyright")
    done = subprocess.run(
        [checker, "--level", "error", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
