"""The documentation as a whole: links, anchors, and what the site is made of."""

import os
import re
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.spec("X4")

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)")


def prose(text: str) -> str:
    return FENCE.sub("", text)


def slug(title: str) -> str:
    plain = re.sub(r"`|\[([^\]]+)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@cache
def anchors(page: Path) -> frozenset[str]:
    titles = re.findall(r"^#+ +(.*?) *#*$", prose(page.read_text("utf-8")), re.MULTILINE)
    return frozenset(map(slug, titles))


def broken(page: Path) -> list[str]:
    """Give the links of a page that lead to no file, or to no heading of one."""
    found: list[str] = []
    for link in LINK.findall(prose(page.read_text("utf-8"))):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = page.parent / target if target else page
        gone = not there.exists()
        if gone or (anchor and there.suffix == ".md" and anchor not in anchors(there.resolve())):
            found.append(link)
    return found


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages as the site has them."""
    folder = tmp_path_factory.mktemp("site") / "pages"
    code = "import sys, pathlib, site_pages; site_pages.gather(pathlib.Path(sys.argv[1]))"
    subprocess.run(
        [sys.executable, "-c", code, folder],
        env={**os.environ, "PYTHONPATH": str(ROOT / "docs")},
        check=True,
    )
    return folder


def nav(items: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for item in items:
        [value] = item.values()
        found += nav(value) if isinstance(value, list) else [value]
    return found


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_to_pages_and_headings(page):
    """Every link within the repository leads to a file, and its anchor to a heading there."""
    assert broken(page) == []


def test_links_of_the_site_lead_to_pages_and_headings(pages):
    """What is gathered for the site links only to what is gathered."""
    found = {str(page.relative_to(pages)): broken(page) for page in pages.rglob("*.md")}

    assert {page: links for page, links in found.items() if links} == {}


def test_every_page_is_in_the_navigation(pages):
    """A page is named in the navigation once, unless it is a decision note; nothing else is."""
    config = yaml.safe_load((ROOT / "docs/mkdocs.yml").read_text("utf-8"))
    there = [page.relative_to(pages).as_posix() for page in pages.rglob("*.md")]
    notes = [page for page in there if page.startswith("decisions/")]

    assert sorted(nav(config["nav"])) == sorted(set(there) - set(notes))


def test_the_home_page_is_the_readme(pages):
    """The site begins with the README, whose links lead to the site's own pages."""
    home = (pages / "index.md").read_text("utf-8")

    assert home.startswith("# Prong\n")
    assert "](docs/" not in home


@pytest.mark.parametrize("module", ["prong", "prong.testing"])
def test_the_reference_has_every_public_name(pages, module):
    """Each name that a module offers has an entry in the API reference, with words of its own."""
    page = (pages / f"api/{module.rpartition('.')[2]}.md").read_text("utf-8")
    entries = dict(re.findall(r"^## (\w+)\n\n(.*?)(?=\n\n## |\Z)", page, re.MULTILINE | re.DOTALL))
    names = {name for name in import_module(module).__all__ if not name.startswith("__")}

    assert set(entries) == names
    assert [name for name, text in entries.items() if not re.search(r"[a-z]{3,}", text)] == []


def test_links_into_nothing_are_found(tmp_path):
    """The check itself sees a page, a heading and an anchor that are not there."""
    page = tmp_path / "page.md"
    page.write_text("# One `two`\n[a](#one-two) [b](#three) [c](none.md) [d](page.md#one-two)\n")

    assert broken(page) == ["#three", "none.md"]


def test_what_a_browser_would_load_from_others_is_found():
    """Scripts, styles and pictures of other hosts are named; links for a reader are not."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        loaded = import_module("site_pages").loaded_from_others
    finally:
        sys.path.remove(str(ROOT / "docs"))
    page = (
        '<link href="assets/a.css" rel="stylesheet"><link rel="icon" href="//cdn.test/i.png">'
        '<script src="https://cdn.test/x.js"></script><a href="https://docs.test/">read</a>'
        '<img src="http://cdn.test/p.png"><img src="full.svg">'
    )

    assert loaded(page) == ["//cdn.test/i.png", "https://cdn.test/x.js", "http://cdn.test/p.png"]
