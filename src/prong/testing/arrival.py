"""What clouds make of a request before the API itself sees it: signatures, addresses, frames.

The signature of AWS is reckoned here anew from what arrived, by nobody's library; the frames of a
stream are written by the specification. So a client that agrees with this server does not merely
agree with itself.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
import time
import zlib
from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import quote, unquote

import msgspec

from prong.testing.http import Exchange, Incoming
from prong.testing.request import Refused

_INVOKE = re.compile(r"/model/(?P<model>[^/]+)/invoke(?P<stream>-with-response-stream)?")
_PREDICT = re.compile(
    r"/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/"
    r"(?P<model>[^/:]+):(?:streamR|r)awPredict"
)
_AZURE = re.compile(r"/openai/(?:v1/|deployments/(?P<model>[^/]+)/)?(?=chat/completions|responses)")
# Not below /v1: the API of that version knows neither tools nor a system prompt.
_GENERATE = re.compile(r"/v1beta/models/(?P<model>[^/:]+):(?P<stream>streamG|g)enerateContent")
GENERATE = "/v1beta/generateContent"
"""Where requests of the Gemini API are served, whatever their model."""
_SKEW = 900.0
_FRAMES = "application/vnd.amazon.eventstream"
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class CloudKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What the clouds know their callers by."""

    aws: Mapping[str, str] = {}
    """Secrets by access key."""
    aws_token: str = ""
    google_token: str = ""
    region: str = "us-east-1"


def arrive(exchange: Exchange, keys: CloudKeys) -> tuple[Exchange, Refused | None]:
    """Give a request as the API itself would get it, and why it must not be served, if so."""
    incoming = exchange.incoming
    path, _, query = incoming.path.partition("?")
    if found := _INVOKE.fullmatch(path):
        return _invoked(exchange, found, keys)
    if found := _PREDICT.fullmatch(path):
        return _predicted(exchange, found, keys)
    if found := _GENERATE.fullmatch(path):
        return _generated(exchange, found, query), None
    if found := _AZURE.match(path):
        return _deployed(exchange, path[found.end() :], query, found)
    return exchange, None


def _invoked(
    exchange: Exchange, found: re.Match[str], keys: CloudKeys
) -> tuple[Exchange, Refused | None]:
    incoming = exchange.incoming
    members = _members(incoming.body)
    refused = _check_signature(incoming, keys) or _check_version(members, "bedrock-2023-05-31")
    wrong = members.keys() & {"model", "stream"}
    if refused is None and wrong:
        refused = Refused(
            400, "ValidationException", f"{min(wrong)}: Extra inputs are not permitted"
        )
    betas = members.pop("anthropic_beta", None)
    headers = dict(incoming.headers)
    if betas is not None:
        headers["anthropic-beta"] = ",".join(msgspec.json.decode(betas, type=list[str]))
    streams = found["stream"] is not None
    body = _joined(unquote(found["model"]), members, stream=streams)
    fresh = Incoming("POST", "/v1/messages", headers, body)
    made = FramedExchange(exchange, fresh) if streams else exchange.replaced(fresh)
    return made, refused


