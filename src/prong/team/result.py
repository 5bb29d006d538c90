"""What a fork gives back to whoever forked by hand."""

from __future__ import annotations

import msgspec

from prong.cost.receipt import Receipt
from prong.host.worktree import Kept
from prong.team.child import Child
from prong.team.fork import Report


class ForkResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one fork gave back."""

    task_id: str
    status: str
    text: str
    """Its last reply, whole."""
    report: Report
    receipt: Receipt
    detail: str = ""
    """Why it failed or was stopped, if it did."""
    worktree: str = ""
    """The folder of its worktree, if there is work in it."""
    branch: str = ""
    """The branch of that worktree."""
    commits: tuple[str, ...] = ()
    """The fork's own commits there, the oldest first."""
    files: tuple[str, ...] = ()
    """The files it changed there, committed or not."""


def result_of(child: Child, receipt: Receipt) -> ForkResult:
    """Put together what a child gave back."""
    kept = child.outcome if isinstance(child.outcome, Kept) else None
    return ForkResult(
        task_id=child.spec.task_id,
        status=child.status,
        text=child.text,
        report=child.report,
        receipt=receipt,
        detail=child.detail,
        worktree=kept.path if kept else "",
        branch=kept.branch if kept else "",
        commits=kept.commits if kept else (),
        files=kept.files if kept else (),
    )
