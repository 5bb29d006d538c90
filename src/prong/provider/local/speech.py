"""How a conversation reads to a local model, and how its replies are read.

The text of a reply is settled: what its form makes of a stored reply is what the model wrote,
letter for letter, as long as its calls followed the grammar. So the tokens that the engine
generated are the tokens of the stored reply, and the next request finds them in the cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from prong.entry import Call, CallId, Entry, Reply, Results, StopReason, ToolSpec, User, plain
from prong.prompt import Prompt
from prong.provider.local.form import NAME, TAGGED, Form
from prong.provider.local.template import ChatRole
from prong.wire import CallBegan, CallPiece, HeadSpec, TextPiece, WireEvent
from prong.wire.brief import full_size, needed, needed_schema, schema_of, sentence

Style = Literal["full", "brief"]
"""How much of the tools' descriptions a model is shown."""

_FULL_SHARE = 0.1


class ChatTurn(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    key: str
    """Identifies everything up to and with this turn."""
    role: ChatRole
    pieces: list[str]
    """Contents and the form's marks in turn, contents first."""

    @property
    def text(self) -> str:
        """What it says."""
        return "".join(self.pieces)


def turns(prompt: Prompt, context: int, form: Form = TAGGED) -> list[ChatTurn]:
    """Read a prompt as turns for a model that can read so many tokens."""
    head = prompt.head
    found = _opening(head.spec, style_for(head.spec, context), form, head.digest.hex())
    for node in prompt.nodes():
        entry = head.dialect.read(node.role, node.data)
        found.append(ChatTurn(node.digest.hex(), *_turn(entry, form)))
    return found


def _turn(entry: Entry, form: Form) -> tuple[ChatRole, list[str]]:
    match entry:
        case User(parts):
            return "user", [plain(parts)]
        case Results(results):
            return "user" if form.results == "user" else "tool", form.answered(results)
        case Reply():
            return "assistant", form.said(entry.text, entry.calls)


def style_for(spec: HeadSpec, context: int) -> Style:
    """Choose how tools are described: in full only if that leaves most of the context free."""
    return "full" if full_size(spec.tools) < context * _FULL_SHARE else "brief"


def _opening(spec: HeadSpec, style: Style, form: Form, key: str) -> list[ChatTurn]:
    """Write the system turn: the texts, and how to call which tools."""
    system = "\n\n".join(text for text in spec.system if text.strip())
    if not spec.tools:
        return [ChatTurn(key, "system", [system])] if system else []
    lines = [_described(tool, style, form) for tool in spec.tools]
    first, *rest = form.listing(lines)
    if form.apart:
        tools = ChatTurn(f"tools {key}", "tools", [first, *rest])
        return [tools, ChatTurn(key, "system", [system])] if system else [tools]
    return [ChatTurn(key, "system", [f"{system}\n\n{first}" if system else first, *rest])]


def _described(tool: ToolSpec, style: Style, form: Form) -> str:
    if style == "full":
        return _json(tool, tool.description, json.loads(bytes(tool.schema) or b"{}"))
    return _brief_json(tool) if form.apart else _brief(tool)


def _json(tool: ToolSpec, description: str, schema: Mapping[str, Any]) -> str:
    function = {"name": tool.name, "description": description, "parameters": schema}
    return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def _brief(tool: ToolSpec) -> str:
    """Describe a tool in a line; what may be left out is, or a small model fills all of it in."""
    return f"{tool.name}({', '.join(needed(schema_of(tool)))}): {sentence(tool)}"


def _brief_json(tool: ToolSpec) -> str:
    """Describe a tool to a model that reads nothing but a list of objects: what it must have."""
    return _json(tool, sentence(tool), needed_schema(tool))


class ReplyReader:
    """Reads a reply as it is written."""

    def __init__(self, prefix: str, form: Form | None = TAGGED) -> None:
        """Name calls by a prefix that is unique to the reply; without a form there are none."""
        self._prefix = prefix
        self._form = form
        self._held = ""
        self._text: list[str] = []
        self._in_call = False
        self._calls: list[Call] = []

    def feed(self, text: str) -> list[WireEvent]:
        """Take more of the reply."""
        self._held += text
        events: list[WireEvent] = []
        if self._form is None:
            self._take_text(len(self._held), events)
            return events
        if not self._in_call:
            self._seek(self._form, events)
        # An object can end only where a brace does.
        while self._in_call and "}" in text and self._take_call(self._form, events):
            pass
        return events

    def close(self, stop: StopReason) -> tuple[list[WireEvent], str, tuple[Call, ...], StopReason]:
        """Say that no more comes; gives the last events, the text, the calls and why it ended."""
        events: list[WireEvent] = []
        if self._form is not None and self._in_call:
            if NAME in self._held:
                self._take_call(self._form, events, cut=True)
                stop = "length" if stop == "end" else stop
        else:
            self._take_text(len(self._held), events)
        if stop == "end" and self._calls:
            stop = "calls"
        return events, "".join(self._text), tuple(self._calls), stop

    def _seek(self, form: Form, events: list[WireEvent]) -> None:
        """Give out text up to where a call begins, or might yet."""
        opening = form.begin.rstrip("\n") or NAME
        at = self._held.find(opening)
        if not form.begin and (at > 0 or self._text):
            # Here a reply is a call from its first letter, or text.
            at = -1
        if at < 0:
            self._take_text(len(self._held) - self._undecided(form, opening), events)
            return
        before = self._held[:at]
        self._take_text(len(before.removesuffix(form.lead)) if form.begin else 0, events)
        self._in_call = True

    def _undecided(self, form: Form, opening: str) -> int:
        """Count the characters at the end that may yet turn out to begin a call."""
        if not form.begin:
            held = self._held
            return len(held) if opening.startswith(held) and not self._text else 0
        for marker in (f"{form.lead}{opening}", opening):
            for size in range(min(len(self._held), len(marker) - 1), 0, -1):
                if marker.startswith(self._held[-size:]):
                    return size
        return 0

    def _take_text(self, size: int, events: list[WireEvent]) -> None:
        text, self._held = self._held[:size], self._held[size:]
        if text:
            self._text.append(text)
            events.append(TextPiece(text))

    def _take_call(self, form: Form, events: list[WireEvent], *, cut: bool = False) -> bool:
        """Take the next object; of one that was cut off, as far as it came."""
        at = self._held.find(NAME)
        if at < 0:
            return False
        name, arguments, size = read_call(self._held[at:], form)
        if not size and not cut:
            return False
        self._held = self._held[at + size :] if size else ""
        if name:
            call = Call(CallId(f"{self._prefix}_{len(self._calls)}"), name, arguments)
            self._calls.append(call)
            events += [CallBegan(call.id, call.name), CallPiece(call.id, call.arguments)]
        return bool(size)


def read_call(text: str, form: Form = TAGGED) -> tuple[str, str, int]:
    """Take a call apart: its name, the exact text of its arguments, and its length.

    There is no name if it is no call, and the length is 0 if it is not whole.
    """
    decoder = json.JSONDecoder()
    try:
        name, end = decoder.raw_decode(text, len(NAME))
    except ValueError:
        return "", "", 0
    start = end + len(form.middle)
    if not isinstance(name, str) or text[end:start] != form.middle:
        return "", "", 0
    try:
        _, end = decoder.raw_decode(text, start)
    except ValueError:
        # Cut off: the text as far as it came, as every other provider gives it.
        return name, text[start:], 0
    close = text.find("}", end)
    return name, text[start:end], close + 1
