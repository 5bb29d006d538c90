"""Project instructions: `AGENTS.md`, `CLAUDE.md` and what they import.

Files come in the order from far to near: the user's own, those of the folders above, those of the
project down to the working folder. Folders further down add theirs when a file in them is first
read. Each file and each text appears once, so a `CLAUDE.md` that is a link to, a copy of or only
an import of `AGENTS.md` adds nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from prong.config.document import read_text
from prong.config.trust import Trust
from prong.errors import ConfigError
from prong.tools.ground import Policy, why_unread

LARGE = 40_000
"""Characters above which a file is worth a warning: every request carries it."""
_DEPTH = 5
_NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
_HOME_NAMES = (".prong/AGENTS.md", ".claude/CLAUDE.md")

_FENCE = r" {0,3}(`{3,}|~{3,})"
_SPAN = r"(`+)(?!`).*?(?<!`)\1(?!`)"
_IMPORT = r"(?:^|(?<=\s))@([^\s@]+)"


class Instruction(msgspec.Struct, frozen=True):
    """One file of instructions."""

    path: str
    """Absolute."""
    label: str
    """How the model is told of it: relative to the project, or below `~`."""
    text: str

    @property
    def size(self) -> int:
        """Characters it adds to every prompt."""
        return len(self.text)


class Instructions(msgspec.Struct):
    """The instructions of one agent, and which of them it has seen."""

    home: str
    root: str
    """The project's root."""
    cwd: str
    trusted: bool
    memory: str = ""
    """The folder with notes of earlier sessions; empty if they are left out."""
    policy: Policy | None = None
    """Rules about reading single files: they hold for imports as well."""
    items: tuple[Instruction, ...] = ()
    """What holds from the start, far to near."""
    problems: list[ConfigError] = []
    _paths: set[Path] = set()
    _texts: set[str] = set()
    _folders: set[Path] = set()

    def clone(self) -> Instructions:
        """Copy the record for a child that has seen the same."""
        return Instructions(
            home=self.home,
            root=self.root,
            cwd=self.cwd,
            trusted=self.trusted,
            memory=self.memory,
            policy=self.policy,
            items=self.items,
            problems=list(self.problems),
            _paths=set(self._paths),
            _texts=set(self._texts),
            _folders=set(self._folders),
        )

    def start(self) -> None:
        """Read the user's own files and those of the folders down to the working folder."""
        items = self._notes()
        for name in _HOME_NAMES:
            items += self._file(Path(self.home) / name, depth=0, within=None)
        place = Path(self.cwd)
        for folder in (*reversed(place.parents), place):
            items += self._folder(folder)
        self.items = tuple(items)

    def forget_nested(self) -> None:
        """Let what was shown for single files be shown again."""
        items, problems = self.items, list(self.problems)
        for seen in (self._paths, self._texts, self._folders):
            seen.clear()
        self.start()
        # What stands in the head stays as it was rendered.
        self.items, self.problems = items, problems

    def nested_for(self, path: str) -> tuple[Instruction, ...]:
        """Give the instructions of the folders a file lies in that were not shown before."""
        place, root = Path(os.path.realpath(path)), Path(self.root)
        found: list[Instruction] = []
        for folder in reversed(place.parents):
            if folder.is_relative_to(root) and folder not in self._folders:
                found += self._folder(folder)
        return tuple(found)

    def _notes(self) -> list[Instruction]:
        """Read what was kept of earlier sessions: the farthest, since a model has written it."""
        files = sorted(Path(self.memory).glob("*.md")) if self.memory else []
        return [one for path in files for one in self._file(path, depth=0, within=None, plain=True)]

    def _folder(self, folder: Path) -> list[Instruction]:
        self._folders.add(folder)
        found: list[Instruction] = []
        inside = folder.is_relative_to(self.root)
        within = Path(self.root) if inside else folder
        trusted = self.trusted if inside else Trust(self.home).is_trusted(str(folder))
        for name in _NAMES:
            if inside or _is_ours(folder / name):
                found += self._file(folder / name, depth=0, within=None if trusted else within)
        return found

    def _file(
        self, path: Path, *, depth: int, within: Path | None, plain: bool = False
    ) -> list[Instruction]:
        """Read a file and what it imports, which has to lie within a folder if one is given.

        What is `plain` imports nothing.
        """
        try:
            place = Path(os.path.realpath(path, strict=True))
        except OSError:
            return []
        if place in self._paths or not self._may_read(path, place, within):
            return []
        text = read_text(place)
        if text is None:
            return []
        self._paths.add(place)
        if isinstance(text, ConfigError) or "\0" in text:
            problem = text if isinstance(text, ConfigError) else ConfigError(path, "is not text")
            self.problems.append(problem)
            return []
        text = text.replace("\r\n", "\n").strip()
        imports = [] if plain else find_imports(text)
        found: list[Instruction] = []
        if text and text not in self._texts and not _only_imports(text, len(imports)):
            self._texts.add(text)
            found.append(Instruction(str(path), self._label(path), text))
            self._warn_size(path, text)
        for line, name in imports:
            found += self._import(path, line, name, depth=depth + 1, within=within)
        return found

    def _import(
        self, path: Path, line: int, name: str, *, depth: int, within: Path | None
    ) -> list[Instruction]:
        if name.startswith("~/"):
            target = Path(self.home) / name[2:]
        else:
            target = Path(os.path.normpath(path.parent / name))
        if not _is_file(target):
            # Most words that begin with @ name a person or a package, not a file.
            if name.startswith(("./", "../", "~/", "/")) or name.endswith((".md", ".txt")):
                self.problems.append(ConfigError(path, f"imports @{name}: no such file", line=line))
            return []
        if depth > _DEPTH:
            why = f"imports @{name}: more than {_DEPTH} imports deep; left out"
            self.problems.append(ConfigError(path, why, line=line))
            return []
        return self._file(target, depth=depth, within=within)

    def _may_read(self, path: Path, place: Path, within: Path | None) -> bool:
        if within is not None and not place.is_relative_to(within):
            why = (
                f"leads to {place}, outside the project; left out, because the folder is not "
                "trusted: run 'prong trust' in it to let it count"
            )
        elif self.policy and (kept := why_unread(self.policy, str(place))):
            why = f"is left out: {kept}"
        else:
            return True
        self.problems.append(ConfigError(path, why))
        return False

    def _warn_size(self, path: Path, text: str) -> None:
        if len(text) > LARGE:
            why = f"has {len(text):,} characters, which every request carries; shorten it"
            self.problems.append(ConfigError(path, why))

    def _label(self, path: Path) -> str:
        for base, prefix in ((self.root, ""), (self.home, "~/")):
            if path.is_relative_to(base):
                return prefix + path.relative_to(base).as_posix()
        return str(path)


