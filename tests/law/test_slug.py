"""Which names a worktree may have."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.errors import UsageError
from prong.host.slug import LONGEST, check_slug, numbered

pytestmark = pytest.mark.spec("W1")

GOOD = ["a", "fix-parser", "v1.2", "A_b-C.d", "x" * 64, "0", "_", "a.locked", "lock", "head"]
BAD = [
    *("", ".", "..", "...", "a..b", "../x", "/abs", "a/b", "a\\b", "-x", "x" * 65, "a.lock"),
    *("A.LOCK", ".x", "x.", "a b", "a\nb", "a\n", "é", "a~1", "a^", "a:b", "a?", "a*", "a[", "@"),
    *("a@{b", "HEAD", "\0", "a\0", "٣", "ａ", ".git", "a\u202eb"),
]


@pytest.mark.parametrize("slug", GOOD)
def test_good_slugs_are_given_back(slug: str) -> None:
    """Letters, digits, dots, underlines and dashes will do."""
    assert check_slug(slug) == slug


@pytest.mark.parametrize("slug", BAD)
def test_bad_slugs_are_refused(slug: str) -> None:
    """Everything that could lead elsewhere or that git would not take is refused, with a remedy."""
    with pytest.raises(UsageError, match=r"cannot name a worktree.*such as"):
        check_slug(slug)


PIECES = st.lists(st.sampled_from([*"aZ09._-/\\ ~^:?*[@{", "..", ".lock", "é", "\n"]), max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES.map("".join), min_size=30, max_size=60))
def test_what_is_taken_is_a_branch_for_git(texts: list[str]) -> None:
    """Any text that passes is one folder name, and part of a branch name that git accepts."""
    for text in set(texts):
        try:
            check_slug(text)
        except UsageError:
            continue
        assert "/" not in text
        assert 1 <= len(text) <= LONGEST
        done = subprocess.run(["git", "check-ref-format", f"refs/heads/prong/{text}"], check=False)
        assert done.returncode == 0


@given(st.text(st.sampled_from("ab.-_9"), min_size=1, max_size=64), st.integers(1, 1000))
def test_a_numbered_slug_is_a_slug(text: str, number: int) -> None:
    """A second worktree of a name gets a name that is allowed as well."""
    try:
        check_slug(text)
    except UsageError:
        return
    assert check_slug(numbered(text, number))
    assert numbered(text, number) == text or number > 1
