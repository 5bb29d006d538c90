"""The tool by which the main agent brings the work of its children together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from prong.entry import CallId
from prong.errors import ProngError
from prong.tools.access import Access, Using
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect, done

if TYPE_CHECKING:
    from prong.host.merge import MergeReport, MergeStep
    from prong.tools.tool import Tool


_GONE_ON = frozenset(["merged", "nothing new", "away"])
"""What keeps a merge from no other branch."""


class MergeArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What MergeWorktrees takes."""

    action: Annotated[
        Literal["preview", "merge"],
        Meta(description="preview changes nothing"),
    ]
    slugs: Annotated[
        tuple[str, ...],
        Meta(description="Of branches `prong/<slug>`, in order; else all that are done, by name"),
    ] = ()
    commit: Annotated[
        bool,
        Meta(description="Take what an agent left uncommitted too, as a commit on its own branch"),
    ] = True


class MergeWorktrees:
    """Merges the branches of children into the current one."""

    name = "MergeWorktrees"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = MergeArguments
    budget = 20_000

    def title(self, args: MergeArguments) -> str:
        """Name the branches."""
        left = "" if args.commit else ", without what was left uncommitted"
        return f"{args.action} worktrees: {', '.join(args.slugs) or 'all'}{left}"

    def access(self, args: MergeArguments, context: Context) -> Sequence[Access]:
        """Rules speak of it by what it does; a preview touches no file of the user's."""
        del context
        return (Using("merge"),) if args.action == "merge" else ()

    async def run(self, call_id: CallId, args: MergeArguments, context: Context) -> CallOutcome:
        """Merge up to the first conflict, or say what would happen."""
        del call_id
        from prong.host.merge import merge

        dry_run = args.action == "preview"
        try:
            report = await merge(context.host, args.slugs, dry_run=dry_run, commit=args.commit)
        except (ProngError, OSError) as error:
            return Failed(str(error))
        return done(_told(report, dry_run=dry_run))


def _told(report: MergeReport, *, dry_run: bool) -> str:
    lines = _recovered(report)
    if not report.steps:
        return "\n".join((*lines, "No branch of a child has anything new."))
    lines += [_line(step) for step in report.steps]
    if dry_run:
        lines.append("Nothing was changed.")
    elif report.after != report.before:
        lines.append(
            f"HEAD went from {report.before[:12]} to {report.after[:12]}; read files that you "
            "want to edit again. The user can take it back with 'prong merge --undo'."
        )
    if not dry_run and any(one.status not in _GONE_ON for one in report.steps):
        lines.append("It stopped at the first branch that could not be merged.")
    return "\n".join(lines)


def _recovered(report: MergeReport) -> list[str]:
    """Say what a merge that was killed had left, if one was."""
    found = report.recovered
    if found is None:
        return []
    how = "brought to its end" if found.complete else "taken back"
    lines = [f"What a merge that was cut short had left ({_some(found.slugs)}) was {how} first."]
    if found.restored:
        lines.append(f"These files have their earlier content again: {_some(found.restored)}.")
    if found.kept:
        lines.append(f"These were changed since, and left as they are: {_some(found.kept)}.")
    return lines


def _line(step: MergeStep) -> str:
    parts = [f"{step.branch}: {step.status}"]
    if step.against:
        parts.append(f"with {', '.join(step.against)}")
    if step.conflicts:
        parts.append(f"in {_some(step.conflicts)}")
    elif step.files:
        left = f"; it left uncommitted: {_some(step.uncommitted)}" if step.uncommitted else ""
        parts.append(f"({_some(step.files)}{left})")
    line, remedy = " ".join(parts), step.remedy.removesuffix(", or merge without --no-commit")
    return f"{line}; {remedy}" if remedy else line


def _some(names: Sequence[str], most: int = 20) -> str:
    shown = ["".join(c if c.isprintable() else "?" for c in name) for name in names[:most]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


if TYPE_CHECKING:
    _: type[Tool] = MergeWorktrees
