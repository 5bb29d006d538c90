"""Forks through llama.cpp's own server: with its slots saved and restored, and without."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import anyio
from measure import Row, at_least

from prong.entry import user_text
from prong.prompt import Prompt
from prong.prompt.rope import Head
from prong.provider import Api, Endpoint, Http, Provider, Providers
from prong.testing.llama import LlamaServer
from prong.wire import Ended, HeadSpec, Tail, dialect

PARENT = int(os.environ.get("PRONG_BENCH_PARENT", "2000"))
SIZE = 4
TOKENS = 32
CHAT = dialect("chat", explicit=False)


def rows() -> Iterator[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        LlamaServer(slots=SIZE + 1, context=PARENT + 512, save=Path(folder)) as server,
    ):
        yield anyio.run(_compare, server.url)


async def _compare(url: str) -> Row:
    endpoint = Endpoint(base_url=url, dialect="chat", explicit=False)
    async with Http(env={}) as http, Providers(http, env={}) as providers:
        quick, mine, held = await _fan(providers.connect(endpoint, "any"), "Box")
        slow, whole, _ = await _fan(Api(http, endpoint, CHAT), "Bag")
    return at_least(
        f"{SIZE} children through llama.cpp's server, slots to none",
        slow / quick,
        3,
        f"{quick:.1f} s to {slow:.1f} s; {mine:,} to {whole:,} prompt tokens computed, "
        f"parent {held:,}",
    )


async def _fan(provider: Provider, word: str) -> tuple[float, int, int]:
    """Ask a parent, then its children at once; gives their seconds, what they computed, and it."""
    facts = " ".join(f"{word} {n} holds {n * 7 % 93} stones." for n in range(PARENT // 9))
    extra = {"temperature": 0, "ignore_eos": True}
    spec = HeadSpec(model="any", system=("Be brief.",), extra=extra, explicit_marks=False)
    parent = Prompt(Head(CHAT, spec)).append(user_text(facts))
    held = (await _ask(provider, parent, "main", 1)).usage.input
    computed: list[int] = []

    async def child(number: int) -> None:
        words = f"You are fork {number}. Tell the story of {word} {number}, and who filled it."
        ended = await _ask(provider, parent.append(user_text(words)), f"main/{number}", TOKENS)
        computed.append(ended.usage.uncached)

    start = time.monotonic()
    async with anyio.create_task_group() as group:
        for number in range(SIZE):
            group.start_soon(child, number)
    return time.monotonic() - start, sum(computed), held


async def _ask(provider: Provider, prompt: Prompt, agent: str, most: int) -> Ended:
    reply = provider.stream(prompt, (), Tail(max_tokens=most), who=agent)
    async with aclosing(reply) as events:
        async for event in events:
            if isinstance(event, Ended):
                return event
    raise AssertionError("no end")


if __name__ == "__main__":
    from measure import show

    raise SystemExit(show(rows()))
