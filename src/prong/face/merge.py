"""The command that brings the children's branches together."""

from __future__ import annotations

import argparse

import anyio
import msgspec

from prong.errors import BadInput
from prong.face.line import counted
from prong.face.output import printable, show, show_json
from prong.session import MergeReport, MergeStep, dump, merge_children, undo_merge


def run_merge(words: list[str]) -> int:
    """Run `prong merge`; gives the exit code, 1 if not every child could be merged."""
    parser = argparse.ArgumentParser(
        prog="prong merge",
        description="Merge the branches of children into the current branch, in order, up to the "
        "first that conflicts. Uncommitted changes of yours stay as they are.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("slug", nargs="*", help="which, in this order; default: all, the oldest first")
    add("--dry-run", action="store_true", help="only show what would merge and what would conflict")
    add(
        "--commit",
        action="store_true",
        help="also what a child left uncommitted: it becomes a commit of its branch",
    )
    add("--undo", action="store_true", help="take the last merge back")
    add("--json", action="store_true", help="for programs")
    add("-C", "--cwd", default=".", metavar="DIR", help="the project folder")
    args = parser.parse_args(words)
    if args.undo and (args.slug or args.dry_run or args.commit):
        raise BadInput("--undo takes the last merge back as a whole: give it alone")
    if args.undo:
        return _undo(args.cwd, json=args.json)
    report = anyio.run(
        lambda: merge_children(args.cwd, args.slug, dry_run=args.dry_run, commit=args.commit)
    )
    if args.json:
        show_json(msgspec.json.format(dump(report)))
    else:
        _print(report, dry_run=args.dry_run)
    return 1 if report.stopped else 0


def _undo(cwd: str, *, json: bool) -> int:
    slugs = anyio.run(lambda: undo_merge(cwd))
    if json:
        show_json(msgspec.json.encode({"undone": slugs}))
    else:
        show(f"undone: {_list(slugs)}")
    return 0


def _list(texts: tuple[str, ...]) -> str:
    # Whatever a file is called, it stays on its line.
    shown = [printable(text).translate({9: "·", 10: "·"}) for text in texts[:10]]
    return ", ".join(shown) + (f" and {len(texts) - 10} more" if len(texts) > 10 else "")


def _print(report: MergeReport, *, dry_run: bool) -> None:
    for step in report.steps:
        show(_line(step))
        if step.remedy:
            show(f"  {step.remedy}")
    if not report.steps:
        show("no branch of a child has anything new")
    merged = [step for step in report.steps if step.status == "merged"]
    if merged and not dry_run:
        if report.stopped:
            show(f"merged so far: {_list(tuple(step.branch for step in merged))}")
        show(f"to take it back: prong merge --undo (HEAD was {report.before[:12]})")


def _line(step: MergeStep) -> str:
    text = f"{step.branch}: {step.status}"
    if step.against:
        text += f" with {_list(step.against)}" if step.status == "conflict" else ""
        text += f": {_list(step.against)}" if step.status == "in the way" else ""
        return f"{text} in {_list(step.conflicts)}"
    if step.files:
        left = f", {len(step.uncommitted)} left uncommitted by it" if step.uncommitted else ""
        commit = f" as {step.commit[:12]}" if step.commit else ""
        text += f"{commit}, {counted(len(step.files), 'file')}{left}: {_list(step.files)}"
    return text
