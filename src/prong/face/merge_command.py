"""The command that brings the children's branches together."""

from __future__ import annotations

import anyio
import msgspec

from prong.errors import BadInput
from prong.face.command_parser import CommandParser
from prong.face.output import show, show_json
from prong.session import (
    clean_children,
    describe_cleanup,
    describe_merge,
    dump,
    merge_children,
    undo_merge,
)


def run_merge(words: list[str]) -> int:
    """Run `prong merge`; gives the exit code, 1 if not every child could be merged."""
    parser = CommandParser(
        prog="prong merge",
        description="Merge the branches of children into the current branch, in order, up to the "
        "first that conflicts. What a child left uncommitted is committed on its branch first. "
        "Uncommitted changes of yours stay as they are.",
    )
    add = parser.add_argument
    add("slug", nargs="*", help="which, in this order; default: all, the oldest first")
    add("--dry-run", action="store_true", help="only show what would be done")
    add("--no-commit", action="store_true", help="stop at a child that left something uncommitted")
    add("--undo", action="store_true", help="take the last merge back")
    add(
        "--clean",
        action="store_true",
        help="merge nothing; remove the worktrees and branches whose work is merged, and say what "
        "is kept and why",
    )
    add("--json", action="store_true", help="for programs")
    add("-C", "--cwd", default=".", metavar="DIR", help="the project folder")
    args = parser.parse_args(words)
    if args.undo and (args.slug or args.dry_run or args.no_commit or args.clean):
        raise BadInput("--undo takes the last merge back as a whole: give it alone")
    if args.clean and (args.slug or args.no_commit):
        raise BadInput("--clean merges nothing and looks at all children: give it alone")
    if args.undo:
        return _undo(args.cwd, json=args.json)
    if args.clean:
        return _clean(args.cwd, dry_run=args.dry_run, json=args.json)
    report = anyio.run(
        lambda: merge_children(args.cwd, args.slug, dry_run=args.dry_run, commit=not args.no_commit)
    )
    if args.json:
        show_json(msgspec.json.format(dump(report)))
    else:
        show("\n".join(describe_merge(report, dry_run=args.dry_run)))
    return 1 if report.stopped else 0


def _undo(cwd: str, *, json: bool) -> int:
    slugs = anyio.run(lambda: undo_merge(cwd))
    if json:
        show_json(msgspec.json.encode({"undone": slugs}))
    else:
        show(f"undone: {', '.join(slugs)}")
    return 0


def _clean(cwd: str, *, dry_run: bool, json: bool) -> int:
    found = anyio.run(lambda: clean_children(cwd, dry_run=dry_run))
    if json:
        show_json(msgspec.json.format(dump(found)))
    else:
        show("\n".join(describe_cleanup(found, dry_run=dry_run)))
    return 0
