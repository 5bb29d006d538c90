"""Walk through the code: which functions a session passes, in order, from real runs.

Four scripted sessions are played against the loopback server, which runs in a process of its own so
that none of its work is seen, and every start of a function of `prong` is taken down.

A *call* is the start of a function. Not counted: the resumption of a coroutine or generator, a
comprehension (it belongs to the function it stands in), a module or class body, what a library
generates, and reading a property or an operator, which give a value and lead nowhere.
Its *caller* is the nearest function of `prong` on the stack, whatever libraries lie between; the
first function of a task is called by whoever started the task. What is run in a thread has no
caller. What the event loop calls when the world stirs (bytes have come, a process has ended) is
left out, with all that it calls, and so is what `provider` and `host` do within themselves: it is
no step of anybody's, and no two runs agree on it.

A *hop* is a pair of caller and function, counted once however often it is passed: three forks that
go the same way and a reply that arrives in thirty pieces make the path no longer. A *crossing* is a
hop between two packages (the second part of a module's name). Those to or from the *upper floor*,
that is every package but the ones in `GROUND`, are counted by themselves too, and so are those that
lead *back up*: into a layer above, through whatever was handed down. *Entries* are calls into a
module of the upper floor from another module, all of them, for each child: the difference that one
child more makes. The table names the module that has the most. Telling of an event (`emit`) is the
one way up that everybody has; it is neither counted as leading back up nor as an entry.

Two more counts of crossings make this tree and older ones comparable; the strict one stands beside
them. *Less values* leaves out calls into packages of `VALUES`: there is nothing behind them but
the value itself, nobody is asked, told or handed anything, and a text that is put together by a
function of its own in place of three lines at the caller is no longer path. *As before* counts by
the packages of before: what was cut out of one then (`PARTED`) is a part of it again, so that a
call into it crosses as much as it did, and values are left out, too.

Each walk is played once for warmth and then five times. A hop counts if all five passed it, and
of entries the smallest number is taken: the rest is the noise of scheduling.

    python bench/walk.py             the table
    python bench/walk.py --trace     each walk's hops too, in order, and the entries of each module
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import and_
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import anyio

import prong
from prong.testing import Script, ServerProcess, Step, call, delay, forks, report, say
from prong.testing.repository import make_repo

VALUES = {"about", "command", "entry", "errors", "event", "ids", "question"}
"""Packages of frozen values and pure functions on them, below everything that does something."""

GROUND = {
    *VALUES,
    *(
        "text",
        "wire",
        "prompt",
        "provider",
        "host",
        "cost",
        "journal",
        "mail",
        "tool",
        "tools",
        "config",
    ),
    *("agent", "view"),
}
"""Packages that stay; whatever else there is, under whatever name, is the upper floor."""

PARTED = {"journal": "session", "config": "session", "view": "session"}
"""Packages that were part of another, or of none, at commit d7a3d0a."""

LAYERS = (
    *(
        "face",
        "session",
        "team",
        "config",
        "agent",
        "tool",
        "tools",
        "mail",
        "journal",
        "cost",
        "provider",
    ),
    *("host", "prompt", "wire", "view", "command", "event", "entry", "ids", "question", "errors"),
    *("about", "text"),
)
"""From above, under the names of today and of before."""

WORLD = {"provider", "host"}

RUNS = 5
_INNER = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_VALUES = {
    *("__len__", "__eq__", "__ne__", "__lt__", "__hash__", "__bool__", "__iter__", "__next__"),
    *("__contains__", "__getitem__", "__getattr__", "__repr__", "__str__", "__format__"),
}
_OPTIMIZED = 1
"""The flag of a code object that is a function's, not a module's or a class's."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A function."""

    module: str
    name: str

    @property
    def package(self) -> str:
        return [*self.module.split("."), ""][1]

    @property
    def upper(self) -> bool:
        return self.package not in GROUND

    @property
    def tells(self) -> bool:
        """Whether this is the way of an event to the faces."""
        return self.name.rpartition(".")[2] in {"emit", "told"}

    def __str__(self) -> str:
        return f"{self.module.removeprefix('prong.')}:{self.name}"


Hop = tuple[Place | None, Place]


