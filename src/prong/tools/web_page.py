"""What a server sent, made text that a model can read: by its kind and its character set.

HTML becomes Markdown in a process of its own, as PDF documents become text: whoever wrote the page
may mean to crash the reader, or to never let it end. All text is fenced; where it is long, in that
process too, since to look at every character of it takes seconds.
"""

from __future__ import annotations

import base64
import codecs
import re
import sys

import msgspec

from prong.entry import Image, Part, Text
from prong.tools.collector import clean
from prong.tools.fence import neutral
from prong.tools.files import pdf
from prong.tools.files.picture import inspect, media_type_of
from prong.tools.tool import Context, Failed

SECONDS = 30.0
"""How long the reading of a page may take."""
_PROGRAM = "from prong.tools.web_page import main; main()"
_SHORT = 200_000
"""Characters that are looked at without another process."""
_LARGEST = 32 << 20
"""Bytes of text that are taken from a page."""
_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE
)
_MARKUP = re.compile(
    rb"\s*(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,500})</title", re.IGNORECASE)
_HEAD = 65_536
"""Characters in which the title of a page stands."""
_TEXTUAL = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml)|application/(?:x-)?"
    r"(?:javascript|ecmascript|ndjson|yaml|sh|sql|www-form-urlencoded|typescript|graphql)"
)


class WebPage(msgspec.Struct, frozen=True):
    """A page as a model reads it."""

    parts: tuple[Part, ...]
    """A text, fenced, and perhaps a picture."""
    kind: str
    """What it was, in a word or two."""


async def read_page(context: Context, url: str, content_type: str, data: bytes) -> WebPage | Failed:
    """Make text of a page, or a picture if it is one that the model can see."""
    media, charset = split_type(content_type)
    if data.startswith(b"%PDF-"):
        return await _document(context, url, data)
    if (picture := media_type_of(data)) is not None:
        return _picture(context, url, data, picture)
    if media in {"text/html", "application/xhtml+xml"} or (not media and _MARKUP.match(data)):
        return await _read(context, url, "HTML", decode_page(data, charset))
    if _TEXTUAL.fullmatch(media) or (
        media in {"", "application/octet-stream"} and b"\0" not in data
    ):
        return await _text(context, url, media or "text", decode_page(data, charset))
    return Failed(f"{url} is {media or 'of no known kind'}, which cannot be shown as text")


def split_type(content_type: str) -> tuple[str, str]:
    """Take a Content-Type apart: the kind and the character set, both in lower case."""
    media, _, rest = content_type.lower().partition(";")
    found = re.search(r"""charset\s*=\s*["']?([^\s;"']+)""", rest)
    return media.strip(), found[1] if found else ""


def decode_page(data: bytes, charset: str) -> str:
    """Decode a page: by its first bytes, as the server says, as the page says, or as UTF-8."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(mark):
            return data.decode(name, errors="replace")
    declared = _DECLARED.search(data[:4096])
    said = declared[1].decode("ascii") if declared else ""
    # Pages that call themselves latin-1 are written in its larger brother.
    names = ["cp1252" if _known(name) == "iso8859-1" else name for name in (charset, said, "utf-8")]
    texts = (read(data, name) for read in (_decoded, _mostly_decoded) for name in names)
    found = next((text for text in texts if text is not None), None)
    return data.decode("cp1252", errors="replace") if found is None else found


def _known(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""


def _decoded(data: bytes, name: str) -> str | None:
    if not _known(name):
        return None
    try:
        return data.decode(name)
    except (UnicodeError, LookupError):
        # What is called so and is not text at all, such as base64, is a LookupError.
        return None


def _mostly_decoded(data: bytes, name: str) -> str | None:
    """Decode what is damaged in fewer places than it has characters that show it to be so."""
    if not _known(name):
        return None
    try:
        text = data.decode(name, errors="replace")
    except (UnicodeError, LookupError):
        return None
    lost = text.count("\ufffd")
    kept = len(text) - len(text.encode("ascii", errors="ignore")) - lost
    return text if kept > lost else None


def _picture(context: Context, url: str, data: bytes, media: str) -> WebPage | Failed:
    if not context.images:
        return Failed(f"{url} is a picture ({media}), which this model cannot see")
    seen = inspect(data)
    if isinstance(seen, str):
        return Failed(f"{url} is a picture ({media}) that cannot be shown: {seen}")
    size = Text(f"[{seen.width}x{seen.height}]")
    return WebPage((size, Image(media, base64.b64encode(data).decode())), media)


async def _document(context: Context, url: str, data: bytes) -> WebPage | Failed:
    got = await pdf.extract(context.host, url, data, 1, pdf.PAGES)
    if isinstance(got, Failed):
        return got
    pages = [f"[page {n} of {got.total}]\n{text}" for n, text in enumerate(got.pages, 1)]
    return await _text(context, url, "PDF", "\n\n".join(pages))


async def _text(context: Context, url: str, kind: str, text: str) -> WebPage | Failed:
    if len(text) > _SHORT:
        return await _read(context, url, kind, text)
    return WebPage((Text(neutral(clean(text))),), kind)


async def _read(context: Context, url: str, kind: str, text: str) -> WebPage | Failed:
    """Let another process make a text fit to be shown."""
    # -P keeps the project's folder off the import path: its files are not to be run.
    argv = [sys.executable, "-P", "-c", _PROGRAM, url, kind]
    data = text.encode(errors="replace")
    try:
        finished = await context.host.run(argv, stdin=data, seconds=SECONDS, limit=_LARGEST)
    except OSError as error:
        return Failed(f"{url}: what reads pages could not be started: {error}")
    if finished.timed_out:
        return Failed(f"{url}: reading the page took longer than {SECONDS:.0f} s")
    if finished.code != 0 or finished.cut:
        lines = finished.errors.decode(errors="replace").strip().splitlines()
        return Failed(f"{url}: the page could not be read: {(lines or ['no reason given'])[-1]}")
    made = finished.output.decode().strip()
    if not made:
        made = "[The page has no text of its own; scripts may put it there in a browser.]"
    return WebPage((Text(made),), kind)


def main() -> None:
    """Read a page on standard input and print it as text that can be shown."""
    url, kind = sys.argv[1:]
    text = sys.stdin.buffer.read().decode(errors="replace")
    made = convert(text, url) if kind == "HTML" else text
    sys.stdout.buffer.write(neutral(clean(made)).encode(errors="replace"))


def convert(html: str, url: str) -> str:
    """Make Markdown of HTML, with whole addresses, and nothing that a reader would not see."""
    from html import unescape

    from html_to_markdown import ConversionOptions
    from html_to_markdown import convert as to_markdown

    options = ConversionOptions(
        base_url=url,
        compact_tables=True,
        inline_data_media="alt_text_only",
        # Else what only machines are told of a page stands before its text.
        extract_metadata=False,
    )
    text = (to_markdown(html, options).content or "").strip()
    found = _TITLE.search(html[:_HEAD])
    title = " ".join(unescape(found[1]).split()) if found else ""
    return f"# {title}\n\n{text}" if title and text else text
