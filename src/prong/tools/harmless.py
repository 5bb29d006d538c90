"""Which simple commands are proven to change nothing: a table of programs and of their options.

A program is listed only if every option that writes, deletes or runs something is known and named
here. Whatever is not listed, or has a word that may turn out to be such an option, is not proven.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from prong.system.path_form import is_unclear_word
from prong.tools.argv import read_options
from prong.tools.builtin import plain_set
from prong.tools.commandline import Simple
from prong.tools.sed import sed_only_prints
from prong.tools.word import Word, names
from prong.tools.wrapper import WRAPPERS, Nested, find_inner

_MANY = 10_000


class ReadOnlyProgram(Struct, frozen=True):
    """A program that only reads, given the right options."""

    bad: str = ""
    """Letters of options that do more than read."""
    bad_long: frozenset[str] = frozenset()
    """Long options (without dashes) that do more than read."""
    skip: int = 0
    """Leading operands that are no paths; given otherwise if one of `instead` is there."""
    instead: str = ""
    """Letters of the options that take the place of those operands."""
    instead_long: frozenset[str] = frozenset()
    most: int = _MANY
    """How many operands it may have; more would be written to."""
    paths: bool = True
    """Whether its operands, and the folder it runs in, are read."""
    prefix: str = ""
    """What every operand must begin with."""


def _r(bad: str = "", long: str = "", **kw: object) -> ReadOnlyProgram:
    return ReadOnlyProgram(bad, frozenset(long.split()), **kw)  # pyright: ignore[reportArgumentType]


_ANY = _r()
_TALK = _r(paths=False)
_PATTERN = names("regexp file files type-list")

READERS: dict[str, ReadOnlyProgram] = {
    **dict.fromkeys(
        names(
            "cat head tail ls cut nl tac rev comm paste fold expand unexpand stat df "
            "realpath readlink md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum "
            "sum md5 shasum cmp diff od hexdump strings lsblk findmnt pushd"
        ),
        _ANY,
    ),
    **dict.fromkeys(
        names(
            "pwd echo which type whereis basename dirname true false : sleep seq id whoami groups "
            "uname arch nproc uptime free ps printenv locale tty getconf wait exit return break "
            "continue shift cd popd tr expr factor cal tput umask times pgrep"
        ),
        _TALK,
    ),
    "test": _r("v"),
    "jobs": _r("x", paths=False),
    "printf": _r("v", paths=False),
    "hostname": _r("Fb", "file boot", most=0, paths=False),
    "date": _r("sf", "set file", prefix="+", paths=False),
    "uniq": _r(most=1),
    "xxd": _r("r", "revert", most=1),
    "column": _ANY,
    # A list of files in a file may name any; of these only counts and kinds would show.
    "wc": _ANY,
    "du": _ANY,
    "lsof": _r("D"),
    "file": _r("Cfp", "compile files-from preserve-date"),
    "base64": _r("o", "output"),
    "iconv": _r("o", "output"),
    "sort": _r("oT", "output compress-program temporary-directory files0-from"),
    "grep": _r(skip=1, instead="ef", instead_long=_PATTERN),
    "egrep": _r(skip=1, instead="ef", instead_long=_PATTERN),
    "fgrep": _r(skip=1, instead="ef", instead_long=_PATTERN),
    "rg": _r("z", "pre hostname-bin search-zip", skip=1, instead="ef", instead_long=_PATTERN),
    "fd": _r("xX", "exec exec-batch", skip=1),
    "fdfind": _r("xX", "exec exec-batch", skip=1),
    "tree": _r("oR", "output"),
    "jq": _r("Lf", "library-path from-file", skip=1),
}

_GIT_DIFF = "output ext-diff textconv"
GIT_READERS: dict[str, ReadOnlyProgram] = {
    **dict.fromkeys(
        names("log show diff diff-tree diff-index diff-files whatchanged shortlog"),
        _r("", _GIT_DIFF),
    ),
    **dict.fromkeys(
        names(
            "status ls-files ls-tree rev-parse rev-list describe name-rev merge-base show-ref "
            "for-each-ref count-objects check-ignore check-attr version blame annotate"
        ),
        _r("", "textconv ext-diff output"),
    ),
    "cat-file": _r("", "textconv filters"),
    "grep": _r("O", "open-files-in-pager textconv", skip=1, instead="ef", instead_long=_PATTERN),
}
_GIT_LISTS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern)
    for name, pattern in {
        "branch": r"(?:-[arv]+|--(?:all|remotes|verbose|show-current|no-color|color|no-column)"
        r"|--(?:sort|format)=\S+)(?: |$)|(?:--list|-l)(?: |$)"
        r"|--(?:contains|no-contains|merged|no-merged|points-at)(?:=\S+| (?!-)\S+)?(?: |$)",
        "tag": r"(?:-l|--list|-n\d*|--(?:sort|format)=\S+)(?: |$)"
        r"|--(?:contains|merged|no-merged|points-at)(?:=\S+| (?!-)\S+)?(?: |$)",
        "remote": r"(?:-v|--verbose)(?: |$)|get-url (?:--all |--push )?[\w.-]+$",
        "stash": r"(?:list|show)(?: |$)|(?:-p|--stat|--patch|--name-only|stash@\{\d+\})(?: |$)",
        "config": r"(?:--(?:global|local|system|worktree|show-origin|show-scope|name-only|null)|-z)"
        r"(?: |$)|(?:--list|-l|list)(?: |$)|(?:--get|--get-all|--get-regexp|get) \S+$",
        "worktree": r"list(?: |$)|--porcelain(?: |$)",
        "reflog": r"show(?: |$)|(?:-n ?\d+|-\d+|--oneline|--date=\S+|HEAD\S*)(?: |$)",
        "notes": r"(?:list|show)(?: |$)",
    }.items()
}
"""Git commands that read if all their words fit; the words are matched as one text."""
_GIT_NEEDED = {"stash": ("list", "show"), "worktree": ("list",), "notes": ("list", "show")}

_VERSIONED = names(
    "python python3 node bun deno ruby perl gcc g++ clang make cmake java javac docker kubectl uv "
    "ruff pip pip3 git bash zsh rg jq mypy tsc"
)
"""Programs that say their version and do nothing else.

