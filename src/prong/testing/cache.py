"""The prompt cache of the loopback server: pure, no I/O, the time is passed in.

A prompt is a chain of digests, one per block, each over everything up to and including its block
and over the settings that count from its section on. An entry stands at one digest. The rules:

- entries are written at marks only, and only where the prompt up to there is long enough;
- a look-up starts at each mark and walks back 20 positions, the mark being the first; a run of
  `tool_use` blocks is one position, and so is a run of `tool_result` blocks;
- an entry can be read once the response of the request that wrote it has begun (`begin`), and as
  long as no more than its time to live has passed since the start of the last request that wrote
  or read it.

`look` says what a request would cost and changes nothing; `begin` makes it so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec

from prong.entry import Usage
from prong.testing.model import Model, is_claude
from prong.testing.request import SECTIONS, Block, Param, Request, invalid

LOOK_BACK = 20
MAX_MARKS = 4
SECONDS = {"5m": 300.0, "1h": 3600.0, "30m": 1800.0, "12h": 43200.0, "idle": 600.0, "24h": 86400.0}
"""How long entries live; `idle` and `24h` are those of models that cache by themselves."""


class Entry(msgspec.Struct):
    """One cached prefix."""

    ttl: str
    started: float
    """When the last request that wrote or read it began to be served."""


class Spot(msgspec.Struct, frozen=True):
    """A place where a request writes or renews an entry."""

    index: int
    digest: bytes
    ttl: str


class Plan(msgspec.Struct, frozen=True):
    """What the cache does for one request."""

    started: float
    usage: Usage
    hit: int
    """The number of blocks read from the cache."""
    spots: tuple[Spot, ...]
    """Entries to write, or to renew if they are there."""
    chain: tuple[bytes, ...]
    tokens: tuple[int, ...]
    """Tokens up to and including each block."""


def chain_of(blocks: Iterable[Block], params: Sequence[Param]) -> tuple[bytes, ...]:
    """Give the digest of the prompt up to and including each block."""
    state = blake2b(digest_size=16)
    chain: list[bytes] = []
    entered = 0

    def enter(until: int) -> None:
        for section in SECTIONS[entered:until]:
            for param in params:
                if param.section == section:
                    state.update(b"\0%s\0%s\0" % (param.name.encode(), param.value))

    for block in blocks:
        if entered < 3 and (need := SECTIONS.index(block.section) + 1) > entered:
            enter(need)
            entered = need
        state.update(block.digest)
        chain.append(state.digest())
    return tuple(chain)


def positions_of(blocks: Sequence[Block]) -> list[int]:
    """Give each block the number of its position, as a look-up counts them."""
    numbers: list[int] = []
    number, before = -1, ""
    for block in blocks:
        # Behind a gateway of the chat API, what a tool said is a message of its own.
        kind = "tool_result" if block.role == "tool" else block.kind
        if kind != before or kind not in ("tool_use", "tool_result"):
            number += 1
        before = kind
        numbers.append(number)
    return numbers


def seen(request: Request, model: Model) -> tuple[Block, ...]:
    """Give the blocks the model is shown: some models forget thinking of earlier turns."""
    if request.api != "anthropic" or model.keeps_thinking:
        return request.blocks
    last = -1
    for index, block in enumerate(request.blocks):
        if block.section == "messages" and block.role == "user" and block.kind != "tool_result":
            last = index
    return tuple(
        block
        for index, block in enumerate(request.blocks)
        if index > last or block.kind not in ("thinking", "redacted_thinking")
    )


class Cache:
    """All entries of one server."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}

    def live(self, digest: bytes, now: float) -> bool:
        """Say whether an entry can be read."""
        entry = self.entries.get(digest)
        return entry is not None and now - entry.started < SECONDS[entry.ttl]

    def look(self, request: Request, model: Model, now: float) -> Plan:
        """Say what a request reads, writes and pays.

        Raises:
            Refused: the marks break a rule of the API.

        """
        blocks = seen(request, model)
        chain = chain_of(blocks, request.params)
        tokens: list[int] = []
        total = 0
        for block in blocks:
            total += block.tokens
            tokens.append(total)
        if request.api == "anthropic" or is_claude(request.model):
            marks = anthropic_marks(request, blocks)
            reach = _walk_back(blocks, [index for index, _ in marks])
        elif model.exact:
            marks, reach = openai_marks(request, blocks)
        else:
            return self._automatic(model, chain, tokens, now)
        hit = max((i for i in reach if self.live(chain[i], now)), default=-1)
        spots = tuple(
            Spot(index, chain[index], ttl) for index, ttl in marks if tokens[index] >= model.minimum
        )
        if hit >= 0 and all(spot.index != hit for spot in spots):
            spots = (Spot(hit, chain[hit], self.entries[chain[hit]].ttl), *spots)
        usage = _bill(spots, tokens, hit)
        return Plan(now, usage, hit + 1, spots, chain, tuple(tokens))

    def _automatic(
        self, model: Model, chain: tuple[bytes, ...], tokens: list[int], now: float
    ) -> Plan:
        """Serve a model that caches any prefix by itself, in steps of 128 tokens, for free."""
        total = tokens[-1] if tokens else 0
        hit, read = -1, 0
        for index in range(len(chain) - 1, -1, -1):
            if self.live(chain[index], now):
                hit, read = index, tokens[index] // 128 * 128
                break
        if read < model.minimum:
            hit, read = -1, 0
        ttl = "24h" if model.long_lived else "idle"
        spots = tuple(Spot(index, digest, ttl) for index, digest in enumerate(chain))
        usage = Usage(uncached=total - read, read=read)
        return Plan(now, usage, hit + 1, spots, chain, tuple(tokens))

    def begin(self, plan: Plan) -> None:
        """Make the entries of a plan readable: its response has begun."""
        for spot in plan.spots:
            entry = self.entries.get(spot.digest)
            if entry is None or not self.live(spot.digest, plan.started):
                self.entries[spot.digest] = Entry(spot.ttl, plan.started)
            else:
                entry.started = max(entry.started, plan.started)


