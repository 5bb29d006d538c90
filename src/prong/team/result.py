"""What a child gives back: to its parent's model as a notice or result, to a caller as a value."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from prong.cost.receipt import Receipt
from prong.host.worktree import Kept, Removed
from prong.ids import TaskId
from prong.team.child import Child
from prong.team.fork import ForkReport
from prong.team.injection import warning
from prong.team.notice import TaskUsage
from prong.team.work import Ending
from prong.tools.fence import neutral
from prong.tools.tool import CallOutcome, Done, Failed, TaskHandle, done


class ChildResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one child gave back: a fork, or an agent of a type."""

    task_id: TaskId
    status: str
    text: str
    """Its last reply, whole."""
    report: ForkReport
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


def result_of(child: Child, receipt: Receipt) -> ChildResult:
    """Put together what a child gave back."""
    kept = child.run.outcome if isinstance(child.run.outcome, Kept) else None
    return ChildResult(
        task_id=child.spec.task_id,
        status=child.status,
        text=child.text,
        report=child.report,
        receipt=receipt,
        detail=child.run.detail,
        worktree=kept.path if kept else "",
        branch=kept.branch if kept else "",
        commits=kept.commits if kept else (),
        files=kept.files if kept else (),
    )


def ending_of(child: Child) -> Ending:
    """Say how a child ended and what it leaves."""
    who = f" {child.spec.member.name}" if child.spec.member else ""
    name = f'{child.kind}{who} "{child.spec.description}"'
    rows, uses = child.run.since
    usage = TaskUsage(
        tokens=sum(row.usage.input + row.usage.output for row in child.account.rows[rows:]),
        tool_uses=child.emitter.tool_uses - uses,
    )
    match child.status:
        case "completed":
            summary = f"{name} completed"
        case "killed":
            summary = f"{name} was stopped"
        case _:
            summary = f"{name} failed: {child.run.detail}"
    flagged, outcome = warning(child.run.findings), child.run.outcome
    place = left_behind(outcome) if outcome is not None else ""
    return Ending(
        status="failed" if child.status == "running" else child.status,
        summary=summary,
        result="\n\n".join(part for part in (flagged, _result(child), place) if part),
        beside="\n\n".join(part for part in (flagged, place) if part),
        usage=usage,
    )


def _result(child: Child) -> str:
    """Give what a child said, with a word on it where that is not what was asked for."""
    result, completed = child.text, child.status == "completed"
    reports = child.spec.kind == "fork" and child.spec.member is None
    if completed and reports and not child.report.structured:
        result = f"[This report is not of the agreed form.]\n{result}"
    if not completed and result:
        result = f"[Unfinished: what follows is the last that it said.]\n{result}"
    return result


def left_behind(outcome: Kept | Removed) -> str:
    """Say what became of a child's worktree, and what is in it."""
    if isinstance(outcome, Removed):
        return "[Nothing was changed in its worktree, so that is gone again.]"
    if outcome.away:
        kept = f"[Its work is still on another machine, in {outcome.path}: {outcome.why}."
        return f"{kept} It will be the branch {outcome.branch}, which is not here yet.]"
    lines = [f"[Its worktree is kept: {outcome.path}", f"Branch: {outcome.branch}"]
    if not outcome.path:
        lines = [f"[Its work has come back as the branch {outcome.branch}"]
    lines.append(f"Commits: {_some([commit[:12] for commit in outcome.commits])}")
    lines.append(f"Files changed: {_some(outcome.files)}")
    if outcome.uncommitted:
        lines.append("Not all of this is committed")
    if outcome.path and not (outcome.commits or outcome.files):
        lines.append(f"Kept because {outcome.why}")
    return "\n".join(lines) + "]"


def _some(texts: Sequence[str], most: int = 20) -> str:
    """Name some; whatever a file is called, it stays on its line."""
    shown = ["".join(c if c.isprintable() else "?" for c in text) for text in texts[:most]]
    more = len(texts) - len(shown)
    return (", ".join(shown) or "none") + (f" and {more} more" if more else "")


def held_back(others: Sequence[str]) -> tuple[str, ...]:
    """Say for whom a child waits before it begins, if it does."""
    if not others:
        return ()
    why = f"its files overlap those of {', '.join(others)}"
    return (f"It has not begun yet: {why}, so it waits for that to end and then begins by itself.",)


def started(child: Child, handle: TaskHandle, notes: Sequence[str] = ()) -> Done:
    """Say that a child works in the background, and where its output goes."""
    told = (
        f"{child.kind} agent {handle.task_id} works in the background. Its report will come as a "
        f"task notification; go on with other work. Output file: {handle.output_file}"
    )
    return done("\n".join([told, *notes]))


def moved(child: Child, handle: TaskHandle, why: str) -> Done:
    """Say that a child that was waited for goes on in the background."""
    return done(
        f"{child.kind} agent {handle.task_id} goes on in the background ({why}); nothing was "
        f"restarted. Its report will come as a task notification. "
        f"Output file: {handle.output_file}"
    )


def finished(child: Child, seconds: float, notes: tuple[str, ...] = ()) -> CallOutcome:
    """Give what a child gave back to the parent that waited for it."""
    ending = ending_of(child)
    usage = ending.usage
    foot = (
        f"[agent {child.spec.task_id} ({child.kind}): {ending.status}; {usage.tool_uses} tool "
        f"uses, {usage.tokens} tokens, {seconds:.1f} s]"
    )
    text = neutral(ending.result.strip()) or "(it said nothing)"
    if ending.status == "completed":
        return done("\n\n".join([text, *notes, foot]))
    return Failed("\n\n".join([neutral(ending.summary), text, *notes, foot]))