Others run what a folder names even for that: pytest its conftest.py, cargo, rustc and go a
toolchain, yarn and pnpm a release, poetry its plug-ins; npm writes a log where .npmrc says.
"""
_TOOL_LISTS = frozenset(["pip list", "pip freeze", "pip3 list", "pip3 freeze"])
_PROGRAMS = (
    READERS.keys()
    | _VERSIONED
    | WRAPPERS.keys()
    | names(
        "npm npx pnpm yarn corepack cargo rustc rustup go pytest pip poetry pdm hatch gem bundle "
        "git gh hub ssh curl wget docker podman kubectl helm aws gcloud terraform ansible vault"
    )
)
_LOCAL = names("declare typeset local readonly")
_CARRIERS = names("env nohup nice ionice timeout gtimeout stdbuf command builtin time xargs")
"""Wrappers that do nothing of their own; what they run is looked at by itself."""

_FREE_NAME = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|(?:NO|FORCE|CLICOLOR_FORCE)_?COLOR|CLICOLOR|COLUMNS|LINES|TERM|CI"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|RUST_BACKTRACE|RUST_LOG|NODE_ENV|DEBIAN_FRONTEND"
    r"|GIT_OPTIONAL_LOCKS"
)
_LOCAL_NAME = re.compile(r"([a-z][a-z0-9]*)(?:_[a-z0-9]+)*|[A-Z_]")


def is_free_name(name: str) -> bool:
    """Whether a variable may be handed to any program: it changes no more than what is shown."""
    return _FREE_NAME.fullmatch(name) is not None


def is_local_name(name: str) -> bool:
    """Whether a variable that is merely set is the script's own, and no program looks at it.

    Should it be in the environment already, programs see the new value. Theirs are upper case, or
    begin with the program's name (`npm_config_cache`), or say which proxy to use.
    """
    found = _LOCAL_NAME.fullmatch(name)
    if found is None:
        return is_free_name(name)
    return name.isalnum() or not (found[1] in _PROGRAMS or name.endswith("proxy"))


def has_safe_env(simple: Simple) -> bool:
    """Whether the variables set for a command, or by it, cannot change what is run."""
    kept = not simple.words or simple.name in _LOCAL
    return all((is_local_name if kept else is_free_name)(name) for name, _ in simple.env)


def prove_read_only(simple: Simple) -> tuple[Word, ...] | None:
    """Return the words that name what a command reads, or None if it may do more than read.

    Commands inside its arguments are not looked at: they stand in `Parsed.commands` themselves.
    """
    if not has_safe_env(simple):
        return None
    if not simple.words:
        return ()
    path, slash, name = simple.words[0].text.rpartition("/")
    if slash and path not in {"/bin", "/usr/bin"}:
        return None
    if len(simple.words) == 2 and name in _VERSIONED and simple.words[1].text == "--version":
        return () if simple.words[1].plain else None
    special = _SPECIAL.get(name)
    if special is not None:
        return special(simple.words)
    if name in _CARRIERS:
        return _carry(name, simple.words)
    reader = READERS.get(name)
    if reader is not None:
        return _apply(reader, simple.words[1:])
    known = all(w.plain for w in simple.words)
    return () if known and " ".join(w.text for w in simple.words) in _TOOL_LISTS else None


def reads_folder(simple: Simple) -> bool:
    """Whether a proven command also looks at the folder it runs in."""
    reader = READERS.get(simple.name)
    return simple.name in {"git", "find"} or (reader is not None and reader.paths)


def _apply(reader: ReadOnlyProgram, words: Sequence[Word]) -> tuple[Word, ...] | None:
    strict = bool(reader.bad or reader.bad_long or reader.prefix or reader.most < _MANY)
    operands: list[Word] = []
    ended = False
    for word in words:
        if word.loose and not ended and strict:
            return None
        if ended or not word.text.startswith("-") or word.text == "-" or not word.sure:
            operands.append(word)
            # Some programs take no options after the first operand: a file may be named so.
            ended = ended or reader.most < _MANY
        elif word.text == "--":
            ended = True
        elif is_option(word.text, reader.bad, reader.bad_long):
            return None
    return _operands(reader, words, operands)


def _operands(
    reader: ReadOnlyProgram, words: Sequence[Word], operands: list[Word]
) -> tuple[Word, ...] | None:
    if len(operands) > reader.most or (operands and reader.most < _MANY and operands[0].glob):
        return None
    if not all(w.plain and w.text.startswith(reader.prefix) for w in operands if reader.prefix):
        return None
    if not reader.paths:
        return ()
    named = [_value(w.text) for w in words if re.match(r"-.*(?:[/~]|\.\.)", w.text)]
    instead = any(
        w.text[:1] == "-" and is_option(w.text, reader.instead, reader.instead_long) for w in words
    )
    return (*named, *operands[0 if instead else reader.skip :])


def _value(option: str) -> Word:
    return Word(option.partition("=")[2] or option[2:])


def is_option(text: str, letters: str, names: frozenset[str]) -> bool:
    """Whether a word is one of these options, clustered or shortened as getopt allows."""
    if text.startswith("--"):
        given = text[2:].partition("=")[0]
        return any(name.startswith(given) for name in names)
    single = text[1:].partition("=")[0] in names
    return text.startswith("-") and (single or any(letter in text[1:] for letter in letters))


def _carry(name: str, words: Sequence[Word]) -> tuple[Word, ...] | None:
    inner = find_inner(name, words)
    nested = [found for found in inner if isinstance(found, Nested)]
    if len(nested) != len(inner):
        return None
    outer = words[1 : nested[0].at] if nested else words[1:]
    if any(word.loose for word in outer):
        return None
    set_names = [w.text.partition("=")[0] for w in outer if "=" in w.text and w.text[0] != "-"]
    if not all(is_free_name(n) for n in set_names):
        return None
    given = read_options(WRAPPERS[name].options, words)
    return () if given.known and not given.names & WRAPPERS[name].doubts else None


_FIND_BAD = re.compile(r"-(?:exec|execdir|ok|okdir|delete|fprint.*|fls)")


def _find(words: Sequence[Word]) -> tuple[Word, ...] | None:
    if any(w.loose or _FIND_BAD.fullmatch(w.text) for w in words[1:]):
        return None
    places: list[Word] = []
    for word in words[1:]:
        if word.text in {"-L", "-H", "-P"}:
            continue
        if word.text[:1] in {"-", "(", "!"}:
            break
        places.append(word)
    # Tests such as -newer name files too; patterns rarely begin with a slash.
    rest = words[1 + len(places) :]
    named = [w for w in rest if w.text.startswith(("/", "~", "..")) or is_unclear_word(w.text)]
    return (*places, *named)


def _sed(words: Sequence[Word]) -> tuple[Word, ...] | None:
    scripts: list[Word] = []
    operands: list[Word] = []
    rest = iter(words[1:])
    for word in rest:
        if word.loose:
            return None
        if word.text in {"-e", "--expression", "-ne", "-Ee", "-nEe", "-re"}:
            scripts.append(next(rest, Word("", sure=False)))
        elif word.text.startswith("--expression="):
            scripts.append(Word(word.text.partition("=")[2]))
        elif re.fullmatch(r"-[nErsuz]+|--(?:quiet|silent|regexp-extended|posix|debug)", word.text):
            continue
        elif word.text.startswith("-"):
            return None
        else:
            operands.append(word)
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or not all(w.plain and sed_only_prints(w.text) for w in scripts):
        return None
    return tuple(operands)


def _git(words: Sequence[Word]) -> tuple[Word, ...] | None:
    if any(w.loose for w in words):
        return None
    rest = list(words[1:])
    places: list[Word] = []
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0).text
        if option == "-C" and rest:
            places.append(rest.pop(0))
        elif option not in {"--no-pager", "-P", "--no-optional-locks", "--version"}:
            return None
    if not rest:
        return tuple(places)
    name, args = rest[0].text, rest[1:]
    reader = GIT_READERS.get(name)
    if reader is not None:
        found = _apply(reader, args)
        return None if found is None else (*places, *found)
    pattern = _GIT_LISTS.get(name)
    if pattern is None or not all(w.plain for w in args):
        return None
    return tuple(places) if _fits(name, pattern, [w.text for w in args]) else None


def _fits(name: str, pattern: re.Pattern[str], args: list[str]) -> bool:
    needed = _GIT_NEEDED.get(name)
    if needed and (not args or args[0] not in needed):
        return False
    if name == "config" and not args:
        return False
    if any(re.search(r"\s", arg) for arg in args):
        return False
    if args[:1] in (["--list"], ["-l"]) and name in {"branch", "tag"}:
        return all(not a.startswith("-") or pattern.match(a) for a in args)
    text, at = " ".join(args), 0
    while at < len(text):
        found = pattern.match(text, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True


def _declare(words: Sequence[Word]) -> tuple[Word, ...] | None:
    fits = is_local_name if words[0].text in _LOCAL else is_free_name
    return () if all(w.plain and fits(w.text) for w in words[1:]) else None


def _set(words: Sequence[Word]) -> tuple[Word, ...] | None:
    return () if plain_set(words[1:]) else None


def _read(words: Sequence[Word]) -> tuple[Word, ...] | None:
    names = [w for w in words[1:] if not (w.plain and re.fullmatch(r"-[rsea]+|-[ntud]\S+", w.text))]
    return () if all(w.plain and is_local_name(w.text) for w in names) else None


def _wc(words: Sequence[Word]) -> tuple[Word, ...] | None:
    listed = any(
        is_option(w.text, "", names("files0-from"))
        for w in words
        if w.text > "--" and w.text[:2] == "--"
    )
    return None if listed else _apply(READERS["wc"], words[1:])


def _jq(words: Sequence[Word]) -> tuple[Word, ...] | None:
    # A filter may take in files by itself, from wherever it says.
    if any(re.search(r"\b(?:import|include)\b", word.text) for word in words[1:]):
        return None
    return _apply(READERS["jq"], words[1:])


_SPECIAL: dict[str, Callable[[Sequence[Word]], tuple[Word, ...] | None]] = {
    "jq": _jq,
    "wc": _wc,
    "du": _wc,
    "find": _find,
    "sed": _sed,
    "git": _git,
    "read": _read,
    "set": _set,
    "unset": _declare,
    "export": _declare,
    "local": _declare,
    "readonly": _declare,
    "declare": _declare,
}
