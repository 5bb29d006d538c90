"""Project instructions: `AGENTS.md`, `CLAUDE.md`, `.claude/rules` and what they import.

Files come in the order from far to near: the user's own, those of the folders above, those of the
project down to the working folder. Folders further down add theirs when a file in them is first
read, and so do files of rules that are for single paths. Each file and each text appears once, so a
`CLAUDE.md` that is a link to, a copy of or only an import of `AGENTS.md` adds nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from prong.config.document import read_text
from prong.config.front import read_front
from prong.config.listing import lies_in, list_files
from prong.config.trust import Trust
from prong.errors import ConfigError
from prong.system.identity import user_id
from prong.system.path_form import normal_path, real_path
from prong.tools.ground import Policy, why_unread
from prong.tools.mention import blank_comments, find_mentions

LARGE = 40_000
"""Characters above which a file is worth a warning: every request carries it."""
_DEPTH = 5
_NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
_HOME_NAMES = (".prong/AGENTS.md", ".claude/CLAUDE.md")
_RULES = (".prong/rules", ".claude/rules")
_RULE_KEYS = ("paths", "description")


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


class PathRules(msgspec.Struct, frozen=True):
    """A file of rules that holds for some paths only."""

    file: Path
    base: str
    """The folder that its patterns begin in."""
    patterns: tuple[str, ...]
    within: Path | None

    def covers(self, path: str) -> bool:
        """Whether it is for a file; a pattern that makes no sense is for none."""
        from prong.tools.files.pattern import Pattern

        if not path.startswith(f"{self.base}/"):
            return False
        inner = path[len(self.base) + 1 :]
        for pattern in self.patterns:
            try:
                if Pattern(pattern.removeprefix("./"), anchored=False).keeps(inner):
                    return True
            except ValueError:
                continue
        return False


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
    _waiting: list[PathRules] = []
    """Files of rules for single paths, of which none was read yet."""

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
            _waiting=list(self._waiting),
        )

    def start(self) -> None:
        """Read the user's own files and those of the folders down to the working folder."""
        items = self._notes()
        for name in _HOME_NAMES:
            items += self._file(Path(self.home) / name, depth=0, within=None)
        items += self._rules(Path(self.home), self.root, within=None)
        place = Path(self.cwd)
        for folder in (*reversed(place.parents), place):
            items += self._folder(folder)
        self.items = tuple(items)

    def forget_nested(self) -> None:
        """Let what was shown for single files be shown again."""
        items, problems = self.items, list(self.problems)
        for seen in (self._paths, self._texts, self._folders, self._waiting):
            seen.clear()
        self.start()
        # What stands in the head stays as it was rendered.
        self.items, self.problems = items, problems

    def nested_for(self, path: str) -> tuple[Instruction, ...]:
        """Give the instructions for a file that were not shown before: of folders and of paths."""
        place, root = Path(real_path(path)), Path(self.root)
        found: list[Instruction] = []
        for folder in reversed(place.parents):
            if folder.is_relative_to(root) and folder not in self._folders:
                found += self._folder(folder)
        for rules in [*self._waiting]:
            if rules.covers(place.as_posix()):
                self._waiting.remove(rules)
                found += self._file(rules.file, depth=0, within=rules.within, fronted=True)
        return tuple(found)

    def _rules(self, folder: Path, base: str, within: Path | None) -> list[Instruction]:
        """Read a folder's files of rules; those for single paths wait until one of them is read."""
        found: list[Instruction] = []
        limit = None if within is None else str(within)
        for name in _RULES:
            listed = list_files(folder / name, suffix=".md", within=limit)
            self.problems += listed.problems
            for path in listed.paths:
                patterns = self._patterns(path, within)
                if patterns:
                    self._waiting.append(PathRules(path, base, patterns, within))
                else:
                    found += self._file(path, depth=0, within=within, fronted=True)
        return found

    def _patterns(self, path: Path, within: Path | None) -> tuple[str, ...]:
        """Read for which paths a file of rules is; one that cannot be read is for none and all."""
        if within is not None and not lies_in(path, str(within)):
            return ()
        text = read_text(path)
        if not isinstance(text, str) or not text.startswith("---"):
            return ()
        try:
            front = read_front(str(path), text.replace("\r\n", "\n"), _RULE_KEYS)
        except ConfigError:
            return ()
        return front.list("paths")

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
        if inside:
            found += self._rules(folder, folder.as_posix(), None if trusted else within)
        return found

    def _file(
        self,
        path: Path,
        *,
        depth: int,
        within: Path | None,
        plain: bool = False,
        fronted: bool = False,
    ) -> list[Instruction]:
        """Read a file and what it imports, which has to lie within a folder if one is given.

        What is `plain` imports nothing and is taken as it is. What is `fronted` may have front
        matter, which is left out.
        """
        try:
            place = Path(real_path(path, strict=True))
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
        text = text.replace("\r\n", "\n")
        text = blank_comments(_without_front(text) if fronted else text) if not plain else text
        imports = [] if plain else find_mentions(text)
        text = re.sub(r"\n{4,}", "\n\n\n", text).strip()
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
            target = Path(normal_path(path.parent / name))
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
        elif self.policy and (kept := why_unread(self.policy, place.as_posix())):
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
        home=real_path(home),
        root=real_path(root),
        cwd=real_path(cwd),
        trusted=trusted,
        memory=memory and real_path(memory),
        policy=policy,
    )
    found.start()
    return found


def find_root(cwd: str) -> str:
    """Find the project's root: the nearest folder with a `.git`, else the folder itself."""
    place = Path(real_path(cwd))
    for folder in (place, *place.parents):
        if (folder / ".git").exists():
            return folder.as_posix()
    return place.as_posix()


def _without_front(text: str) -> str:
    """Leave out front matter, its lines kept empty so that complaints name the right one."""
    match = re.match(r"---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?=\n|\Z)", text, re.DOTALL)
    return "\n" * match[0].count("\n") + text[match.end() :] if match else text


def _only_imports(text: str, count: int) -> bool:
    words = re.split(r"(?<!\\)\s+", text)
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
        return path.lstat().st_uid in (user_id(), 0)
    except OSError:
        return False
