"""Records a run: a server between the agents and the model, which writes down what passes."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import msgspec

from prong.errors import BrokenReply, ProngError
from prong.provider import Http, Secrets, gather, in_headers, is_loopback, read_url
from prong.provider.api import LINEAGE, SIDECAR, address
from prong.testing.http import Exchange, Hangup, Incoming, listen
from prong.testing.placeholder import Form
from prong.testing.run_file import (
    CLIENT,
    RecordedExchange,
    RecordedRun,
    RunEnd,
    write_run,
)
from prong.testing.split_delta import normal_pieces

_OUR_OWN = frozenset(
    {
        *("host", "connection", "content-length", "transfer-encoding", "accept-encoding"),
        *("expect", "keep-alive"),
    }
)
"""Headers that are between the client and this server."""
_IN_PATH = re.compile(r"([?&][^=&]*(?:auth|key|token|secret|password)[^=&]*=)[^&]*", re.IGNORECASE)
_PASSED_ON = ("content-type", "retry-after")
"""Headers of a reply that the client gets: a replay has no others."""


class RecordingServer:
    """Passes requests on to a model's API, and keeps what both sides say."""

    def __init__(self, http: Http, form: Form, upstream: str | None) -> None:
        self.port = 0
        self.failure: Exception | None = None
        """Why the run cannot be recorded, if it cannot."""
        self._http = http
        self._form = form
        self._upstream = upstream
        self._ticks = count(1)
        self._numbers: Counter[str] = Counter()
        self._found: list[RecordedExchange] = []

    @property
    def url(self) -> str:
        """The base URL for the agents, without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    def run(self) -> RecordedRun:
        """Give what was recorded so far."""
        found = sorted(self._found, key=lambda one: one.order)
        return RecordedRun(
            exchanges=tuple(found), masks=self._form.masks, places=tuple(self._form.places)
        )

    async def answer(self, exchange: Exchange) -> None:
        """Pass one request on, and its reply back."""
        incoming, asked = exchange.incoming, next(self._ticks)
        agent, sidecar = who_asks(incoming)
        self._numbers[f"{agent} {sidecar}"] += 1
        number = self._numbers[f"{agent} {sidecar}"]
        secrets = secrets_of(incoming)
        try:
            normal = self._form.normal(without_secrets(incoming.body, secrets))
            passed = await self._pass_on(exchange)
        except (ProngError, ValueError) as error:
            self.failure = self.failure or error
            await exchange.send(400, refusal(str(error)), {"content-type": "application/json"})
            return
        self._found.append(
            RecordedExchange(
                agent=agent,
                sidecar=sidecar,
                number=number,
                method=incoming.method,
                path=path_of(incoming),
                body=normal.body,
                status=passed.status,
                kind=passed.kind,
                pieces=normal_pieces(passed.pieces, normal.names, secrets.values),
                end=passed.end,
                order=(asked, passed.began, next(self._ticks)),
            )
        )
        if passed.end != "whole":
            raise Hangup

    async def _pass_on(self, exchange: Exchange) -> _Passed:
        incoming = exchange.incoming
        url = address(self._upstream or _vendor(incoming.path), incoming.path)
        # As `Api` has it: who asks is told to servers on this machine, and to nobody else.
        own = _OUR_OWN if is_loopback(read_url(url).host) else _OUR_OWN | {LINEAGE, SIDECAR}
        headers = [pair for pair in incoming.headers.items() if pair[0] not in own]
        async with self._http.request(incoming.method, url, headers, incoming.body) as response:
            given = {name: response.headers.get(name, "") for name in _PASSED_ON}
            kind = given["content-type"].partition(";")[0].strip()
            passed = _Passed(response.status, kind, next(self._ticks))

            async def relay(_: float) -> None:
                try:
                    async for piece in response:
                        passed.pieces.append(piece)
                        await exchange.write(piece)
                except BrokenReply:
                    passed.end = "cut"
                except ConnectionError:
                    passed.end = "gone"

            try:
                await exchange.start(response.status, {n: v for n, v in given.items() if v})
                # Whoever hangs up is noticed at once, and the model stopped.
                await exchange.wait(relay, 0)
                if passed.end == "whole":
                    await exchange.finish()
            except (ConnectionError, Hangup):
                passed.end = "gone"
            return passed


class _Passed(msgspec.Struct):
    """A reply as it was passed on."""

    status: int
    kind: str
    began: int
    pieces: list[bytes] = []
    end: RunEnd = "whole"


@asynccontextmanager
async def record_run(
    path: str | Path,
    *,
    upstream: str | None = None,
    masks: Mapping[str, str] | None = None,
    places: Mapping[str, str] | None = None,
) -> AsyncGenerator[RecordingServer]:
    """Record all that agents ask at the server's `url`; the file is written on leaving.

    Requests go to `upstream`, or else to the API that the path of each means. `masks` are regular
    expressions for what is another thing each time, such as seconds, with what to write instead;
    `places` are values of this machine by name, the user's home unless given.

    Nothing is written if the block fails, or if a request cannot be recorded.

    Raises AssertionError if no request came at all.
    """
    form = Form(masks=masks or {}, places=given_places(places))
    async with Http(env=os.environ) as http:
        server = RecordingServer(http, form, upstream)
        async with listen(server.answer) as server.port:
            yield server
    if server.failure is not None:
        raise server.failure
    run = server.run()
    assert run.exchanges, "no request came: the agents need the server's url as their base_url"
    _write(Path(path), write_run(run))


def given_places(places: Mapping[str, str] | None) -> dict[str, str]:
    """Give the values of this machine that stand in a recording by their name."""
    return {"home": str(Path.home())} if places is None else dict(places)


def who_asks(incoming: Incoming) -> tuple[str, str]:
    """Give the agent that sent a request, and what it is for if it is beside a conversation."""
    return incoming.headers.get(LINEAGE) or CLIENT, incoming.headers.get(SIDECAR, "")


def refusal(why: str) -> bytes:
    """Make the body of an error, as all APIs have it."""
    error = {"type": "invalid_request_error", "message": why}
    return msgspec.json.encode({"type": "error", "error": error})


def _vendor(path: str) -> str:
    """Give the API that a path belongs to."""
    if path.startswith("/v1/messages"):
        return os.environ.get("ANTHROPIC_BASE_URL", "").strip() or "https://api.anthropic.com"
    return os.environ.get("OPENAI_BASE_URL", "").strip() or "https://api.openai.com"


def path_of(incoming: Incoming) -> str:
    """Give the path that was asked for, without a key that may stand in it."""
    return _IN_PATH.sub(r"\1hidden", incoming.path)


def secrets_of(incoming: Incoming) -> Secrets:
    """Give what must not be written: keys of the request, and those of this environment."""
    return gather((*in_headers(incoming.headers.items()), *in_headers(os.environ.items())))


def without_secrets(body: bytes, secrets: Secrets) -> bytes:
    """Put something else in the place of keys."""
    if not secrets.values:
        return body
    return secrets.mask(body.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fresh.write_bytes(data)
    fresh.replace(path)
