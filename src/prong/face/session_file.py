"""`prong show`, `prong export` and `prong import`: sessions as pages and files."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from prong.errors import BadInput, NotPossibleNow
from prong.face.export import SUFFIXES, PageFormat, as_page
from prong.face.inspect import print_json, say, session_argument
from prong.face.output import answer, flat, show
from prong.session import WholeSession, import_session, importable, outlines, whole_session

_FORMATS = ("markdown", "html", "jsonl")


def run_session_file(name: str, words: list[str]) -> int:
    """Run one of the commands; gives the exit code."""
    commands = {"show": _show, "export": _export, "import": _import}
    parser = argparse.ArgumentParser(prog=f"prong {name}", allow_abbrev=False)
    return commands[name](parser, words)


def _show(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Print what was said in a session, whole, or its outline."
    session_argument(parser)
    parser.add_argument(
        "--format",
        choices=(*_FORMATS, "outline"),
        default="markdown",
        help="markdown; html; jsonl, the lines that other programs read; outline, a line for each "
        "entry as the model sees it",
    )
    args = parser.parse_args(words)
    if args.json:
        print_json(outlines(args.session, say))
    elif args.format == "outline":
        for agent, text in outlines(args.session, say).items():
            show(f"{agent}\n{text}\n")
    else:
        answer(as_page(whole_session(args.session, say), args.format).rstrip("\n"))
    return 0


def _export(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = "Write what was said in a session to a file; none is replaced."
    parser.add_argument("session", nargs="?", help="id, name or journal file; default: the last")
    parser.add_argument("-o", "--output", metavar="FILE", default="", help="prong-ID.md")
    parser.add_argument("--format", choices=_FORMATS, help="by the file's name, else markdown")
    args = parser.parse_args(words)
    whole = whole_session(args.session, say)
    show(f"written to {write_page(whole, Path(), args.output, args.format)}")
    return 0


def write_page(
    whole: WholeSession, folder: Path, name: str, form: PageFormat | None = None
) -> Path:
    """Write a session to a file below a folder, for its owner alone; gives where it is.

    Raises NotPossibleNow if there is one, or it cannot be written.
    """
    ending = {"markdown": "md", "html": "html", "jsonl": "jsonl"}[form or "markdown"]
    path = folder / Path(name or f"prong-{whole.opened.session}.{ending}").expanduser()
    page = as_page(whole, form or SUFFIXES.get(path.suffix.lower(), "markdown"))
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(page.encode(errors="replace"))
    except FileExistsError:
        raise NotPossibleNow(f"{path} is there already; name another file") from None
    except OSError as error:
        raise NotPossibleNow(f"{path} cannot be written ({error.strerror})") from error
    return path


def _import(parser: argparse.ArgumentParser, words: list[str]) -> int:
    parser.description = (
        "Take over a session of Claude Code or Codex: what was said and done, not its cache."
    )
    parser.add_argument("file", nargs="?", help="its .jsonl file; without one those are listed")
    parser.add_argument("--name", default="", help="how to call the session here")
    parser.add_argument("--json", action="store_true", help="for programs")
    args = parser.parse_args(words)
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
    found = importable(os.path.realpath("."))
    if json:
        print_json(found)
    for one in () if json else found:
        show(f"{flat(one.program)}  {one.day}  {flat(one.title)[:60]}  {flat(str(one.path))}")
    if not found:
        say("no sessions of Claude Code or Codex for this folder were found; name a file")
    return 0
