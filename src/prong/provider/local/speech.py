"""How a conversation reads to a local model, and how its replies are read.

The text of a reply is settled: what `said` makes of a stored reply is what the model wrote, letter
for letter, as long as its calls followed the grammar. So the tokens that the engine generated are
the tokens of the stored reply, and the next request finds them in the cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec

from prong.entry import Call, CallId, Entry, Reply, Results, Stop, ToolSpec, User, plain
from prong.prompt import Prompt
from prong.provider.local.grammar import CLOSE, OPEN
from prong.provider.local.template import Role
from prong.wire import CallBegan, CallPiece, Event, HeadSpec, TextPiece

Style = Literal["full", "brief"]
"""How much of the tools' descriptions a model is shown."""

_FULL_SHARE = 0.1
_BYTES_PER_TOKEN = 3.5
_NAMED = '{"name": '
_ARGUMENTS = ', "arguments": '


class Turn(msgspec.Struct, frozen=True):
    """One turn of a conversation."""

    key: str
    """Identifies everything up to and with this turn."""
    role: Role
    text: str


def turns(prompt: Prompt, context: int) -> list[Turn]:
    """Read a prompt as turns for a model that can read so many tokens."""
    head = prompt.head
    found: list[Turn] = []
    if system := opening(head.spec, style_for(head.spec, context)):
        found.append(Turn(head.digest.hex(), "system", system))
    for node in prompt.nodes():
        entry = head.dialect.read(node.role, node.data)
        role: Role = "assistant" if isinstance(entry, Reply) else "user"
        found.append(Turn(node.digest.hex(), role, text_of(entry)))
    return found


def text_of(entry: Entry) -> str:
    """Give the text of an entry."""
    match entry:
        case User(parts):
            return plain(parts)
        case Results(results):
            return "\n".join(
                f"<tool_response>\n{'Error: ' if one.failed else ''}{plain(one.parts)}\n"
                "</tool_response>"
                for one in results
            )
        case Reply():
            return said(entry.text, entry.calls)


def said(text: str, calls: Sequence[Call]) -> str:
    """Write a reply as the model wrote it."""
    written = (
        f"{OPEN}\n{_NAMED}{json.dumps(call.name)}{_ARGUMENTS}{call.arguments}}}\n{CLOSE}"
        for call in calls
    )
    return "\n".join([*([text] if text else []), *written])


def style_for(spec: HeadSpec, context: int) -> Style:
    """Choose how tools are described: in full only if that leaves most of the context free."""
    size = sum(len(tool.description) + len(bytes(tool.schema)) for tool in spec.tools)
    return "full" if size / _BYTES_PER_TOKEN < context * _FULL_SHARE else "brief"


def opening(spec: HeadSpec, style: Style) -> str:
    """Write the system turn: the texts, and how to call which tools."""
    parts = [text for text in spec.system if text.strip()]
    if spec.tools:
        lines = [_full(tool) if style == "full" else _brief(tool) for tool in spec.tools]
        parts.append(_TOOLS.format(tools="\n".join(lines)))
    return "\n\n".join(parts)


_TOOLS = (
    "# Tools\n\n"
    "Call a tool by writing its name and a JSON object with its arguments, like this:\n"
    f'{OPEN}\n{{{{"name": "TOOL", "arguments": {{{{"ARGUMENT": "VALUE"}}}}}}}}\n{CLOSE}\n'
    "Its result comes back between <tool_response> and </tool_response>. The tools are:\n"
    "<tools>\n{tools}\n</tools>"
)


def _full(tool: ToolSpec) -> str:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": json.loads(bytes(tool.schema)),
    }
    return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def _brief(tool: ToolSpec) -> str:
    schema = cast("Mapping[str, Any]", json.loads(bytes(tool.schema) or b"{}"))
    needed = schema.get("required") or ()
    names = (name if name in needed else f"{name}?" for name in schema.get("properties") or ())
    sentence = " ".join(tool.description.split()).partition(". ")[0].rstrip(".")
    return f"{tool.name}({', '.join(names)}): {sentence[:120]}"


class Reader:
    """Reads a reply as it is written."""

    def __init__(self, prefix: str) -> None:
        """Name calls by a prefix that is unique to the reply."""
        self._prefix = prefix
        self._held = ""
        self._text: list[str] = []
        self._in_call = False
        self._calls: list[Call] = []
        self._cut = ""

    def feed(self, text: str) -> list[Event]:
        """Take more of the reply."""
        self._held += text
        events: list[Event] = []
        while self._advance(events):
            pass
        return events

    def close(self, stop: Stop) -> tuple[list[Event], str, tuple[Call, ...], Stop]:
        """Say that no more comes; gives the last events, the text, the calls and why it ended."""
        events: list[Event] = []
        if self._in_call:
            self._take_call(self._held, events)
            stop = "length" if stop == "end" else stop
        else:
            self._take_text(self._held, events)
        if stop == "end" and self._calls:
            stop = "calls"
        return events, "".join(self._text), tuple(self._calls), stop

    def _advance(self, events: list[Event]) -> bool:
        if self._in_call:
            body, found, rest = self._held.partition(f"\n{CLOSE}")
            if not found:
                return False
            self._take_call(body, events)
            # Between two calls there is one line break, which belongs to neither.
            self._held, self._in_call = rest, False
            return True
        before, found, rest = self._held.partition(OPEN)
        if found:
            self._take_text(before.removesuffix("\n"), events)
            self._held, self._in_call = rest, True
            return True
        keep = _undecided(self._held)
        self._take_text(self._held[: len(self._held) - keep], events)
        self._held = self._held[len(self._held) - keep :]
        return False

    def _take_text(self, text: str, events: list[Event]) -> None:
        if self._calls:
            # After a call only white space can come, and it means nothing.
            return
        if text:
            self._text.append(text)
            events.append(TextPiece(text))

    def _take_call(self, body: str, events: list[Event]) -> None:
        name, arguments = read_call(body)
        call = Call(CallId(f"{self._prefix}_{len(self._calls)}"), name, arguments)
        if not name:
            return
        self._calls.append(call)
        events += [CallBegan(call.id, call.name), CallPiece(call.id, call.arguments)]


def read_call(body: str) -> tuple[str, str]:
    """Take a call apart: its name and the exact text of its arguments; no name if it is none."""
    body = body.strip()
    if not body.startswith(_NAMED):
        return "", ""
    try:
        name, end = json.JSONDecoder().raw_decode(body, len(_NAMED))
    except ValueError:
        return "", ""
    rest = body[end:]
    if not isinstance(name, str) or not rest.startswith(_ARGUMENTS):
        return "", ""
    arguments = rest[len(_ARGUMENTS) :]
    try:
        _, end = json.JSONDecoder().raw_decode(arguments)
    except ValueError:
        # Cut off: the text as far as it came, as every other provider gives it.
        return name, arguments
    return name, arguments[:end]


def _undecided(text: str) -> int:
    """Count the characters at the end that may yet turn out to begin a call."""
    for marker in (f"\n{OPEN}", OPEN):
        for size in range(min(len(text), len(marker) - 1), 0, -1):
            if marker.startswith(text[-size:]):
                return size
    return 0
