"""Commands that run other commands: where the inner command stands in their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile

from msgspec import Struct

from prong.tools.word import Word, names


class Nested(Struct, frozen=True):
    """A command inside the arguments of another."""

    words: tuple[Word, ...]
    at: int
    """Where it begins in the words of the outer command."""
    moved: bool = False
    """Whether it runs in another folder than the outer command."""


class Script(Struct, frozen=True):
    """A text that a shell will read as a command line."""

    text: str
    moved: bool = False


class Unclear(Struct, frozen=True):
    """Something will be run, but what it is shows only at run time."""

    why: str


Inner = Nested | Script | Unclear


class Wrapper(Struct, frozen=True):
    """How to get past the options of a wrapping command."""

    short: str = ""
    """Letters of the options that take the next word."""
    long: frozenset[str] = frozenset()
    """Long options that take the next word."""
    skip: int = 0
    """Operands that come before the command."""
    moves: str = ""
    """Letters of the options that change the folder."""
    halts: str = ""
    """Letters of the options that hide what is run, or mean that nothing is."""
    adds: bool = False
    """Whether words unknown so far are added to the command."""
    joins: bool = False
    """Whether the words are joined and read by a shell, so that each of them counts."""


def _w(long: str = "", **kw: str | int | bool) -> Wrapper:
    return Wrapper(long=frozenset(long.split()), **kw)  # pyright: ignore[reportArgumentType]


WRAPPERS: dict[str, Wrapper] = {
    "env": _w("unset chdir", short="uC", moves="C", halts="S"),
    "sudo": _w(
        "user group prompt close-from host role type other-user chdir chroot",
        short="ugpCrtThDRU",
        moves="DRi",
        halts="sie",
    ),
    "doas": _w(short="uC", halts="s"),
    "pkexec": _w("user"),
    "xargs": _w(
        "arg-file delimiter max-lines max-args max-procs max-chars replace process-slot-var",
        short="adEILnPs",
        adds=True,
    ),
    "nohup": _w(),
    "setsid": _w(),
    "time": _w("format output", short="fo"),
    "nice": _w("adjustment", short="n"),
    "ionice": _w("class classdata pid", short="cnp"),
    "chrt": _w(skip=1),
    "taskset": _w(skip=1),
    "timeout": _w("kill-after signal", short="ks", skip=1),
    "gtimeout": _w("kill-after signal", short="ks", skip=1),
    "stdbuf": _w("input output error", short="ioe"),
    "unbuffer": _w(),
    "command": _w(halts="vV"),
    "builtin": _w(),
    "exec": _w(short="a"),
    "coproc": _w(),
    "chroot": _w(skip=1, moves=""),
    "unshare": _w(),
    "nsenter": _w(short="t"),
    "strace": _w(short="abeEIoOpPsSuUX"),
    "ltrace": _w(short="aeFlnopsSuwx"),
    "valgrind": _w(),
    "caffeinate": _w(short="tw"),
    "arch": _w(),
    "rlwrap": _w(short="abcCDfHlmPpqsSt"),
    "busybox": _w(),
    "toybox": _w(),
    "npx": _w("package call", short="p", halts="c"),
    "bunx": _w(),
    "dotenv": _w(short="fe"),
    "direnv": _w(skip=2),
}
"""Plain wrappers: options, then the inner command's own words."""

_RUNNERS = {
    "uv": "run",
    "uvx": "",
    "poetry": "run",
    "pipenv": "run",
    "pdm": "run",
    "hatch": "run",
    "rye": "run",
    "bundle": "exec",
    "pnpm": "exec dlx",
    "npm": "exec x",
    "yarn": "exec dlx",
    "bun": "x exec",
    "mise": "exec x",
    "conda": "run",
}
SHELLS = names("bash sh zsh dash ksh ash mksh rbash fish csh tcsh")
"""Programs that read a command line or a script of one."""
_FOREIGN = names("fish csh tcsh")
_JOINING = frozenset(["watch", "ssh"])
_EXECS = frozenset(["-exec", "-execdir", "-ok", "-okdir"])


