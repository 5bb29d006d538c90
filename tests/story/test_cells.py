"""A session that is opened, used and closed by different tasks, as the cells of a notebook are."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

import prong
from prong.config.option import OptionKeywords
from prong.errors import NotPossibleNow, SessionEnded, UnknownName
from prong.event import SessionFinished
from prong.journal.verify import verify
from prong.testing import Script, Server, ServerProcess, Worlds, call, delay, forks, report, say
from prong.testing.scene import inside

T = TypeVar("T")

pytestmark = pytest.mark.anyio


FORK = Script([forks("Look.")], {"Look.": [report()]}, forever=say("Done."))
WAITS = Script([forks("Look."), delay(600)], {"Look.": [delay(600)]})


async def cell(work: Coroutine[Any, Any, T]) -> T:
    """Run something as a task of its own, as a notebook does with each cell."""
    return await asyncio.get_running_loop().create_task(work)


async def opened(opening: Awaitable[prong.Session]) -> prong.Session:
    return await opening


def options(server: Server | ServerProcess, folder: Path) -> OptionKeywords:
    (folder / "project").mkdir(exist_ok=True)
    return {
        "model": "claude-sonnet-5-5",
        "api": "anthropic",
        "base_url": server.url,
        "cwd": str(folder / "project"),
        "store": str(folder / "store"),
        "env": {"HOME": str(folder), "PATH": os.environ["PATH"]},
        "mode": "dontAsk",
    }


def finished(session: prong.Session) -> int:
    """Say how often the end of the session was told."""
    told = session.events().drain()
    return sum(isinstance(one.event, SessionFinished) for one in told)


def sound(session: prong.Session) -> bool:
    """Whether the journal is whole and nobody holds it any more."""
    return verify(inside(session).journal.path).sound


@pytest.mark.spec("X4")
async def test_each_cell_may_be_a_task(tmp_path):
    """A session can be opened in one task, used in two others and closed in a fourth."""
    async with Server([say("One."), say("Two.")]) as server:
        session = await cell(opened(prong.open_session(**options(server, tmp_path))))
        first = await cell(session.run("1"))
        second = await cell(session.run("2"))
        await cell(session.close())

    assert (first.text, second.text) == ("One.", "Two.")
    assert finished(session) == 1


@pytest.mark.spec("X4")
async def test_a_block_may_be_entered_and_left_by_hand_in_different_tasks(tmp_path):
    """`__aenter__` in one task and `__aexit__` in another is a session like any other."""
    async with Server([say("One.")]) as server:
        opening = prong.open_session(**options(server, tmp_path))
        session = await cell(opening.__aenter__())
        turn = await cell(session.run("1"))
        await cell(opening.__aexit__(None, None, None))

    assert turn.text == "One."
    assert finished(session) == 1


@pytest.mark.spec("X4")
def test_a_loop_may_rest_between_cells(tmp_path):
    """A loop that runs only while a cell does, as in a terminal's IPython, carries a session."""
    loop = asyncio.new_event_loop()
    try:
        with ServerProcess(FORK) as server:
            session = loop.run_until_complete(
                opened(prong.open_session(**options(server, tmp_path)))
            )
            turn = loop.run_until_complete(session.run("Go"))
            loop.run_until_complete(session.close())
    finally:
        loop.close()

    assert turn.ok
    assert finished(session) == 1


@pytest.mark.spec("X4")
async def test_whatever_was_started_ends_with_a_close_from_another_task(tmp_path):
    """Closing stops the turn that runs and its forks; who waits for the turn sees it interrupted."""
    async with Server(WAITS) as server:
        session = await cell(opened(prong.open_session(**options(server, tmp_path))))
        running = asyncio.get_running_loop().create_task(session.run("Go"))
        while len(server.records) < 2:
            await anyio.sleep(0.01)
        await cell(session.close())
        turn = await running

    parts = inside(session)
    assert not parts.tasks.running()
    assert parts.life.stopped
    assert sound(session)
    assert turn.why == "interrupted"


