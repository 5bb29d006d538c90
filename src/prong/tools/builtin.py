"""What bash's own commands do with their words: evaluate them, change the shell, go elsewhere.

Bash evaluates the name of a variable with a subscript (`a[$(rm x)]`) wherever it takes a name or a
number, also when quotes keep the text from being expanded before. So the forms in which a builtin
surely does not evaluate are listed; the rest of them is opaque.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Sequence

from prong.system.path_form import is_unclear_word, normal_path
from prong.tools.word import Word, names

_UNARY = re.compile(r"-[abcdefghknoprstuwxzGLNOS]")
_BINARY = names("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef")
_EVALUATING = re.compile(r"(?<![\w-])-(?:eq|ne|lt|le|gt|ge|v|R)(?![\w-])")
_ONE_WORD = re.compile(r"\"[^\"`@]*\"|\$[?#$!]")
_SETTINGS = re.compile(r"[-+][euxvf]+|[-+][euxvf]*o|--")
_OPTIONS = names("errexit nounset xtrace verbose noglob pipefail")
_OWN = re.compile(
    r"BASH\w*|PS\d|ENV|SHELLOPTS|PROMPT_\w+|S?RANDOM|SECONDS|EPOCH\w+|LINENO|OPT\w+|HIST\w*|FC\w+"
    r"|DIRSTACK|FUNC\w+|GROUPS|PIPESTATUS|PATH|CDPATH|HOME|PWD|OLDPWD|LD_\w+|DYLD_\w+"
    r"|GLOBIGNORE|EXECIGNORE|POSIXLY_CORRECT|MAPFILE|REPLY|COPROC|COMP\w+|TMOUT|MAILPATH|MAIL\w*"
)
_DECLARING = names("declare typeset local export readonly")
_NAMING = names("read unset mapfile readarray getopts wait")
_RUNNING = names("let compgen complete compopt bind fc history enable hash shopt")


def sets_shell(name: str) -> bool:
    """Whether a variable steers bash itself, so that setting it may change what is run."""
    return _OWN.fullmatch(name) is not None


def evaluates(name: str, words: Sequence[Word]) -> bool:
    """Whether a builtin may run something by its words, or change how later ones are read."""
    given = words[1:]
    options = "".join(word.text for word in given if word.text[:1] in {"-", "+"})
    if name in _DECLARING:
        odd = any(word.loose or "[" in word.text for word in given)
        return odd or not set("inAa").isdisjoint(options)
    if name in {"test", "["}:
        return not plain_test(given)
    if name == "printf":
        return options.startswith("-v") or any(word.loose for word in given[:1])
    if name in _NAMING:
        called = name in {"mapfile", "readarray"} and "C" in options
        return called or any(word.loose or "[" in word.text for word in given)
    if name == "set":
        return not plain_set(given)
    return name in _RUNNING


def plain_test(words: Sequence[Word]) -> bool:
    """Whether the words of `test`, or between brackets, are compared and not evaluated."""
    if not all(word.plain or _ONE_WORD.fullmatch(word.text) for word in words):
        return False
    rest = [*words]
    while len(rest) > 1 and rest[0].plain and rest[0].text == "!":
        del rest[0]
    match rest:
        case [] | [_]:
            return True
        case [operator, _]:
            return operator.plain and _UNARY.fullmatch(operator.text) is not None
        case [_, operator, _]:
            return operator.plain and operator.text in _BINARY
        case _:
            return all(word.plain and word.text not in {"-v", "-R"} for word in rest)


def evaluates_condition(text: str) -> bool:
    """Whether an expression in double brackets has an operator that evaluates its operands."""
    return _EVALUATING.search(text) is not None


def plain_set(words: Sequence[Word]) -> bool:
    """Whether `set` changes nothing but when the shell stops and what it shows."""
    rest = iter(words)
    for word in rest:
        if not word.plain:
            return False
        if word.text == "--":
            return True
        if not _SETTINGS.fullmatch(word.text):
            return word.text[:1] not in {"-", "+"}
        option = next(rest, None) if word.text.endswith("o") else None
        if option is not None and not (option.plain and option.text in _OPTIONS):
            return False
    return True


def enter(
    words: Sequence[Word], env: Sequence[str], folders: tuple[str, ...] | None, home: str
) -> tuple[str, ...] | None:
    """Return where a `cd` leads; None if nobody knows."""
    operands = [w for w in words[1:] if w.loose or not re.fullmatch(r"-[L@]+|--", w.text)]
    if words[0].text != "cd" or len(operands) > 1 or "CDPATH" in env:
        return None
    if not operands:
        return (home,)
    word = operands[0]
    # Other options too, such as -P: where a link leads, `..` is another folder.
    if is_unclear_word(word.text):
        return None
    if not word.plain or word.text.startswith("-") or folders is None:
        return (word.text,) if word.plain and word.text.startswith("/") else None
    return tuple(normal_path(os.path.join(f, word.text)) for f in folders)  # noqa: PTH118 - text only, no file system
