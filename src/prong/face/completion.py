"""`prong completion SHELL`: what a shell needs to complete commands, flags and their words.

It is made from the parsers that read them, so it knows exactly those. Nothing is run while
somebody types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from prong.face.command_grammar import parser_of
from prong.face.command_place import CommandPlace, Flag, places
from prong.face.output import show

_NEWLINE = "\n"
_ZSH_TAKES = {"": "", "files": ":file:_files", "folders": ":folder:_files -/", "words": ": : "}


def run_completion(words: list[str], commands: Mapping[str, str]) -> int:
    """Print the script of a shell; gives the exit code."""
    show(script(parser_of("completion").parse_args(words).shell, commands))
    return 0


def script(shell: str, commands: Mapping[str, str]) -> str:
    """Write the script of a shell."""
    found = places(commands)
    if shell == "bash":
        return _bash(found)
    return _zsh(found, commands) if shell == "zsh" else _fish(found, commands)


def _paths(found: Iterable[CommandPlace], words: int) -> list[str]:
    """Give the places behind so many words."""
    return [place.path for place in found if len(place.path.split()) == words]


def _bash(found: list[CommandPlace]) -> str:
    # Each word on a line, as file names have blanks; and nothing that an old bash has not.
    behind: dict[str, list[str]] = {}
    for place in found:
        for flag in place.flags:
            if made := _bash_offer(flag.choices, flag.takes):
                behind.setdefault(made, []).extend(f'"{place.path} {name}"' for name in flag.names)
    return "\n".join(
        [
            "_prong() {",
            '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"',
            '    local at=1 place="" flags',
            "    local IFS=$'\\n'",
            "    COMPREPLY=()",
            # It takes --flag=word for three words.
            '    if [[ $word == = ]]; then word=""',
            '    elif [[ $before == = ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi',
            '    case "${COMP_WORDS[1]}" in',
            "        -C) at=3 ;;",
            '        --cwd) at=3; [[ ${COMP_WORDS[2]} == "=" ]] && at=4 ;;',
            "        -C?*) at=2 ;;",
            "    esac",
            '    (( COMP_CWORD > at )) && case "${COMP_WORDS[at]}" in',
            f'        {"|".join(_paths(found, 1))}) place="${{COMP_WORDS[at]}}" ;;',
            "    esac",
            '    (( COMP_CWORD > at + 1 )) && case "$place ${COMP_WORDS[at+1]}" in',
            f'        {_quoted(_paths(found, 2))}) place="$place ${{COMP_WORDS[at+1]}}" ;;',
            "    esac",
            '    case "$place $before" in',
            *(f"        {'|'.join(where)}) {made} return ;;" for made, where in behind.items()),
            "    esac",
            '    case "$place" in',
            *(
                f'        "{one.path}") flags="{_lines(one.flags)}"; {_bash_next(one)} ;;'
                for one in found
            ),
            "    esac",
            '    if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$word")); fi',
            "}",
            "complete -o filenames -F _prong prong",
        ]
    )


def _lines(flags: Iterable[Flag]) -> str:
    return _NEWLINE.join(name for flag in flags for name in flag.names)


def _quoted(paths: Iterable[str]) -> str:
    return "|".join(f'"{path}"' for path in paths)


def _bash_next(place: CommandPlace) -> str:
    """Offer what comes next if it is no flag; a prompt may name files."""
    offer = _bash_offer(place.words, place.takes)
    if place.path:
        return offer
    return f"if (( COMP_CWORD == at )); then {offer} else {_bash_offer((), place.takes)} fi"


def _bash_offer(words: tuple[str, ...], takes: str) -> str:
    if words:
        return f'COMPREPLY=($(compgen -W "{_NEWLINE.join(words)}" -- "$word"));'
    if not takes:
        return ""
    kind = {"files": "compgen -f", "folders": "compgen -d", "words": "true"}[takes]
    return f'COMPREPLY=($({kind} -- "$word"));'


def _zsh(found: list[CommandPlace], commands: Mapping[str, str]) -> str:
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
            "    local at=2 place=",
            "    case $words[2] in",
            "        (-C|--cwd) at=4 ;;",
            "        (-C?*|--cwd=*) at=3 ;;",
            "    esac",
            "    (( CURRENT > at )) && case $words[at] in",
            f"        ({'|'.join(_paths(found, 1))}) place=$words[at] ;;",
            "    esac",
            '    (( CURRENT > at + 1 )) && case "$place $words[at+1]" in',
            f'        ({_quoted(_paths(found, 2))}) place+=" $words[at+1]"; (( at++ )) ;;',
            "    esac",
            "    if [[ -n $place ]]; then",
            '        words=("${(@)words[at,-1]}")',
            "        (( CURRENT -= at - 1 ))",
            "    fi",
            "    case $place in",
            *(line for place in found for line in _zsh_place(place)),
            "    esac",
            "}",
            "compdef _prong prong",
        ]
    )


def _zsh_place(place: CommandPlace) -> list[str]:
    lines = [f'    ("{place.path}") _arguments -S \\']
    for flag in place.flags:
        value = f":word:({' '.join(flag.choices)})" if flag.choices else _ZSH_TAKES[flag.takes]
        many = f"({' '.join(flag.names)})" if len(flag.names) > 1 else ""
        lines += [
            f"        '{many}{name}[{_zsh_text(flag.help)}]{value}' \\" for name in flag.names
        ]
    if not place.path:
        lines.append("        '1: :_prong_commands' \\")
    elif place.words:
        lines.append(f"        '1:word:({' '.join(place.words)})' \\")
    if place.takes:
        lines.append(f"        '*{_ZSH_TAKES[place.takes]}' \\")
    return [*lines, "        ;;"]


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


_FISH = """function __prong_rest
    set -l words (commandline -opc)
    set -l at 2
    switch "$words[2]"
        case -C --cwd
            set at 4
        case '-C*' '--cwd=*'
            set at 3
    end
    test (count $words) -lt $at; or printf '%s\\n' $words[$at..-1]