def _predicted(
    exchange: Exchange, found: re.Match[str], keys: CloudKeys
) -> tuple[Exchange, Refused | None]:
    incoming = exchange.incoming
    members = _members(incoming.body)
    refused = _check_version(members, "vertex-2023-10-16")
    if refused is None and incoming.headers.get("authorization") != f"Bearer {keys.google_token}":
        refused = Refused(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
    if refused is None and "model" in members:
        refused = Refused(400, "invalid_request_error", "model: Extra inputs are not permitted")
    streams = bytes(members.get("stream", b"")) == b"true"
    body = _joined(unquote(found["model"]), members, stream=streams)
    return exchange.replaced(Incoming("POST", "/v1/messages", incoming.headers, body)), refused


def _generated(exchange: Exchange, found: re.Match[str], query: str) -> Exchange:
    incoming = exchange.incoming
    streams = found["stream"] == "streamG" and "alt=sse" in query
    body = _joined(unquote(found["model"]), _members(incoming.body), stream=streams)
    key = incoming.headers.get("x-goog-api-key", "")
    headers = {**incoming.headers, "authorization": f"Bearer {key}"}
    return exchange.replaced(Incoming("POST", GENERATE, headers, body))


def _deployed(
    exchange: Exchange, path: str, query: str, found: re.Match[str]
) -> tuple[Exchange, Refused | None]:
    incoming = exchange.incoming
    dated = "/v1/" not in found[0]
    refused = None
    if dated and "api-version=" not in query:
        refused = Refused(404, "404", "Resource not found")
    if "authorization" in incoming.headers:
        refused = Refused(401, "401", "Access denied due to invalid subscription key")
    headers = {**incoming.headers, "authorization": f"Bearer {incoming.headers.get('api-key', '')}"}
    fresh = Incoming(incoming.method, f"/v1/{path}", headers, incoming.body)
    return exchange.replaced(fresh), refused


def _check_version(members: Mapping[str, msgspec.Raw], version: str) -> Refused | None:
    given = bytes(members.get("anthropic_version", b"")).decode()
    # The cloud's own, or one of the API itself.
    if given == f'"{version}"' or re.fullmatch(r'"\d{4}-\d\d-\d\d"', given):
        return None
    return Refused(400, "ValidationException", "anthropic_version: Field required")


def _joined(model: str, members: dict[str, msgspec.Raw], *, stream: bool) -> bytes:
    """Put a body together as the Messages API has it; each member stays byte for byte."""
    rest = {
        name: raw for name, raw in members.items() if name not in {"anthropic_version", "stream"}
    }
    more = {"stream": msgspec.Raw(b"true")} if stream else {}
    return msgspec.json.encode({"model": model, **rest, **more})


def _check_signature(incoming: Incoming, keys: CloudKeys) -> Refused | None:
    """Reckon the signature of version 4 anew."""
    given = incoming.headers.get("authorization", "")
    if keys.aws_token and given == f"Bearer {keys.aws_token}":
        return None
    found = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>[^,]+), "
        r"SignedHeaders=(?P<headers>[^,]+), Signature=(?P<signature>[0-9a-f]{64})",
        given,
    )
    if found is None:
        return Refused(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
    day, region, service, _ = found["scope"].split("/")
    secret, at = keys.aws.get(found["key"]), incoming.headers.get("x-amz-date", "")
    if secret is None or (region, service) != (keys.region, "bedrock"):
        said = "The security token included in the request is invalid."
        return Refused(403, "UnrecognizedClientException", said)
    if abs(_seconds(at) - time.time()) > _SKEW or not at.startswith(day):
        return Refused(403, "InvalidSignatureException", "Signature expired")
    wanted = _signature(incoming, found["scope"], found["headers"], secret, at)
    if not hmac.compare_digest(wanted, found["signature"]):
        said = "The request signature we calculated does not match the signature you provided."
        return Refused(403, "InvalidSignatureException", said)
    return None


def _signature(incoming: Incoming, scope: str, named: str, secret: str, at: str) -> str:
    path, _, query = incoming.path.partition("?")
    lines = [f"{name}:{' '.join(incoming.headers[name].split())}" for name in named.split(";")]
    body = hashlib.sha256(incoming.body).hexdigest()
    canonical = "\n".join(
        (incoming.method, quote(path, safe="/-_.~"), query, *lines, "", named, body)
    )
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    told = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashed}"
    return hmac.digest(key, told.encode(), "sha256").hex()


def _seconds(at: str) -> float:
    from calendar import timegm

    try:
        return float(timegm(time.strptime(at, "%Y%m%dT%H%M%SZ")))
    except ValueError:
        return 0.0


class FramedExchange(Exchange):
    """Answers in the frames of AWS: each event of the stream is one of them."""

    def __init__(self, inner: Exchange, incoming: Incoming) -> None:
        super().__init__(incoming, *inner.streams)
        self._held = b""

    async def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer that comes in pieces."""
        await super().start(status, {**headers, "content-type": _FRAMES})

    async def write(self, data: bytes) -> None:
        """Send the events that are whole by now."""
        *events, self._held = (self._held + data).split(b"\n\n")
        frames = b"".join(map(_framed, filter(None, events)))
        if frames:
            await super().write(frames)


def _framed(event: bytes) -> bytes:
    data = b"".join(line[6:] for line in event.split(b"\n") if line.startswith(b"data: "))
    kind = msgspec.json.decode(data).get("type") if data[:1] == b"{" else ""
    if kind == "error":
        error = msgspec.json.decode(data)["error"]
        told = {"message": error["message"]}
        names = {"api_error": "internalServerException", "rate_limit_error": "throttlingException"}
        exception = names.get(error["type"], "modelStreamErrorException")
        return frame(told, {":message-type": "exception", ":exception-type": exception})
    told = {"bytes": b64encode(data).decode(), "p": "abcdefghij"}
    return frame(told, {":message-type": "event", ":event-type": "chunk"})


def frame(payload: object, headers: Mapping[str, str]) -> bytes:
    """Write one message of `application/vnd.amazon.eventstream`."""
    told = {":content-type": "application/json", **headers}
    head = b"".join(
        struct.pack(">B", len(name))
        + name.encode()
        + struct.pack(">BH", 7, len(value))
        + value.encode()
        for name, value in told.items()
    )
    body = msgspec.json.encode(payload)
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + body
    return message + struct.pack(">I", zlib.crc32(message))
