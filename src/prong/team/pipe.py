"""Runs agents in processes of their own.

A worker is a program that speaks the protocol of `message` over its two pipes. It has no connection
to the session but these: when they end, it ends, and when it ends before its run does, the run has
failed. Whatever it does wrong ends it, with a reason.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial

import anyio
import anyio.abc
import msgspec

from prong.agent import Agent, Turn
from prong.errors import ProngError, WorkerFailed
from prong.host.launcher import WORKER
from prong.ids import task_of
from prong.team.describe import describe, greeting, rope
from prong.team.home import Home
from prong.team.message import (
    Begin,
    Deliver,
    EndNow,
    Fire,
    Hello,
    MayEnd,
    MayRun,
    MaySend,
    Over,
    RulesSet,
    Up,
    Use,
    WorkerAsk,
    answered,
    read_up,
)
from prong.team.run import (
    RunSpec,
)
from prong.team.runner import Until
from prong.team.worker_line import Waits, WorkerLine
from prong.tools.policy import Policy

_QUESTIONS = 1_000
"""Questions of one worker that may wait for an answer."""


class Processes:
    """Runs each agent in a process of its own on this machine."""

    def __init__(self, command: Sequence[str] = (), *, waits: Waits | None = None) -> None:
        """Take the command that starts a worker; this very program if none is given."""
        self._command = tuple(command) or (sys.executable, *WORKER)
        self._waits = waits or Waits()

    async def live(self, agent: Agent, *, until: Until) -> Turn:
        """Run turns from where the agent stands to the last one, which is given back.

        Raises WorkerFailed if the process is lost or breaks the protocol, UsageError if the agent
        cannot run in another process.
        """
        home = Home(agent, until, prefix=f"{task_of(agent.path)}-")
        spec, hello = describe(agent, ()), greeting(agent)
        place = spec.place
        line = WorkerLine(
            self._command, folder=spec.beside.scratch, waits=self._waits, withhold=place.withhold
        )
        return await hold_run(line, home, agent, hello, spec)


async def hold_run(line: WorkerLine, home: Home, agent: Agent, hello: Hello, spec: RunSpec) -> Turn:
    """Have a worker run an agent to its last turn; whatever happens, the line is closed then.

    Raises WorkerFailed if it is lost or breaks the protocol.
    """
    held = _HeldRun(line, home, agent)
    why = "the process in which it ran was stopped"
    try:
        return await held.run(hello, spec)
    except ProngError as error:
        secrets = agent.conversation.secrets
        told = f"{secrets.mask(str(error))}{line.last_words(secrets)}"
        why = f"the process in which it ran failed: {told}"
        raise WorkerFailed(why) from error
    except anyio.get_cancelled_exc_class():
        await held.stop()
        raise
    finally:
        await line.close(grace=line.waits.stop if held.ending else 0.0)
        home.close(why)


class _HeldRun:
    """One run that a worker does."""

    def __init__(self, line: WorkerLine, home: Home, agent: Agent) -> None:
        self._line = line
        self._home = home
        self._agent = agent
        self._policy: Policy = agent.policy.policy
        self._failure: ProngError | None = None
        self._asked = 0
        """Questions without an answer."""
        self.ending = False
        """Whether it was asked to end, or has said that it does."""

    async def run(self, hello: Hello, spec: RunSpec) -> Turn:
        """Greet the worker, have it run, and listen until it says that it is done."""
        turn: Turn | None = None
        async with anyio.create_task_group() as group, aclosing(self._line.frames()) as frames:
            try:
                await self._line.greet(hello, frames)
                group.start_soon(self._guarded, partial(self._give, spec))
                turn = await self._listen(group, frames)
            except ProngError as error:
                self._failure = self._failure or error
            group.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        assert turn is not None
        return turn

    async def _give(self, spec: RunSpec) -> None:
        """Send the rope and the run, and from then on whatever waits for the agent."""
        for piece in rope(self._agent):
            await self._line.send(piece)
        given = msgspec.structs.replace(spec, inbox=self._home.collect())
        await self._line.send(Begin(spec=given))
        while True:
            await self._agent.inbox.wait()
            for waiting in self._home.collect():
                await self._line.send(Deliver(waiting=waiting))

    async def _listen(
        self, group: anyio.abc.TaskGroup, frames: AsyncGenerator[bytes, None]
    ) -> Turn:
        async for data in frames:
            message: Up = read_up(data)
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
        raise await self._line.lost()

    async def _answer(self, ask: WorkerAsk) -> None:
        try:
            value = await self._home.answer(ask)
        finally:
            self._asked -= 1
        policy = self._agent.policy.policy
        if policy is not self._policy and policy != self._policy:
            # Before the answer, so that what it allows is done by the rules that hold now.
            await self._line.send(RulesSet(policy=policy))
        self._policy = policy
        await self._line.send(answered(ask, value))

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something beside the listening; its failure is that of the whole."""
        try:
            await work()
        except ProngError as error:
            self._failure = self._failure or error
            self._line.kill()

    async def stop(self) -> None:
        """Ask the worker to end, and keep what it still has to say."""
        self.ending = True
        with anyio.CancelScope(shield=True), anyio.move_on_after(self._line.waits.stop):
            try:
                await self._line.send(EndNow())
                async with aclosing(self._line.frames()) as frames:
                    async for data in frames:
                        message = read_up(data)
                        if not isinstance(message, MaySend | MayRun | MayEnd | Fire | Use | Over):
                            self._home.take(message)
            except ProngError:
                self.ending = False