@pytest.mark.spec("X4")
async def test_closing_twice_is_closing_once(tmp_path):
    """A second close, at the same time or later, waits for the end and says nothing more."""
    async with Server([say("One.")]) as server:
        async with prong.open_session(**options(server, tmp_path)) as session:
            await session.run("1")
            async with anyio.create_task_group() as group:
                group.start_soon(session.close)
                group.start_soon(session.close)
            assert finished(session) == 1
            with pytest.raises(SessionEnded, match="has ended"):
                await session.run("2")
        await session.close()

    assert finished(session) == 1


@pytest.mark.spec("X4")
async def test_the_error_of_a_block_is_raised_as_it_is(tmp_path):
    """An exception in the block closes the session and goes on, in no group, from any task."""
    async with Server([]) as server:
        given = options(server, tmp_path)
        kept: list[prong.Session] = []

        async def block() -> None:
            async with prong.open_session(**given) as session:
                kept.append(session)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await block()
        opening = prong.open_session(**given)
        other = await cell(opening.__aenter__())
        error = ZeroDivisionError()
        swallowed = await cell(opening.__aexit__(ZeroDivisionError, error, None))

    assert not swallowed
    assert [finished(session) for session in (*kept, other)] == [1, 1]


@pytest.mark.spec("X4")
async def test_an_opening_that_fails_says_why_in_any_task(tmp_path):
    """What is wrong with an option is raised to whoever opens, bare of any group."""
    async with Server([]) as server:
        given: OptionKeywords = {**options(server, tmp_path), "mode": "yolo"}
        with pytest.raises(UnknownName, match="yolo"):
            await cell(opened(prong.open_session(**given)))
        with pytest.raises(UnknownName, match="yolo"):
            async with prong.open_session(**given):
                pass


@pytest.mark.spec("X4")
@pytest.mark.parametrize("native", [True, False], ids=["asyncio", "anyio"])
async def test_a_cancelled_block_closes_its_session(tmp_path, native):
    """Cancelling the caller, of asyncio's kind or of anyio's, ends the session before the block."""
    async with Server([delay(600)]) as server:
        kept: list[prong.Session] = []

        async def work() -> None:
            async with prong.open_session(**options(server, tmp_path)) as session:
                kept.append(session)
                await session.run("Go")

        async def scoped() -> None:
            with scope:
                await work()

        scope = anyio.CancelScope()
        task = asyncio.get_running_loop().create_task(work() if native else scoped())
        while not server.records:
            await anyio.sleep(0.01)
        if native:
            task.cancel()
        else:
            scope.cancel()
        await asyncio.wait({task})

    assert task.cancelled() == native
    assert finished(kept[0]) == 1
    assert sound(kept[0])


@pytest.mark.spec("X4")
async def test_an_opening_that_is_cancelled_leaves_nothing(tmp_path):
    """Who is cancelled while a session opens leaves no journal and no task behind."""
    async with Server([]) as server:
        given = options(server, tmp_path)
        (tmp_path / "store").mkdir()
        (tmp_path / "project" / "slow.json").write_text(
            '{"mcpServers": {"slow": {"command": "sleep", "args": ["600"]}}}'
        )
        slow: OptionKeywords = {
            **given,
            "mcp_config": (str(tmp_path / "project" / "slow.json"),),
            "settings": {"mcp": {"wait": 60}},
        }
        tasks = len(asyncio.all_tasks())
        opening = asyncio.get_running_loop().create_task(opened(prong.open_session(**slow)))
        while not list((tmp_path / "store").rglob("*.jsonl")):
            await anyio.sleep(0.01)
        opening.cancel()
        await asyncio.wait({opening})

    assert opening.cancelled()
    assert not list((tmp_path / "store").rglob("*.jsonl"))
    assert len(asyncio.all_tasks()) <= tasks


@pytest.mark.spec("X4")
def test_a_session_that_nobody_closes_ends_with_its_loop(tmp_path):
    """When a loop ends under a session, it is closed; later it says so, and closing is quiet."""
    with ServerProcess(WAITS) as server:

        async def first() -> prong.Session:
            session = await prong.open_session(**options(server, tmp_path))
            await session.say("Go")
            while len(server.requests()) < 2:
                await anyio.sleep(0.01)
            return session

        session = asyncio.run(first())
        with pytest.raises(SessionEnded, match="has ended"):
            asyncio.run(session.run("More"))
        asyncio.run(session.close())

    assert finished(session) == 1
    assert sound(session)


