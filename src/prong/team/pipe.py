"""Runs agents in processes of their own.

A worker is a program that speaks the protocol of `message` over its two pipes. It has no connection
to the session but these: when they end, it ends, and when it ends before its run does, the run has
failed. Whatever it does wrong in a run ends that run, with a reason.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial

import anyio
import anyio.abc
import msgspec

from prong.agent import Agent, Turn
from prong.errors import ProngError, WorkerFailed
from prong.host.launcher import WORKER
from prong.ids import task_of
from prong.team.describe import describe, run_keys
from prong.team.home import Home
from prong.team.message import (
    Begin,
    Deliver,
    EndNow,
    Fire,
    MayEnd,
    MayRun,
    MaySend,
    Over,
    RulesSet,
    RunKeys,
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
from prong.team.worker_line import Channel, Waits, WorkerLine
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
        spec, keys = describe(agent, ()), run_keys(agent)
        line = WorkerLine(
            self._command,
            folder=spec.beside.scratch,
            waits=self._waits,
            withhold=spec.place.withhold,
        )
        turn, failure = None, None
        async with anyio.create_task_group() as group:
            group.start_soon(_carry, line)
            try:
                turn = await hold_run(line.open(), home, agent, keys, spec, grace=0.0)
            except ProngError as error:
                failure = error
            finally:
                await line.close(grace=0.0 if turn is None else self._waits.stop)
        if failure is not None:
            raise failure
        assert turn is not None
        return turn


async def _carry(line: WorkerLine) -> None:
    """Let a line carry until it is closed: whoever is cancelled has something to say by it."""
    with anyio.CancelScope(shield=True):
        await line.carry()


async def hold_run(
    channel: Channel, home: Home, agent: Agent, keys: RunKeys, spec: RunSpec, *, grace: float
) -> Turn:
    """Have a worker run an agent to its last turn; whatever happens, the channel is closed then.

    That it has ended over there is waited for so many seconds.

    Raises WorkerFailed if it is lost or breaks the protocol.
    """
    held = _HeldRun(channel, home, agent)
    why = "the process in which it ran was stopped"
    try:
        return await held.run(keys, spec)
    except ProngError as error:
        secrets = agent.conversation.secrets
        told = f"{secrets.mask(str(error))}{channel.line.last_words(secrets)}"
        why = f"the process in which it ran failed: {told}"
        raise WorkerFailed(why) from error
    except anyio.get_cancelled_exc_class():
        await held.stop()
        raise
    finally:
        await channel.close(grace=grace)
        home.close(why)


class _HeldRun:
    """One run that a worker does."""

    def __init__(self, channel: Channel, home: Home, agent: Agent) -> None:
        self._channel = channel
        self._home = home
        self._agent = agent
        self._policy: Policy = agent.policy.policy
        self._failure: ProngError | None = None
        self._asked = 0
        """Questions without an answer."""

    async def run(self, keys: RunKeys, spec: RunSpec) -> Turn:
        """Have the worker run it, and listen until it says that it is done."""
        turn: Turn | None = None
        async with anyio.create_task_group() as group, aclosing(self._channel.frames()) as frames:
            try:
                await self._channel.line.wait_ready()
                group.start_soon(self._guarded, partial(self._give, keys, spec))
                turn = await self._listen(group, frames)
            except ProngError as error:
                self._failure = self._failure or error
            group.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        assert turn is not None
        return turn

    async def _give(self, keys: RunKeys, spec: RunSpec) -> None:
        """Send the rope and the run, and from then on whatever waits for the agent."""
        await self._channel.lend(self._agent.conversation.prompt)
        given = msgspec.structs.replace(spec, inbox=self._home.collect())
        await self._channel.send(Begin(spec=given, keys=keys))
        while True:
            await self._agent.inbox.wait()
            for waiting in self._home.collect():
                await self._channel.send(Deliver(waiting=waiting))

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
                    if self._home.last is None:
                        raise WorkerFailed("it ended before it was told that it may")
                    return self._home.last
                case _:
                    self._home.take(message)
        raise self._channel.lost()

    async def _answer(self, ask: WorkerAsk) -> None:
        try:
            value = await self._home.answer(ask)
            policy = self._agent.policy.policy
            if policy is not self._policy and policy != self._policy:
                # Before the answer, so that what it allows is done by the rules that hold now.
                await self._channel.send(RulesSet(policy=policy))
            self._policy = policy
            await self._channel.send(answered(ask, value))
        finally:
            # Not before there was room for it: whoever asks and does not listen is bounded too.
            self._asked -= 1

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something beside the listening; its failure is that of the whole."""
        try:
            await work()
        except ProngError as error:
            self._failure = self._failure or error
            self._channel.abort()

    async def stop(self) -> None:
        """Ask the worker to end, and keep what it still has to say."""
        with (
            anyio.CancelScope(shield=True),
            anyio.move_on_after(self._channel.waits.stop),
            suppress(ProngError),
        ):
            await self._channel.send(EndNow())
            async with aclosing(self._channel.frames()) as frames:
                async for data in frames:
                    message = read_up(data)
                    if not isinstance(message, MaySend | MayRun | MayEnd | Fire | Use | Over):
                        self._home.take(message)
