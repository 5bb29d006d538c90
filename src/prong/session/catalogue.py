"""What can be known of stored sessions without opening one.

Each function answers one question of a face with a value. `say` is told, in a sentence, what was
chosen or left out on the way. What only one of them needs is imported by that one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from prong.cost import Price, Prices, read_prices
from prong.cost.breakeven import BreakEven
from prong.cost.schedule import Rates
from prong.errors import BadInput, NotPossibleNow
from prong.event import Envelope
from prong.foreign_number import whole_number
from prong.journal import store
from prong.journal.book import Books
from prong.journal.compare import Explanation, Side, captured, compare, last_two, numbered
from prong.journal.entry_trail import WholeSession, read_whole
from prong.journal.jsonl_form import jsonl_lines
from prong.journal.replay import Replay, examine, read_journal
from prong.journal.store import SessionInfo
from prong.journal.verify import VerifyReport, verify
from prong.system.path_form import real_path

if TYPE_CHECKING:
    from prong.session.feed import SessionFeed

Say = Callable[[str], None]


def list_sessions(*, everywhere: bool, cwd: str = ".") -> list[SessionInfo]:
    """List the sessions of this folder, of another, or of all, the latest first."""
    return store.sessions(None if everywhere else real_path(cwd))


def find_session(wanted: str) -> SessionInfo:
    """Find a stored session by its id, whatever its folder.

    Raises NoSuchSession.
    """
    return store.find(wanted)


def unknown_servers(wanted: str, names: Sequence[str]) -> list[str]:
    """Name those MCP servers of which the model of a stored session knows no tool."""
    from prong.event import MAIN
    from prong.tools.mcp import server_prefix

    main = read_journal(store.find(wanted).path).agents.get(MAIN)
    known = main.head.tools if main is not None else ()
    return [
        name for name in names if not any(tool.startswith(server_prefix(name)) for tool in known)
    ]


def verify_session(wanted: str | None, say: Say) -> VerifyReport:
    """Check every record and every digest of a session."""
    return verify(_journal(wanted, say))


def outlines(wanted: str | None, say: Say) -> dict[str, str]:
    """Draw the conversation of each agent of a session as its model sees it."""
    from prong.prompt import outline

    return {agent: outline(prompt) for agent, prompt in _replay(wanted, say).agents.items()}


def recorded_events(wanted: str | None, say: Say) -> Iterator[Envelope]:
    """Give the events that a session has recorded, from its first on.

    Raises NotPossibleNow if it has recorded none.
    """
    from prong.journal.eventlog import NAME, EventLog

    journal = _journal(wanted, say)
    log = EventLog(journal.with_suffix("") / NAME)
    if log.problem:
        raise NotPossibleNow(log.problem)
    if not log.seq:
        raise NotPossibleNow(
            f"{journal.stem} has recorded no events: it is older than they are, or its folder was "
            "deleted; open it once with --resume, and the rest of it is recorded"
        )
    return log.replay(0, log.seq)


def whole_session(wanted: str | None, say: Say) -> WholeSession:
    """Read everything that was said in a session: also what a summary has taken the place of."""
    whole = read_whole(_journal(wanted, say))
    if whole.damage is not None:
        say(f"damaged at line {whole.damage.line}; what follows is left out")
    return whole


def jsonl_of(whole: WholeSession) -> Iterator[bytes]:
    """Write a session in the lines that other programs read, its agents one after another."""
    for entries in whole.by_agent().values():
        for stored in entries:
            for line in jsonl_lines(whole.opened, stored):
                yield msgspec.json.encode(line) + b"\n"


def _mute(sentence: str) -> None:
    """Say nothing."""
    del sentence


def open_feed(wanted: str | None = None, say: Say = _mute) -> SessionFeed:
    """Follow a session by id, name or journal file, whether a process has it open or not.

    Without one it is the last of this folder. Nothing is changed by that, and the session does not
    know of it. Raises NoSuchSession if there is none.
    """
    from prong.session.feed import SessionFeed

    return SessionFeed(_journal(wanted, say), _prices())


def books_of(wanted: str | None, say: Say) -> Books:
    """Open the books of a session, by the user's own prices where there are any."""
    return Books(_replay(wanted, say), _prices())


def _journal(wanted: str | None, say: Say) -> Path:
    """Find a session's journal by id, name or file; None means the last session here."""
    if wanted and wanted.endswith(".jsonl") and os.path.isfile(wanted):  # noqa: PTH113 - any word
        return Path(wanted)
    here = real_path(".")
    if wanted:
        return store.find(wanted, here, say=say).path
    remedy = "give a session's id: 'prong sessions --all' lists those of other folders"
    return store.latest(here, remedy=remedy).path


