"""What git says of a project when a session begins: told with the first message, never in the head.

In the head it would be different bytes for every session of the project, and wrong a moment later.
"""

from __future__ import annotations

import anyio

from prong.errors import ProngError
from prong.host import Host
from prong.host.git import Git
from prong.tools.fence import neutral

_PATIENCE = 2.0
"""Seconds; a repository that takes longer is not told of."""
_LINES, _CHARACTERS = 30, 2_000


async def git_state(host: Host, root: str, *, trusted: bool) -> str:
    """Say on which branch a project is and what has changed; empty if there is nothing to say.

    To look for changes git may run programs that the repository's own configuration names, so in a
    folder that is not trusted only the branch is looked up.
    """
    try:
        with anyio.move_on_after(_PATIENCE):
            if await host.stat(f"{root}/.git") is None:
                return ""
            if not trusted:
                found = await Git(host, root).ask("symbolic-ref", "--short", "--quiet", "HEAD")
                return _told(found.output.decode(errors="replace")) if found.code == 0 else ""
            found = await Git(host, root).ask("status", "--porcelain=v1", "--branch")
            if found.code == 0:
                return _told(found.output.decode(errors="replace").removeprefix("## "))
    except (ProngError, OSError):
        pass
    return ""


def _told(text: str) -> str:
    branch, *changes = neutral(text).strip().split("\n")
    if not branch:
        return ""
    shown = "\n".join(changes[:_LINES])[:_CHARACTERS]
    more = f"\n(and {len(changes) - _LINES} more)" if len(changes) > _LINES else ""
    what = f"\nChanged files:\n{shown}{more}" if changes else ""
    return f"[Git when the session began. Branch: {branch}{what}]"
