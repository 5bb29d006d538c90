"""Commands that run other commands: where the inner command stands in their arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile

from msgspec import Struct

from prong.tools.argv import KnownOptions, ParsedArguments, matching, options, read_options
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

    options: KnownOptions = KnownOptions()
    skip: int = 0
    """Operands that come before the command."""
    moves: frozenset[str] = frozenset()
    """Options that change the folder."""
    halts: frozenset[str] = frozenset()
    """Options that hide what is run."""
    prints: frozenset[str] = frozenset()
    """Options that mean that nothing is run."""
    doubts: frozenset[str] = frozenset()
    """Options with which the wrapper itself does more than run a command."""
    adds: bool = False
    """Whether words unknown so far are added to the command."""
    joins: bool = False
    """Whether the words are joined and read by a shell, so that each of them counts."""


def _w(
    short: str = "",
    long: str = "",
    *,
    skip: int = 0,
    moves: str = "",
    halts: str = "",
    prints: str = "",
    doubts: str = "",
    adds: bool = False,
) -> Wrapper:
    return Wrapper(
        options(short, f"{long} help version"),
        skip,
        names(moves),
        names(halts),
        names(prints),
        names(doubts),
        adds=adds,
    )


WRAPPERS: dict[str, Wrapper] = {
    "env": _w(
        "i0vu:C:S:a:",
        "ignore-environment null unset= chdir= split-string= argv0= debug block-signal=? "
        "default-signal=? ignore-signal=? list-signal-handling",
        moves="C chdir",
        doubts="C chdir",
        halts="S split-string",
    ),
    "sudo": _w(
        "ABbEeHiKklnPSsVvg:p:C:D:R:T:U:u:r:t:h:",
        "askpass background bell close-from= chdir= preserve-env=? edit group= set-home host= "
        "login remove-timestamp reset-timestamp list non-interactive preserve-groups prompt= "
        "chroot= role= stdin shell type= command-timeout= other-user= user= validate",
        moves="D R i chdir chroot login",
        halts="s i e shell login edit",
    ),
    "doas": _w("nLsu:C:", halts="s"),
    "pkexec": _w("", "user= disable-internal-agent keep-cwd"),
    "xargs": _w(
        "0rtxpoa:d:E:I:L:n:P:s:e::i::l::",
        "null arg-file= delimiter= eof=? replace=? max-lines=? max-args= max-procs= max-chars= "
        "process-slot-var= open-tty interactive no-run-if-empty show-limits verbose exit",
        adds=True,
        halts="process-slot-var",
        doubts="a arg-file",
    ),
    "nohup": _w(),
    "setsid": _w("cfwhV", "ctty fork wait"),
    "time": _w(
        "apvqhVf:o:",
        "append format= output= portability quiet verbose",
        doubts="a o append output",
    ),
    "nice": Wrapper(options("n:", "adjustment= help version", numeric=True)),
    "ionice": _w("tc:n:p:P:u:hV", "class= classdata= pid= pgid= uid= ignore"),
    "chrt": _w("abdefiomprvRT:P:D:hV", skip=1),
    "taskset": _w("apchV", "all-tasks pid cpu-list", skip=1),
    **dict.fromkeys(
        ["timeout", "gtimeout"],
        _w("k:s:vfp", "kill-after= signal= verbose foreground preserve-status", skip=1),
    ),
    "stdbuf": _w("i:o:e:", "input= output= error="),
    "unbuffer": _w("p"),
    "command": _w("pvV", prints="v V"),
    "builtin": _w(),
    "exec": _w("cla:"),
    "coproc": _w(),
    "chroot": _w("", "groups= userspec= skip-chdir", skip=1),
    "unshare": _w("mfruinpUCT", "mount fork user map-root-user net pid ipc uts cgroup time"),
    "nsenter": _w("at:miunpUCTF", "target= all"),
    "strace": _w("CcDdFfhikqrTtVvwxyYzZa:b:e:E:I:o:O:p:P:s:S:u:U:X:", "follow-forks output="),
    "ltrace": _w("bcCfhiLrtTVa:e:F:l:n:o:p:s:S:u:w:x:"),
    "valgrind": _w("qv", "quiet verbose tool= leak-check= error-exitcode="),
    "caffeinate": _w("disut:w:"),
    "arch": _w(),
    "rlwrap": _w("a:b:c:C:D:f:H:l:m:P:p:q:s:S:t:"),
    "busybox": _w(),
    "toybox": _w(),
    "npx": _w("p:c:yqw:", "package= call= yes no quiet workspace= no-install", halts="c call"),
    "bunx": _w("", "bun silent verbose"),
    "dotenv": _w("f:e:", "file= export="),
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
_RUNNER = Wrapper(
    options(
        "p:n:c:qvmy",
        "with= with-editable= with-requirements= python= project= directory= package= extra= "
        "group= env-file= env= name= only-group= no-group= all-extras all-groups no-dev dev frozen "
        "locked isolated no-sync exact active no-project no-env-file offline quiet verbose module "
        "script yes silent no-capture-output live-stream prefix= filter= recursive color=? "
        "all-packages",
    )
)
SHELLS = names("bash sh zsh dash ksh ash mksh rbash fish csh tcsh")
"""Programs that read a command line or a script of one."""
_FOREIGN = names("fish csh tcsh")
_JOINED = {
    "watch": Wrapper(
        options(
            "bcCdegtpwxrfhvn:q:",
            "beep color no-color differences=? errexit chgexit equexit= exec interval= no-title "
            "no-wrap no-rerun precise follow",
        ),
        joins=True,
    ),
    "ssh": Wrapper(
        options("46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:"),
        skip=1,
        joins=True,
    ),
}
_LONG = re.compile(
    r"-(?:rcfile|init-file|no\w+|login|posix|restricted|verbose|version|help|debug\w*|dump-[\w-]+"
    r"|protected|wordexp|pretty-print|interactive)"
)
_EXECS = frozenset(["-exec", "-execdir", "-ok", "-okdir"])


def find_inner(name: str, words: Sequence[Word]) -> list[Inner]:
    """Return what a command runs through its arguments; `name` is its bare lower-case name."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    if name in SHELLS:
        return _shell(name, words)
    if name in _JOINED:
        return _joining(name, words)
    if name in _RUNNERS:
        return _runner(_RUNNERS[name], words)
    wrapper = WRAPPERS.get(name)
    return _unwrap(wrapper, words) if wrapper else []


