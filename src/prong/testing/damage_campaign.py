"""Changed, missing and added bytes in what a session has stored: its journal and its outbox.

A session with children and commands is stored once. Each trial spoils a copy of a file: it flips
bits, cuts the end off, takes out, doubles or swaps lines. The reader must then say where the damage
is, at or before the place that was spoilt, or give the very records that were stored up to there.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec

from prong.errors import JournalDamaged, JournalError, NoSuchSession
from prong.journal.replay import Replay, examine
from prong.journal.store import sessions
from prong.journal.verify import verify
from prong.team.outbox import Outbox
from prong.testing.scene import world
from prong.testing.script import Script, call, forks, report, say
from prong.testing.torture import Trial


class Spoilt(msgspec.Struct, frozen=True):
    """A spoilt copy."""

    data: bytes
    at: int
    """The first byte that may differ."""
    how: str


def spoil(data: bytes, rng: random.Random) -> Spoilt:
    """Spoil a file in one way or another."""
    at = rng.randrange(len(data))
    match rng.randrange(8):
        case 0 | 1 | 2:
            byte = data[at] ^ (1 << rng.randrange(8))
            return Spoilt(data[:at] + bytes([byte]) + data[at + 1 :], at, "flip")
        case 3:
            return Spoilt(data[:at], at, "cut")
        case 4:
            end = min(len(data), at + rng.randrange(1, 200))
            return Spoilt(data[:at] + data[end:], at, "hole")
        case 5:
            filled = bytes(rng.randrange(1, 50))
            return Spoilt(data[:at] + filled + data[at + len(filled) :], at, "zeros")
        case _:
            return _reordered(data, rng)


def _reordered(data: bytes, rng: random.Random) -> Spoilt:
    lines = data.splitlines(keepends=True)
    one, other = sorted(rng.sample(range(len(lines)), 2))
    match rng.randrange(3):
        case 0:
            lines[one], lines[other] = lines[other], lines[one]
            how = "swap"
        case 1:
            lines.insert(other, lines[one])
            one, how = other, "double"
        case _:
            del lines[one]
            how = "missing"
    return Spoilt(b"".join(lines), sum(map(len, data.splitlines(keepends=True)[:one])), how)


class _Stored(msgspec.Struct, frozen=True):
    """A session as it was stored."""

    folder: Path
    journal: Path
    outbox: Path


async def _store(folder: Path) -> None:
    script = Script(
        [
            call("Bash", {"command": "echo é; sleep 0.01", "run_in_background": True}),
            forks("Part 1.", "Part 2."),
            say("I wait."),
        ],
        {f"Part {n}.": [call("Bash", {"command": f"seq {n}00"}), report()] for n in (1, 2)},
        forever=say("Done. \u2028 ☃"),
    )
    async with world(script, folder=folder, mode="bypassPermissions") as w:
        await w.session.run("Go")
        await w.session.wait_settled()


def _spoilt_journal(stored: _Stored, whole: bytes, rng: random.Random) -> str:
    spoilt = spoil(whole, rng)
    stored.journal.write_bytes(spoilt.data)
    about = f"{spoilt.how} at byte {spoilt.at}"
    try:
        replay, damage = examine(stored.journal)
    except JournalDamaged as error:
        return "" if error.offset <= spoilt.at else f"{about}: told at {error.offset}"
    except NoSuchSession:
        return "" if spoilt.how == "cut" else f"{about}: the session is gone"
    except JournalError:
        return ""
    if rng.random() < 0.02:
        listed = sessions(store=stored.folder)
        if (replay.entries and not listed) or verify(stored.journal).damage != damage:
            return f"{about}: `sessions` or `verify` say otherwise"
    if damage is not None:
        return "" if damage.offset <= spoilt.at else f"{about}: told at {damage.offset}"
    return _same(replay, whole, spoilt)


def _same(replay: Replay, whole: bytes, spoilt: Spoilt) -> str:
    """Without damage, what was read is the beginning, and an unfinished line may follow."""
    kept = spoilt.data[: replay.length]
    if not whole.startswith(kept):
        return f"{spoilt.how} at byte {spoilt.at}: read as if it were sound"
    if whole.startswith(spoilt.data):
        return ""
    if replay.torn and spoilt.how != "flip" and spoilt.at >= replay.length:
        # The last line and its end are gone: so does a loss of power leave it.
        return ""
    return f"{spoilt.how} at byte {spoilt.at}: not noticed"


def _spoilt_outbox(stored: _Stored, whole: bytes, rng: random.Random) -> str:
    spoilt = spoil(whole, rng)
    copy = stored.folder / "outbox.jsonl"
    copy.write_bytes(spoilt.data)
    about = f"outbox, {spoilt.how} at byte {spoilt.at}"
    with Outbox(str(copy)) as outbox:
        torn = spoilt.how != "flip" and b"\n" not in spoilt.data[spoilt.at :]
        if not (outbox.damage or torn or whole.startswith(spoilt.data)):
            return f"{about}: not noticed"
        offered = outbox.unsettled
    copy.write_bytes(whole)
    with Outbox(str(copy)) as outbox:
        unknown = [name for name in offered if not outbox.knows(name)]
    copy.unlink()
    return f"{about}: it offers {unknown}" if unknown else ""


@contextmanager
def trials() -> Generator[Trial]:
    """Spoil copies of one session's files."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        anyio.run(_store, folder)
        store = folder / "home/.prong"
        (journal,) = store.glob("projects/*/*.jsonl")
        (outbox,) = store.rglob("outbox.jsonl")
        stored, whole, told = (
            _Stored(store, journal, outbox),
            journal.read_bytes(),
            outbox.read_bytes(),
        )

        def trial(rng: random.Random) -> str:
            if rng.random() < 0.3:
                return _spoilt_outbox(stored, told, rng)
            return _spoilt_journal(stored, whole, rng)

        yield trial
