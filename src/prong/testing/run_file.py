r"""A run as a file: every request of every agent and what came back, to be read and compared.

    prong recorded run 1
    {"masks":{},"places":["home"]}

    === main 1 POST /v1/messages (1 2 5)
    > {"model":"claude-sonnet-5-5","messages":[
    > {"role":"user","content":"Hello.\n
    > Who are you?"}]}
    --- 200 text/event-stream
    < event: message_start
    | data: {"type":"message_start"}
    |

    === main/a1 1 POST /v1/messages (3 4 6)
    = main 1 1-2
    > Look at b.py."}]}

The lines of a request, put together without anything between, are its body: they are cut where
that makes them readable. `=` stands for lines of an earlier request, which are shared. `<` is the
first line of a piece of the stream, `|` one more of it, each with its line feed; `~` after either
says that there is none, a quote that the line is written as JSON. The numbers say in which order
of all things that happened the request came, its reply began and its reply ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

import msgspec

from prong.errors import BadInput
from prong.ids import AgentPath, upwards

TITLE = "prong recorded run 1"
CLIENT = "-"
"""In the place of an agent, for requests that name none."""

RunEnd: TypeAlias = Literal["whole", "cut", "gone"]
"""How a reply ended: `cut` if it broke off, `gone` if the client did not wait for the rest."""

_CUT = re.compile(r'(?<=\\n)(?=[^"])|(?<=[\[,])(?=\{"(?:type|role|name|content)")|(?=,"cache_con)')
_HEADING = re.compile(
    r"=== (?P<agent>\S+)(?: \[(?P<sidecar>[\w-]+)\])? (?P<number>\d+) (?P<method>[A-Z]+) "
    r"(?P<path>\S+) \((?P<asked>\d+) (?P<began>\d+) (?P<answered>\d+)\)"
)
_ANSWER = re.compile(r"--- (?P<status>\d+)(?: (?P<kind>\S+))?")
_SAME = re.compile(r"= (?P<key>.+) (?P<number>\d+) (?P<first>\d+)-(?P<last>\d+)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_PLAIN = re.compile(r"(?:[^\x00-\x1f\x7f\ud800-\udfff]*[^\x00-\x20\x7f\s\ud800-\udfff])?")


class RecordedExchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request in its normal form, and its reply."""

    agent: str
    """The path of the agent that asked."""
    sidecar: str = ""
    """What a request beside the agent's conversation is for."""
    number: int
    """Which request of that agent it is, counted from 1."""
    method: str = "POST"
    path: str
    body: bytes
    status: int
    kind: str = ""
    """The content type of the reply."""
    pieces: tuple[bytes, ...] = ()
    end: RunEnd = "whole"
    order: tuple[int, int, int]
    """When it came, when its reply began and when it ended, among all that happened."""

    @property
    def key(self) -> str:
        """Who asks, and what for."""
        return f"{self.agent} [{self.sidecar}]" if self.sidecar else self.agent

    @property
    def optional(self) -> bool:
        """Whether nobody misses it: it is beside the conversation, or about the server."""
        return bool(self.sidecar) or self.method != "POST"


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    exchanges: tuple[RecordedExchange, ...]
    """In the order in which the requests came."""
    masks: Mapping[str, str] = {}
    places: tuple[str, ...] = ()
    """The names of values that whoever replays it has to give."""


class _RunHeader(msgspec.Struct, frozen=True):
    masks: dict[str, str] = {}
    places: tuple[str, ...] = ()


def write_run(run: RecordedRun) -> bytes:
    """Write a run, agent by agent."""
    header = _RunHeader(dict(run.masks), run.places)
    lines = [TITLE, msgspec.json.encode(header).decode()]
    order = {agent: at for at, agent in enumerate(dict.fromkeys(e.agent for e in run.exchanges))}
    cut: dict[str, list[RecordedExchange]] = {}
    for one in sorted(run.exchanges, key=lambda e: (order[e.agent], e.key, e.number)):
        lines += ["", *_written(one, _base(one, cut))]
        cut.setdefault(one.key, []).append(one)
    return ("\n".join(lines) + "\n").encode()


def read_run(data: bytes, name: str = "the recording") -> RecordedRun:
    """Read a run.

    Raises UsageError that names the line if it is none.
    """
    # A checkout may end lines in its own way; no plain line holds a carriage return.
    lines = [line.rstrip("\r") for line in data.decode(errors="replace").split("\n")]
    if lines[0] != TITLE:
        raise BadInput(f"{name} is not a recorded run that this version reads: record it anew")
    reader = _Reader(name, lines)
    try:
        header = msgspec.json.decode(lines[1], type=_RunHeader)
        found = reader.exchanges()
    except (ValueError, KeyError, IndexError, TypeError, msgspec.MsgspecError) as error:
        raise BadInput(f"{name}, line {reader.at + 1}, is damaged: record the run anew") from error
    found.sort(key=lambda one: one.order)
    return RecordedRun(exchanges=tuple(found), masks=header.masks, places=header.places)


def cut_body(body: bytes) -> list[str]:
    """Cut a body into lines that can be read; put together they are the body."""
    return [part for part in _CUT.split(body.decode(errors="surrogateescape")) if part]