class Recorder:
    """Takes down the functions of the package that start while it is recording."""

    def __init__(self) -> None:
        self.calls: list[Hop] = []
        self.recording = False
        self._known: dict[CodeType, tuple[Place, bytes] | None] = {}
        self._values: set[CodeType] = set()
        self._starters: WeakKeyDictionary[Any, Place | None] = WeakKeyDictionary()
        self._main = threading.get_ident()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not self.recording:
            return
        code = frame.f_code
        if code not in self._known:
            self._known[code] = _known(frame)
        known = self._known[code]
        # A coroutine that goes on stands at a RESUME with an argument; one that starts, without.
        if known is None or known[1][frame.f_lasti + 1] & 3 or not self._leads(code):
            return
        caller = self.nearest(frame.f_back)
        if threading.get_ident() == self._main:
            task = _task()
            if task is None:
                return
            caller = caller or self._starters.get(task)
        self.calls.append((caller, known[0]))

    def _leads(self, code: CodeType) -> bool:
        return not (
            code.co_name in _INNER
            or code.co_name in _VALUES
            or code in self._values
            or not code.co_flags & _OPTIMIZED
        )

    def nearest(self, frame: FrameType | None) -> Place | None:
        """Give the innermost function of the package on a stack."""
        while frame is not None:
            if frame.f_code not in self._known:
                self._known[frame.f_code] = _known(frame)
            if (known := self._known[frame.f_code]) is not None:
                return known[0]
            frame = frame.f_back
        return None

    def start_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any
    ) -> asyncio.Task[Any]:
        """Make a task, and remember who did."""
        task = asyncio.Task(coroutine, loop=loop, **more)
        starter = self.nearest(sys._getframe())
        current = _task()
        self._starters[task] = starter or (self._starters.get(current) if current else None)
        return task

    @contextmanager
    def on(self) -> Generator[None]:
        """Record for the length of a block."""
        self.calls = []
        self._values = set(_property_codes())
        self.recording = True
        try:
            yield
        finally:
            self.recording = False


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _known(frame: FrameType) -> tuple[Place, bytes] | None:
    code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
    mine = module.startswith("prong.") and not module.startswith("prong.testing")
    if not mine or not code.co_filename.endswith(".py"):
        return None
    name = code.co_qualname
    while name.endswith(_INNER):
        name = name.rpartition(".<locals>.")[0]
    return Place(module, name.replace(".<locals>", "")), code.co_code


def _property_codes() -> Generator[CodeType]:
    modules = [module for name, module in sys.modules.items() if name.startswith("prong.")]
    classes = {c for module in modules for c in vars(module).values() if isinstance(c, type)}
    for value in (value for made in classes for value in vars(made).values()):
        if isinstance(value, property) and (code := getattr(value.fget, "__code__", None)):
            yield code


@dataclass
class Scene:
    """A folder and a server, in which a walk is played."""

    folder: Path
    server: ServerProcess

    @asynccontextmanager
    async def open(self, **given: Any) -> AsyncGenerator[prong.Session]:
        async def respond(
            _path: str, asked: prong.PermissionAsked | prong.QuestionAsked
        ) -> prong.Answer:
            return prong.Answer(asked.request_id)

        async with prong.open_session(
            model="claude-sonnet-5-5",
            base_url=self.server.url,
            cwd=str(self.folder / "project"),
            store=str(self.folder / "store"),
            settings='{"fork": {"wake": "all"}, "retry": {"first": 0.01}}',
            env={"HOME": str(self.folder), "PATH": os.environ["PATH"]},
            respond=respond,
            **given,
        ) as session:
            yield session


Play = Callable[[Scene, Recorder], Awaitable[None]]

NAMES = ("Part one.", "Part two.", "Part three.", "Part four.")
LOOK = call("Read", {"file_path": "a.txt"})
WRITE = call("Write", {"file_path": "made.txt", "content": "made"})


@dataclass(frozen=True)
class Walk:
    """One of the four."""

    title: str
    play: Play
    script: Script
    killed: tuple[str, ...] = ()
    """The forks of a session that is killed beforehand."""


async def _say(scene: Scene, recorder: Recorder) -> None:
    async with scene.open() as session:
        await anyio.sleep(0.1)  # What opening has started comes to rest.
        with recorder.on():
            await session.run("Go")
            await session.wait_settled()


async def _resume(scene: Scene, recorder: Recorder) -> None:
    with recorder.on():
        async with scene.open(resume="it") as session:
            await session.wait_settled()


def _kill(folder: Path, names: tuple[str, ...]) -> None:
    """Leave in a folder what a session leaves that is killed while its forks wait for replies."""
    waits = {name: [delay(600)] for name in names}
    script = Script([forks(*names), say("waiting")], waits)
    with ServerProcess(script) as server:
        argv = [sys.executable, __file__, "--hold", server.url, str(folder)]
        process = subprocess.Popen(argv)
        until = time.monotonic() + 60
        while len(server.requests()) < len(names) + 2:
            assert process.poll() is None, "the session ended before it was killed"
            assert time.monotonic() < until, "the forks never began"
            time.sleep(0.02)
        time.sleep(0.2)  # The main agent's turn is at its end, and stores that.
        process.kill()
        process.wait()


async def _hold(url: str, folder: Path) -> None:
    server = ServerProcess()
    server.url = url
    async with Scene(folder, server).open(session_id="it") as session:
        await session.run("Go")


def _typed(*names: str) -> Step:
    more = {"subagent_type": "general-purpose", "isolation": "worktree"}
    return forks(*names, **more)


