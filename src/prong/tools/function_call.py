"""One call of a Python function: where it runs, what becomes of what it gives, raises or yields."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, closing
from functools import partial
from typing import Any, cast

import anyio.from_thread
from anyio.lowlevel import checkpoint

from prong.entry import CallId, Image, Part, Text
from prong.event import Warned
from prong.tools.python_call import FunctionRaised, LoopHold, call_python
from prong.tools.schema import to_json
from prong.tools.tool import CallOutcome, Context, Done, Failed

_MOST = 16_000_000
"""Characters that a result may have at all; it passes through memory, a file and hooks."""
_BATCH = 100
"""Pieces of a generator after which others get their turn."""


async def call_function(
    name: str,
    function: Callable[..., Any],
    given: dict[str, Any],
    call_id: CallId,
    context: Context,
) -> CallOutcome:
    """Call a function with what the model gave; what it gives back is told as text."""
    stream, hold = _Showing(call_id, context), LoopHold()
    call = partial(function, **given)
    if inspect.isasyncgenfunction(function):
        call = partial(_gather, call, stream)
    elif not inspect.iscoroutinefunction(function):
        call = partial(_called, call, stream)
    try:
        value = await call_python(call, hold, kind="tool")
    except FunctionRaised as raised:
        said = _sendable(str(raised.error))
        kind = type(raised.error).__name__
        return Failed(f"{name} failed: {kind}{f': {said}' if said else ''}")
    finally:
        stream.end()
        if (held := hold.complaint(f"the tool {name}")) is not None:
            context.emit(Warned(text=held))
    return _told(name, value, images=context.images)


class _Showing:
    """What a call shows while it runs; nothing after its end."""

    def __init__(self, call_id: CallId, context: Context) -> None:
        self._call_id = call_id
        self._context = context
        self.ended = False

    def show(self, text: str) -> None:
        if not self.ended:
            self._context.show(self._call_id, text)

    def end(self) -> None:
        self.ended = True


async def _gather(call: Callable[[], AsyncGenerator[object, None]], stream: _Showing) -> str:
    """Show what an asynchronous generator yields, and give all of it."""
    gathered = _Pieces()
    async with aclosing(call()) as pieces:
        async for piece in pieces:
            stream.show(gathered.add(piece))
            if gathered.size > _MOST:
                break
            if gathered.count % _BATCH == 0:
                # One that waits for nothing must not keep others from going on.
                await checkpoint()
    return gathered.text


class _Pieces:
    """What a generator has yielded so far."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.size = 0

    def add(self, piece: object) -> str:
        """Take a piece in; gives it as text."""
        text = _text(piece)
        self._texts.append(text)
        self.size += len(text)
        return text

    @property
    def count(self) -> int:
        return len(self._texts)

    @property
    def text(self) -> str:
        return "".join(self._texts)


def _called(call: Callable[[], object], stream: _Showing) -> object:
    """Call a plain function; the pieces of a generator are gathered where they come."""
    value = call()
    return _drain(value, stream) if inspect.isgenerator(value) else value


def _drain(pieces: Generator[object, Any, Any], stream: _Showing) -> str:
    """Show what a generator yields, from its thread, until the call is stopped."""
    gathered = _Pieces()
    with closing(pieces):
        for piece in pieces:
            if stream.ended or gathered.size > _MOST:
                break
            anyio.from_thread.run_sync(stream.show, gathered.add(piece))
    return gathered.text


def _text(piece: object) -> str:
    return _sendable(piece) if isinstance(piece, str) else to_json(piece).decode()


def _sendable(text: str) -> str:
    """Replace what UTF-8 cannot say, such as the halves of file names that are not text."""
    return text.encode(errors="replace").decode()


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
