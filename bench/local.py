"""Forks on the embedded engine: what they compute, how long it takes, what they hold."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
from measure import Row, at_least, under

from prong.entry import user_text
from prong.prompt import Prompt
from prong.prompt.rope import Head
from prong.provider.local import Engine, Local
from prong.provider.local.binding import Model, Native
from prong.provider.local.core import Core, threads
from prong.provider.local.installation import library, weights
from prong.wire import Began, Ended, HeadSpec, Tail, dialect

PARENT = int(os.environ.get("PRONG_BENCH_PARENT", "2000"))
TOKENS = 32
SMALL = 48
"""Tokens of a directive, about."""
CACHE = {"PRONG_LOCAL_CACHE_MB": "512"}


def rows() -> Iterator[Row]:
    yield from anyio.run(_through_the_engine)
    yield from _within_the_engine()


def _parent() -> Prompt:
    facts = " ".join(f"Box {n} holds {n * 7 % 93} stones." for n in range(PARENT // 9))
    spec = HeadSpec(model="local", system=("Be brief.",), explicit_marks=False)
    return Prompt(Head(dialect("chat", explicit=False), spec)).append(user_text(facts))


def _directive(number: int) -> str:
    words = "Write a long story about the box, the people who filled it and the road it took. "
    return f"You are fork {number}. Look into box {number} of the list. {words}Begin now."


async def _ask(provider: Local, prompt: Prompt, most: int = TOKENS) -> tuple[Ended, float, float]:
    """Ask; gives the end, the seconds to the first token, and to the end."""
    start = first = time.monotonic()
    async with aclosing(provider.stream(prompt, (), Tail(max_tokens=most))) as events:
        async for event in events:
            if isinstance(event, Began):
                first = time.monotonic()
            if isinstance(event, Ended):
                return event, first - start, time.monotonic() - start
    raise AssertionError("no end")


async def _fan(
    provider: Local, parent: Prompt, size: int, number: int = 0
) -> tuple[list[Ended], float, float]:
    """Run children at once; gives their ends, the wall time, and the last first token."""
    ended: list[Ended] = []
    firsts: list[float] = []

    async def child(number: int) -> None:
        asked = parent.append(user_text(_directive(number)))
        one, first, _ = await _ask(provider, asked)
        ended.append(one)
        firsts.append(first)

    start = time.monotonic()
    async with anyio.create_task_group() as group:
        for one in range(number, number + size):
            group.start_soon(child, one)
    return ended, time.monotonic() - start, max(firsts)


async def _through_the_engine() -> list[Row]:
    """Measure as an agent would see it: through the provider, with the engine in its process."""
    engine = Engine(weights("local"), library(), {**os.environ, **CACHE})
    try:
        shared, alone = Local(engine, "local"), Local(engine, "local", share=False)
        parent = _parent()
        told, _, prefill = await _ask(shared, parent, 1)
        held = told.usage.input
        eight, quick, last = await _fan(shared, parent, 8)
        cells = (await shared.figures())["cells"]
        four, _, _ = await _fan(shared, parent, 4, 20)
        one, _, _ = await _fan(shared, parent, 1, 30)
        found = [(1, one), (4, four), (8, eight)]
        # Before the cache fills up: a step takes longer the more cells are in use.
        first = min([(await _again(shared, parent, n)) for n in range(100, 105)])
        _firsts.append((first, held))
        bare, slow, _ = await _fan(alone, parent, 8)
    finally:
        engine.close()
    rows = [_own(size, held, ended) for size, ended in found]
    whole = sum(one.usage.uncached for one in bare)
    mine = sum(one.usage.uncached for one in eight)
    made = [sum(one.usage.output for one in ended) for ended in (eight, bare)]
    rows.append(
        at_least(
            f"8 children of {TOKENS} tokens, shared to unshared",
            slow / quick,
            6,
            f"{quick:.1f} s to {slow:.1f} s; {mine:,} to {whole:,} prompt tokens, "
            f"{made[0]} and {made[1]} written; last first token {last:.1f} s; "
            f"the parent itself {prefill:.1f} s",
        )
    )
    size = engine_cell_bytes(shared)
    rows.append(
        under(
            "KV memory of a parent and its 8 children",
            cells / held,
            1.5,
            f"{cells * size / 1e6:.1f} MB to {held * size / 1e6:.1f} MB",
        )
    )
    return rows


_firsts: list[tuple[float, int]] = []


def engine_cell_bytes(provider: Local) -> int:
    return int(provider.facts["cell_bytes"])


async def _again(provider: Local, parent: Prompt, number: int) -> float:
    _, first, _ = await _ask(provider, parent.append(user_text(_directive(number))), 1)
    return first


def _own(size: int, held: int, ended: Sequence[Ended]) -> Row:
    """Show what children computed beyond the parent's prompt: their directive and its opening."""
    most = max(one.usage.uncached for one in ended)
    own = max(one.usage.input - held for one in ended)
    # The opening of the parent's reply, which the children do not share, is a few tokens.
    return Row(
        f"prompt tokens per child, {held:,} shared, {size} at once",
        f"{most} computed, {min(one.usage.read for one in ended):,} read",
        f"<= {own + 8}",
        most <= own + 8,
    )


