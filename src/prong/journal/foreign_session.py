"""Sessions that other programs have stored, read as entries that any model can go on from.

What those programs sent is not known to the byte, so nothing of a cache is taken over. A
conversation comes out valid whatever the file holds: every call has exactly one result, replies do
not follow one another, and somebody speaks before the first. Thinking stays behind: it is signed
for bytes that are not ours. Whatever is left out is counted and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import msgspec

from prong.entry import Call, CallId, Entry, Image, Part, Reply, Result, Results, Text, User
from prong.errors import BadInput
from prong.foreign_json import NOT_JSON

LARGEST = 1 << 30
"""Bytes of a file that is read."""
_NO_RESULT = "No result of this call is recorded."
_BEFORE = "[What came before is not in the file.]"

JsonObject: TypeAlias = dict[str, Any]


class ForeignSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of another program."""

    program: Literal["Claude Code", "Codex"]
    cwd: str
    model: str
    title: str = ""
    agents: dict[str, tuple[Entry, ...]]
    """What each agent said and was told; the main one is `main`."""
    notes: tuple[str, ...]
    """What was left out, a sentence each."""


class ForeignInput(msgspec.Struct, frozen=True):
    """Something that was put before the model."""

    parts: tuple[Part, ...]
    kind: Literal["user", "summary"] = "user"


class ForeignReply(msgspec.Struct, frozen=True):
    """A part of a reply; those with one key are one reply."""

    key: str
    text: str = ""
    calls: tuple[Call, ...] = ()


ForeignStep: TypeAlias = ForeignInput | ForeignReply


class StepLog:
    """A conversation in the making: steps in their order, and results by the ids of their calls."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self.steps: list[ForeignStep] = []
        self.results: dict[str, Result] = {}

    def give(self, call_id: str, parts: tuple[Part, ...], *, failed: bool = False) -> None:
        """Take the result of a call; the first counts."""
        found = Result(CallId(call_id), parts or (Text(""),), failed=failed)
        self.results.setdefault(call_id, found)

    def leave_out(self, steps: Sequence[ForeignStep]) -> None:
        """Forget these very steps; others that say the same stay."""
        self.steps = [one for one in self.steps if all(one is not step for step in steps)]

    def entries(self) -> tuple[Entry, ...]:
        """Put the steps together so that a model's API takes them."""
        made: list[Entry] = []
        for step in _joined(_once(self.steps)):
            if isinstance(step, ForeignInput):
                made.append(User(step.parts, step.kind))
                continue
            if not made:
                made.append(User((Text(_BEFORE),), "reminder"))
            calls = step.calls
            made.append(Reply((), "", step.text, "", calls, "calls" if calls else "end"))
            if calls:
                made.append(Results(tuple(self._result(call) for call in calls)))
        return tuple(made)

    def _result(self, call: Call) -> Result:
        none = Result(call.id, (Text(_NO_RESULT),), failed=True)
        return self.results.get(call.id, none)


def _once(steps: Sequence[ForeignStep]) -> Iterator[ForeignStep]:
    """Give each call where it was first made, and no part of a reply that then says nothing."""
    called: set[str] = set()
    for step in steps:
        if isinstance(step, ForeignInput):
            yield step
            continue
        calls = {call.id: call for call in reversed(step.calls) if call.id not in called}
        called.update(calls)
        if calls or step.text.strip():
            yield ForeignReply(step.key, step.text, tuple(calls.values())[::-1])


def _joined(steps: Iterable[ForeignStep]) -> list[ForeignStep]:
    """Join the parts of one reply, and replies between which nothing happened."""
    joined: list[ForeignStep] = []
    for step in steps:
        last = joined[-1] if joined else None
        if (
            isinstance(step, ForeignReply)
            and isinstance(last, ForeignReply)
            and (step.key == last.key or not last.calls)
        ):
            text = "\n\n".join(part for part in (last.text, step.text) if part.strip())
            joined[-1] = ForeignReply(step.key, text, (*last.calls, *step.calls))
        else:
            joined.append(step)
    return joined


class ObjectLines:
    """The lines of a file that are objects; what is torn or is none is counted."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self.path = path
        self.unread = 0
        self.torn = False

    def __iter__(self) -> Iterator[JsonObject]:
        """Give each object; raises BadInput if there is too much, or it cannot be read."""
        try:
            size = self.path.stat().st_size
            if size > LARGEST:
                raise BadInput(f"{self.path} has {size >> 20} MB; up to {LARGEST >> 20} are read")
            with self.path.open("rb") as file:
                for line in file:
                    yield from self._object(line)
        except OSError as error:
            raise BadInput(f"{self.path} cannot be read ({error.strerror})") from error

    def _object(self, line: bytes) -> Iterator[JsonObject]:
        if not line.strip():
            return
        try:
            value = msgspec.json.decode(line)
        except NOT_JSON:
            self.torn = not line.endswith(b"\n")
            self.unread += not self.torn
            return
        if isinstance(value, dict):
            yield cast("JsonObject", value)
        else:
            self.unread += 1

    def notes(self) -> list[str]:
        """Say what could not be read."""
        said = [f"{self.unread} lines could not be read and are left out"] if self.unread else []
        return [*said, "its last line is torn and is left out"] if self.torn else said


def texts(value: object) -> str:
    """Give a text that may be missing."""
    return value if isinstance(value, str) else ""


def members(value: object) -> JsonObject:
    """Give an object that may be missing."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def items(value: object) -> list[JsonObject]:
    """Give the objects of a list that may be missing."""
    return [members(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


PartReader: TypeAlias = Callable[[Mapping[str, Any]], Part | None]


def read_parts(content: object, unknown: Counter[str]) -> tuple[Part, ...]:
    """Read what a message or a result is made of; blocks that are not known are counted."""
    if isinstance(content, str):
        return (Text(content),)
    found: list[Part] = []
    for block in items(content):
        part = _part(block)
        if part is not None:
            found.append(part)
        elif (kind := texts(block.get("type"))) not in _APART:
            unknown[kind or "?"] += 1
    return tuple(found)


_APART = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "reasoning"})
"""Blocks that are read elsewhere, or are left behind by design."""


def _part(block: JsonObject) -> Part | None:
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return Text(text)
        case {"type": "image", "source": {"media_type": str(kind), "data": str(data)}}:
            return Image(kind, data)
        case {"type": "input_image", "image_url": str(url)} if url.startswith("data:"):
            kind, _, data = url.removeprefix("data:").partition(";base64,")
            return Image(kind, data) if data else None
        case _:
            return None


def left_out(unknown: Counter[str]) -> list[str]:
    """Say which kinds of things were not known."""
    named = ", ".join(f"{kind[:40]} ({number})" for kind, number in sorted(unknown.items()))
    return [f"not known here, and left out: {named}"] if unknown else []
