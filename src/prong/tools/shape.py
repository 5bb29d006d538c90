"""Whether a command line changes what its own paths mean.

A path is decided on before the line runs. `mv l ../l && echo x > ../l` makes another file of it: a
link that is moved leads elsewhere, and so does one that is made. So a path is settled only as long
as no command before it, or beside it in a pipe, a loop or the background, can have put a link or
another folder there. What a command may put where is told by a closed list; one that is not in it
unsettles every path. Programs that run code of the project are in the list: that code can open any
file by itself, and doubting the paths after it would keep nobody from anything.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from prong.system.path_form import normal_path
from prong.tools.argv import KnownOptions, ParsedArguments, options, read_options
from prong.tools.commandline import Parsed, Simple
from prong.tools.harmless import prove_read_only
from prong.tools.word import Word, names

COPYING: dict[str, KnownOptions] = {
    "cp": options(
        "abdfiHlLnPpRrsTuvxZS:t:",
        "archive attributes-only backup=? copy-contents debug dereference force interactive link "
        "no-clobber no-dereference no-target-directory one-file-system parents preserve=? "
        "no-preserve= recursive reflink=? remove-destination sparse= strip-trailing-slashes "
        "suffix= symbolic-link target-directory= update=? verbose context=? keep-directory-symlink",
    ),
    "mv": options(
        "fiTnuvbZS:t:",
        "backup=? debug exchange force interactive no-clobber no-copy no-target-directory suffix= "
        "strip-trailing-slashes target-directory= update=? verbose context",
    ),
    "ln": options(
        "bdFfiLnPrsTvS:t:",
        "backup=? directory force interactive logical no-dereference physical relative symbolic "
        "suffix= target-directory= no-target-directory verbose",
    ),
    "install": options(
        "bcCdDpsTvZg:m:o:S:t:",
        "backup=? compare directory group= mode= owner= preserve-timestamps strip strip-program= "
        "suffix= target-directory= no-target-directory verbose context=? preserve-context",
    ),
}
"""Commands that put their operands into the last one, or into the folder of `-t`."""

LINKING = names(
    "a d l P R r s link symbolic-link archive no-dereference recursive preserve copy-contents "
    "parents keep-directory-symlink"
)
"""Options of cp with which it makes links or folders, or works through whole folders."""

_SETTLED = names(
    "mkdir touch rmdir rm tee chmod truncate unlink kill export wait exit cd set "
    # They run code of the project, or of a package.
    "npm npx pnpm yarn bun bunx node deno python python3 pip pip3 uv uvx poetry pdm hatch tox nox "
    "pytest ruff mypy black isort flake8 pylint pre-commit make cmake ninja cargo rustc go gcc g++ "
    "clang javac java mvn gradle dotnet bundle rake ruby rspec php composer perl tsc eslint "
    "prettier jest vitest vite webpack just task bash sh"
)
_GIT_SETTLED = names("add commit fetch push tag branch remote config notes init")
Resolve = Callable[[str], str]
_DEEP = 100
"""More folders than that on the way to a path are not followed."""


class Change(Struct, frozen=True):
    """A command after which paths may mean something else."""

    place: int
    replaced: tuple[str, ...] | None
    """What it may put something else in the place of; None for anything."""
    several: bool
    """Whether it works on one operand after the other, so that it may meet what it has made."""


class Shape(Struct, frozen=True):
    """The commands of a line after which paths may mean something else."""

    changes: tuple[Change, ...]
    together: bool

    def settles(self, place: int, path: str, resolve: Resolve) -> bool:
        """Whether a path that the part of the line at `place` uses is what it was before."""
        for change in self.changes:
            # In a loop a command also meets what it has made itself.
            if change.place < place or self.together:
                steps = _steps(path, resolve)
            elif change.place == place and change.several:
                steps = _steps(path.rpartition("/")[0], resolve)
            else:
                continue
            replaced = change.replaced
            if replaced is None or path.count("/") > _DEEP:
                return False
            if any(step in replaced for step in steps):
                return False
        return True


def read_shape(parsed: Parsed, resolve: Resolve) -> Shape:
    """Find the commands of a line that may change what its paths mean."""
    changes = tuple(
        Change(simple.place, _replaced(simple, resolve), len(list(landings(simple))) > 1)
        for simple in parsed.commands
        if not _is_settled(simple)
    )
    return Shape(changes, parsed.together)


def landings(simple: Simple) -> Iterator[Word]:
    """Yield the files that a copying command makes if its target is a folder."""
    table = COPYING.get(simple.name)
    if table is None:
        return
    given = read_options(table, simple.words, mixed=True)
    folders, sources = _targets(given), given.operands
    if not folders and simple.name == "ln" and len(sources) == 1:
        folders = [Word(".")]
    elif not folders:
        folders, sources = [*sources[-1:]], sources[:-1]
    # More than one is an error, and then nothing is copied.
    for folder in folders[:2]:
        for word in sources:
            name = word.text.rstrip("/").rpartition("/")[2]
            yield Word(f"{folder.text}/{name}", word.sure and folder.sure, word.glob or folder.glob)


def _targets(given: ParsedArguments) -> list[Word]:
    return [o.value for o in given.options if o.name in {"t", "target-directory"} and o.value]


def _is_settled(simple: Simple) -> bool:
    if not simple.words or simple.name in _SETTLED or prove_read_only(simple) is not None:
        return True
    if simple.name == "git":
        verbs = [w.text for w in simple.words[1:] if not w.text.startswith("-")]
        return bool(verbs) and verbs[0] in _GIT_SETTLED and simple.words[1].text == verbs[0]
    if simple.name == "cp":
        given = read_options(COPYING["cp"], simple.words, mixed=True)
        return given.known and not given.names & LINKING
    return False


def _replaced(simple: Simple, resolve: Resolve) -> tuple[str, ...] | None:
    table = COPYING.get(simple.name)
    if table is None or simple.folders is None:
        return None
    given = read_options(table, simple.words, mixed=True)
    words = [*given.operands, *_targets(given), *landings(simple)]
    if not given.known or "parents" in given.names or not all(word.plain for word in words):
        return None
    paths = [os.path.join(folder, word.text) for folder in simple.folders for word in words]  # noqa: PTH118 - pure text
    # The folder that a file is put into is still the folder that it was.
    into = [os.path.join(folder, w.text) for folder in simple.folders for w in _folders(given)]  # noqa: PTH118 - pure text
    return tuple(sorted(_both(paths, resolve) - _both(into, resolve)))


def _both(paths: Sequence[str], resolve: Resolve) -> set[str]:
    """Return paths as text and as they are now."""
    return {normal_path(path) for path in paths} | {resolve(path) for path in paths}


def _folders(given: ParsedArguments) -> Sequence[Word]:
    """Return the words that must be folders for the command to work."""
    targets = _targets(given)
    last = given.operands[-1:]
    sure = len(given.operands) > 2 or (bool(last) and last[0].text.rstrip("/") in {"", ".", ".."})
    return targets or (last if sure else ())


def _steps(path: str, resolve: Resolve) -> Iterator[str]:
    """Yield each folder on the way to a path, and the path, as text and as it is now."""
    parts = path.split("/")
    for end in range(2, len(parts) + 1):
        step = "/".join(parts[:end])
        yield normal_path(step)
        yield resolve(step)
