"""The files that the page is made of; read once, served by their names and by no others."""

from __future__ import annotations

from pathlib import Path

import msgspec

STATIC = Path(__file__).parent / "static"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(msgspec.Struct, frozen=True):
    """One of them."""

    data: bytes
    kind: str


def static_files() -> dict[str, StaticFile]:
    """Read them all, by the paths at which they are served."""
    found = {
        f"/static/{path.name}": StaticFile(path.read_bytes(), _KINDS[path.suffix])
        for path in STATIC.iterdir()
        if path.suffix in _KINDS
    }
    return {"/": found.pop("/static/index.html"), **found}