def _replay(wanted: str | None, say: Say) -> Replay:
    """Read a session's journal, as far as it is sound."""
    replay, damage = examine(_journal(wanted, say))
    if damage is not None:
        say(f"damaged at line {damage.line}; what follows is left out")
    return replay


def _prices() -> Prices:
    """Give the price table, the user's own figures first."""
    path = store.home() / "prices.json"
    try:
        return Prices(read_prices(str(path), path.read_bytes()))
    except FileNotFoundError:
        return Prices()


def explain(words: Sequence[str], say: Say) -> Explanation:
    """Say where two requests part: files, `SESSION:N` or `SESSION:AGENT:N`, or the last two.

    Raises UsageError if the words name no two requests.
    """
    return compare(*_Requests(say).two(words), _prices())


class _Requests(msgspec.Struct):
    """Finds requests by the words of a user; reads each session once."""

    say: Say
    _read: dict[str, Replay] = msgspec.field(default_factory=dict[str, Replay])

    def two(self, words: Sequence[str]) -> tuple[Side, Side]:
        match words:
            case [left, right]:
                return self._one(left), self._one(right)
            case [only] if ":" in only and not os.path.exists(only):  # noqa: PTH110 - any word
                name, _, number = only.rpartition(":")
                before = _number(only, number) - 1
                if before < 1:
                    raise NotPossibleNow(f"{only} has no request before it; name two requests")
                return self._one(f"{name}:{before}"), self._one(only)
            case [only] if not only.endswith(".jsonl") and os.path.exists(only):  # noqa: PTH110 - any word
                raise BadInput(f"{only} must be compared with something; name two requests")
            case [] | [_]:
                replay = self._replay(words[0] if words else "")
                return last_two(replay, words[0] if words else replay.opened.session)
            case _:
                raise BadInput("two requests are compared; give two")

    def _one(self, word: str) -> Side:
        if os.path.isfile(word) and not word.endswith(".jsonl"):  # noqa: PTH113 - any word
            try:
                return captured(word, Path(word).read_bytes())
            except OSError as error:
                raise BadInput(f"{word} cannot be read ({error.strerror})") from error
        name, _, text = word.rpartition(":")
        number = _number(word, text)
        session, _, agent = name.partition(":")
        return numbered(self._replay(session), agent, number, word)

    def _replay(self, session: str) -> Replay:
        if session not in self._read:
            self._read[session] = _replay(session or None, self.say)
        return self._read[session]


def _number(word: str, text: str) -> int:
    number = whole_number(text)
    if not number:
        raise BadInput(f"{word!r} is neither a file nor of the form SESSION:N, with N from 1 on")
    return number


class Forecast(msgspec.Struct, frozen=True):
    """What a fork, fresh agents and working alone would cost."""

    model: str
    """Whose prices count; empty for none."""
    price: Price | None
    told: BreakEven


def forecast(
    given: Mapping[str, int],
    say: Say,
    *,
    model: str = "",
    session: str | None = None,
    ttl: str = "",
    cold: bool = False,
    rates: Rates | None = None,
    output_rate: float | None = None,
) -> Forecast:
    """Estimate a fan-out of which `given` are known figures, by the names of a `Scenario`.

    Model and history are taken from a session if one is named, of which an empty one is the last.
    Without `rates` those of the model count. Raises UsageError if that has made no request.
    """
    from prong.cost.breakeven import Scenario, estimate
    from prong.cost.mark import LIFETIME
    from prong.journal.forecast import history_of
    from prong.provider import is_local

    facts: dict[str, Any] = {}
    if session is not None:
        history = history_of(_replay(session or None, say), time.time())
        if history is None:
            raise NotPossibleNow("this session has no request yet; give --history instead")
        model = model or history.model
        facts = {"history": history.tokens, "idle": history.idle, "ttl": history.ttl}
        facts |= {"setup": history.setup} if history.setup is not None else {}
    facts |= given
    facts |= {"ttl": ttl} if ttl else {}
    facts |= {"idle": LIFETIME[facts.get("ttl", "5m")]} if cold else {}
    model = model if is_local(model) else model.rpartition(":")[2]
    price = _prices().of(model) if model else None
    told = estimate(Scenario(**facts), price=price, rates=rates, output_rate=output_rate)
    return Forecast(model, price, told)
