"""WebSearch: ask whoever searches the web for this session, and show what was found as data.

Searches are made by a service that the user has set, or by the model's provider, each in a request
of its own: so every search passes the gate, is paid for in the ledger, and reads the same whoever
made it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Protocol, cast

import msgspec
from msgspec import Meta

from prong.entry import CallId, Text
from prong.errors import ProngError
from prong.foreign_json import NOT_JSON
from prong.provider import Http, HttpLimits, read_body
from prong.tools.access import Access, Using
from prong.tools.fence import neutral
from prong.tools.tool import CallOutcome, Context, Done, Failed, SideEffect
from prong.tools.web_fetch import DATA

HITS = 20
"""Results that are shown."""
_LARGEST = 4 << 20
_LONGEST = 600
_LIMITS = HttpLimits(connect=15.0, idle=30.0, progress=60.0, connections=4)
_NESTS = ("results", "web", "items", "organic_results", "organic", "data", "value", "webPages")
"""Under which names services keep their lists."""
_TITLES, _URLS = ("title", "name"), ("url", "link", "href")
_TEXTS = ("content", "snippet", "description", "text", "extract")


class SearchHit(msgspec.Struct, frozen=True):
    """One thing that was found."""

    title: str
    url: str
    text: str = ""


class SearchAnswer(msgspec.Struct, frozen=True):
    """What a search gave."""

    hits: tuple[SearchHit, ...]
    said: str = ""
    """What the searcher says of it, if it is one that speaks."""


class SearchService(Protocol):
    """Whoever searches."""

    async def search(self, query: str) -> SearchAnswer:
        """Search.

        Raises ProngError if it does not work.
        """
        ...


class SearchArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What WebSearch takes."""

    query: Annotated[str, Meta(min_length=2)]


class WebSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Searches the web."""

    service: SearchService

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        return "WebSearch"

    @property
    def effect(self) -> SideEffect:
        """Say that calls may run beside others."""
        return "reads"

    @property
    def arguments(self) -> type[msgspec.Struct]:
        """The argument type."""
        return SearchArguments

    @property
    def budget(self) -> int:
        """Characters that are shown."""
        return 30_000

    def title(self, args: SearchArguments) -> str:
        """Say what is looked for."""
        return f"WebSearch {args.query[:200]}"

    def access(self, args: SearchArguments, context: Context) -> Sequence[Access]:
        """Rules speak of it by its name alone."""
        del args, context
        return (Using(),)

    async def run(self, call_id: CallId, args: SearchArguments, context: Context) -> CallOutcome:
        """Search."""
        del call_id, context
        try:
            answer = await self.service.search(args.query)
        except ProngError as error:
            return Failed(f"the search did not work: {neutral(str(error))}")
        if not answer.hits and not answer.said:
            return Done((Text("Nothing was found."),))
        text = "\n\n".join(_lines(answer))
        return Done((Text(f"{DATA}\n<web-search>\n{neutral(text)}\n</web-search>"),), shown=text)


def _lines(answer: SearchAnswer) -> Iterator[str]:
    if answer.said:
        yield answer.said
    for hit in answer.hits[:HITS]:
        lead = f"- {_line(hit.title) or hit.url}\n  {hit.url}"
        yield f"{lead}\n  {_line(hit.text)}" if hit.text else lead


def _line(text: str) -> str:
    whole = " ".join(text.split())
    return whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}…"


class SearchUrl(msgspec.Struct, frozen=True, kw_only=True):
    """A service that the user has set, which answers in JSON."""

    url: str
    """With `{query}` where the words go; without it they follow as `q`."""
    headers: Mapping[str, str] = {}
    env: Mapping[str, str] = {}

    async def search(self, query: str) -> SearchAnswer:
        """Ask it.

        Raises ProngError if it does not answer, or with something else than a list in JSON.
        """
        from urllib.parse import quote

        words = quote(query, safe="")
        join = "&" if "?" in self.url else "?"
        url = self.url if "{query}" in self.url else f"{self.url}{join}q={{query}}"
        headers = (("accept", "application/json"), *self.headers.items())
        async with (
            Http(limits=_LIMITS, env=self.env) as http,
            http.request("GET", url.replace("{query}", words), headers) as response,
        ):
            data = await read_body(response, _LARGEST)
        if response.status != 200:
            raise ProngError(f"{response.origin} answered {response.status}")
        try:
            found = msgspec.json.decode(data)
        except NOT_JSON:
            raise ProngError(f"{response.origin} did not answer in JSON") from None
        rows = _rows(found)
        hits = tuple(hit for row in rows or () if (hit := _hit(row)) is not None)
        if rows is None or (rows and not hits):
            raise ProngError(_strange(response.origin, rows, data))
        return SearchAnswer(hits)


def _rows(found: Any, depth: int = 3) -> list[Any] | None:
    """Find the list of results, wherever a service keeps it; None if there is none."""
    if isinstance(found, list):
        return cast("list[Any]", found)
    if not isinstance(found, dict) or not depth:
        return None
    fields = cast("dict[str, Any]", found)
    nested = [_rows(fields.get(name), depth - 1) for name in _NESTS]
    lists = [rows for rows in nested if rows is not None]
    return next((rows for rows in lists if rows), lists[0] if lists else None)


def _strange(origin: str, rows: list[Any] | None, data: bytes) -> str:
    """Say of JSON in which no results were found what it is, and where the service is set."""
    why = "no list of results is in it"
    if rows:
        why = f"none of the {len(rows)} entries of its list has an address"
    began = _line(data[: 2 * _LONGEST].decode(errors="replace"))
    return (
        f"the JSON that {origin} answered was not understood: {why}. It begins: {began}. "
        "Some services answer so when they find nothing; else see the setting web.searchUrl"
    )


def _hit(row: Any) -> SearchHit | None:
    fields = cast("dict[str, Any]", row) if isinstance(row, dict) else {}
    url = _first(fields, _URLS)
    if not url.startswith(("http://", "https://")):
        return None
    return SearchHit(_first(fields, _TITLES), url, _first(fields, _TEXTS))


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := fields.get(name), str)), "")