def find_inner(name: str, words: Sequence[Word]) -> list[Inner]:
    """Return what a command runs through its arguments; `name` is its bare lower-case name."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    if name in SHELLS:
        return _shell(name, words)
    if name in _JOINING:
        return _joining(name, words)
    if name in _RUNNERS:
        return _runner(_RUNNERS[name], words)
    wrapper = WRAPPERS.get(name)
    return _unwrap(wrapper, words) if wrapper else []


def _unwrap(wrapper: Wrapper, words: Sequence[Word], start: int = 1) -> list[Inner]:
    at, moved, slot = start, False, None
    while at < len(words):
        word = words[at]
        if word.loose:
            return [Unclear(word.text)]
        text = word.text
        if text == "--":
            at += 1
            break
        if text == "-" or not text.startswith("-"):
            break
        if _has(text, wrapper.halts) or text.startswith("--split-string"):
            return [] if wrapper.halts == "vV" else [Unclear(text)]
        moved = moved or _has(text, wrapper.moves) or text.startswith(("--chdir", "--chroot"))
        slot = slot or _slot(wrapper, text, words[at + 1 : at + 2])
        at += 2 if _takes_next(wrapper, text) else 1
    at += wrapper.skip
    if not wrapper.joins:
        at = _past_assignments(words, at)
    inner = tuple(words[at:])
    if not inner:
        return []
    if slot is not None:
        inner = tuple(w if slot not in w.text else Word(w.text, sure=False) for w in inner)
    if wrapper.adds:
        inner = (*inner, Word("...", sure=False))
    return [Nested(inner, at, moved)]


def _past_assignments(words: Sequence[Word], at: int) -> int:
    # env takes anything with an equals sign for a variable; elsewhere it has to look like one.
    loose = words[0].text.endswith("env")
    while at < len(words) and (
        re.match(r"[A-Za-z_]\w*=", words[at].text) or (loose and "=" in words[at].text)
    ):
        at += 1
    return at


def _has(text: str, letters: str) -> bool:
    return not text.startswith("--") and any(letter in text[1:] for letter in letters)


def _takes_next(wrapper: Wrapper, text: str) -> bool:
    if text.startswith("--"):
        return "=" not in text and text[2:] in wrapper.long
    for place, letter in enumerate(text[1:], 2):
        if letter in wrapper.short:
            return place == len(text)
    return False


def _slot(wrapper: Wrapper, text: str, after: Sequence[Word]) -> str | None:
    """Return the mark that an adding wrapper replaces by input."""
    if not wrapper.adds:
        return None
    if text.startswith("--replace"):
        return text.partition("=")[2] or "{}"
    if text.startswith("-I"):
        return text[2:] or (after[0].text if after else "{}")
    return text[2:] or "{}" if text.startswith("-i") else None


def _shell(name: str, words: Sequence[Word]) -> list[Inner]:
    at, commanded = 1, False
    while at < len(words):
        word = words[at]
        if word.loose:
            return [Unclear(word.text)]
        text = word.text
        if text[:1] not in {"-", "+"} or text in {"-", "--"}:
            at += text in {"-", "--"}
            break
        if text in {"--version", "--help"}:
            return []
        short = not text.startswith("--")
        commanded = commanded or (short and "c" in text)
        if short and "s" in text:
            return [Unclear("a shell that reads its input")]
        valued = text in {"--rcfile", "--init-file"} or (short and text[-1] in "oO")
        at += 2 if valued else 1
    if at >= len(words):
        return [Unclear("a shell that reads its input")]
    operand = words[at]
    if not commanded:
        hidden = not operand.plain or operand.text.startswith(("/dev/", "/proc/"))
        return [Unclear(operand.text)] if hidden else []
    if not operand.plain or name in _FOREIGN:
        return [Unclear(operand.text)]
    return [Script(operand.text)]


def _joined(words: Sequence[Word], *, moved: bool = False) -> list[Inner]:
    text = " ".join(word.text for word in words)
    if not all(word.plain for word in words):
        return [Unclear(text)]
    return [Script(text, moved)] if text.strip() else []


def _eval(words: Sequence[Word]) -> list[Inner]:
    return _joined(words[2:] if len(words) > 1 and words[1].text == "--" else words[1:])


def _joining(name: str, words: Sequence[Word]) -> list[Inner]:
    short = "nqI" if name == "watch" else "BbcDEeFIiJLlmOopQRSWw"
    found = _unwrap(Wrapper(short=short, skip=name == "ssh", joins=True), words)
    nested = [inner for inner in found if isinstance(inner, Nested)]
    commands = [w for w in words if "command=" in w.text.lower()]
    hidden: list[Inner] = [Unclear(word.text) for word in commands]
    if not nested:
        return [*found, *hidden]
    return [*_joined(nested[0].words, moved=name == "ssh"), *hidden]


def _runner(verb: str, words: Sequence[Word]) -> list[Inner]:
    start = 1
    if verb:
        places = [at for at, word in enumerate(words[1:], 1) if word.text in verb.split()]
        if not places:
            leading = list(takewhile(lambda w: w.loose or w.text[:1] == "-", words[1:]))
            operand = words[1 + len(leading) :][:1]
            return [Unclear(word.text) for word in (*leading, *operand) if word.loose]
        start = places[0] + 1
    valued = "with with-requirements python project directory package extra group env-file name"
    return _unwrap(Wrapper(short="pnc", long=frozenset(valued.split())), words, start)


def _find(words: Sequence[Word]) -> list[Inner]:
    found: list[Inner] = []
    for at, word in enumerate(words):
        if word.text not in _EXECS or not word.plain:
            continue
        ends = [i for i in range(at + 1, len(words)) if words[i].text in {";", "+"}]
        inner = words[at + 1 : ends[0] if ends else len(words)]
        # find puts file names where the braces stand, and at the end for `+`.
        open_words = (w if "{}" not in w.text else Word(w.text, sure=False) for w in inner)
        found.append(Nested(tuple(open_words), at + 1, moved="dir" in word.text))
    return found


def _fd(words: Sequence[Word]) -> list[Inner]:
    for at, word in enumerate(words):
        if word.text in {"-x", "-X", "--exec", "--exec-batch"}:
            return [Nested((*words[at + 1 :], Word("...", sure=False)), at + 1)]
    return []


def _trap(words: Sequence[Word]) -> list[Inner]:
    operands = [w for w in words[1:] if w.text not in {"-p", "-l", "--"}]
    if len(operands) < 2 or operands[0].text in {"", "-"}:
        return []
    return _joined(operands[:1])


def _alias(words: Sequence[Word]) -> list[Inner]:
    return [Unclear(w.text) for w in words[1:] if not w.plain or "=" in w.text]


def _sourced(words: Sequence[Word]) -> list[Inner]:
    files = words[1:2]
    hidden = [w for w in files if not w.plain or w.text.startswith(("/dev/", "/proc/"))]
    return [Unclear(w.text) for w in hidden]


def _parallel(words: Sequence[Word]) -> list[Inner]:
    long = names("jobs arg-file colsep delimiter joblog results")
    found = _unwrap(Wrapper(short="jaCdnNLSI", long=long, adds=True), words)
    return [*found, Unclear("input lines become commands")]


def _flock(words: Sequence[Word]) -> list[Inner]:
    found = _unwrap(Wrapper(short="wE", long=frozenset(["timeout", "wait"]), skip=1), words)
    for inner in found:
        if isinstance(inner, Nested) and inner.words[0].text in {"-c", "--command"}:
            return _joined(inner.words[1:2])
    return found


def _dash_c(words: Sequence[Word]) -> list[Inner]:
    """Find the text after `-c`, as su, runuser and script take it."""
    for at, word in enumerate(words):
        if word.text.startswith("--command="):
            return _joined([Word(word.text.partition("=")[2], sure=word.plain)])
        if word.text in {"--command", "--run"} or _has(word.text, "c" * (word.text[:1] == "-")):
            return _joined(words[at + 1 : at + 2])
    return [Unclear("an interactive shell")]


_GIT_RUNS = ("pager", "editor", "command", "external", "textconv", "fsmonitor", "helper", "program")


def git_config(key: str, value: str) -> list[Inner]:
    """Return what a git setting makes git run."""
    key = key.lower()
    if key.startswith("alias."):
        return [Script(value[1:] if value.startswith("!") else f"git {value}")]
    runs = key.endswith(_GIT_RUNS) or key.startswith(
        ("filter.", "hook.", "mergetool.", "difftool.")
    )
    return [Script(value.removeprefix("!"))] if runs else []


def _git(words: Sequence[Word]) -> list[Inner]:
    found: list[Inner] = []
    texts = [word.text for word in words]
    for at, text in enumerate(texts[:-1]):
        after = words[at + 1]
        key, equals, value = texts[at + 1].partition("=")
        if text == "-c" and equals:
            found += git_config(key, value) if after.plain else [Unclear(after.text)]
        elif text.startswith("alias.") and "config" in texts[:at]:
            found += git_config(text, texts[at + 1]) if after.plain else [Unclear(after.text)]
        elif text in {"-x", "--exec", "foreach", "--extcmd", "--upload-pack", "--receive-pack"}:
            rest = words[at + 1 :] if text == "foreach" else words[at + 1 : at + 2]
            found += _joined([w for w in rest if w.text not in {"--recursive", "--quiet"}])
        elif text == "run" and texts[at - 1] == "bisect":
            found.append(Nested(tuple(words[at + 1 :]), at + 1))
    for word in words:
        name, equals, value = word.text.partition("=")
        if equals and name in {"--exec", "--extcmd", "--config-env", "--open-files-in-pager"}:
            found += _joined([Word(value, sure=word.plain)])
    if "filter-branch" in texts:
        found.append(Unclear("git filter-branch"))
    return found


_SPECIAL: dict[str, Callable[[Sequence[Word]], list[Inner]]] = {
    "eval": _eval,
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    "trap": _trap,
    "alias": _alias,
    "source": _sourced,
    ".": _sourced,
    "flock": _flock,
    "parallel": _parallel,
    "su": _dash_c,
    "runuser": _dash_c,
    "script": _dash_c,
    "nix-shell": _dash_c,
    "git": _git,
}
