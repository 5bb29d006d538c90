"""One call of a Python function: where it runs, what becomes of what it gives, raises or yields."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from types import coroutine
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

from prong.entry import CallId, Image, Part, Text
from prong.event import Warned
from prong.tools.schema import to_json
from prong.tools.tool import CallOutcome, Context, Done, Failed

_MOST = 16_000_000
"""Characters that a result may have at all; it passes through memory, a file and hooks."""
_THREADS = 64
"""Plain functions that run at once; others wait."""
_HELD = 1.0
"""Seconds for which a function may keep the event loop, and with it all agents, from going on."""

_limiter: anyio.lowlevel.RunVar[anyio.CapacityLimiter] = anyio.lowlevel.RunVar("function_threads")


async def call_function(
    name: str,
    function: Callable[..., Any],
    given: dict[str, Any],
    call_id: CallId,
    context: Context,
) -> CallOutcome:
    """Call a function with what the model gave; what it gives back is told as text."""
    stream = _Showing(call_id, context)
    try:
        if inspect.iscoroutinefunction(function):
            value = await _watched(function(**given), stream.note_held)
        elif inspect.isasyncgenfunction(function):
            value = await _watched(_gather(function(**given), stream), stream.note_held)
        else:
            value = await _in_thread(partial(function, **given), stream)
            if inspect.iscoroutine(value):
                value = await _watched(value, stream.note_held)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody has stopped this call: something that the function waits for was cancelled.
        return _raised(name, error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the model is told, and can do otherwise
        return _raised(name, error)
    finally:
        stream.end()
        if stream.held >= _HELD:
            context.emit(
                Warned(
                    text=f"the tool {name} kept the event loop for {stream.held:.1f} s, in which "
                    f"no agent could go on; make it a plain function, which runs in a thread"
                )
            )
    return _told(name, value, images=context.images)


class _Raised(Exception):
    """What a function raised in its thread, whatever that is."""


class _Showing:
    """What a call shows while it runs; nothing after its end."""

    def __init__(self, call_id: CallId, context: Context) -> None:
        self._call_id = call_id
        self._context = context
        self.ended = False
        self.held = 0.0

    def show(self, text: str) -> None:
        if not self.ended:
            self._context.show(self._call_id, text)

    def note_held(self, seconds: float) -> None:
        self.held = max(self.held, seconds)

    def end(self) -> None:
        self.ended = True


def _raised(name: str, error: BaseException) -> Failed:
    cause = error.__cause__ if isinstance(error, _Raised) and error.__cause__ else error
    said = _sendable(str(cause))
    return Failed(f"{name} failed: {type(cause).__name__}{f': {said}' if said else ''}")


async def _gather(pieces: AsyncGenerator[object, None], stream: _Showing) -> str:
    """Show what an asynchronous generator yields, and give all of it."""
    texts: list[str] = []
    async with aclosing(pieces):
        async for piece in pieces:
            texts.append(_text(piece))
            stream.show(texts[-1])
    return "".join(texts)


async def _in_thread(function: Callable[[], Any], stream: _Showing) -> object:
    """Call a plain function, and go on at once if the call is stopped.

    Python cannot stop a thread: what runs there goes on, unseen, up to its next `yield` or end.
    """
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(_THREADS)
        _limiter.set(limiter)

    def call() -> object:
        try:
            value = function()
            if inspect.isgenerator(value):
                return _drain(cast("Iterator[object]", value), stream)
        except BaseException as error:
            # Some, such as StopIteration, cannot be passed between threads as they are.
            raise _Raised from error
        return value

    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=limiter)


def _drain(pieces: Iterator[object], stream: _Showing) -> str:
    """Show what a generator yields, from its thread, until the call is stopped."""
    texts: list[str] = []
    for piece in pieces:
        if stream.ended:
            break
        texts.append(_text(piece))
        anyio.from_thread.run_sync(stream.show, texts[-1])
    return "".join(texts)


def _text(piece: object) -> str:
    return _sendable(piece) if isinstance(piece, str) else to_json(piece).decode()


def _sendable(text: str) -> str:
    """Replace what UTF-8 cannot say, such as the halves of file names that are not text."""
    return text.encode(errors="replace").decode()


@coroutine
def _watched(
    work: Coroutine[Any, Any, Any], note: Callable[[float], None]
) -> Generator[Any, Any, Any]:
    """Run a coroutine step by step, and note how long each keeps the event loop."""
    sent: Any = None
    step: Callable[[Any], Any] = work.send
    while True:
        began = time.monotonic()
        try:
            waits_for = step(sent)
        except StopIteration as ended:
            return ended.value
        finally:
            note(time.monotonic() - began)
        try:
            sent = yield waits_for
            step = work.send
        except BaseException as error:  # noqa: BLE001 - passed on into the coroutine
            sent, step = error, work.throw


def _told(name: str, value: object, *, images: bool) -> CallOutcome:
    """Make what a function gave a result."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Failed(f"{name} gave bytes, which no model can read; it has to give a text")
    if value is None:
        return Done((Text("(no output)"),))
    if (parts := _as_parts(value)) is not None:
        return _bounded(name, parts, images=images)
    try:
        text = _text(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return Failed(f"{name} gave what cannot be told to a model: {error}")
    return _bounded(name, [Text(text or "(no output)")], images=images)


def _as_parts(value: object) -> list[Part] | None:
    """Take texts and pictures as they are, one or a list of them; None if it is neither."""
    given = cast("list[object]", value) if isinstance(value, list) else [value]
    parts = [one for one in given if isinstance(one, (Text, Image))]
    return parts if parts and len(parts) == len(given) else None


def _bounded(name: str, parts: Sequence[Part], *, images: bool) -> CallOutcome:
    size = sum(len(one.text if isinstance(one, Text) else one.data) for one in parts)
    if size > _MOST:
        return Failed(
            f"{name} gave {size:,} characters, of which {_MOST:,} can be kept: ask it for less"
        )
    if not images and any(isinstance(one, Image) for one in parts):
        seen = Text("[a picture: this model cannot see pictures]")
        parts = [one if isinstance(one, Text) else seen for one in parts]
    return Done(tuple(parts))