def _walk_back(blocks: Sequence[Block], marks: Sequence[int]) -> set[int]:
    positions = positions_of(blocks)
    reach: set[int] = set()
    for mark in marks:
        index = mark
        while index >= 0 and positions[mark] - positions[index] < LOOK_BACK:
            reach.add(index)
            index -= 1
    return reach


def _bill(spots: Sequence[Spot], tokens: Sequence[int], hit: int) -> Usage:
    """Read up to the hit, write to the last long mark at the long price, the rest at the short."""
    total = tokens[-1] if tokens else 0
    read = tokens[hit] if hit >= 0 else 0
    ahead = [spot for spot in spots if spot.index > hit]
    ttls = {spot.ttl for spot in ahead}
    long = next((ttl for ttl in ("1h", "12h") if ttl in ttls), None)
    short = "30m" if ttls & {"30m", "12h"} else "5m"
    last = max((tokens[spot.index] for spot in ahead), default=read)
    middle = max((tokens[spot.index] for spot in ahead if spot.ttl == long), default=read)
    written = {f"written_{short}": last - middle}
    if long:
        written[f"written_{long}"] = middle - read
    return msgspec.structs.replace(Usage(uncached=total - last, read=read), **written)


def anthropic_marks(request: Request, blocks: Sequence[Block]) -> list[tuple[int, str]]:
    """Give the marked blocks with their time to live, the automatic mark included."""
    marks = [(i, b.mark.ttl or "5m") for i, b in enumerate(blocks) if b.mark is not None]
    if len(marks) > MAX_MARKS:
        raise invalid(
            f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. "
            f"Found {len(marks)}."
        )
    for index, ttl in marks:
        _check_mark(blocks[index], ttl)
    automatic = request.object("cache_control")
    if automatic:
        marks = _add_automatic(marks, blocks, str(automatic.get("ttl") or "5m"))
    short = False
    for index, ttl in marks:
        if ttl == "1h" and short:
            raise invalid(
                f"{blocks[index].where}.cache_control.ttl: a ttl='1h' cache_control block must not "
                f"come after a ttl='5m' cache_control block. Note that blocks are processed in the "
                f"following order: `tools`, `system`, `messages`."
            )
        short = short or ttl == "5m"
    return marks


def _check_mark(block: Block, ttl: str) -> None:
    if block.kind in ("thinking", "redacted_thinking"):
        raise invalid(f"{block.where}.{block.kind}.cache_control: Extra inputs are not permitted")
    if is_empty_text(block):
        raise invalid(f"{block.where}.text: cache_control cannot be set for empty text blocks")
    if ttl not in ("5m", "1h"):
        raise invalid(f"{block.where}.cache_control.ttl: Input should be '5m' or '1h'")


def _add_automatic(
    marks: list[tuple[int, str]], blocks: Sequence[Block], ttl: str
) -> list[tuple[int, str]]:
    for index in range(len(blocks) - 1, -1, -1):
        block = blocks[index]
        if block.kind not in ("thinking", "redacted_thinking") and not is_empty_text(block):
            break
    else:
        return marks
    there = dict(marks).get(index)
    if there == ttl:
        return marks
    if there is not None:
        raise invalid(
            f"cache_control: the last block has a cache_control of ttl '{there}', "
            f"which differs from the top-level ttl '{ttl}'"
        )
    if len(marks) == MAX_MARKS:
        raise invalid(
            f"A maximum of {MAX_MARKS} blocks with cache_control may be provided. "
            f"Found {MAX_MARKS} and a top-level cache_control."
        )
    return sorted([*marks, (index, ttl)])


def is_empty_text(block: Block) -> bool:
    """Say whether a block is a text of no length."""
    if block.kind != "text":
        return False
    if b'""' not in block.raw:
        return False
    if block.raw[:1] == b'"':
        return block.raw == b'""'
    return msgspec.json.decode(block.raw).get("text") == ""


def openai_marks(
    request: Request, blocks: Sequence[Block]
) -> tuple[list[tuple[int, str]], set[int]]:
    """Give where a GPT-5.6+ request writes, and where it may find an entry."""
    options = request.object("prompt_cache_options")
    default = str(options.get("ttl") or "30m")
    explicit = [(i, b.mark.ttl or default) for i, b in enumerate(blocks) if b.mark is not None]
    if any(ttl not in ("30m", "12h") for ttl in (default, *(ttl for _, ttl in explicit))):
        raise invalid("Invalid value: 'ttl'. Supported values are: '30m' and '12h'.")
    if options.get("mode") == "explicit":
        return explicit[-4:], {index for index, _ in explicit[-80:]}
    ends = message_ends(blocks)
    writes = dict(explicit[-3:])
    if ends:
        writes.setdefault(ends[-1], default)
    return sorted(writes.items()), {i for i, _ in explicit[-80:]} | set(ends[-21:])


def message_ends(blocks: Sequence[Block]) -> list[int]:
    """Find the ends of the messages at which a breakpoint may stand by itself."""
    ends: list[int] = []
    opening = True
    for index, block in enumerate(blocks):
        if block.section != "messages":
            continue
        after = blocks[index + 1] if index + 1 < len(blocks) else None
        ends_item = after is None or after.item != block.item
        ends_run = after is None or after.role != block.role
        first = block.role in ("system", "developer") and opening
        if (ends_item and block.role == "user") or (ends_run and (block.role == "tool" or first)):
            ends.append(index)
        opening = opening and block.role in ("system", "developer")
    return ends
