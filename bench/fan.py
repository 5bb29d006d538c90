"""Memory of many prompts that extend one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import conversation
from measure import Row, under

from prong.entry import user_text

SIZE, FORKS = 450_000, 256


def rows() -> Iterator[Row]:
    conversation.prompt(10_000)  # what is loaded on first use is no part of a prompt
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    base = conversation.prompt(SIZE)
    one = tracemalloc.get_traced_memory()[0] - before
    forks = [base.append(user_text(f"Look into part {n} of it.")) for n in range(FORKS)]
    every = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert all(fork.extends(base) for fork in forks)
    yield under(
        f"memory of {FORKS} prompts that extend one of 450 kB",
        every / one,
        1.2,
        f"{every // 1000} kB to {one // 1000} kB",
    )
