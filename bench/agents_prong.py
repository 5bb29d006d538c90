"""Prong's side of typed agents; run as a program of its own, so that its work is measured alone."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from typing import Any

import anyio
import fork_prong

from prong.entry import User, plain
from prong.testing import inside

_SETTINGS = '{"fork": {"enabled": false}}'


async def work(url: str, folder: str) -> dict[str, Any]:
    """Open a session, let it delegate, and say what that took and what was told."""
    # Settings are left out of a bare session; a home of its own keeps those of the user out.
    env = {"HOME": folder, "PATH": os.environ["PATH"]}
    given = {"bare": False, "env": env, "settings": _SETTINGS}
    async with fork_prong.opened(url, folder, **given) as session:
        said = await fork_prong.measured(session)
        notices = [
            plain(entry.parts)
            for kind, entry in inside(session).agent.conversation.prompt.entries()
            if kind == "notice" and isinstance(entry, User)
        ]
    told = re.findall(r"<task-id>(\S+)</task-id>", "\n".join(notices))
    return {**said, "notices": len(told), "distinct": len(set(told))}


def main(url: str, _: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(anyio.run(work, url, folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
