"""Keys: their values are masked in texts from outside before those are stored or shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

HIDDEN = "[key hidden]"
"""What stands in the place of a key."""
_LEAST = 16
_SECRET = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)


class Secrets(msgspec.Struct, frozen=True):
    """Values that nobody should see."""

    values: tuple[str, ...] = ()

    def mask(self, text: str) -> str:
        """Put something else in their place."""
        for value in self.values:
            text = text.replace(value, HIDDEN)
        return text


def gather(values: Iterable[str]) -> Secrets:
    """Take the values that can be keys.

    Servers that need none are often given a word such as `none`, which is no secret: to mask it
    would damage texts that hold it by chance.
    """
    found = {value.strip() for value in values}
    keys = (one for one in found if len(one) >= _LEAST and any(c.isdigit() for c in one))
    # The longest first: one may hold another.
    return Secrets(tuple(sorted(keys, key=lambda one: (-len(one), one))))


def in_headers(headers: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Find the values of headers that hold a key, with and without the scheme before it."""
    for name, value in headers:
        if _SECRET.search(name):
            yield value
            yield value.rpartition(" ")[2]