def _unwrap(wrapper: Wrapper, words: Sequence[Word], start: int = 1) -> list[Inner]:
    given = read_options(wrapper.options, words, start)
    at = given.at
    while words[0].text.endswith("env") and at < len(words) and words[at].text == "-":
        at += 1
    if at < len(words) and words[at].loose:
        return [Unclear(words[at].text)]
    if given.names & wrapper.prints:
        return []
    found: list[Inner] = []
    if given.names & wrapper.halts or not given.known:
        found.append(Unclear(" ".join(word.text for word in words[start:at])))
    at += wrapper.skip
    if not wrapper.joins:
        at = _past_assignments(words, at)
    inner = tuple(words[at:])
    if not inner:
        return found
    slot = _slot(given) if wrapper.adds else None
    if slot is not None:
        inner = tuple(w if slot not in w.text else Word(w.text, sure=False) for w in inner)
    if wrapper.adds:
        inner = (*inner, Word("...", sure=False))
    return [*found, Nested(inner, at, bool(given.names & wrapper.moves))]


def _past_assignments(words: Sequence[Word], at: int) -> int:
    # env takes anything with an equals sign for a variable; elsewhere it has to look like one.
    loose = words[0].text.endswith("env")
    while at < len(words) and (
        re.match(r"[A-Za-z_]\w*=", words[at].text) or (loose and "=" in words[at].text)
    ):
        at += 1
    return at


def _slot(given: ParsedArguments) -> str | None:
    """Return the mark that an adding wrapper replaces by input."""
    for option in given.options:
        if option.name in {"I", "i", "replace"}:
            return option.value.text if option.value else "{}"
    return None


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
        if _LONG.fullmatch(text):
            # Bash takes its long options with one dash too.
            return [Unclear(text)]
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
    found = _unwrap(_JOINED[name], words)
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
    return _unwrap(_RUNNER, words, start)


_FIND_VALUE = re.compile(
    r"-(?:i?name|i?path|i?wholename|i?regex|regextype|i?lname|x?type|fstype|size|perm|links|user"
    r"|group|uid|gid|inum|(?:max|min)depth|[acm](?:time|min)|used|newer..|[ac]?newer|samefile"
    r"|printf)"
)
"""What find takes the next word for a value of."""


def _may_exec(words: Sequence[Word], at: int) -> bool:
    """Whether a word of find's that is not certain may turn out to make it run something."""
    text = words[at].text
    if words[at].sure:
        return False
    if len(text) < 2 or not text[0] == text[-1] == '"':
        return True
    # One word that is a value, or that an option follows, which would be a program's name.
    value = _FIND_VALUE.fullmatch(words[at - 1].text) is not None
    last = all(word.text.startswith("-") for word in words[at + 1 : at + 2])
    return not value and (text.startswith('"-') or not last)