def _base(one: RecordedExchange, cut: Mapping[str, Sequence[RecordedExchange]]) -> _Base | None:
    """Find the request that this one most likely begins with."""
    for agent in upwards(AgentPath(one.agent)):
        before = [e for e in cut.get(agent, ()) if e.order < one.order]
        if before:
            return _Base(before[-1].key, before[-1].number, cut_body(before[-1].body))
    return None


class _Base(msgspec.Struct, frozen=True):
    key: str
    number: int
    lines: list[str]


def _written(one: RecordedExchange, base: _Base | None) -> Iterator[str]:
    side = f" [{one.sidecar}]" if one.sidecar else ""
    order = " ".join(map(str, one.order))
    yield f"=== {one.agent}{side} {one.number} {one.method} {one.path} ({order})"
    lines = cut_body(one.body)
    if base is None:
        yield from (_line(">", line) for line in lines)
    else:
        yield from _grown(base, lines)
    yield f"--- {one.status} {one.kind}".rstrip()
    for piece in one.pieces:
        yield from _piece(piece)
    if one.end != "whole":
        yield f"--- {one.end}"


def _grown(base: _Base, lines: list[str]) -> Iterator[str]:
    pairs = zip(base.lines, lines, strict=False)
    same = next((at for at, (x, y) in enumerate(pairs) if x != y), min(len(base.lines), len(lines)))
    if same:
        yield f"= {base.key} {base.number} 1-{same}"
    matcher = SequenceMatcher(None, base.lines[same:], lines[same:], autojunk=False)
    for what, first, last, start, end in matcher.get_opcodes():
        if what == "equal":
            yield f"= {base.key} {base.number} {same + first + 1}-{same + last}"
        else:
            yield from (_line(">", line) for line in lines[same + start : same + end])


def _piece(piece: bytes) -> Iterator[str]:
    sign = "<"
    for line in _LINE.findall(piece.decode(errors="surrogateescape")):
        yield from _ended(sign, line)
        sign = "|"


def _ended(sign: str, line: str) -> Iterator[str]:
    plain = line.removesuffix("\n")
    if _PLAIN.fullmatch(plain):
        yield _line(sign if line.endswith("\n") else f"{sign}~", plain)
    else:
        yield f"{sign}{json.dumps(line)}"


def _line(sign: str, text: str) -> str:
    if _PLAIN.fullmatch(text):
        return f"{sign} {text}".rstrip()
    return f"{sign}{json.dumps(text)}"


class _Reader:
    """Reads the lines of a file."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.at = 1
        self._lines = lines
        self._bodies: dict[tuple[str, int], list[str]] = {}

    def exchanges(self) -> list[RecordedExchange]:
        found: list[RecordedExchange] = []
        self.at = 2
        while self.at < len(self._lines):
            line = self._lines[self.at]
            if line:
                found.append(self._exchange(line))
            else:
                self.at += 1
        return found

    def _exchange(self, line: str) -> RecordedExchange:
        heading = _HEADING.fullmatch(line)
        if heading is None:
            raise ValueError(line)
        self.at += 1
        agent, sidecar, number = heading["agent"], heading["sidecar"] or "", int(heading["number"])
        body = self._body()
        self._bodies[f"{agent} [{sidecar}]" if sidecar else agent, number] = body
        answer = _ANSWER.fullmatch(self._lines[self.at])
        if answer is None:
            raise ValueError(line)
        self.at += 1
        pieces, end = self._pieces()
        return RecordedExchange(
            agent=agent,
            sidecar=sidecar,
            number=number,
            method=heading["method"],
            path=heading["path"],
            body="".join(body).encode(errors="surrogateescape"),
            status=int(answer["status"]),
            kind=answer["kind"] or "",
            pieces=tuple(pieces),
            end=end,
            order=(int(heading["asked"]), int(heading["began"]), int(heading["answered"])),
        )

    def _body(self) -> list[str]:
        body: list[str] = []
        while not (line := self._lines[self.at]).startswith("---"):
            if (same := _SAME.fullmatch(line)) is not None:
                base = self._bodies[same["key"], int(same["number"])]
                body += base[int(same["first"]) - 1 : int(same["last"])]
            elif line.startswith(">"):
                body.append(_text(line[1:]))
            else:
                raise ValueError(line)
            self.at += 1
        # Lines are counted as they are cut, whatever a hand has done to the file.
        return cut_body("".join(body).encode(errors="surrogateescape"))

    def _pieces(self) -> tuple[list[bytes], RunEnd]:
        pieces: list[bytes] = []
        while self.at < len(self._lines) and (line := self._lines[self.at]):
            self.at += 1
            if line == "--- cut":
                return pieces, "cut"
            if line == "--- gone":
                return pieces, "gone"
            if line[0] not in "<|" or (line[0] == "|" and not pieces):
                raise ValueError(line)
            feed = "" if line[1:2] in {"~", '"'} else "\n"
            text = _text(line[2:] if line[1:2] == "~" else line[1:]) + feed
            data = text.encode(errors="surrogateescape")
            if line[0] == "<":
                pieces.append(data)
            else:
                pieces[-1] += data
        return pieces, "whole"


def _text(rest: str) -> str:
    if rest.startswith('"'):
        return str(json.loads(rest))
    return rest.removeprefix(" ")
