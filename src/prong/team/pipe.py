"""Runs agents in processes of their own, on this machine.

A worker is a program that speaks the protocol of `message` over its two pipes. It has no connection
to the session but these: when they end, it ends, and when it ends before its run does, the run has
failed. Whatever it does wrong ends it, with a reason.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from signal import SIGKILL

import anyio
import anyio.abc
import msgspec

from prong.agent import Agent, Turn
from prong.errors import ProngError, WorkerFailed
from prong.host import make_private
from prong.host.dialogue import Dialogue
from prong.ids import task_of
from prong.team.describe import describe, greeting, rope
from prong.team.home import Home
from prong.team.message import (
    PROTOCOL,
    Begin,
    Deliver,
    Down,
    EndNow,
    Fire,
    Frames,
    MayEnd,
    MayRun,
    MaySend,
    Over,
    Ready,
    RulesSet,
    Up,
    Use,
    WorkerAsk,
    answered,
    frame,
    read_up,
)
from prong.team.run import (
    RunSpec,
)
from prong.team.runner import Until
from prong.tools.policy import Policy

_WORKER = ("-m", "prong", "worker", "--stdio")
"""After `-P`: no module of the folder that it works in is ever taken for one of ours."""

_QUESTIONS = 1_000
"""Questions of one worker that may wait for an answer."""

_SHOWN = 300
"""Characters that are shown of a worker's last words."""


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a worker is waited for, in seconds."""

    start: float = 60.0
    """Until it says its first word."""
    silence: float = 120.0
    """Between two messages: while nothing happens, it says every now and then that it is there."""
    stop: float = 5.0
    """Until it has ended when it was asked to."""


class Processes:
    """Runs each agent in a process of its own."""

    def __init__(self, command: Sequence[str] = (), *, waits: Waits | None = None) -> None:
        """Take the command that starts a worker; this very program if none is given."""
        self._command = tuple(command) or (sys.executable, "-P", *_WORKER)
        self._waits = waits or Waits()

    async def live(self, agent: Agent, *, until: Until) -> Turn:
        """Run turns from where the agent stands to the last one, which is given back.

        Raises WorkerFailed if the process is lost or breaks the protocol, UsageError if the agent
        cannot run in another process.
        """
        home = Home(agent, until, prefix=f"{task_of(agent.path)}-")
        spec = describe(agent, ())
        hello = frame(greeting(agent))
        errors = Path(spec.beside.scratch, "errors.txt")
        talk = self._start(spec, errors)
        line = _Link(talk, home, agent, self._waits)
        why = "the process in which it ran was stopped"
        try:
            return await line.hold(hello, spec)
        except ProngError as error:
            told = f"{agent.conversation.secrets.mask(str(error))}{_last_words(agent, errors)}"
            why = f"the process in which it ran failed: {told}"
            raise WorkerFailed(why) from error
        except anyio.get_cancelled_exc_class():
            await line.stop()
            raise
        finally:
            await talk.close(grace=self._waits.stop if line.ending else 0.0)
            home.close(why)

    def _start(self, spec: RunSpec, errors: Path) -> Dialogue:
        try:
            make_private(errors.parent)
            with errors.open("wb") as file:
                return Dialogue(
                    self._command,
                    cwd=spec.beside.scratch,
                    env={},
                    errors=file.fileno(),
                    withhold=spec.place.withhold,
                )
        except OSError as error:
            raise WorkerFailed(f"no process could be started for it: {error}") from error


class _Link:
    """The line to one worker."""

    def __init__(self, talk: Dialogue, home: Home, agent: Agent, waits: Waits) -> None:
        self._talk = talk
        self._home = home
        self._agent = agent
        self._waits = waits
        self._frames = Frames()
        self._incoming: AsyncGenerator[Up, None] = self._messages()
        self._policy: Policy = agent.policy.policy
        self._failure: ProngError | None = None
        self._asked = 0
        """Questions without an answer."""
        self.ending = False
        """Whether it was asked to end, or has said that it does."""

    async def hold(self, hello: bytes, spec: RunSpec) -> Turn:
        """Greet the worker, have it run, and listen until it says that it is done."""
        turn: Turn | None = None
        async with anyio.create_task_group() as group:
            try:
                await self._greet(hello)
                group.start_soon(self._guarded, partial(self._give, spec))
                turn = await self._listen(group)
            except ProngError as error:
                self._failure = self._failure or error
            group.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        assert turn is not None
        return turn

    async def _greet(self, hello: bytes) -> None:
        with anyio.move_on_after(self._waits.start) as scope:
            await self._post(hello)
            first = await anext(self._incoming, None)
            if not isinstance(first, Ready):
                raise await self._lost() if first is None else WorkerFailed("it did not say hello")
            if first.version != PROTOCOL:
                raise WorkerFailed(
                    f"it speaks version {first.version} of the protocol, and this is {PROTOCOL}; "
                    "both must be of the same prong"
                )
        if scope.cancelled_caught:
            raise WorkerFailed(f"it said nothing for {self._waits.start:g} seconds after its start")

    async def _give(self, spec: RunSpec) -> None:
        """Send the rope and the run, and from then on whatever waits for the agent."""
        for piece in rope(self._agent):
            await self._send(piece)
        await self._send(Begin(spec=msgspec.structs.replace(spec, inbox=self._home.collect())))
        while True:
            await self._agent.inbox.wait()
            for waiting in self._home.collect():
                await self._send(Deliver(waiting=waiting))

    async def _listen(self, group: anyio.abc.TaskGroup) -> Turn:
        async for message in self._incoming:
            match message:
                case MaySend() | MayRun() | MayEnd() | Fire() | Use():
                    self._asked += 1
                    if self._asked > _QUESTIONS:
                        raise WorkerFailed(f"it asked more than {_QUESTIONS} questions at once")
                    group.start_soon(self._guarded, partial(self._answer, message))
                case Over():
                    self.ending = True
                    if self._home.last is None:
                        raise WorkerFailed("it ended before it was told that it may")
                    return self._home.last
                case _:
                    self._home.take(message)
        raise await self._lost()

    async def _answer(self, ask: WorkerAsk) -> None:
        try:
            value = await self._home.answer(ask)
        finally:
            self._asked -= 1
        policy = self._agent.policy.policy
        if policy is not self._policy and policy != self._policy:
            # Before the answer, so that what it allows is done by the rules that hold now.
            await self._send(RulesSet(policy=policy))
        self._policy = policy
        await self._send(answered(ask, value))

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something beside the listening; its failure is that of the whole."""
        try:
            await work()
        except ProngError as error:
            self._failure = self._failure or error
            # Whoever listens hears that it is gone.
            self._talk.group.signal(SIGKILL)

    async def stop(self) -> None:
        """Ask the worker to end, and keep what it still has to say."""
        self.ending = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._waits.stop):
            try:
                await self._send(EndNow())
                async for message in self._messages():
                    if not isinstance(message, MaySend | MayRun | MayEnd | Fire | Use | Over):
                        self._home.take(message)
            except ProngError:
                self.ending = False

    async def _send(self, message: Down) -> None:
        await self._post(frame(message))

    async def _post(self, data: bytes) -> None:
        try:
            await self._talk.send(data)
        except OSError:
            # It is gone; whoever listens finds out how.
            self._talk.hang_up()

    async def _messages(self) -> AsyncGenerator[Up, None]:
        async with aclosing(self._talk.chunks()) as chunks:
            while True:
                data: bytes | None = None
                with anyio.move_on_after(self._waits.silence):
                    data = await anext(chunks, b"")
                if data is None:
                    why = f"nothing was heard of it for {self._waits.silence:g} seconds"
                    raise WorkerFailed(why)
                if not data:
                    return
                for whole in self._frames.feed(data):
                    yield read_up(whole)

    async def _lost(self) -> WorkerFailed:
        # Its pipe may be closed a moment before it is known how it ended.
        with anyio.move_on_after(self._waits.stop):
            await self._talk.group.exited.wait()
        how = self._talk.ending or "it closed its pipe"
        torn = ", in the middle of a message" if self._frames.torn else ""
        return WorkerFailed(f"{how}{torn} before its work was done; what it had done is kept")


def _last_words(agent: Agent, errors: Path) -> str:
    try:
        said = errors.read_bytes()[-4_000:].decode(errors="replace").strip()
    except OSError:
        return ""
    if not said:
        return ""
    line = agent.conversation.secrets.mask(said.splitlines()[-1].strip())[:_SHOWN]
    return f" (its last words: {line}; more in {errors})"
