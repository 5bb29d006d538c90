"""The page's server: files of the page, and what it asks for of sessions. It only reads.

What a page does, if it may do anything, goes through `page_action` to the session's own process.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
import msgspec

from prong.errors import BadInput, NoSuchSession, ProngError, UnknownName
from prong.face.web.admission import (
    ACTING,
    HEADERS,
    PageSecret,
    WebAdmitted,
    WebEntered,
    WebRefused,
)
from prong.face.web.page_action import OFF, ActingState, PageActions
from prong.face.web.static_file import static_files
from prong.foreign_number import whole_number
from prong.session import HttpExchange, SessionFeed, list_sessions, open_feed, recorded_events
from prong.timeline import chrome_trace, timeline

_INTERVAL = 0.05
"""Seconds between two looks at a session's files."""
_SIGN = 300
"""Looks without anything new after which a stream says that it is still there."""
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"
_Query: TypeAlias = dict[str, list[str]]


class _Followed(msgspec.Struct):
    """A session and the lock under which threads look at it."""

    feed: SessionFeed
    lock: anyio.Lock

    async def since(self, revision: int) -> tuple[int, bytes] | None:
        """Look, and give what has changed after a revision; None if nothing has."""
        async with self.lock:
            return await anyio.to_thread.run_sync(self._since, revision)

    def _since(self, revision: int) -> tuple[int, bytes] | None:
        self.feed.refresh()
        if self.feed.revision <= revision:
            return None
        return self.feed.revision, msgspec.json.encode(self.feed.since(revision))


class WebServer:
    """Answers the requests of one page."""

    def __init__(
        self, feed: SessionFeed, secret: PageSecret, actions: PageActions | None = None
    ) -> None:
        """Show a session, and others of its folder if the page asks for them.

        With actions, pages can act in these sessions.
        """
        self._actions = actions
        self._first = feed.path.stem
        self._followed = {self._first: _Followed(feed, anyio.Lock())}
        self._secret = secret
        self._files = static_files()

    async def answer(self, exchange: HttpExchange) -> None:
        """Answer one request, if it is let in."""
        request = exchange.incoming
        admission = self._secret.admit(exchange.port, request.method, request.path, request.headers)
        match admission:
            case WebRefused(status, why):
                await _send(exchange, status, why.encode(), _TEXT)
            case WebEntered(cookie, location):
                headers = {**HEADERS, "set-cookie": cookie, "location": location}
                await exchange.send(303, b"", headers)
            case WebAdmitted():
                # By the very text that was let in: no address of the page has another spelling.
                path, _, query = request.path.partition("?")
                await self._route(exchange, path, parse_qs(query))

    async def _route(self, exchange: HttpExchange, path: str, query: _Query) -> None:
        if (file := self._files.get(path)) is not None:
            await _send(exchange, 200, file.data, file.kind)
            return
        try:
            if path == "/api/events":
                await self._stream(exchange, query)
                return
            if path in ACTING:
                data, kind = await self._act(exchange, path, query), _JSON
            else:
                data, kind = await self._data(path, query)
        except ProngError as error:
            status = 404 if isinstance(error, UnknownName | NoSuchSession) else 400
            await _send(exchange, status, str(error).encode(), _TEXT)
            return
        await _send(exchange, 200, data, kind)

    async def _data(self, path: str, query: _Query) -> tuple[bytes, str]:
        """Give what a path means, and of what kind it is."""
        if path == "/api/sessions":
            found = await anyio.to_thread.run_sync(partial(list_sessions, everywhere=False))
            rows = [_listed(msgspec.to_builtins(each, enc_hook=str)) for each in found]
            return msgspec.json.encode({"first": self._first, "sessions": rows}), _JSON
        followed = await self._find(query)
        async with followed.lock:
            return await anyio.to_thread.run_sync(_told, followed.feed, path, query)

    async def _act(self, exchange: HttpExchange, path: str, query: _Query) -> bytes:
        """Ask a session to be let in, or have it do something; gives what came of that."""
        assert self._actions is not None, "nobody is let in to these without"
        journal = (await self._find(query)).feed.path
        if path == "/api/control":
            return msgspec.json.encode(await self._actions.ask(journal))
        return msgspec.json.encode(await self._actions.carry_out(journal, exchange.incoming.body))

    def _acting(self, followed: _Followed) -> ActingState:
        return OFF if self._actions is None else self._actions.state(followed.feed.path)

    async def _stream(self, exchange: HttpExchange, query: _Query) -> None:
        """Send what there is, and what changes, until the page goes away."""
        resumed = exchange.incoming.headers.get("last-event-id", "")
        revision = _number({"after": [resumed]} if resumed else query, "after")
        followed = await self._find(query)
        headers = {**HEADERS, "content-type": "text/event-stream; charset=utf-8"}
        await exchange.start(200, headers)
        quiet, acting = 0, OFF
        while True:
            if (now := self._acting(followed)) != acting:
                acting = now
                await exchange.write(b"event: acting\ndata: %s\n\n" % msgspec.json.encode(now))
            found = await followed.since(revision)
            if found is not None:
                revision, data = found
                # JSON has no line breaks of its own, so that it is one line of a stream.
                await exchange.write(b"id: %d\ndata: %s\n\n" % (revision, data))
                quiet = 0
            elif (quiet := quiet + 1) % _SIGN == 0:
                await exchange.write(b": still here\n\n")
            await exchange.wait(anyio.sleep, _INTERVAL)

    async def _find(self, query: _Query) -> _Followed:
        """Give the session that is meant; only sessions that a list of this folder has are."""
        name = _word(query, "session") or self._first
        if name not in self._followed:
            known = await anyio.to_thread.run_sync(partial(list_sessions, everywhere=False))
            if name not in {each.id for each in known}:
                raise UnknownName(f"there is no session {name!r} in this folder")
            feed = await anyio.to_thread.run_sync(open_feed, name, _mute)
            self._followed.setdefault(name, _Followed(feed, anyio.Lock()))
        return self._followed[name]


def _told(feed: SessionFeed, path: str, query: _Query) -> tuple[bytes, str]:
    """Answer what is asked of one session."""
    feed.refresh()
    match path.split("/"):
        case ["", "api", "session"]:
            return msgspec.json.encode(feed.since(0)), _JSON
        case ["", "api", "cost"]:
            return msgspec.json.encode(feed.cost()), _JSON
        case ["", "api", "explain"]:
            told = feed.explain(_number(query, "a"), _number(query, "b"))
            return msgspec.json.encode(told), _JSON
        case ["", "api", "entry", digest]:
            return feed.entry(digest), _TEXT
        case ["", "trace.json"]:
            events = recorded_events(str(feed.path), _mute)
            return msgspec.json.encode(chrome_trace(timeline(events))), _JSON
        case _:
            raise UnknownName("there is nothing at this address")


def _word(query: _Query, name: str) -> str:
    return query.get(name, [""])[-1]


def _number(query: _Query, name: str) -> int:
    number = whole_number(_word(query, name) or "0")
    if number is None:
        raise BadInput(f"{name} must be a number")
    return number


def _listed(info: dict[str, Any]) -> dict[str, Any]:
    """Give what a list shows of a session."""
    names = ("id", "title", "created", "modified", "entries", "model", "cost", "damage")
    return {name: info[name] for name in names}


def _mute(sentence: str) -> None:
    """Say nothing: what was chosen was chosen by its id."""
    del sentence


async def _send(exchange: HttpExchange, status: int, data: bytes, kind: str) -> None:
    await exchange.send(status, data, {**HEADERS, "content-type": kind})
