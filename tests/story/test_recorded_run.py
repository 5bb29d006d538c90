"""A run is recorded once, and played back anywhere: same prompts, no network, no key."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong import ProngError, UsageError
from prong.agent import Turn
from prong.command import Interrupt
from prong.event import TaskFinished, TextDelta
from prong.host.worktree import finish
from prong.session import git_state
from prong.team import workspace
from prong.testing import (
    Clock,
    RunDiffers,
    Script,
    Server,
    World,
    call,
    calls,
    cut,
    delay,
    fail,
    record_run,
    recorded_run,
    replay_run,
    report,
    say,
    stall,
    world,
)
from prong.testing.run_file import RecordedRun, read_run
from shared.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.spec("B8")]

FILES = {"a.py": "x = 1\n", "b.py": "y = 2\n"}
ENDED = b"<task-id>one</task-id>"
KEY = "sk-ant-0123456789abcdefghij"


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git be asked at the beginning however slow it is: what it says is in the prompt."""
    monkeypatch.setattr(git_state, "_PATIENCE", 60.0)


def start(prompt: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "Agent", {"description": "a part", "prompt": prompt, **more}


def script(root: Path) -> Script:
    """Read, split into a fork, one in a worktree and a typed agent, and take in what they say."""
    return Script(
        steps=[
            call("Read", {"file_path": str(root / "a.py")}),
            calls(
                start("change the first", name="one", isolation="worktree"),
                start("look at the second", name="two"),
                start("explore it all", name="three", subagent_type="Explore"),
            ),
            say("I wait."),
            call("Bash", {"command": "pwd; cat a.py"}),
        ],
        forever=say("Done."),
        routes={
            "change the first": [
                delay(1.0, then=call("Write", {"file_path": "c.py", "content": "z = 3\n"})),
                call("Bash", {"command": "pwd"}),
                report("It is 3."),
            ],
            "look at the second": [call("Read", {"file_path": f"{root}/b.py"}), report("It is 2.")],
            "explore it all": [
                call("Glob", {"pattern": "*.py"}),
                call("Read", {"file_path": f"{root}/b.py"}),
                say("Two files."),
            ],
        },
    )


def prepare(made: World, newest: str = "a.py") -> None:
    """Make a repository of the project, in which one file was changed last."""
    for name in FILES:
        os.utime(made.root / name, (at := 10**9 + (name == newest), at))
    run = "git init -q && git add -A && git -c user.name=a -c user.email=b@c.d commit -qm first"
    subprocess.run(run, shell=True, cwd=made.root, check=True)


async def play(made: World, url: str, question: str = "Go.", **given: Any) -> Turn:
    base = url if made.given.get("api") == "anthropic" else f"{url}/v1"
    async with made.open(base_url=base, **given) as session:
        return await session.run(question)


async def begin_last(made: World, clock: Clock) -> None:
    """Let the first fork begin when its parent has done all it does without that one's report.

    What ends while its parent runs a command is told with the result of that or later, as chance
    has it: a replay can give replies in their order, and not make a command as slow as it was.
    """

    def rests() -> bool:
        asked = made.server.lineages().get("main", ())
        return clock.sleepers == 1 and [one.outcome for one in asked] == ["whole"] * 5

    await until(rests, within=100)
    clock.advance(1.0)


async def record(tmp_path: Path, api: str = "anthropic", **given: Any) -> Path:
    """Record the run of `script` in a folder of its own."""
    file = tmp_path / "a.run"
    folder = tmp_path / "first"
    told, clock = script(folder / "project"), Clock()
    shape: dict[str, Any] = {"api": api, "clock": clock, "mode": "bypassPermissions"}
    async with world(told, files=FILES, folder=folder, opens=False, **shape) as made:
        prepare(made)
        async with (
            record_run(file, upstream=made.server.url) as server,
            anyio.create_task_group() as group,
        ):
            group.start_soon(begin_last, made, clock)
            turn = await play(made, server.url, **given)
            assert turn.text == "Done.", turn.detail
    return file


def asked(run: RecordedRun) -> list[str]:
    return [f"{one.key} {one.number}" for one in run.exchanges if not one.optional]


Move = Callable[[str, str], None]


@pytest.fixture
def move() -> Iterator[Move]:
    """Let somebody else be at the machine, elsewhere on earth: at its two ends it is another day."""
    with pytest.MonkeyPatch.context() as patch:

        def go(user: str, zone: str) -> None:
            for name, value in (("HOME", f"/home/{user}"), ("USER", user), ("TZ", zone)):
                patch.setenv(name, value)
            time.tzset()

        yield go
    time.tzset()


@pytest.mark.parametrize("api", ["anthropic", "responses", "chat"])
async def test_a_run_plays_elsewhere_on_another_day(api: str, tmp_path: Path, move: Move):
    """Forks, a worktree and a typed agent go as recorded in another folder, home, user and day.

    Files have other times there too, as every checkout gives them.
    """
    move("first", "Etc/GMT+12")
    file = await record(tmp_path, api)
    move("other", "Etc/GMT-14")
    async with world(
        files=FILES,
        folder=tmp_path / "some" / "where else",
        opens=False,
        mode="bypassPermissions",
        api=api,
    ) as made:
        prepare(made, newest="b.py")
        async with replay_run(file, patience=100) as server:
            turn = await play(made, server.url)
            assert turn.text == "Done.", turn
        # Tools really run, here as there.
        assert (made.root / ".prong/worktrees/one/c.py").read_text() == "z = 3\n"
        assert not made.server.records


async def test_an_end_that_was_heard_of_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A fork that is slower to end than when it was recorded has ended before its parent goes on."""
    told = Script(
        steps=[
            calls(start("change it", name="one", isolation="worktree")),
            delay(0.5, then=call("Bash", {"command": "pwd"})),
        ],
        forever=say("Done."),
        routes={"change it": [report("It is 3.")]},
    )
    file = tmp_path / "a.run"
    given: dict[str, Any] = {"files": FILES, "opens": False, "mode": "bypassPermissions"}
    clock = Clock()
    async with world(told, folder=tmp_path / "first", clock=clock, **given) as made:
        prepare(made)
        async with (
            record_run(file, upstream=made.server.url) as server,
            made.open(base_url=server.url) as session,
            anyio.create_task_group() as group,
        ):
            events = session.events(since=None)
            group.start_soon(session.run, "Go.")
            while not any(isinstance(one.event, TaskFinished) for one in events.drain()):
                await anyio.sleep(0.01)
            while not clock.sleepers:
                await anyio.sleep(0.01)
            # Its parent waits for the model all the while.
            clock.advance(0.5)
    heard = [one.number for one in read_run(file.read_bytes()).exchanges if ENDED in one.body]
    assert heard[0] == 3

    free = anyio.Event()

    async def late(*given: Any) -> Any:
        await free.wait()
        return await finish(*given)

    monkeypatch.setattr(workspace, "finish", late)
    async with world(folder=tmp_path / "other", **given) as made:
        prepare(made)
        async with (
            replay_run(file) as server,
            made.open(base_url=server.url) as session,
            anyio.create_task_group() as group,
        ):
            server.clock = clock = Clock()
            events = session.events(since=None)
            group.start_soon(session.run, "Go.")
            with anyio.fail_after(100):
                while not clock.sleepers:
                    await anyio.sleep(0.01)
                clock.advance(0.9)
                free.set()
                while not any(isinstance(one.event, TaskFinished) for one in events.drain()):
                    await anyio.sleep(0.01)
            clock.advance(0.1)


async def test_the_file_is_readable_and_holds_nothing_of_the_machine(tmp_path: Path):
    """No path, date, key or header stands in it; what requests share stands there once."""
    file = await record(tmp_path, api_key=KEY, headers={"x-team-token": f"{KEY}2"})
    text = file.read_text()
    run = read_run(file.read_bytes())

    assert str(tmp_path) not in text
    assert time.strftime("- Date: %Y") not in text
    assert KEY not in text
    assert "x-api-key" not in text
    assert asked(run)[:3] == ["main 1", "main 2", "main 3"]
    assert {one.agent for one in run.exchanges} == {"main", "main/one", "main/two", "main/three"}
    assert text.count("You are Prong, a coding agent") == 1
    assert "> - Find out first." in text
    assert "⟨project⟩/b.py" in text
    assert len(text) < sum(len(one.body) for one in run.exchanges) / 3


async def test_a_key_that_is_said_aloud_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither the request's key nor one of the environment is in the file, however a stream cuts it."""
    file = tmp_path / "a.run"
    other = "ghp_0123456789zyxwvutsrq"
    monkeypatch.setenv("SOME_TOKEN", other)
    aloud = f"The one you gave me is key{KEY}, and the other one {other}."
    steps = [call("Bash", {"command": f"echo {KEY[:10]}{KEY[10:]} {other}"}), say(aloud)]
    async with world(steps, folder=tmp_path / "w", opens=False, mode="bypassPermissions") as made:
        async with record_run(file, upstream=made.server.url) as server:
            turn = await play(made, server.url, api_key=KEY)
        async with replay_run(file) as server:
            again = await play(made, server.url, api_key=KEY)

    assert KEY in turn.text
    assert again.text == aloud.replace(KEY, "[key hidden]").replace(other, "[key hidden]")
    assert len(made.server.records) == 2
    text = file.read_text()
    assert not [one for one in (KEY, other) if one in text or one[:20] in text]


async def test_a_prompt_that_moved_is_shown_with_both_sides(tmp_path: Path):
    """The first difference is named: the agent, the request, the place, the byte."""
    file = await record(tmp_path)
    async with world(
        files={**FILES, "b.py": "y = 9\n"},
        folder=tmp_path / "w",
        opens=False,
        mode="bypassPermissions",
    ) as made:
        prepare(made)
        with pytest.raises(RunDiffers) as found:
            async with replay_run(file) as server:
                await play(made, server.url)

    said = str(found.value)
    assert said.startswith(
        ("request 2 of main/two is not the one", "request 3 of main/three is not the one")
    )
    assert "messages[" in said
    assert "byte " in said
    recorded, now = (line for line in said.splitlines() if line.startswith("  "))
    assert "y = 2" in recorded
    assert "y = 9" in now
    assert "record the run anew" in said


async def test_the_difference_goes_before_what_the_test_made_of_it(tmp_path: Path):
    """An assertion that fails because the run differs is not what is shown first."""
    file = await record(tmp_path)
    async with world(
        files=FILES, folder=tmp_path / "w", opens=False, mode="bypassPermissions"
    ) as made:

        async def fails() -> None:
            async with replay_run(file) as server:
                turn = await play(made, server.url, "Something else.")
                assert "is not the one that was recorded" in turn.detail
                assert turn.ok, "the test's own"

        with pytest.raises(RunDiffers, match=r"request 1 of main .*messages\[0\]") as found:
            await fails()

    assert "the test's own" in str(found.value.__cause__)


async def test_a_run_that_stops_early_is_not_the_recorded_one(tmp_path: Path):
    """What was recorded and did not come is missed."""
    file = await record(tmp_path)
    async with world(
        files=FILES, folder=tmp_path / "w", opens=False, mode="bypassPermissions"
    ) as made:
        with pytest.raises(RunDiffers, match="request 1 of main did not come"):
            async with replay_run(file):
                pass
        with pytest.raises(RunDiffers, match="request 2 of main"):
            async with replay_run(file, patience=1) as server:
                await play(made, server.url, max_turns=1)


async def test_a_run_that_goes_on_is_not_the_recorded_one(tmp_path: Path):
    """There is no answer to what nobody asked then."""
    file = tmp_path / "a.run"
    async with world([say("One.")], folder=tmp_path / "w", opens=False) as made:
        async with record_run(file, upstream=made.server.url) as server:
            await play(made, server.url)

        async def goes_on() -> None:
            async with replay_run(file) as server, made.open(base_url=server.url) as session:
                await session.run("Go.")
                await session.run("And now?")

        with pytest.raises(RunDiffers, match="main asks, and the recording has no more than 1"):
            await goes_on()


async def test_failures_and_cuts_are_played_too(tmp_path: Path):
    """Retries go as they went, without the wait."""
    file = tmp_path / "a.run"
    steps = [
        fail(529, "overloaded_error", "busy", retry_after=0.1),
        cut(after_bytes=300, then=say("Half of this is lost on the way.")),
        say("Whole."),
    ]
    async with world(steps, folder=tmp_path / "w", opens=False) as made:
        async with record_run(file, upstream=made.server.url) as server:
            first = await play(made, server.url)
        async with replay_run(file) as server:
            again = await play(made, server.url)

    assert first.text == again.text == "Whole."
    assert [(one.status, one.end) for one in read_run(file.read_bytes()).exchanges] == [
        (529, "whole"),
        (200, "cut"),
        (200, "whole"),
    ]


async def test_agents_in_processes_of_their_own_are_recorded(tmp_path: Path):
    """Whoever asks the model's server is in the file, wherever it runs."""
    settings = '{"agents": {"backend": "process"}}'
    file = await record(tmp_path, settings=settings)
    async with world(
        files=FILES, folder=tmp_path / "w", opens=False, mode="bypassPermissions"
    ) as made:
        prepare(made)
        async with replay_run(file, patience=100) as server:
            assert (await play(made, server.url, settings=settings)).text == "Done."

    assert {one.agent for one in read_run(file.read_bytes()).exchanges} == {
        *("main", "main/one", "main/two", "main/three")
    }


async def test_a_reply_that_nobody_waited_for_is_recorded_so(tmp_path: Path):
    """An interrupt is part of the run: what had come by then, and that the rest was given up."""
    file = tmp_path / "a.run"
    steps = [stall(60, then=say("This goes on and on and on and on and on.")), say("Again.")]

    async def interrupted(made: World, url: str) -> str:
        async with made.open(base_url=url) as session:
            async with anyio.create_task_group() as group:
                group.start_soon(session.run, "Go.")
                async for envelope in session.events():
                    if isinstance(envelope.event, TextDelta):
                        break
                await session.send(Interrupt())
            return (await session.run("Go on.")).text

    async with world(steps, folder=tmp_path / "w", opens=False) as made:
        async with record_run(file, upstream=made.server.url) as server:
            assert await interrupted(made, server.url) == "Again."
        async with replay_run(file) as server:
            assert await interrupted(made, server.url) == "Again."

    first, *_ = read_run(file.read_bytes()).exchanges
    assert (first.end, first.number) == ("gone", 1)


@pytest.mark.parametrize("rounds", [3])
async def test_siblings_end_in_the_recorded_order(rounds: int, tmp_path: Path):
    """Notices come as they came, though no reply has to be waited for any more."""
    file = tmp_path / "a.run"
    names = ["slow", "quick", "middle"]
    told = Script(
        steps=[calls(*(start(f"be {name}", name=name) for name in names)), say("W."), say("D.")],
        routes={
            f"be {name}": [call("Bash", {"command": f"sleep {at}"}), report(name)]
            for name, at in zip(names, ("0.9", "0.1", "0.5"), strict=True)
        },
    )
    masks = {r"sleep [\d.]+": "sleep"}
    async with world(told, folder=tmp_path / "w", opens=False, mode="bypassPermissions") as made:
        async with record_run(file, upstream=made.server.url, masks=masks) as server:
            await play(made, server.url)
        # Now all three would take the same time.
        file.write_text(
            file.read_text().replace('"sleep 0.9', '"sleep 0.1').replace('"sleep 0.5', '"sleep 0.1')
        )
        for _ in range(rounds):
            async with replay_run(file) as server:
                turn = await play(made, server.url)
            assert turn.text == "D."


async def test_what_changes_each_time_can_be_masked(tmp_path: Path):
    """A command's own clock is no difference if the recording says so."""
    file = tmp_path / "a.run"
    steps = [call("Bash", {"command": "date +%s%N"}), say("Late.")]
    async with world(steps, folder=tmp_path / "w", opens=False, mode="bypassPermissions") as made:
        async with record_run(file, upstream=made.server.url, masks={r"\d{19}": "0"}) as server:
            await play(made, server.url)
        async with replay_run(file) as server:
            assert (await play(made, server.url)).text == "Late."


async def test_forks_of_a_program_play_back(tmp_path: Path):
    """What `session.fork` and `session.map` start is found by what it says."""
    file = tmp_path / "a.run"
    told = Script([say("Ready.")], routes={f"item {n}": [report(f"{n} is fine")] for n in "abcd"})

    async def run(made: World, url: str) -> list[str]:
        async with made.open(base_url=url) as session:
            await session.run("Get ready.")
            found = await session.map("abcd", lambda item: f"item {item}", limit=2)
            return [result.report.result for result in found]

    async with world(told, folder=tmp_path / "w", opens=False, mode="bypassPermissions") as made:
        async with record_run(file, upstream=made.server.url) as server:
            first = await run(made, server.url)
        async with replay_run(file) as server:
            assert await run(made, server.url) == first


async def test_the_variable_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`recorded_run` replays, or records with PRONG_RECORD=1, and says so if it cannot."""
    file = tmp_path / "deep" / "a.run"
    monkeypatch.delenv("PRONG_RECORD", raising=False)
    with pytest.raises(UsageError, match="PRONG_RECORD=1"):
        recorded_run(file)
    async with world([say("One.")], folder=tmp_path / "w", opens=False) as made:
        for value in ("1", "0"):
            monkeypatch.setenv("PRONG_RECORD", value)
            async with recorded_run(file, upstream=made.server.url) as server:
                assert (await play(made, server.url)).text == "One."
        assert len(made.server.records) == 1


async def test_nothing_is_written_if_it_went_wrong(tmp_path: Path):
    """A recording that failed, saw nothing or could not reach its model leaves what was there."""
    file = tmp_path / "a.run"
    file.write_text("the old one")
    with pytest.raises(AssertionError, match="no request came"):
        async with record_run(file):
            pass
    with pytest.raises(ZeroDivisionError):
        async with record_run(file):
            raise ZeroDivisionError
    async with world(folder=tmp_path / "w", opens=False) as made:
        with pytest.raises(ProngError, match=r"127\.0\.0\.1"):
            async with record_run(file, upstream="http://127.0.0.1:9") as server:
                await play(made, server.url)

    assert file.read_text() == "the old one"


async def test_a_place_that_is_not_given_is_asked_for(tmp_path: Path):
    """A recording that names a folder needs one."""
    file = tmp_path / "a.run"
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.txt").write_text("7")
    steps = [call("Read", {"file_path": f"{tmp_path}/data/x.txt"}), say("It is 7.")]
    async with world(steps, folder=tmp_path / "w", opens=False, mode="bypassPermissions") as made:
        data = {"data": f"{tmp_path}/data"}
        async with record_run(file, upstream=made.server.url, places=data) as server:
            await play(made, server.url)
        with pytest.raises(UsageError, match="place 'data'"):
            async with replay_run(file):
                pass
        (tmp_path / "data").rename(tmp_path / "moved")
        async with replay_run(file, places={"data": f"{tmp_path}/moved"}) as server:
            assert (await play(made, server.url)).text == "It is 7."


async def test_any_client_can_be_recorded(tmp_path: Path):
    """Requests that name no agent are told apart by what they ask."""
    anthropic, openai = pytest.importorskip("anthropic"), pytest.importorskip("openai")
    file = tmp_path / "a.run"

    async def ask(url: str) -> set[str]:
        one = anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0)
        two = openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)
        found: set[str] = set()

        async def message(text: str) -> None:
            said = [{"role": "user", "content": text}]
            model = "claude-sonnet-5-5"
            async with one.messages.stream(model=model, max_tokens=9, messages=said) as stream:
                found.add(await stream.get_final_text())

        async def chat(text: str) -> None:
            said = [{"role": "user", "content": text}]
            made = await two.chat.completions.create(model="gpt-4.1", messages=said)
            found.add(str(made.choices[0].message.content))

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(message, f"question {number}")
                group.start_soon(chat, f"query {number}")
        await one.close()
        await two.close()
        return found

    told = Script(
        routes={
            f"{kind} {n}": [say(f"{kind} {n}!")] for n in range(3) for kind in ("question", "query")
        }
    )
    async with (
        Server(told, moves_prefix="six conversations") as model,
        record_run(file, upstream=model.url) as server,
    ):
        first = await ask(server.url)
    async with replay_run(file) as server:
        assert await ask(server.url) == first

    assert len(first) == 6
    assert KEY not in file.read_text()
