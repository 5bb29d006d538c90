"""Children are the same wherever their agents run: in the session's process, or in one of their own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from prong.cost import total
from prong.event import Answer, PermissionAsked, ReceiptIssued, TaskFinished
from prong.team.process import Processes
from prong.testing import Script, Step, Worlds, call, calls, forks, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("backend", ["inline", "process"])]


def settings(backend: str, **more: Any) -> str:
    return msgspec.json.encode({"agents": {"backend": backend}, **more}).decode()


async def test_forks_share_their_parents_bytes(world: Worlds, backend: str) -> None:
    """Each request of a fork begins with its parent's bytes, and it reports once."""
    script = Script(
        [call("Read", {"file_path": "a.txt"}), forks("ONE.", "TWO."), say("waiting"), say("done")],
        routes={
            "ONE.": [call("Read", {"file_path": "a.txt"}), report("one")],
            "TWO.": [report("two")],
        },
    )
    options = {"settings": settings(backend), "mode": "bypassPermissions"}
    async with world(script, files={"a.txt": "text\n" * 2000}, **options) as w:
        turn = await w.session.run("Go")

        assert turn.text == "done"
        children = w.parts.supervisor.children
        assert [child.status for child in children] == ["completed", "completed"]
        assert [child.text for child in children] != ["", ""]
        assert isinstance(w.parts.supervisor.services.backend, Processes) == (backend == "process")
        receipts = w.told(ReceiptIssued)
        assert len(receipts) == 2
        assert [len(child.rows) for child in children] == [2, 1]
        assert total(children[0].rows).usage.read > 0
        assert len([one for one in w.told(TaskFinished) if one.status == "completed"]) == 2
