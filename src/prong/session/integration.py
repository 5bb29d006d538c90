"""What became of the branches of children, in words for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prong.command import MergeBranches
from prong.host.cleanup import Cleanup, Cleared, clean
from prong.host.host import Host
from prong.host.merge import MergeReport, MergeStep, merge, undo
from prong.host.user_move import Recovered

_MOST = 10
"""Names that stand in one line."""


async def integrate(host: Host, command: MergeBranches) -> str:
    """Do what the command says, and say what became of it.

    Raises UsageError or GitFailed; nothing is changed then.
    """
    match command.action:
        case "undo":
            return f"undone: {_some(await undo(host))}"
        case "clean":
            return "\n".join(describe_cleanup(await clean(host)))
        case "merge" | "preview":
            dry_run = command.action == "preview"
            report = await merge(host, command.slugs, dry_run=dry_run, commit=command.commit)
            return "\n".join(describe_merge(report, dry_run=dry_run))


def describe_merge(report: MergeReport, *, dry_run: bool = False) -> Iterator[str]:
    """Say what became of each child, and what can be done next."""
    if report.recovered:
        yield from _recovered(report.recovered)
    for step in report.steps:
        yield _step(step)
        if step.remedy:
            yield f"  {step.remedy}"
    if not report.steps:
        yield "no branch of a child has anything new"
    merged = [step for step in report.steps if step.status == "merged"]
    if merged and not dry_run:
        if report.stopped:
            yield f"merged so far: {_some([step.branch for step in merged])}"
        yield f"to take it back: prong merge --undo (HEAD was {report.before[:12]})"
        yield "to remove the worktrees and branches that are merged: prong merge --clean"


def _recovered(found: Recovered) -> Iterator[str]:
    """Say what a merge that was killed had left."""
    what = "a merge" if found.kind == "merge" else "taking a merge back"
    how = "brought to its end" if found.complete else "taken back"
    files = f": {_some(found.restored)}" if found.restored else ""
    yield f"{what} of {_some(found.slugs)} that was cut short was {how} first{files}"
    if found.kept:
        yield f"  left as they are, as they were changed since: {_some(found.kept)}"


def _step(step: MergeStep) -> str:
    text = f"{step.branch}: {step.status}"
    if step.against:
        text += f" with {_some(step.against)}" if step.status == "conflict" else ""
        text += f": {_some(step.against)}" if step.status == "in the way" else ""
        return f"{text} in {_some(step.conflicts)}"
    if step.files:
        number = len(step.files)
        how = "committed for it" if step.commit else "not committed by it"
        left = f", {len(step.uncommitted)} of them {how}" if step.uncommitted else ""
        commit = f" as {step.commit[:12]}" if step.commit else ""
        text += f"{commit}, {number} file{'' if number == 1 else 's'}{left}: {_some(step.files)}"
    return text


def describe_cleanup(found: Cleanup, *, dry_run: bool = False) -> Iterator[str]:
    """Say what was removed, what was kept, and why."""
    for item in found.items:
        yield _cleared(item, dry_run=dry_run)
    if not found.items:
        yield "there are no worktrees and branches of children"
    if found.undo:
        yield (
            "the last merge can no longer be taken back by 'prong merge --undo'; "
            f"HEAD was {found.undo[:12]} before it"
        )


def _cleared(item: Cleared, *, dry_run: bool) -> str:
    verb = ("would remove" if dry_run else "removed") if item.removed else "kept"
    where = f" and {item.path}" if item.path else ""
    return f"{verb} {item.branch}{_flat(where)}: {_flat(item.why)}"


def _some(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _MOST} more" if len(texts) > _MOST else ""
    return ", ".join(map(_flat, texts[:_MOST])) + more


def _flat(text: str) -> str:
    """Keep a name on its line, whatever it is."""
    return "".join(c if c.isprintable() else "·" for c in text)
