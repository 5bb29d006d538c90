"""A line that is cut again and again carries every byte once, and in its order."""

from __future__ import annotations

import os
import random
import sys

import anyio
import pytest

from prong.errors import WorkerFailed
from prong.host.byte_carrier import LineCut, carry
from prong.host.held_process import HeldProcess, Pulled

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R3"), pytest.mark.hunt]

ECHO = (sys.executable, "-c", "import os\nwhile d := os.read(0, 9999): os.write(1, d)")


class CutLine:
    """The way to a held process, which is cut before or after what it was to do."""

    def __init__(self, process: HeldProcess, seed: int, *, always: bool = False) -> None:
        self._process = process
        self._random = random.Random(seed)
        self._always = always
        self.cuts = 0

    def _maybe(self) -> None:
        if self._always or self._random.random() < 0.3:
            self.cuts += 1
            raise LineCut("the network is away")

    async def push(self, at: int, data: bytes) -> int:
        self._maybe()
        done = await self._process.push(at, data)
        self._maybe()
        return done

    async def pull(self, after: int, wait: float) -> Pulled:
        self._maybe()
        done = await self._process.pull(after, min(wait, 0.05))
        self._maybe()
        return done

    async def end(self) -> None:
        self._maybe()
        await self._process.end()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prong.host.byte_carrier._PAUSE", 0.001)


@pytest.mark.parametrize("seed", range(4))
async def test_each_byte_arrives_once(seed: int) -> None:
    """What goes through an echo over a line with many cuts is what went in."""
    source, given = os.pipe()
    taken, sink = os.pipe()
    for end in (source, taken, sink):
        os.set_blocking(end, False)
    data, found = random.Random(seed).randbytes(300_000), bytearray()
    line = CutLine(HeldProcess(ECHO), seed)

    async def feed() -> None:
        await anyio.to_thread.run_sync(lambda: os.write(given, data[:100_000]))
        await anyio.to_thread.run_sync(lambda: os.write(given, data[100_000:]))

    with anyio.fail_after(50):
        async with anyio.create_task_group() as group:
            group.start_soon(feed)
            group.start_soon(carry, line, source, sink)
            while len(found) < len(data):
                await anyio.wait_readable(taken)
                found += os.read(taken, 65_536)
            os.close(given)

    assert found == data
    assert line.cuts
    for end in (source, taken, sink):
        os.close(end)


async def test_a_line_that_is_cut_for_good_is_given_up() -> None:
    """After too long a time it is said, and nobody waits any more."""
    source, given = os.pipe()
    process = HeldProcess(ECHO)
    with anyio.fail_after(50), pytest.raises(WorkerFailed, match="could not be reached"):
        await carry(CutLine(process, 1, always=True), source, given, patience=0.1)

    assert process.running
    await process.end()
    assert not process.running
    os.close(source)
    os.close(given)


async def test_how_it_ended_is_told_with_its_last_words() -> None:
    """A process that ends by itself ends the line, after everything it said."""
    source, given = os.pipe()
    taken, sink = os.pipe()
    words = "import sys; print('said'); sys.stderr.write('why\\n'); sys.exit(7)"
    with anyio.fail_after(50):
        last = await carry(CutLine(HeldProcess((sys.executable, "-c", words)), 5), source, sink)

    assert (last.code, last.errors) == (7, "why")
    assert os.read(taken, 100) == b"said\n"
    for end in (source, given, taken, sink):
        os.close(end)


async def test_bytes_that_are_missing_are_no_bytes() -> None:
    """Nothing is written behind a gap, and nothing is given that was let go of."""
    process = HeldProcess(ECHO)
    assert await process.push(0, b"one") == 3
    assert await process.push(1, b"ne two") == 7
    with pytest.raises(ValueError, match="have not come"):
        await process.push(9, b"later")
    found = b""
    while len(found) < 7:
        found += (await process.pull(len(found), 5.0)).data
    assert found == b"one two"
    await process.pull(7, 0.0)
    with pytest.raises(ValueError, match="not held"):
        await process.pull(0, 0.0)
    await process.end()


@pytest.mark.parametrize("known", ["all of it", "nothing"])
async def test_who_asks_after_the_end_hears_how_it_ended(
    known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was given and not yet acknowledged when it is ended keeps nobody from hearing of that."""
    monkeypatch.setattr("prong.host.held_process._GRACE", 50.0)
    process = HeldProcess(ECHO)
    await process.push(0, b"one")
    given = await process.pull(0, 50.0)
    assert given.data == b"one"
    await process.end()

    last = await process.pull(len(given.data) if known == "all of it" else 0, 5.0)
    assert (last.data, last.code) == (b"", 0)
    assert await process.pull(0, 5.0) == last


async def test_who_writes_when_it_is_ended_waits_no_longer() -> None:
    """A process that does not read keeps nobody waiting who still has something to write."""
    process = HeldProcess((sys.executable, "-c", "import time; time.sleep(60)"))
    written: list[int] = []

    async def push() -> None:
        written.append(await process.push(0, bytes(2_000_000)))

    with anyio.fail_after(50):
        async with anyio.create_task_group() as group:
            group.start_soon(push)
            await anyio.sleep(0.2)
            await process.end()
    assert written[0] < 2_000_000
    assert await process.push(written[0], b"more") == written[0]


async def test_a_side_that_listens_no_more_is_known_as_such() -> None:
    """Nobody is told of a broken pipe in a way that only a debugger reads, and the process lives on."""
    source, given = os.pipe()
    taken, sink = os.pipe()
    os.close(taken)
    process = HeldProcess(ECHO)
    await process.push(0, b"one")
    with anyio.fail_after(50), pytest.raises(BrokenPipeError):
        await carry(CutLine(process, 3), source, sink)

    assert process.running
    await process.end()
    for end in (source, given, sink):
        os.close(end)