def collect_instructions(
    home: str,
    root: str,
    cwd: str,
    *,
    trusted: bool,
    memory: str = "",
    policy: Policy | None = None,
) -> Instructions:
    """Collect what holds from the start for an agent that works in `cwd` of a project.

    `memory` is the folder with notes of earlier sessions, if they are to be read.
    """
    found = Instructions(
        home=os.path.realpath(home),
        root=os.path.realpath(root),
        cwd=os.path.realpath(cwd),
        trusted=trusted,
        memory=memory and os.path.realpath(memory),
        policy=policy,
    )
    found.start()
    return found


def find_root(cwd: str) -> str:
    """Find the project's root: the nearest folder with a `.git`, else the folder itself."""
    place = Path(os.path.realpath(cwd))
    for folder in (place, *place.parents):
        if (folder / ".git").exists():
            return str(folder)
    return str(place)


def find_imports(text: str) -> list[tuple[int, str]]:
    """Find `@path` outside of code, with the line it stands on."""
    found: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate(text.split("\n"), start=1):
        match = re.match(_FENCE, line)
        # Backticks again on the line make it a code span, not a fence.
        if match and (match[1][0] == "~" or "`" not in line[match.end() :]):
            if not fence:
                fence = match[1]
            elif match[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
            continue
        if not fence:
            bare = re.sub(_SPAN, " ", line)
            found += [
                (number, match[1].rstrip(".,;:!?)'\"")) for match in re.finditer(_IMPORT, bare)
            ]
    return [(number, name) for number, name in found if name]


def _only_imports(text: str, count: int) -> bool:
    words = text.split()
    return count > 0 and len(words) == count and all(word.startswith("@") for word in words)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False  # such as a word that is too long for a name


def _is_ours(path: Path) -> bool:
    """Say whether a file above the project belongs to the user or the system.

    Anybody may leave a file in a shared folder such as /tmp.
    """
    try:
        return path.lstat().st_uid in (os.getuid(), 0)
    except OSError:
        return False
