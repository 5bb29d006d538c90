"""A stored session as a page for people: everything that was said, as Markdown or as HTML."""

from __future__ import annotations

import html
import time
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from prong.entry import Call, Image, Part, Reply, Results, User, plain
from prong.face.output import flat, printable
from prong.foreign_json import NOT_JSON
from prong.session import StoredEntry, WholeSession, jsonl_of

PageFormat: TypeAlias = Literal["markdown", "html", "jsonl"]
SUFFIXES: dict[str, PageFormat] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}
"""Formats by what a file's name ends with."""

_HEADINGS = {
    "user": "User",
    "notice": "Notice",
    "directive": "Directive",
    "summary": "Summary",
    "reminder": "Reminder",
}


class _Passage(msgspec.Struct, frozen=True):
    """A part of a page: what it is, its text, and whether that is anybody's own words."""

    heading: str
    text: str
    kind: Literal["said", "replied", "thought", "called", "gave", "told", "restarted"]


def as_page(whole: WholeSession, form: PageFormat) -> str:
    """Write a session in a format."""
    match form:
        case "markdown":
            return as_markdown(whole)
        case "html":
            return as_html(whole)
        case "jsonl":
            return b"".join(jsonl_of(whole)).decode()


def as_markdown(whole: WholeSession) -> str:
    """Write what was said, thought, called and given, each agent by itself."""
    lines = [f"# {_title(whole)}", "", _about(whole), ""]
    for agent, entries in whole.by_agent().items():
        if agent != "main":
            lines += [f"# Agent {flat(agent)}", ""]
        for passage in _passages(entries):
            text = printable(passage.text)
            match passage.kind:
                case "said" | "replied":
                    lines += [f"## {passage.heading}", "", text, ""]
                case "thought":
                    lines += [f"## {passage.heading}", "", _quoted(text), ""]
                case "restarted":
                    lines += ["---", "", f"A new prompt: {text}", ""]
                case _:
                    lines += [f"### {passage.heading}", "", _fenced(text), ""]
    return "\n".join(lines)


def as_html(whole: WholeSession) -> str:
    """Write the same as one page that loads nothing; calls and results are folded."""
    title = html.escape(_title(whole))
    body = [f"<h1>{title}</h1>", f"<p>{html.escape(_about(whole))}</p>"]
    for agent, entries in whole.by_agent().items():
        if agent != "main":
            body.append(f"<h2>Agent {html.escape(flat(agent))}</h2>")
        for passage in _passages(entries):
            heading = html.escape(passage.heading)
            text = html.escape(printable(passage.text))
            if passage.kind in ("said", "replied", "restarted"):
                named = f"<h3>{heading}</h3>" if heading else "<hr>"
                body.append(f'<section class="{passage.kind}">{named}<pre>{text}</pre></section>')
            else:
                body.append(f"<details><summary>{heading}</summary><pre>{text}</pre></details>")
    head = f'<meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    page = "\n".join(body)
    return f"<!doctype html>\n<html><head>{head}</head>\n<body>\n{page}\n</body></html>\n"


_STYLE = (
    "body{max-width:60rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 sans-serif}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.3rem 0}"
    "section,details{margin:.8rem 0;padding:.3rem .8rem;border-left:3px solid #999}"
    ".said{border-color:#36c}.replied{border-color:#283}h3{margin:.2rem 0;font-size:1rem}"
)


def _title(whole: WholeSession) -> str:
    return flat(whole.title) or flat(whole.opened.session)


def _about(whole: WholeSession) -> str:
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(whole.opened.created))
    models = dict.fromkeys(flat(one.model) for one in whole.entries)
    asked = f", {', '.join(models)}" if models else ""
    return f"Session {flat(whole.opened.session)}, {day}{asked}, in {flat(whole.opened.cwd)}"


def _passages(entries: Iterable[StoredEntry]) -> Iterator[_Passage]:
    called: dict[str, str] = {}
    for stored in entries:
        if stored.restarts:
            yield _Passage("", stored.restarts, "restarted")
        match stored.entry:
            case Reply() as reply:
                called |= {call.id: call.name for call in reply.calls}
                yield from _replied(reply)
            case User(parts=parts):
                heading = _HEADINGS.get(stored.kind, "User")
                yield _Passage(heading, _text(parts), "said" if stored.kind == "user" else "told")
            case Results(results=results):
                for one in results:
                    name = flat(called.get(one.call_id, "a call"))
                    heading = f"{name} {'failed' if one.failed else 'gave'}"
                    yield _Passage(heading, _text(one.parts), "gave")
            case None:
                yield _Passage("Not understood", "an entry that cannot be read", "told")


def _replied(reply: Reply) -> Iterator[_Passage]:
    if reply.thinking.strip():
        yield _Passage("Thinking", reply.thinking, "thought")
    if reply.text.strip():
        yield _Passage("Reply", reply.text, "replied")
    for call in reply.calls:
        yield _Passage(flat(call.name), _given(call), "called")


def _given(call: Call) -> str:
    try:
        return msgspec.json.format(call.arguments or "{}", indent=2)
    except NOT_JSON:
        return call.arguments


def _text(parts: tuple[Part, ...]) -> str:
    pictures = sum(isinstance(part, Image) for part in parts)
    text = plain(tuple(part for part in parts if not isinstance(part, Image)))
    return f"{text}\n[{pictures} pictures]" if pictures else text


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in text.split("\n"))


def _fenced(text: str) -> str:
    """Put a text between fences that do not occur in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
