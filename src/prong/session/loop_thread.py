"""An event loop in a thread of its own, for code that has none or is not to wait for its own.

Whoever calls waits in its own thread, and can be asked to do something there meanwhile: a question
to the user belongs to the thread at which the user sits. An exception that comes while it waits,
such as a KeyboardInterrupt, cancels what was called; it is raised once that has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

from prong.errors import NotPossibleNow, SessionEnded
from prong.system.standard_stream import hold_numbers

_P = ParamSpec("_P")
_R = TypeVar("_R")

_SOON = 5.0
"""Seconds in which a call that was cancelled ends, unless it waits for the answer to a question."""


class _CallerJob(Generic[_R]):
    """Something to be done in a thread that waits for a call."""

    def __init__(self, function: Callable[[], _R]) -> None:
        self._function = function
        self.done: Future[_R | None] = Future()
        self.dropped = False

    def do(self) -> None:
        """Do it, unless nobody wants it any more; of one that is interrupted see `interrupted`."""
        if not self.done.set_running_or_notify_cancel():
            return
        try:
            self.done.set_result(self._function())
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            self.done.set_exception(error)

    def interrupted(self) -> None:
        """Let nobody wait for it any longer: whoever interrupted it has given no answer."""
        if not self.done.done():
            self.done.set_result(None)

    def drop(self) -> None:
        """Leave it to another thread."""
        self.dropped = True
        if self.done.set_running_or_notify_cancel():
            self.done.set_result(None)


class LoopThread:
    """Runs an event loop until it is stopped."""

    def __init__(self) -> None:
        """Start the thread; a daemon, since nothing else would end it at the program's end.

        Raises OSError if there can be no event loop.
        """
        # A loop's own files must not get the numbers of closed streams, either.
        hold_numbers()
        started: Future[BlockingPortal] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="prong", daemon=True
        )
        self._waiting: list[SimpleQueue[_CallerJob[Any] | None]] = []
        self._lock = threading.Lock()
        self._thread.start()
        self._portal = started.result()

    def _run(self, started: Future[BlockingPortal]) -> None:
        try:
            anyio.run(self._own, started)
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _own(self, started: Future[BlockingPortal]) -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    @property
    def alive(self) -> bool:
        """Whether the loop runs."""
        return self._thread.is_alive()

    def call(
        self, function: Callable[_P, Awaitable[_R]], *args: _P.args, **kwargs: _P.kwargs
    ) -> _R:
        """Call an async function in the loop, and wait for it.

        Raises NotPossibleNow in the loop's own thread, which would wait for itself, SessionEnded if
        it has been stopped.
        """
        if threading.current_thread() is self._thread:
            raise NotPossibleNow(
                "this was called from the client's own event loop, which would wait for itself; "
                "make the function that calls it a plain one"
            )
        if not self.alive:
            raise SessionEnded("the session has ended; open another, or resume it")
        ended, jobs = threading.Event(), SimpleQueue[_CallerJob[Any] | None]()
        known: Future[None] = Future()
        """Set once this thread can cancel what it has called; until then it does not begin."""

        async def work() -> _R:
            try:
                await asyncio.wrap_future(known)
                return await function(*args, **kwargs)
            finally:
                ended.set()

        with self._lock:
            self._waiting.append(jobs)
        future: Future[_R] | None = None
        job: _CallerJob[Any] | None = None
        try:
            future = self._portal.start_task_soon(work)
            future.add_done_callback(lambda _: jobs.put(None))
            known.set_result(None)
            while (job := jobs.get()) is not None:
                job.do()
            return future.result()
        except BaseException:
            if future is None:
                known.cancel()
            else:
                _cancel(future, ended, job)
            raise
        finally:
            with self._lock:
                self._waiting.remove(jobs)
            with suppress(Empty):
                while True:
                    if (left := jobs.get_nowait()) is not None:
                        left.drop()

    async def in_caller(self, function: Callable[[], _R]) -> _R | None:
        """Have something done in the thread that waits for a call, or in another if none does.

        None if it was interrupted.
        """
        while (job := self._post(function)) is not None:
            done = await asyncio.wrap_future(job.done)
            if not job.dropped:
                return done
        return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)

    def _post(self, function: Callable[[], _R]) -> _CallerJob[_R] | None:
        """Give something to the last who began to wait; None if nobody waits."""
        with self._lock:
            if not self._waiting:
                return None
            job = _CallerJob(function)
            self._waiting[-1].put(job)
            return job

    def stop(self) -> None:
        """End the loop, and wait for the end of the thread."""
        if self.alive:
            self.call(self._portal.stop)
            self._thread.join()


def _cancel(future: Future[Any], ended: threading.Event, job: _CallerJob[Any] | None) -> None:
    """Cancel a call and wait for its end; a job of it may have been interrupted."""
    cancelled = future.cancel()
    if job is not None:
        # The call first: whoever heard before that nothing was answered would go on without.
        if cancelled:
            ended.wait(_SOON)
        job.interrupted()
    if cancelled:
        ended.wait()
