"""When the program looks for garbage: not while it starts, and then seldom.

Loading everything and opening a session makes many objects and hardly any garbage; to look through
them several times would be a tenth of the start.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def held_off() -> Generator[None, None, None]:
    """Look for none until `look_seldom`, or the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def look_seldom() -> None:
    """Look from now on; what there is already counts as old, as if it had been looked at."""
    gc.freeze()
    gc.unfreeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