def _walks(more: int) -> list[Walk]:
    """Give the walks, with so many children more than they are about."""
    three, one = NAMES[: 3 + more], NAMES[: 1 + more]

    def routes(names: tuple[str, ...]) -> dict[str, list[Step]]:
        first, *others = names
        return {first: [WRITE, report()], **{name: [report()] for name in others}}

    done = say("Done.")
    return [
        Walk("one user turn", _say, Script([LOOK], {}, forever=done)),
        Walk("three forks, a question", _say, Script([forks(*three)], routes(three), done)),
        Walk("kill -9 and resume", _resume, Script([], {}, report()), three),
        Walk("a typed child in a worktree", _say, Script([_typed(*one)], routes(one), done)),
    ]


@dataclass(frozen=True)
class Trail:
    """What the runs of a walk have in common."""

    hops: tuple[Hop, ...]
    """In the order of the first run."""
    entries: Counter[str]
    """How often each module of the upper floor was entered from another."""

    @property
    def modules(self) -> int:
        return len({place.module for _, place in self.hops})

    @property
    def crossings(self) -> list[tuple[Place, Place]]:
        return [(a, b) for a, b in self.hops if a is not None and a.package != b.package]

    @property
    def less_values(self) -> int:
        return sum(1 for _, b in self.crossings if b.package not in VALUES)

    @property
    def as_before(self) -> int:
        parted = (
            (PARTED.get(a.package, a.package), PARTED.get(b.package, b.package))
            for a, b in self.crossings
            if b.package not in VALUES
        )
        return sum(1 for a, b in parted if a != b)

    @property
    def upper(self) -> int:
        return sum(1 for a, b in self.crossings if a.upper or b.upper)

    @property
    def back_up(self) -> int:
        rank = {name: number for number, name in enumerate(LAYERS)}
        known = [(a, b) for a, b in self.crossings if a.package in rank and b.package in rank]
        return sum(1 for a, b in known if rank[b.package] < rank[a.package] and not b.tells)


def _play(walk: Walk, recorder: Recorder) -> list[Hop]:
    with (
        tempfile.TemporaryDirectory() as place,
        ServerProcess(walk.script) as server,
    ):
        folder = Path(place)
        make_repo(folder / "project")
        if walk.killed:
            _kill(folder, walk.killed)
        anyio.run(_perform, walk, Scene(folder, server), recorder)
        server.check_prefixes()
        return recorder.calls


async def _perform(walk: Walk, scene: Scene, recorder: Recorder) -> None:
    asyncio.get_running_loop().set_task_factory(recorder.start_task)
    await walk.play(scene, recorder)


def _measure(walk: Walk, recorder: Recorder) -> Trail:
    _play(walk, recorder)
    runs = [_play(walk, recorder) for _ in range(RUNS)]
    common = set[Hop].intersection(*map(set, runs))
    entries = reduce(and_, map(_entries, runs))
    hops = (hop for hop in dict.fromkeys(runs[0]) if hop in common and not _within(*hop))
    return Trail(tuple(hops), entries)


def _within(caller: Place | None, place: Place) -> bool:
    return place.package in WORLD and (caller is None or caller.package == place.package)


def _entries(calls: list[Hop]) -> Counter[str]:
    between = (b for a, b in calls if a is not None and a.module != b.module)
    return Counter(place.module for place in between if place.upper and not place.tells)


def _show(walk: Walk, path: Trail, child: Counter[str]) -> None:
    print(f"\n{walk.title}")
    for caller, place in path.hops:
        crosses = caller is not None and caller.package != place.package
        print(f"  {'x' if crosses else ' '} {caller or '(outside)'} -> {place}")
    if child:
        counts = (f"{name.removeprefix('prong.')} {n}" for name, n in child.most_common())
        print("  entries per child:", ", ".join(counts))


def main() -> None:
    parser = argparse.ArgumentParser(description="Walk through the code of a session.")
    parser.add_argument("--trace", action="store_true", help="print every hop, in order")
    parser.add_argument("--hold", nargs=2, metavar=("URL", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.hold:
        anyio.run(_hold, asked.hold[0], Path(asked.hold[1]))
        return
    recorder = Recorder()
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    print(
        "| walk | hops | modules | crossings | less values | as before | of the upper floor |"
        " back up | most entries per child |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    shown: list[tuple[Walk, Trail, Counter[str]]] = []
    for walk, larger in zip(_walks(0), _walks(1), strict=True):
        path, child = _measure(walk, recorder), Counter[str]()
        if walk.script != larger.script or walk.killed != larger.killed:
            child = _measure(larger, recorder).entries - path.entries
        most = ", ".join(f"`{m.removeprefix('prong.')}` {n}" for m, n in child.most_common(1))
        figures = (
            *(len(path.hops), path.modules, len(path.crossings), path.less_values),
            *(path.as_before, path.upper, path.back_up),
        )
        print("|", " | ".join([walk.title, *map(str, figures), most or "-"]), "|", flush=True)
        shown.append((walk, path, child))
    if asked.trace:
        for each in shown:
            _show(*each)


if __name__ == "__main__":
    main()
