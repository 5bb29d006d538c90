"""File patterns, handed to ripgrep without losing what `.gitignore` says.

Its own `--glob` overrides every ignore file, so that `**/*` would list `node_modules`. Here a
pattern becomes an ignore file of the lowest rank that ignores all but the pattern; what a project
ignores stays ignored. A project's own `!exceptions` rank higher, hence the second look in `keeps`.
"""

from __future__ import annotations

import re

LARGEST = 256
"""Alternatives that the braces of a pattern may stand for."""

SEARCH = (
    "--path-separator=/",
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--color=never",
    "--glob=!.git",
    "--glob=!.prong/worktrees",
    "--glob=!.claude/worktrees",
)
"""Options of every search: hidden files too, but no repository's insides or second checkouts."""


class Pattern:
    """A glob with `*`, `?`, `**`, `[...]` and `{a,b}`."""

    def __init__(self, glob: str, *, anchored: bool) -> None:
        """Read a glob; unless anchored, one without a slash matches names at any depth.

        Raises ValueError saying what is wrong with it.
        """
        globs = expand(glob)
        self._globs = [g if anchored or "/" in g else f"**/{g}" for g in globs]
        try:
            self._compiled = re.compile("|".join(f"(?:{_regex(g)})" for g in self._globs))
        except re.error as error:
            raise ValueError(str(error)) from error

    def ignore_file(self) -> bytes:
        """Give an ignore file that leaves only what matches."""
        allowed = [f"!/{g.lstrip('/')}" for g in self._globs]
        return "\n".join(["*", "!*/", *allowed, ""]).encode()

    def keeps(self, path: str) -> bool:
        """Tell whether a relative path matches."""
        return self._compiled.fullmatch(path) is not None


def expand(glob: str) -> list[str]:
    """Multiply braces out.

    Raises ValueError if there are too many.
    """
    done: list[str] = []
    todo = [glob]
    while todo:
        current = todo.pop()
        found = re.search(r"\{([^{}]*)\}", current)
        if found is None:
            done.append(current)
        else:
            head, tail = current[: found.start()], current[found.end() :]
            todo += [f"{head}{each}{tail}" for each in reversed(found[1].split(","))]
        if len(done) + len(todo) > LARGEST:
            raise ValueError(f"the braces stand for more than {LARGEST} patterns")
    return list(dict.fromkeys(done))


_PIECE = r"(?s)\*\*/|/\*\*$|\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|."


def _regex(glob: str) -> str:
    if any(c in glob for c in "\n\r\0"):
        raise ValueError("it holds a line break or NUL")
    return "".join(map(_translate, re.findall(_PIECE, glob.lstrip("/"))))


def _translate(token: str) -> str:
    match token:
        case "**/":
            return r"(?:[^/]+/)*"
        case "/**":
            return r"/.+"
        case "**":
            return r".*"
        case "?":
            return r"[^/]"
        case _ if token[0] == "*":
            return r"[^/]*"
        case _ if token[0] == "[" and len(token) > 1:
            negated = token[1] in "!^"
            inner = re.sub(r"([\\[^&~|])", r"\\\1", token[2 if negated else 1 : -1])
            return f"(?!/)[{'^' if negated else ''}{inner}]"
        case _:
            return re.escape(token[-1])
