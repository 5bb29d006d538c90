"""`prong show`, `prong export` and `prong import`: sessions as pages and files."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from prong.errors import BadInput
from prong.face.command_grammar import parser_of
from prong.face.export import SUFFIXES, PageFormat, as_page
from prong.face.inspect import print_json, say
from prong.face.output import answer, flat, show
from prong.face.owned_file import write_numbered, write_owned
from prong.session import WholeSession, import_session, importable, outlines, whole_session
from prong.system.path_form import real_path


def run_session_file(name: str, words: list[str]) -> int:
    """Run one of the commands; gives the exit code."""
    commands = {"show": _show, "export": _export, "import": _import}
    return commands[name](parser_of(name).parse_args(words))


def _show(args: argparse.Namespace) -> int:
    if args.json:
        print_json(outlines(args.session, say))
    elif args.format == "outline":
        for agent, text in outlines(args.session, say).items():
            show(f"{agent}\n{text}\n")
    else:
        answer(as_page(whole_session(args.session, say), args.format).rstrip("\n"))
    return 0


def _export(args: argparse.Namespace) -> int:
    whole = whole_session(args.session, say)
    show(f"written to {write_page(whole, Path(), args.output, args.format)}")
    return 0


def write_page(
    whole: WholeSession, folder: Path, name: str, form: PageFormat | None = None
) -> Path:
    """Write a session to a file below a folder, for its owner alone; gives where it is.

    Raises NotPossibleNow if there is one of that name, or it cannot be written.
    """
    if not name:
        ending = {"markdown": "md", "html": "html", "jsonl": "jsonl"}[form or "markdown"]
        page = as_page(whole, form or "markdown").encode(errors="replace")
        return write_numbered(folder / f"prong-{whole.opened.session}.{ending}", page)
    path = folder / Path(name).expanduser()
    page = as_page(whole, form or SUFFIXES.get(path.suffix.lower(), "markdown"))
    write_owned(path, page.encode(errors="replace"))
    return path


def _import(args: argparse.Namespace) -> int:
    if args.file is None:
        return _list_importable(json=args.json)
    if not os.path.isfile(args.file):  # noqa: PTH113 - any word
        raise BadInput(f"{args.file}: no such file; 'prong import' lists those of this folder")
    made = import_session(Path(args.file), name=args.name)
    if args.json:
        print_json(made)
        return 0
    show(made.text)
    for note in made.notes:
        say(note)
    return 0


def _list_importable(*, json: bool) -> int:
    found = importable(real_path("."))
    if json:
        print_json(found)
    for one in () if json else found:
        show(f"{flat(one.program)}  {one.day}  {flat(one.title)[:60]}  {flat(str(one.path))}")
    if not found:
        say("no sessions of Claude Code or Codex for this folder were found; name a file")
    return 0
