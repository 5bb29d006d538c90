"""A session in a process of its own, whose two forks work on another machine."""

from __future__ import annotations

from prong.testing import Script, call, forks, report, say

DRIVER = """
import sys, anyio, msgspec
from prong.session import open_session
from prong.testing import inside

async def main(url, folder, resumed, settings):
    given = {"resume": "it"} if resumed else {"session_id": "it"}
    async with open_session(
        model="claude-sonnet-5-5", base_url=url, cwd=folder + "/project", store=folder + "/store",
        mode="bypassPermissions", env={"HOME": folder, "PATH": "/usr/bin:/bin"},
        settings=settings, **given,
    ) as session:
        if not resumed or not inside(session).agent.conversation.prompt.depth:
            await session.run("Go")
        await session.wait_settled()
        results = [inside(session).supervisor.result(c) for c in inside(session).supervisor.children]
        print(msgspec.json.encode([[r.status, r.detail, r.branch] for r in results]).decode())

anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3] == "resumed", sys.argv[4])
"""
NAMES = ["Part 1.", "Part 2."]


def working(gate: str) -> Script:
    """Script the session: each call of a fork ends once there is a file, and until then none does."""
    work = call(
        "Bash", {"command": f"echo x >> done.txt; until [ -e {gate} ]; do sleep 0.05; done"}
    )
    return Script(
        [forks(*NAMES, isolation="remote"), say("waiting")],
        {name: [work] * 3 for name in NAMES},
        forever=report(),
    )