def _within_the_engine() -> Iterator[Row]:
    """Measure against the library itself: its own prefill, its own rounding."""
    native = Native(library())
    model = Model(native, weights("local"), lambda _: True)
    core = Core(native, model, cache_mb=384, threads=threads())
    parent, children = _tokens(core)
    bare = _prefill(core, 0, parent, 0)
    del bare
    times = []
    for seq in range(1, 6):
        native.memory_seq_cp(core._memory, 0, seq, 0, len(parent))
        start = time.monotonic()
        _prefill(core, seq, children[0], len(parent))
        times.append(time.monotonic() - start)
        native.memory_seq_rm(core._memory, seq, -1, -1)
    first, held = _firsts[-1]
    yield under(
        "fork to first token, to the engine's own prefill of the directive",
        first / min(times),
        1.3,
        f"{first * 1e3:.0f} ms to {min(times) * 1e3:.0f} ms, after {held:,} tokens",
    )
    yield _noise(core, parent, children)


def _tokens(core: Core) -> tuple[list[int], list[list[int]]]:
    """Give the tokens of the parent, and of each child what it adds."""
    text = " ".join(f"Box {n} holds {n * 7 % 93} stones." for n in range(PARENT // 9))
    joint = core.template.joint("user", "user")
    answer = core.template.joint("user", "assistant")
    tokenize = core.model.tokenize
    parent = tokenize(core.template.joint(None, "user"), special=True)
    parent += tokenize(text, special=False)
    return parent, [
        tokenize(joint, special=True)
        + tokenize(_directive(n), special=False)
        + tokenize(answer, special=True)
        for n in range(8)
    ]


def _prefill(core: Core, seq: int, tokens: list[int], at: int, cut: int = 256) -> list[float]:
    """Compute tokens of one sequence in batches of `cut`; gives the last logits."""
    batch: Any = core._batch
    row = 0
    for start in range(0, len(tokens), cut):
        piece = tokens[start : start + cut]
        batch.n_tokens = 0
        for offset, token in enumerate(piece):
            row = _add(batch, token, at + start + offset, seq)
        batch.logits[row] = 1
        assert core.native.decode(core.context, batch) == 0
    return core.logits(row)


def _add(batch: Any, token: int, place: int, seq: int) -> int:
    row = batch.n_tokens
    batch.token[row], batch.pos[row] = token, place
    batch.n_seq_id[row], batch.seq_id[row][0], batch.logits[row] = 1, seq, 0
    batch.n_tokens = row + 1
    return row


def _apart(one: Sequence[float], other: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def _noise(core: Core, parent: list[int], children: list[list[int]]) -> Row:
    """Compare a child that borrows with the same child computed from nothing."""
    native, memory = core.native, core._memory

    def computed(cut: int) -> None:
        native.memory_clear(memory, True)
        _prefill(core, 0, parent, 0, cut)

    computed(256)
    cold = _prefill(core, 0, children[0], len(parent))
    # Rows are computed by fours; batches of other sizes leave other rows over.
    computed(75)
    other = _prefill(core, 0, children[0], len(parent), 7)
    computed(256)
    native.memory_seq_cp(memory, 0, 1, 0, len(parent))
    borrowed = _prefill(core, 1, children[0], len(parent))
    native.memory_seq_rm(memory, 1, -1, -1)
    together = _together(core, parent, children)
    alone, batched, engine = _apart(borrowed, cold), _apart(together, cold), _apart(other, cold)
    tops = {max(range(len(x)), key=x.__getitem__) for x in (borrowed, cold)}
    return Row(
        "logits of a shared child against the same child computed cold",
        f"alone {alone:.3f}, among 8 in a batch {batched:.3f}; two cold runs that cut the prompt "
        f"differently {engine:.3f}; greedy choice {'the same' if len(tops) == 1 else 'another'}",
        "noise",
        alone <= engine and batched <= 2 * engine,
    )


def _together(core: Core, parent: list[int], children: list[list[int]]) -> list[float]:
    """Compute the last stretch of eight children in one batch; gives the first one's logits."""
    native, memory = core.native, core._memory
    batch: Any = core._batch
    batch.n_tokens = 0
    wanted = 0
    for number, child in enumerate(children):
        native.memory_seq_cp(memory, 0, 20 + number, 0, len(parent))
        row = 0
        for offset, token in enumerate(child):
            row = _add(batch, token, len(parent) + offset, 20 + number)
        batch.logits[row] = 1
        wanted = row if number == 0 else wanted
    assert native.decode(core.context, batch) == 0
    return core.logits(wanted)


if __name__ == "__main__":
    assert Path(weights("local")).is_file()
    for row in rows():
        print(f"{row.what}  [{row.bar}] {row.good}  {row.measured}")
