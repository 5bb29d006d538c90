"""What the loopback server does with a request, from its arrival to the last byte of the answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from prong.entry import Usage
from prong.testing import answer_chat, answer_gemini, answer_messages, answer_responses
from prong.testing.answer import EPOCH, Answer, event, output_tokens
from prong.testing.arrival import GENERATE, CloudKeys, arrive
from prong.testing.cache import Cache, Plan
from prong.testing.check import check, check_fit
from prong.testing.clock import AnyClock
from prong.testing.diagnosis import anthropic_diagnosis, openai_diagnosis
from prong.testing.hostile import Flood, pour, spoil
from prong.testing.http import Exchange, Hangup
from prong.testing.ledger import Ledger, Rates
from prong.testing.model import Model, known
from prong.testing.parse import parse
from prong.testing.request import Api, Counter, Refused, Request, count_bytes
from prong.testing.script import AnyScript, Call, Failure, Part, Player, Step, Think, say
from prong.testing.thought import check_thoughts, prefix_of
from prong.testing.witness import Seen, Witness

Outcome: TypeAlias = Literal["open", "whole", "refused", "cut", "gone"]
"""How an exchange ended: `cut` by us, `gone` if the client closed the connection."""

APIS: dict[str, Api] = {
    "/v1/messages": "anthropic",
    "/v1/messages/count_tokens": "anthropic",
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    GENERATE: "gemini",
}
MAX_REQUEST = 32 << 20
"""The most bytes a body may have."""
_SHAPES = {
    "anthropic": answer_messages,
    "responses": answer_responses,
    "chat": answer_chat,
    "gemini": answer_gemini,
}
_IDS = {
    "anthropic": ("msg_", "toolu_"),
    "responses": ("resp_", "call_"),
    "chat": ("chatcmpl-", "call_"),
    "gemini": ("resp-", "fc-"),
}


class Record(msgspec.Struct):
    """One request as the server saw it."""

    number: int
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float
    request_id: str
    status: int = 0
    outcome: Outcome = "open"
    message_id: str = ""
    began: float | None = None
    """When the first byte of the answer was sent."""
    usage: Usage = Usage()
    seen: Seen | None = None
    poured: int = 0
    """Bytes of an answer without end that were sent before the client hung up."""

    @property
    def request(self) -> Request:
        """The request in normal form."""
        assert self.seen is not None, "the request was refused before it was understood"
        return self.seen.request

    @property
    def lineage(self) -> str:
        """The lineage the request belongs to."""
        return self.seen.lineage if self.seen else ""

    @property
    def json(self) -> Any:
        """The decoded body."""
        return msgspec.json.decode(self.body)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a server behaves."""

    key: str | None = None
    """The only key that is accepted; None accepts all, and none."""
    clouds: CloudKeys = CloudKeys()
    """Whom the front doors of clouds let in."""
    models: tuple[str, ...] | None = None
    """The models that exist; None accepts any."""
    context: int | None = None
    """The longest prompt, in tokens."""
    minimum: int | None = None
    """The least number of tokens that is cached; None is told from the model's name."""
    piece: int = 40
    """How many characters a piece of a stream holds."""
    keep_bodies: bool = True
    """Whether records keep the bodies; a benchmark with many long prompts may not want that."""
    tells_cache: bool = True
    """Whether usage tells what was read; many compatible servers do not (Chat Completions only)."""
    several: bool = False
    """Whether several sessions talk to it, whose lineages have the same names."""
    count: Counter = count_bytes
    """How tokens are counted."""
    traits: Callable[[str], Model] = known
    """What the cache knows about a model."""


