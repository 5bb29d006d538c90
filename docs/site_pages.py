"""Builds the site: `make site`, into build/site.

The pages are those that one reads in the repository. They are gathered under build/pages, with the
README as the home page and the API reference beside them; a link to a page that is gathered leads
there, and one to any other file becomes plain text, since the site does not have it. What a
visitor's browser loads is all in build/site.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import reference

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
_LINK = re.compile(r"(?<!!)\[(?P<label>[^\]\n]+)\]\((?P<target>[^)\s]+)\)")
_PICTURE = re.compile(r"!\[(?P<label>[^\]\n]*)\]\((?P<target>[^)\s]+)\)")
_FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)[ \t]*$)", re.MULTILINE | re.DOTALL)


def placed(source: str) -> str | None:
    """Say where a file of the repository stands on the site; None if it does not."""
    if source == "README.md":
        return "index.md"
    if source in {"CHANGELOG.md", "CONTRIBUTING.md"}:
        return source.lower()
    if source == "bench/README.md":
        return "bench.md"
    if source.startswith("docs/") and source.endswith((".md", ".svg", ".png")):
        return source.removeprefix("docs/")
    return None


def sources() -> list[str]:
    """Give the files that the site is made of."""
    found = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*") if path.is_file()]
    found += ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "bench/README.md"]
    return sorted(one for one in found if placed(one) is not None)


def rewritten(text: str, source: str) -> str:
    """Give a page's text with its links as they are on the site."""
    here = placed(source)
    assert here is not None, "only what stands on the site is rewritten"

    def link(found: re.Match[str]) -> str:
        target, hash_, anchor = found["target"].partition("#")
        if not target or "://" in target:
            return found[0]
        there = placed(_resolved(source, target))
        if there is None:
            return found["label"]
        return f"[{found['label']}]({_relative(here, there)}{hash_}{anchor})"

    def picture(found: re.Match[str]) -> str:
        there = placed(_resolved(source, found["target"]))
        return found[0] if there is None else f"![{found['label']}]({_relative(here, there)})"

    parts = _FENCE.split(text)
    parts[::2] = [_PICTURE.sub(picture, _LINK.sub(link, part)) for part in parts[::2]]
    return "".join(parts)


def _resolved(source: str, target: str) -> str:
    return os.path.normpath(PurePosixPath(source).parent / target)


def _relative(here: str, there: str) -> str:
    return os.path.relpath(there, PurePosixPath(here).parent)


def gather(folder: Path) -> None:
    """Write all pages into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for source in sources():
        target = folder / str(placed(source))
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.endswith(".md"):
            target.write_text(rewritten((ROOT / source).read_text("utf-8"), source), "utf-8")
        else:
            shutil.copy(ROOT / source, target)
    for path, text in reference.pages():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")


def loaded_from_others(page: str) -> list[str]:
    """Give what a browser that shows a page would load from other hosts."""
    tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page)
    found = (re.search(r"""(?:src|href)=["']?((?:https?:)?//[^"' >]+)""", tag) for tag in tags)
    return [one[1] for one in found if one]


def main() -> int:
    """Gather the pages and build the site; gives the exit code."""
    gather(BUILD / "pages")
    # The tool wants its folders below its configuration, and nothing of that beside our pages.
    config = shutil.copy(ROOT / "docs" / "mkdocs.yml", BUILD)
    shutil.rmtree(BUILD / "site", ignore_errors=True)
    words = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run([*words, "--config-file", config], check=True)
    found = {
        foreign
        for page in (BUILD / "site").rglob("*.html")
        for foreign in loaded_from_others(page.read_text("utf-8"))
    }
    for foreign in sorted(found):
        print(f"the site would load {foreign}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
