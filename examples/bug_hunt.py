"""A bug hunt: typed agents search in the background while the main agent goes on.

    python examples/bug_hunt.py "the total is wrong after a refund" [FOLDER]

Hunters know nothing of the conversation, and can change nothing. Each has a suspicion of its own;
what they report reaches the main agent as notices, and it decides.
"""

import json
import sys

import anyio

import prong
from prong.event import TaskFinished, TaskStarted

HUNTER = {
    "hunter": {
        "description": "Follows one suspicion through the code, and proves or drops it.",
        "prompt": "You follow one suspicion about a bug. Read the code that matters, and end with "
        "'proved' or 'dropped' and the place, as path:line, that shows it.",
        "tools": ["Read", "Glob", "Grep"],
        "permissionMode": "plan",
        "background": True,
    }
}

TASK = """\
A user reports: {report}

Think of the three likeliest causes. Start one agent of the type hunter for each, all in one reply,
with a brief that stands by itself. When they have reported, name the cause and the smallest fix.
Change nothing."""


async def watch(session: prong.Session) -> None:
    """Say who hunts."""
    async for envelope in session.events():
        match envelope.event:
            case TaskStarted(title=title):
                print(f"  {envelope.agent}: {title}")
            case TaskFinished(status=status):
                print(f"  {envelope.agent}: {status}")
            case _:
                pass


async def hunt(report: str, folder: str = ".") -> str:
    """Give what the main agent concludes."""
    said = ""
    async with (
        prong.open_session(cwd=folder, mode="dontAsk", agents=json.dumps(HUNTER)) as session,
        anyio.create_task_group() as group,
    ):
        group.start_soon(watch, session)
        # It waits for what the turn has started.
        turn = await session.run(TASK.format(report=report))
        said = turn.text if turn.ok else f"no result: {turn.detail}"
        group.cancel_scope.cancel()
    return said


if __name__ == "__main__":
    report, *folder = sys.argv[1:]
    print(anyio.run(hunt, report, (folder or ["."])[0]))
