"""Say how much of a folder of other people's files loads: agents, skills, commands, plug-ins.

    python bench/ecosystem.py FOLDER [--why]

Every file is put into an empty project of its kind and read as a session would; those that share a
name go into projects of their own, so that none hides another. A file that is *warned* about works,
and something of it was left out or read differently; one that is *refused* does not. With `--why`
each kind of complaint is printed, with how often it came and an example.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from prong.config.agents import find_types
from prong.config.plugin import MANIFEST, read_plugin, wants
from prong.config.plugin_source import MARKETPLACE, read_marketplace
from prong.config.skill_search import find_skills
from prong.errors import ConfigError, ProngError

_SKIPPED = {"README.md", "CLAUDE.md", "AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "index.md"}


class Tally(msgspec.Struct):
    """What came of the files of one kind."""

    files: int = 0
    loaded: int = 0
    warned: int = 0
    refused: int = 0
    seconds: float = 0.0
    whys: Counter[str] = msgspec.field(default_factory=Counter[str])
    examples: dict[str, str] = {}

    def complain(self, text: str, root: Path) -> None:
        """Count a complaint by what it says, whatever file it names."""
        where, _, why = text.replace(f"{root}/", "").partition(": ")
        kind = re.sub(r"'[^']*'|\"[^\"]*\"|\d+", "…", why or where)[:110]
        self.whys[kind] += 1
        self.examples.setdefault(kind, text.replace(f"{root}/", "")[:200])


def kind_of(path: Path) -> str:
    """Say what a Markdown file is, by its place and name; empty if it is none of these."""
    folders = path.parts[:-1]
    if path.name == "SKILL.md":
        return "skills"
    if path.name in _SKIPPED or set(folders) & {"references", "docs", "templates", "tests"}:
        return ""
    if "skills" in folders:
        return ""
    if "commands" in folders:
        return "commands"
    if path.name.endswith(".agent.md") or "agents" in folders or "categories" in folders:
        return "agents"
    return ""


def collect(folder: Path) -> dict[str, list[Path]]:
    """Find the files of each kind that begin as such files do."""
    found: dict[str, list[Path]] = {"agents": [], "skills": [], "commands": []}
    for path in sorted(folder.rglob("*.md")):
        kind = kind_of(path.relative_to(folder))
        if kind and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            if kind == "commands" or text.lstrip("\ufeff").startswith("---"):
                found[kind].append(path)
    return found


def batches(paths: Iterable[Path], name: Callable[[Path], str]) -> Iterator[list[Path]]:
    """Part files so that no two in one batch have one name."""
    seen: Counter[str] = Counter()
    parted: dict[int, list[Path]] = {}
    for path in paths:
        parted.setdefault(seen[name(path)], []).append(path)
        seen[name(path)] += 1
    yield from parted.values()


def place_of(kind: str, path: Path, number: int) -> str:
    """Say where a file goes in an empty project."""
    if kind == "skills":
        return f".claude/skills/{path.parent.name}/SKILL.md"
    if kind == "commands":
        return f".claude/commands/{path.name}"
    return f".claude/agents/{number}/{path.name}"


def try_files(kind: str, paths: list[Path], tally: Tally) -> None:
    """Read files of one kind as a session would."""
    name = (lambda path: path.parent.name) if kind == "skills" else (lambda path: path.name)
    for batch in batches(paths, name):
        with TemporaryDirectory() as base:
            root, home = Path(base) / "project", Path(base) / "home"
            home.mkdir()
            for number, path in enumerate(batch):
                to = root / place_of(kind, path, number // 100)
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(path.read_bytes())
            start = time.process_time()
            problems, warnings, unheeded = read(kind, str(home), str(root))
            tally.seconds += time.process_time() - start
            # Two agents of different files may bear one name; that is no fault of either.
            warnings = [text for text in warnings if "is hidden by" not in text]
            tally.files += len(batch)
            tally.refused += len(problems)
            tally.loaded += len(batch) - len(problems)
            tally.warned += unheeded
            for text in (*map(str, problems), *warnings):
                tally.complain(text, root)


def read(kind: str, home: str, root: str) -> tuple[list[ConfigError], list[str], int]:
    """Read a project; gives what was refused, what was said, and of how many files."""
    if kind == "agents":
        types = find_types(home, root, root, trusted=True)
        odd = sum(bool(one.unheeded) for one in types.types.values())
        return types.problems, types.warnings, odd
    found = find_skills(home, root, root, trusted=True)
    return found.problems, found.warnings, len(found.unheeded)


def try_plugins(folder: Path, tally: Tally) -> None:
    """Read every plug-in as one that is to be added."""
    for manifest in sorted(folder.rglob(MANIFEST)):
        root = manifest.parent.parent
        tally.files += 1
        start = time.process_time()
        try:
            plugin = read_plugin(root, root)
            wants(plugin)
        except ProngError as error:
            tally.refused += 1
            tally.complain(str(error), root)
            continue
        tally.seconds += time.process_time() - start
        tally.refused += bool(plugin.fatal)
        tally.loaded += not plugin.fatal
        told = (*map(str, plugin.problems), *plugin.unheeded)
        tally.warned += bool(told) and not plugin.fatal
        for text in told:
            tally.complain(text, root)


def try_markets(folder: Path, tally: Tally) -> None:
    """Read every marketplace; what it offers of its own folder has to be there."""
    for listed in sorted(folder.rglob(MARKETPLACE)):
        root = listed.parent.parent
        try:
            market = read_marketplace(root)
        except ConfigError as error:
            tally.files, tally.refused = tally.files + 1, tally.refused + 1
            tally.complain(str(error), root)
            continue
        for offer in market.offers if market is not None else ():
            tally.files += 1
            if isinstance(offer.source, str) and not (root / offer.source).is_dir():
                tally.refused += 1
                tally.complain(f"{listed}: {offer.source} is not there", root)
            else:
                tally.loaded += 1


def show(kind: str, tally: Tally) -> None:
    """Print a row, and why if that is asked for."""
    row = (tally.files, tally.loaded, tally.warned, tally.refused)
    print(f"{kind:14}{''.join(f'{one:>8,}' for one in row)}{tally.seconds:>8.2f}")
    if "--why" in sys.argv:
        for why, count in tally.whys.most_common(15):
            print(f"    {count:>5} {why}\n          e.g. {tally.examples[why]}")


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--why"]
    if len(words) != 1 or not Path(words[0]).is_dir():
        sys.exit(__doc__)
    print(f"{'kind':14}{'files':>8}{'loaded':>8}{'warned':>8}{'refused':>8}{'cpu s':>8}")
    folder = Path(words[0]).resolve()
    for kind, paths in collect(folder).items():
        tally = Tally()
        try_files(kind, paths, tally)
        show(kind, tally)
    for kind, look in (("plug-ins", try_plugins), ("marketplaces", try_markets)):
        tally = Tally()
        look(folder, tally)
        show(kind, tally)


if __name__ == "__main__":
    main()