end
function __prong_first
    test (count (__prong_rest)) -eq 0
end"""


def _fish(found: list[CommandPlace], commands: Mapping[str, str]) -> str:
    lines = [
        _FISH,
        "function __prong_at",
        "    set -l rest (__prong_rest)",
        "    set -l place ''",
        f'    if contains -- "$rest[1]" {" ".join(_paths(found, 1))}',
        '        set place "$rest[1]"',
        f'        contains -- "$rest[1] $rest[2]" {" ".join(map(_fish_text, _paths(found, 2)))}',
        '        and set place "$rest[1] $rest[2]"',
        "    end",
        '    test "$place" = "$argv"',
        "end",
    ]
    for name, what in commands.items():
        lines.append(f"complete -c prong -n __prong_first -f -a {name} -d {_fish_text(what)}")
    for place in found:
        start = f"complete -c prong -n {_fish_text(f'__prong_at {place.path}'.rstrip())}"
        lines += (_fish_flag(start, flag) for flag in place.flags)
        if place.path and (place.words or place.takes != "files"):
            offered = " ".join(place.words)
            if place.takes == "folders":
                offered = "(__fish_complete_directories)"
            lines.append(f"{start} -f" + (f" -a {_fish_text(offered)}" if offered else ""))
    return "\n".join(lines)


def _fish_flag(start: str, flag: Flag) -> str:
    words = [start]
    words += [f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in flag.names]
    if flag.choices:
        words.append(f"-x -a {_fish_text(' '.join(flag.choices))}")
    elif flag.takes == "folders":
        words.append("-x -a '(__fish_complete_directories)'")
    elif flag.takes:
        words.append("-r" if flag.takes == "files" else "-x")
    if flag.help:
        words.append(f"-d {_fish_text(flag.help)}")
    return " ".join(words)


def _fish_text(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"
