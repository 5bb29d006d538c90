"""Claude at Amazon Bedrock: signed by botocore, streamed in the frames of AWS."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

import anyio.to_thread
import msgspec

from prong.errors import BadInput, BrokenReply, Unauthorised
from prong.foreign_json import NOT_JSON
from prong.provider.backend import Resources
from prong.provider.hosted import CloudBackend, CloudSigner, gateway_pass, hosted, library
from prong.provider.signing import OutboundRequest
from prong.provider.transport import Response

TOKEN_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"  # noqa: S105 - the name of a variable
_VERSION = "bedrock-2023-05-31"
_FRAMES = "application/vnd.amazon.eventstream"
_KINDS = {
    "throttlingException": "rate_limit_error",
    "serviceUnavailableException": "overloaded_error",
    "modelTimeoutException": "timeout_error",
    "internalServerException": "api_error",
    "modelStreamErrorException": "api_error",
    "validationException": "invalid_request_error",
}
"""What AWS calls an error within a stream, and what the Messages API does."""


class BedrockSigner(CloudSigner):
    """Sends requests of the Messages API to Bedrock."""

    def __init__(self, given: Resources) -> None:
        """Find the region; raises NotInstalled without botocore, BadInput without a region."""
        super().__init__(given)
        found = library("botocore.session", "bedrock")
        env = self._env = given.env
        self._session: Any = found.Session(profile=env.get("AWS_PROFILE") or None)
        self.region = _region(self._session, env)
        self._own = frozenset(name for name, _ in given.headers)
        named = given.base_url or env.get("ANTHROPIC_BEDROCK_BASE_URL", "").strip().rstrip("/")
        self.base = named or f"https://bedrock-runtime.{self.region}.amazonaws.com"
        self.gate = gateway_pass(given, "CLAUDE_CODE_SKIP_BEDROCK_AUTH", named=bool(named))

    async def sign(self, request: OutboundRequest) -> OutboundRequest:
        """Turn it into an invocation, signed by whatever credentials AWS finds."""
        told = hosted(request, _VERSION, plain=False)
        verb = "invoke-with-response-stream" if told.stream else "invoke"
        url = f"{self.base}/model/{quote(told.model, safe=':')}/{verb}"
        body = b"".join(told.body)
        plain = OutboundRequest(
            "POST",
            url,
            (
                ("content-type", "application/json"),
                ("accept", _FRAMES if told.stream else "application/json"),
                *(
                    pair
                    for pair in request.headers
                    if pair[0].startswith(("user-agent", "x-prong-")) or pair[0] in self._own
                ),
            ),
            (body,),
        )
        if self.gate.on:
            gate = self.gate.token
            return plain.with_headers(authorization=f"Bearer {gate}") if gate else plain
        if token := self._env.get(TOKEN_VARIABLE, "").strip():
            return plain.with_headers(authorization=f"Bearer {token}")
        # It may read files, ask another server, or wait for one.
        signed = await anyio.to_thread.run_sync(self._signed, url, body)
        return msgspec.structs.replace(plain, headers=(*plain.headers, *signed))

    def _signed(self, url: str, body: bytes) -> tuple[tuple[str, str], ...]:
        auth, awsrequest, exceptions = (
            library(f"botocore.{name}", "bedrock") for name in ("auth", "awsrequest", "exceptions")
        )
        try:
            credentials = self._credentials()
            if credentials is None:
                raise _no_credentials("there are none")
            request = awsrequest.AWSRequest("POST", url, data=body)
            frozen = credentials.get_frozen_credentials()
            auth.SigV4Auth(frozen, "bedrock", self.region).add_auth(request)
        except exceptions.BotoCoreError as error:
            raise _no_credentials(str(error)) from error
        return tuple((name.lower(), value) for name, value in request.headers.items())

    def _credentials(self) -> Any:
        # The session's environment, which need not be the process's.
        key, secret = (self._env.get(f"AWS_{one}", "") for one in ("ACCESS_KEY_ID", _SECRET))
        if key and secret and not self._env.get("AWS_PROFILE"):
            found = library("botocore.credentials", "bedrock")
            return found.Credentials(key, secret, self._env.get("AWS_SESSION_TOKEN") or None)
        return self._session.get_credentials()

    def read(self, response: Response) -> Response:
        """Give the events of a stream as the API itself would have sent them."""
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Unframed(response) if kind == _FRAMES else response

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the environment holds; other credentials are never sent, only signed with."""
        names = (TOKEN_VARIABLE, f"AWS_{_SECRET}", "AWS_SESSION_TOKEN")
        return (self.gate.token, *(self._env.get(name, "") for name in names))


class Bedrock(CloudBackend):
    """The models of `bedrock:`."""

    prefix: ClassVar = "bedrock"
    key_source: ClassVar = "AWS"
    signer: ClassVar = BedrockSigner


_SECRET = "SECRET_ACCESS_KEY"  # noqa: S105 - the name of a variable


class Unframed:
    """A stream of AWS frames, read as server-sent events."""

    def __init__(self, framed: Response) -> None:
        """Take over a response that has begun."""
        self._framed = framed
        self.status = framed.status
        self.headers = {**framed.headers, "content-type": "text/event-stream"}
        self.origin = framed.origin

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Iterate over the events; no piece is empty."""
        frames = library("botocore.eventstream", "bedrock")
        buffer = frames.EventStreamBuffer()
        async for data in self._framed:
            try:
                buffer.add_data(data)
                events = b"".join(_event(message) for message in buffer)
            except (*NOT_JSON, frames.ParserError, ValueError) as error:
                raise BrokenReply(f"the reply of {self.origin} is damaged: {error}") from error
            if events:
                yield events

    def settle(self) -> None:
        """Say that the rest does not matter."""
        self._framed.settle()

    def progressed(self) -> None:
        """Say that what came brought the reply further."""
        self._framed.progressed()


class _Chunk(msgspec.Struct):
    bytes: str = ""
    message: str = ""


class _EventKind(msgspec.Struct):
    type: str = ""


_chunk = msgspec.json.Decoder(_Chunk).decode
_kind = msgspec.json.Decoder(_EventKind).decode


def _event(message: Any) -> bytes:
    headers: Mapping[str, Any] = message.headers
    payload = _chunk(message.payload or b"{}")
    if headers.get(":message-type") == "event":
        data = b64decode(payload.bytes, validate=True)
        name = _kind(data).type.encode() if data else b""
        return b"event: %s\ndata: %s\n\n" % (name, data.replace(b"\n", b" ")) if data else b""
    kind = str(headers.get(":exception-type") or headers.get(":error-code") or "error")
    said = payload.message or str(headers.get(":error-message") or "no explanation was given")
    error = {"type": _KINDS.get(kind, kind), "message": said}
    told = msgspec.json.encode({"type": "error", "error": error})
    return b"event: error\ndata: %s\n\n" % told


def _region(session: Any, env: Mapping[str, str]) -> str:
    named = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    found = named or session.get_config_variable("region")
    if not found:
        raise BadInput("bedrock: models are in a region, and none is named; set AWS_REGION")
    return str(found)


def _no_credentials(why: str) -> Unauthorised:
    return Unauthorised(
        f"no AWS credentials for Bedrock: {why}; run 'aws login' or 'aws configure', or set "
        f"AWS_PROFILE, AWS_ACCESS_KEY_ID with its secret, or {TOKEN_VARIABLE}"
    )
