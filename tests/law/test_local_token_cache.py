"""Which tokens are in the cache and who shares them; no engine is needed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from prong.errors import NoSuchModel
from prong.provider.local.gguf import Header
from prong.provider.local.token_cache import TokenCache, shared

_TOKENS = st.lists(st.integers(0, 2), max_size=12)


@settings(max_examples=200, deadline=None)
@given(_TOKENS, _TOKENS, st.integers(0, 700))
def test_shared_counts_the_common_beginning(one: list[int], other: list[int], padding: int):
    """The fast comparison counts as the obvious one does, also beyond its stride."""
    one, other = [7] * padding + one, [7] * padding + other
    plain = 0
    while plain < min(len(one), len(other)) and one[plain] == other[plain]:
        plain += 1

    assert shared(one, other) == plain


def strand(cache: TokenCache, tokens: list[int]):
    source, length = cache.find(tokens)
    made = cache.open(tokens, source if length else None, length)
    cache.grow(made, len(tokens) - length)
    return made, length


def test_siblings_hold_the_prefix_once():
    """Eight children of one parent take the parent's cells once, and their own."""
    cache = TokenCache(16, 4_096)
    strand(cache, list(range(2_000)))
    reused = [strand(cache, [*range(2_000), 9_000 + n, 1])[1] for n in range(8)]

    assert reused == [2_000] * 8
    assert cache.cells == 2_000 + 8 * 2


def test_what_a_longer_sequence_holds_is_not_kept_twice():
    """When a conversation goes on, its earlier state is superfluous and goes."""
    cache = TokenCache(4, 100)
    first, _ = strand(cache, [1, 2, 3])
    cache.rest(first)
    second, length = strand(cache, [1, 2, 3, 4])

    assert length == 3
    assert cache.rest(second) == [first]
    assert list(cache) == [second]


def test_a_request_sees_what_another_is_about_to_compute():
    """A prefix that is planned but not computed can be waited for, not borrowed."""
    cache = TokenCache(4, 100)
    leader = cache.open([1, 2, 3, 4], None, 0)
    cache.grow(leader, 1)

    assert cache.find([1, 2, 3, 9]) == (leader, 1)
    assert cache.coming([1, 2, 3, 9]) == 3


class Shelving(RuleBasedStateMachine):
    """Sequences come, rest, are evicted; cells are compared with a plain model of them."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = TokenCache(5, 1_000)
        self.cells: dict[int, list[tuple[int, ...]]] = {}

    @precondition(lambda self: not self.cache.full)
    @rule(tokens=_TOKENS.filter(bool))
    def ask(self, tokens: list[int]) -> None:
        expected = max((shared(s.tokens, tokens) for s in self.cache), default=0)
        made, length = strand(self.cache, tokens)
        assert length == expected
        assert made.tokens == tokens

    @precondition(lambda self: any(s.live for s in self.cache))
    @rule()
    def rest(self) -> None:
        first = next(s for s in self.cache if s.live)
        spare = self.cache.rest(first)
        assert first in list(self.cache)
        assert all(first.tokens[: len(s.tokens)] == s.tokens for s in spare)

    @rule()
    def evict(self) -> None:
        oldest = self.cache.oldest()
        resting = [s for s in self.cache if not s.live]
        if oldest is None:
            assert not resting
            return
        assert all(oldest.used <= s.used for s in resting)
        self.cache.drop(oldest)

    @invariant()
    def a_cell_stands_for_one_token_after_one_past(self) -> None:
        meaning: dict[int, tuple[int, ...]] = {}
        for one in self.cache:
            assert one.held == len(one.cells) <= len(one.tokens)
            for at, cell in enumerate(one.cells):
                assert meaning.setdefault(cell, tuple(one.tokens[: at + 1])) == tuple(
                    one.tokens[: at + 1]
                )
        assert self.cache.cells == len(meaning)


TestShelving = Shelving.TestCase
TestShelving.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def entry(name: str, value: int | str) -> bytes:
    key = struct.pack("<Q", len(name)) + name.encode()
    if isinstance(value, int):
        return key + struct.pack("<II", 4, value)
    return key + struct.pack("<IQ", 8, len(value)) + value.encode()


def gguf(*entries: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


def test_a_header_says_how_much_a_conversation_may_hold(tmp_path: Path):
    """The window is what the model reads, or what the cache has room for."""
    path = tmp_path / "m.gguf"
    path.write_bytes(
        gguf(
            entry("general.architecture", "llama"),
            entry("llama.context_length", 8_192),
            entry("llama.block_count", 30),
            entry("llama.embedding_length", 576),
            entry("llama.attention.head_count", 9),
            entry("llama.attention.head_count_kv", 3),
            b"\x10\0\0\0\0\0\0\0tokenizer.ignore",
        )
    )
    header = Header(path)

    assert header.cell_bytes == 23_040
    assert header.window(256) == 8_192
    assert header.window(45) == 2_048


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"GGUF",
        gguf(entry("a", 1))[:-2],
        b"GGUF" + struct.pack("<IQQ", 9, 0, 1),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62),
        gguf(b"\x01\0\0\0\0\0\0\0a" + struct.pack("<I", 77)),
    ],
)
def test_a_file_that_is_no_model_is_named(tmp_path: Path, data: bytes):
    """Whatever is wrong with a header, the error names the file and asks for a GGUF."""
    path = tmp_path / "broken.gguf"
    path.write_bytes(data)

    with pytest.raises(NoSuchModel, match=r"broken\.gguf is not a GGUF file"):
        Header(path)


def test_a_missing_file_is_named(tmp_path: Path):
    """So is a file that is not there."""
    with pytest.raises(NoSuchModel, match="cannot be read"):
        Header(tmp_path / "none.gguf")