class Service:
    """The scripted model, its cache and its books."""

    def __init__(self, script: AnyScript, clock: AnyClock, options: Options, rates: Rates) -> None:
        self.clock = clock
        self.options = options
        self.rates = rates
        self.player = Player(script)
        self.faults: deque[Step] = deque()
        self.errors: list[Exception] = []
        """What went wrong in the server itself or in a script that is a function."""
        self.reset()

    def reset(self) -> None:
        """Forget all requests, books and cache entries; the script stays."""
        self.cache = Cache()
        self.witness = Witness(several=self.options.several)
        self.ledger = Ledger(self.rates)
        self.records: list[Record] = []
        self.answered: dict[str, Request] = {}
        """Requests by the id of their answer, for diagnostics."""
        self._pool: dict[bytes, bytes] = {}
        self._tools = 0

    async def answer(self, exchange: Exchange) -> None:
        """Answer one request."""
        exchange, refusal = arrive(exchange, self.options.clouds)
        incoming = exchange.incoming
        path = incoming.path.partition("?")[0]
        number = len(self.records) + 1
        record = Record(
            number, path, incoming.headers, incoming.body, self.clock.now(), f"req_{number:06d}"
        )
        # Questions about the server are no requests to a model.
        if path not in {"/v1/models", "/props"}:
            self.records.append(record)
        try:
            self._admit(record, refusal)
            await self._serve(exchange, record)
            record.outcome = "whole" if record.status < 400 else "refused"
            if not self.options.keep_bodies:
                self._forget(record)
        except Refused as refused:
            record.outcome = "refused"
            failure = Failure(refused.status, refused.kind, refused.message, code=refused.code)
            await self._refuse(exchange, record, failure)
        except Hangup:
            record.outcome = "gone" if record.outcome == "open" else record.outcome
            raise
        except ConnectionError:
            record.outcome = "gone"
            raise
        except Exception as error:  # noqa: BLE001 # kept, and raised when the server closes
            self.errors.append(error)
            await self._refuse(exchange, record, Failure(500, "api_error", f"{error!r}"))

    def _forget(self, record: Record) -> None:
        """Let go of a body; the blocks stay, each kept once however many requests hold it."""
        record.body = b""
        if record.seen is not None:
            slim = msgspec.structs.replace(record.seen.request, fields={})
            record.seen.request = slim
            if record.message_id:
                self.answered[record.message_id] = slim

    def _admit(self, record: Record, refusal: Refused | None) -> None:
        if refusal is not None:
            raise refusal
        key = self.options.key
        given = record.headers.get("x-api-key") or record.headers.get(
            "authorization", ""
        ).removeprefix("Bearer ")
        if key is not None and given != key:
            if APIS.get(record.path) != "anthropic":
                message = "Incorrect API key provided."
                raise Refused(401, "invalid_request_error", message, "invalid_api_key")
            message = "invalid x-api-key" if given else "x-api-key header is required"
            raise Refused(401, "authentication_error", message)
        if len(record.body) > MAX_REQUEST:
            raise Refused(413, "request_too_large", "Request exceeds the maximum size")

    async def _serve(self, exchange: Exchange, record: Record) -> None:
        if record.path == "/v1/models" and exchange.incoming.method == "GET":
            await self._send(exchange, record, self._models(record))
            return
        api = APIS.get(record.path)
        if api is None or exchange.incoming.method != "POST":
            raise Refused(404, "not_found_error", f"Not found: {record.path}")
        request = parse(api, record.body, record.headers, self.options.count, self._pool)
        known_models = self.options.models
        if known_models is not None and request.model not in known_models:
            raise _no_model(request)
        if record.path.endswith("/count_tokens"):
            check(request, counting=True)
            await self._send(exchange, record, {"input_tokens": request.tokens})
            return
        record.seen = self.witness.see(record.number, request)
        check(request)
        await self._converse(exchange, record, record.seen)

    async def _converse(self, exchange: Exchange, record: Record, seen: Seen) -> None:
        request = seen.request
        model = self.options.traits(request.model)
        if self.options.minimum is not None:
            model = msgspec.structs.replace(model, minimum=self.options.minimum)
        plan = self.cache.look(request, model, self.clock.now())
        check_thoughts(request, bound=model.binds_thinking)
        check_fit(request, plan.usage.input, self.options.context)
        prewarm = is_prewarm(request)
        step = self._step(seen, prewarm=prewarm)
        if step.first_byte:
            await exchange.wait(self.clock.sleep, step.first_byte)
        if step.failure is not None and not step.failure.mid_stream:
            await self._refuse(exchange, record, step.failure)
            return
        answer = self._prepare(record, seen, step, plan, prewarm=prewarm)
        # From the first byte on, others can read what this request writes.
        self.cache.begin(plan)
        self.witness.accept(seen)
        record.usage, record.began = answer.usage, self.clock.now()
        self.answered[answer.id] = request
        self.ledger.book(record.number, seen.lineage, request.model, plan, answer.usage.output)
        await self._deliver(exchange, record, answer)

    def _step(self, seen: Seen, *, prewarm: bool) -> Step:
        if self.faults:
            return self.faults.popleft()
        if prewarm:
            return Step()
        if seen.request.headers.get("x-prong-sidecar") == "title":
            # Asked for by faces when they like: a script should not have to count on it.
            return say("A title")
        seen.route = self.player.route(seen.request, seen.route)
        return self.player.step(seen.request, seen.route)

    def _prepare(
        self, record: Record, seen: Seen, step: Step, plan: Plan, *, prewarm: bool
    ) -> Answer:
        request = seen.request
        prefix, tool_prefix = _IDS[request.api]
        parts: list[Part] = []
        for part in step.parts:
            if isinstance(part, Call) and part.id is None:
                self._tools += 1
                parts.append(msgspec.structs.replace(part, id=f"{tool_prefix}{self._tools:06d}"))
            else:
                parts.append(part)
        record.message_id = f"{prefix}{record.number:06d}"
        return Answer(
            id=record.message_id,
            request=request,
            step=step,
            parts=tuple(parts),
            usage=msgspec.structs.replace(
                plan.usage, output=output_tokens(step), silent=not self.options.tells_cache
            ),
            created=EPOCH + int(record.at),
            piece=self.options.piece,
            prefix=prefix_of(request) if any(isinstance(p, Think) for p in parts) else b"",
            diagnosis=self._diagnosis(request),
            prewarm=prewarm,
        )

    def _diagnosis(self, request: Request) -> Any:
        if request.api == "anthropic":
            wanted = request.object("diagnostics").get("previous_message_id")
            return anthropic_diagnosis(self.answered.get(wanted), request) if wanted else None
        wanted = request.object("prompt_cache_options").get("comparison_response_id")
        if not wanted:
            return None
        exact = self.options.traits(request.model).exact
        return openai_diagnosis(self.answered.get(wanted), request, exact=exact)

    async def _deliver(self, exchange: Exchange, record: Record, answer: Answer) -> None:
        shape, step = _SHAPES[answer.request.api], answer.step
        if step.flood is not None:
            await self._pour(exchange, record, answer, step.flood)
        if not answer.request.stream:
            body = msgspec.json.encode(shape.whole(answer))
            body = body[:-2] if step.malformed else body
            if step.stall:
                await exchange.wait(self.clock.sleep, step.stall)
            await self._send_body(exchange, record, 200, body, step.cut_after)
            return
        record.status = 200
        headers = _headers(answer.request.api, record) | {"content-type": "text/event-stream"}
        await exchange.start(200, headers)
        left = step.cut_after
        events = _events(list(shape.stream(answer)), answer, record)
        for data, pause in _batches(events, step):
            if left is not None and len(data) >= left:
                await exchange.write(data[:left])
                record.outcome = "cut"
                raise Hangup
            left = None if left is None else left - len(data)
            await exchange.write(data)
            if pause:
                await exchange.wait(self.clock.sleep, pause)
        await exchange.finish()

    async def _pour(self, exchange: Exchange, record: Record, answer: Answer, what: Flood) -> None:
        events = list(_SHAPES[answer.request.api].stream(answer))
        headers = _headers(answer.request.api, record) | {"content-type": "text/event-stream"}

        async def pause() -> None:
            if answer.step.between:
                await exchange.wait(self.clock.sleep, answer.step.between)

        def count(size: int) -> None:
            record.poured += size

        record.status = 200
        await pour(what, exchange, events[: len(events) // 2], headers, pause, count)

    async def _refuse(self, exchange: Exchange, record: Record, failure: Failure) -> None:
        api = APIS.get(record.path, "anthropic")
        error = _SHAPES[api].error(failure, record.request_id)
        extra: dict[str, str] = {}
        if failure.retry_after is not None:
            extra["retry-after"] = f"{failure.retry_after:g}"
        record.status = failure.status
        headers = _headers(api, record) | {"content-type": "application/json"} | extra
        await exchange.send(failure.status, msgspec.json.encode(error), headers)

    async def _send(self, exchange: Exchange, record: Record, value: object) -> None:
        await self._send_body(exchange, record, 200, msgspec.json.encode(value), None)

    async def _send_body(
        self, exchange: Exchange, record: Record, status: int, body: bytes, cut_after: int | None
    ) -> None:
        record.status = status
        api = APIS.get(record.path, "anthropic")
        headers = _headers(api, record) | {"content-type": "application/json"}
        if cut_after is not None and cut_after < len(body):
            record.outcome = "cut"
        await exchange.send(status, body, headers, cut_after=cut_after)

    def _models(self, record: Record) -> dict[str, Any]:
        names = self.options.models or ("claude-sonnet-5-5", "gpt-6-sol")
        if "anthropic-version" in record.headers:
            data: list[dict[str, Any]] = [
                {
                    "type": "model",
                    "id": name,
                    "display_name": name,
                    "created_at": "2026-01-01T00:00:00Z",
                    "lifecycle": "active",
                }
                for name in names
            ]
            ends = {"first_id": names[0], "last_id": names[-1], "has_more": False}
            return {"data": data, **ends}
        models = [
            {"id": name, "object": "model", "created": EPOCH, "owned_by": "prong"} for name in names
        ]
        return {"object": "list", "data": models}


def _no_model(request: Request) -> Refused:
    if request.api == "anthropic":
        return Refused(404, "not_found_error", f"model: {request.model}")
    message = f"The model `{request.model}` does not exist or you do not have access to it."
    return Refused(404, "invalid_request_error", message, "model_not_found")


def is_prewarm(request: Request) -> bool:
    """Say whether a request only fills the cache."""
    if request.api == "anthropic":
        return request.field("max_tokens") == 0
    options = request.object("prompt_cache_options")
    return request.api == "responses" and options.get("prewarm") is True


def _headers(api: Api, record: Record) -> dict[str, str]:
    return {"request-id" if api == "anthropic" else "x-request-id": record.request_id}


def _events(events: list[bytes], answer: Answer, record: Record) -> list[bytes]:
    """Spoil a stream in its middle, where the step says so."""
    middle, step = len(events) // 2, answer.step
    if step.failure is not None:
        error = _error_event(answer.request.api, step.failure, record, middle)
        return [*events[:middle], error]
    if step.malformed:
        return [*events[:middle], events[middle][:-4] + b"\n\n", *events[middle + 1 :]]
    return events if step.garbled is None else spoil(events, step.garbled)


def _error_event(api: Api, failure: Failure, record: Record, number: int) -> bytes:
    if api == "responses":
        told = {"code": failure.code or failure.kind, "message": failure.message, "param": None}
        return event("error", {"type": "error", "sequence_number": number, **told})
    name = "error" if api == "anthropic" else None
    return event(name, _SHAPES[api].error(failure, record.request_id))


def _batches(events: list[bytes], step: Step) -> Iterator[tuple[bytes, float]]:
    """Give what is sent at once, and how long to wait after it."""
    if step.between:
        for data in events:
            yield data, step.between
    elif step.stall:
        middle = len(events) // 2
        yield b"".join(events[:middle]), step.stall
        yield b"".join(events[middle:]), 0.0
    else:
        yield events[0], 0.0
        yield b"".join(events[1:]), 0.0
