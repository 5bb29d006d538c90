"""Locks that a killed git has left behind, which keep every later git from its work.

To change NAME git makes NAME.lock, and takes it away however it ends, unless it is killed. It has
one for milliseconds. Whoever calls this has made sure that nobody but git can have made them, and
that nothing of its own is under way there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import anyio

from prong.host.host import Host

_STALE = 3.0
"""Seconds after which no git that lives has a lock; git itself waits for one second at most."""

_LOOK = 0.3
"""Seconds between two looks: after a machine has slept, all its locks are old for a moment."""


async def free_locks(host: Host, paths: Sequence[str]) -> None:
    """Remove those of these files that are there and nobody's; one that is young is waited for."""
    with anyio.move_on_after(2 * _STALE):
        while found := {path: file for path in paths if (file := await host.stat(path))}:
            await anyio.sleep(_LOOK)
            for path, file in found.items():
                # The clock of a file system may be another one, and ahead.
                old = abs(time.time() - file.modified) > _STALE
                if old and await host.stat(path) == file:
                    await host.run(["rm", "-f", "--", path])