@pytest.mark.spec("X4")
def test_closing_from_another_loop_is_refused(tmp_path):
    """A loop that only rests still owns its session: another one is told so, and does not hang."""
    loop = asyncio.new_event_loop()
    try:
        with ServerProcess([]) as server:
            opening = prong.open_session(**options(server, tmp_path))
            session = loop.run_until_complete(opened(opening))
            with pytest.raises(NotPossibleNow, match="another event loop"):
                asyncio.run(session.close())
            loop.run_until_complete(session.close())
    finally:
        loop.close()

    assert finished(session) == 1


@pytest.mark.spec("X4")
async def test_whoever_answers_for_the_user_may_close(world: Worlds):
    """A close from inside, by the function that answers, ends the session and does not hang."""
    asked = anyio.Event()

    async def respond(_path: str, _asked: object) -> None:
        asked.set()
        await w.session.close()

    script = [call("Write", {"file_path": "a", "content": "b"}), say("Done.")]
    async with world(script, respond=respond) as w:
        turn = await w.session.run("Go")

    assert asked.is_set()
    assert turn.why == "interrupted"
    assert not (w.root / "a").exists()


@pytest.mark.spec("X4")
async def test_a_session_is_kept_while_nobody_looks(tmp_path):
    """Work goes on between cells, though no task of the caller's holds the session."""
    async with Server(FORK) as server:
        session = await cell(opened(prong.open_session(**options(server, tmp_path))))
        await cell(session.say("Go"))
        gc.collect()
        await cell(session.wait_settled())
        assert session.last is not None
        await cell(session.close())


@pytest.mark.spec("X4")
async def test_a_failure_inside_ends_the_block_that_opened(tmp_path):
    """Should a part of the session break, the block is cancelled and the failure is raised."""
    async with Server([]) as server:
        kept: list[prong.Session] = []

        async def block() -> None:
            async with prong.open_session(**options(server, tmp_path)) as session:
                kept.append(session)
                inside(session).tasks._group.start_soon(broken)
                await anyio.sleep(600)

        with pytest.raises(ExceptionGroup) as raised:
            await block()

    assert raised.group_contains(ZeroDivisionError)
    assert [finished(session) for session in kept] == [1]


@pytest.mark.spec("X4")
async def test_a_failure_at_the_end_of_a_turn_ends_the_block(tmp_path, monkeypatch):
    """Should storing a turn fail as nobody foresaw, whoever waits for the turn is told, at once."""

    async def block() -> None:
        async with prong.open_session(**options(server, tmp_path)) as session:
            recorder = inside(session).agent.conversation.recorder
            monkeypatch.setattr(type(recorder), "sync", lambda _: broken())
            await session.run("Go")

    async with Server([say("One.")]) as server:
        with anyio.fail_after(50), pytest.raises(ExceptionGroup) as raised:
            await block()
    assert raised.group_contains(ZeroDivisionError)


@pytest.mark.spec("X4")
async def test_a_failure_inside_is_raised_by_closing(tmp_path):
    """Should a part break between cells, the next use says that the session has ended, and closing why."""
    async with Server([]) as server:
        session = await cell(opened(prong.open_session(**options(server, tmp_path))))
        inside(session).tasks._group.start_soon(broken)
        while not inside(session).over:
            await anyio.sleep(0.01)
        with pytest.raises(SessionEnded, match="has ended"):
            await cell(session.run("1"))
        with pytest.raises(ExceptionGroup) as raised:
            await cell(session.close())
        await session.close()

    assert raised.group_contains(ZeroDivisionError)


async def broken() -> None:
    raise ZeroDivisionError


@pytest.mark.spec("X4")
async def test_an_opening_opens_once(tmp_path):
    """What `open_session` gives opens one session; a second use is refused."""
    async with Server([]) as server:
        opening = prong.open_session(**options(server, tmp_path))
        async with opening:
            with pytest.raises(NotPossibleNow, match="open_session"):
                await opening
