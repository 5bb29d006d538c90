"""The page as one file with a session in it: it opens from disk and asks nobody.

The modules of the page become functions in one script, since a browser loads no modules from disk.
The file says itself that nothing may run in it but this script, known by its hash: whatever stands
in the session's texts is data.
"""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from typing import Any

import msgspec

from prong.face.web.redaction import redacted
from prong.face.web.static_file import STATIC
from prong.session import SessionFeed

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?:async )?(?:function|const) (\w+)", re.MULTILINE)


def standalone(feed: SessionFeed, *, with_text: bool) -> bytes:
    """Give the page with a session as it is now, and with what was said only if that is wanted."""
    change: Any = msgspec.json.decode(msgspec.json.encode(feed.since(0, whole=True)))
    change["session"]["live"] = False
    data = {"change": change if with_text else redacted(change), "cost": feed.cost()}
    # An escape in a string of JSON means the same, and no text can end the element it stands in.
    told = msgspec.json.encode(data).decode().replace("<", "\\u003c")
    script, style = f"\n{_script()}", f"\n{(STATIC / 'page.css').read_text('utf-8')}"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = (STATIC / "index.html").read_text("utf-8")
    for found, instead in (
        ('<link rel="stylesheet" href="/static/page.css">', f"<style>{style}</style>"),
        ('<script type="module" src="/static/page.js"></script>\n', ""),
        ("<title>", f'<meta http-equiv="content-security-policy" content="{policy}">\n<title>'),
        (
            "</body>",
            (
                f'<script type="application/json" id="session-data">{told}</script>\n'
                f'<script type="module">{script}</script>\n</body>'
            ),
        ),
    ):
        assert page.count(found) == 1, found
        page = page.replace(found, instead)
    return page.encode("utf-8", "backslashreplace")


def _script() -> str:
    """Write the modules of the page as functions, each behind those that it imports."""
    done: dict[str, str] = {}

    def visit(name: str) -> None:
        text = (STATIC / f"{name}.js").read_text("utf-8")
        for _, other in _IMPORT.findall(text):
            if other not in done:
                visit(other)
        names = ", ".join(_EXPORT.findall(text))
        body = _IMPORT.sub(r"const \1 = \2Module;\n", text)
        body = re.sub(r"^export ", "", body, flags=re.MULTILINE)
        done[name] = f"const {name}Module = (() => {{\n{body}\nreturn {{ {names} }};\n}})();\n"

    visit("page")
    return "".join(done.values())


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode()
