"""`prong completion SHELL`: what a shell needs to complete commands, flags and their words.

It is made from the parser that reads the flags, so it knows exactly those. Nothing is run while
somebody types.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

import msgspec

from prong.face.command_parser import CommandParser
from prong.face.flag import make_parser
from prong.face.output import show

SHELLS = ("bash", "zsh", "fish")
_NEWLINE = "\n"
_FILES = frozenset({"FILE", "JSON|FILE"})


class _Flag(msgspec.Struct, frozen=True):
    """One flag as shells see it."""

    names: tuple[str, ...]
    help: str
    choices: tuple[str, ...]
    takes: str
    """What follows: nothing, `files`, `folders`, or `words`."""


def run_completion(words: list[str], commands: Mapping[str, str]) -> int:
    """Print the script of a shell; gives the exit code."""
    parser = CommandParser(
        prog="prong completion",
        description="Print a script that lets a shell complete prong's commands and flags.",
        epilog='bash, zsh: eval "$(prong completion bash)" in ~/.bashrc or ~/.zshrc; '
        "fish: prong completion fish > ~/.config/fish/completions/prong.fish",
    )
    parser.add_argument("shell", choices=SHELLS)
    shell = parser.parse_args(words).shell
    show(script(shell, commands))
    return 0


def script(shell: str, commands: Mapping[str, str]) -> str:
    """Write the script of a shell."""
    flags = _flags(make_parser(commands))
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]
    return make(flags, commands)


def _flags(parser: argparse.ArgumentParser) -> list[_Flag]:
    return [
        _Flag(
            tuple(action.option_strings),
            " ".join((action.help or "").split()),
            tuple(map(str, action.choices or ())),
            _takes(action),
        )
        for action in parser._actions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] # no other way to list them
        if action.option_strings
    ]


def _takes(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar == "DIR":
        return "folders"
    return "files" if action.metavar in _FILES else "words"


def _bash(flags: list[_Flag], commands: Mapping[str, str]) -> str:
    cases: list[str] = []
    for flag in flags:
        if flag.choices:
            made = f'compgen -W "{_NEWLINE.join(flag.choices)}" -- "$word"'
        elif flag.takes in {"files", "folders"}:
            made = f'compgen -{"f" if flag.takes == "files" else "d"} -- "$word"'
        elif flag.takes:
            made = "true"
        else:
            continue
        cases.append(f"        {'|'.join(flag.names)}) COMPREPLY=($({made})); return ;;")
    names = _NEWLINE.join(name for flag in flags for name in flag.names)
    return "\n".join(
        [
            "_prong() {",
            '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            # Each on a line, as file names have blanks; and nothing that an old bash has not.
            "    local IFS=$'\\n'",
            "    COMPREPLY=()",
            '    case "$before" in',
            *cases,
            "    esac",
            "    if [[ $word == -* ]]; then",
            f'        COMPREPLY=($(compgen -W "{names}" -- "$word"))',
            "    elif (( COMP_CWORD == 1 )); then",
            f'        COMPREPLY=($(compgen -W "{_NEWLINE.join(commands)}" -- "$word"))',
            "    else",
            '        COMPREPLY=($(compgen -f -- "$word"))',
            "    fi",
            "}",
            "complete -o filenames -F _prong prong",
        ]
    )


def _zsh(flags: list[_Flag], commands: Mapping[str, str]) -> str:
    lines: list[str] = []
    for flag in flags:
        value = {"": "", "files": ":file:_files", "folders": ":folder:_files -/", "words": ": : "}[
            flag.takes
        ]
        if flag.choices:
            value = f":word:({' '.join(flag.choices)})"
        many = f"({' '.join(flag.names)})" if len(flag.names) > 1 else ""
        lines += [
            f"        '{many}{name}[{_zsh_text(flag.help)}]{value}' \\" for name in flag.names
        ]
    listed = [f"        '{name}:{_zsh_text(what)}'" for name, what in commands.items()]
    return "\n".join(
        [
            "#compdef prong",
            "_prong_commands() {",
            "    local -a commands=(",
            *listed,
            "    )",
            "    _describe command commands",
            "}",
            "_prong() {",
            "    _arguments -S \\",
            *lines,
            "        '1: :_prong_commands' \\",
            "        '*:file:_files'",
            "}",
            "compdef _prong prong",
        ]
    )


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def _fish(flags: list[_Flag], commands: Mapping[str, str]) -> str:
    lines: list[str] = []
    for name, what in commands.items():
        lines.append(
            f"complete -c prong -n __fish_use_subcommand -f -a {name} -d {_fish_text(what)}"
        )
    for flag in flags:
        words = ["complete -c prong"]
        words += [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in flag.names]
        if flag.choices:
            words.append(f"-x -a {_fish_text(' '.join(flag.choices))}")
        elif flag.takes == "folders":
            words.append("-x -a '(__fish_complete_directories)'")
        elif flag.takes:
            words.append("-r" if flag.takes == "files" else "-x")
        if flag.help:
            words.append(f"-d {_fish_text(flag.help)}")
        lines.append(" ".join(words))
    return "\n".join(lines)


def _fish_text(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"
