"""The command that brings the children's branches together."""

from __future__ import annotations

import anyio
import msgspec

from prong.errors import BadInput
from prong.face.command_grammar import parser_of
from prong.face.output import show, show_json
from prong.session import (
    clean_children,
    describe_cleanup,
    describe_merge,
    diff_children,
    dump,
    merge_children,
    undo_merge,
)

_OPTIONS = {"preview": "--preview", "undo": "--undo", "clean": "--clean"}
"""What the words of `/merge` are called here."""


def run_merge(words: list[str]) -> int:
    """Run `prong merge`; gives the exit code, 1 if not every child could be merged."""
    args = parser_of("merge").parse_args(words)
    _look_for_slash(args.slug)
    if args.diff and (args.dry_run or args.no_commit or args.undo or args.clean or args.json):
        raise BadInput("--diff merges nothing: give it alone, or with names")
    if args.undo and (args.slug or args.dry_run or args.no_commit or args.clean):
        raise BadInput("--undo takes the last merge back as a whole: give it alone")
    if args.clean and (args.slug or args.no_commit):
        raise BadInput("--clean merges nothing and looks at all children: give it alone")
    if args.diff:
        return _diff(args.cwd, args.slug)
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


def _look_for_slash(slugs: list[str]) -> None:
    """Refuse a word that means something behind `/merge`, and here as an option.

    A child of such a name can be merged by the name of its branch.
    """
    if slugs and (option := _OPTIONS.get(slugs[0])) is not None:
        raise BadInput(
            f"did you mean 'prong merge {option}'? A child that is called {slugs[0]!r} is "
            f"'prong/{slugs[0]}' here"
        )


def _diff(cwd: str, slugs: list[str]) -> int:
    show(anyio.run(lambda: diff_children(cwd, slugs)) or "no branch of a child has changes")
    return 0


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