def _find(words: Sequence[Word]) -> list[Inner]:
    found: list[Inner] = []
    seen = 0
    for at, word in enumerate(words):
        if at >= seen and _may_exec(words, at):
            found.append(Unclear(word.text))
        if word.text not in _EXECS or not word.plain:
            continue
        ends = [i for i in range(at + 1, len(words)) if words[i].text in {";", "+"}]
        seen = ends[0] if ends else len(words)
        inner = words[at + 1 : seen]
        # find puts file names where the braces stand, and at the end for `+`.
        open_words = (w if "{}" not in w.text else Word(w.text, sure=False) for w in inner)
        found.append(Nested(tuple(open_words), at + 1, moved="dir" in word.text))
    return found


def _fd(words: Sequence[Word]) -> list[Inner]:
    for at, word in enumerate(words):
        if re.fullmatch(r"-[A-Za-z]*[xX]|--exec(?:-batch)?", word.text):
            return [Nested((*words[at + 1 :], Word("...", sure=False)), at + 1)]
        if re.match(r"-[A-Za-z]*[xX]|--e", word.text):
            return [Unclear(word.text)]
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
    long = "jobs= arg-file= colsep= delimiter= joblog= results="
    found = _unwrap(Wrapper(options("j:a:C:d:n:N:L:S:I:kqtuv0", long), adds=True), words)
    return [*found, Unclear("input lines become commands")]


def _flock(words: Sequence[Word]) -> list[Inner]:
    long = "shared exclusive unlock nonblock nb timeout= wait= conflict-exit-code= close no-fork"
    found = _unwrap(Wrapper(options("sxenuFovw:E:", long), skip=1), words)
    for inner in found:
        if isinstance(inner, Nested) and inner.words[0].text[:1] == "-":
            return _dash_c(inner.words)
    return found


def _dash_c(words: Sequence[Word]) -> list[Inner]:
    """Find the text after `-c`, as su, runuser and script take it."""
    for at, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name.startswith("--") and matching(name[2:], ["command", "run", "session-command"]):
            glued = Word(value, sure=word.plain)
            return _joined([glued] if equals else words[at + 1 : at + 2])
        if name.startswith("-") and not name.startswith("--") and "c" in word.text:
            value = word.text[word.text.index("c") + 1 :]
            # Which letters before it take a value differs, so both readings count.
            rest = _joined(words[at + 1 : at + 2])
            return [*_joined([Word(value, sure=word.plain)]), *rest] if value else rest
    return [Unclear("an interactive shell")]


_GIT_RUNS = ("pager", "editor", "command", "external", "textconv", "fsmonitor", "helper", "program")


_GIT_COMMANDS = names("exec extcmd upload-pack receive-pack config-env open-files-in-pager")


def git_config(key: str, value: str) -> list[Inner]:
    """Return what a git setting makes git run."""
    key = key.lower()
    if key.startswith("alias."):
        return [Script(value[1:] if value.startswith("!") else f"git {value}")]
    runs = key.endswith(_GIT_RUNS) or key.startswith(
        ("filter.", "hook.", "mergetool.", "difftool.")
    )
    return [Script(value.removeprefix("!"))] if runs else []


def _runs_in_git(option: str) -> bool:
    return len(option) > 2 and option[:2] == "--" and bool(matching(option[2:], _GIT_COMMANDS))


def _may_run_in_git(word: Word) -> bool:
    """Whether an option that is not certain may turn out to be one by which git runs something."""
    known = re.match(r"\"?(--?[\w-]*)(?![\w=-])", word.text)
    if word.sure or known is None:
        return False
    return known[1] in {"-", "--", "-c", "-x", "-O"} or _runs_in_git(known[1])


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
        elif text in {"-x", "foreach"} or _runs_in_git(text):
            rest = words[at + 1 :] if text == "foreach" else words[at + 1 : at + 2]
            found += _joined([w for w in rest if w.text not in {"--recursive", "--quiet"}])
        elif text == "run" and texts[at - 1] == "bisect":
            found.append(Nested(tuple(words[at + 1 :]), at + 1))
    found += [Unclear(word.text) for word in words[1:] if _may_run_in_git(word)]
    for word in words:
        name, equals, value = word.text.partition("=")
        if equals and _runs_in_git(name):
            found += _joined([Word(value, sure=word.plain)])
        elif re.match(r"-[a-zA-Z]*[xO].", word.text) and {"rebase", "grep", "difftool"} & {*texts}:
            found.append(Unclear(word.text))
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
