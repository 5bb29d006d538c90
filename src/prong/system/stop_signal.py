"""Signals that ask a program to end, and how the event loop hears of them."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager

import anyio

if sys.platform == "win32":
    import asyncio
    from contextlib import suppress
    from types import FrameType

    RESIZED: signal.Signals | None = None
    """Tells that the terminal has another size; nothing does on Windows."""

    def stop_signals() -> tuple[signal.Signals, ...]:
        """Give the signals that ask for an end; one that is ignored, as by nohup, stays so."""
        return (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)

    @contextmanager
    def received(*numbers: signal.Signals) -> Generator[AsyncIterator[signal.Signals]]:
        """Give signals as they come, for the length of a block, instead of what they would do."""
        loop = asyncio.get_running_loop()
        send, receive = anyio.create_memory_object_stream[signal.Signals](32)

        def note(number: int) -> None:
            with suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
                send.send_nowait(signal.Signals(number))

        def handle(number: int, frame: FrameType | None) -> None:
            del frame
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(note, number)

        before = {number: signal.signal(number, handle) for number in numbers}
        try:
            with send, receive:
                yield receive
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def ignore_stops() -> None:
        """Let nothing but a second interrupt or force end this process from now on."""
        for number in (signal.SIGTERM, signal.SIGBREAK):
            signal.signal(number, signal.SIG_IGN)

    def end_self() -> None:
        """End this process as one that was asked to."""
        signal.raise_signal(signal.SIGTERM)

    def suspend_self() -> bool:
        """Stop as a job of the shell until it says so; False where shells have no jobs."""
        return False

    def leave_jobs_alone() -> None:
        """Let the shell's signals for jobs do what they do by themselves: there are none."""

else:
    import os

    RESIZED: signal.Signals | None = signal.SIGWINCH
    """Tells that the terminal has another size; nothing does on Windows."""

    def stop_signals() -> tuple[signal.Signals, ...]:
        """Give the signals that ask for an end; one that is ignored, as by nohup, stays so."""
        asked = (signal.SIGINT, signal.SIGTERM)
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        return asked if ignored else (*asked, signal.SIGHUP)

    @contextmanager
    def received(*numbers: signal.Signals) -> Generator[AsyncIterator[signal.Signals]]:
        """Give signals as they come, for the length of a block, instead of what they would do."""
        with anyio.open_signal_receiver(*numbers) as signals:
            yield signals

    def ignore_stops() -> None:
        """Let nothing but a second interrupt or force end this process from now on."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def end_self() -> None:
        """End this process as one that was asked to."""
        os.kill(os.getpid(), signal.SIGTERM)

    def suspend_self() -> bool:
        """Stop as a job of the shell until it says so; False where shells have no jobs."""
        os.kill(os.getpid(), signal.SIGSTOP)
        return True

    def leave_jobs_alone() -> None:
        """Let the shell's signals for jobs do what they do by themselves."""
        for number in (signal.SIGTSTP, signal.SIGCONT):
            signal.signal(number, signal.SIG_DFL)
