"""What a provider's refusals mean, in the one tree of errors."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from prong.errors import (
    BadRequest,
    BrokenReply,
    ContextOverflow,
    NoSuchModel,
    Overloaded,
    ProviderError,
    RateLimited,
    Unauthorised,
)
from prong.provider.provider import Endpoint
from prong.wire import Fault

_OVERFLOW = re.compile(
    r"prompt is too long|context_length_exceeded|exceed\w*\b.{0,60}\bcontext|"
    r"maximum context length|context (?:length|window|limit|size)\b.{0,60}\bexceed|"
    r"input is too long|input token count.{0,40}exceeds|too many (?:input )?tokens|"
    r"request_too_large",
    re.IGNORECASE | re.DOTALL,
)
_NO_MODEL = re.compile(
    r"model_not_found|model identifier is invalid|(?:no such|unknown|invalid|not a valid) model|"
    r"\bmodels?\b.{0,120}(?:not exist|not found)|not_found_error model:",
    re.IGNORECASE | re.DOTALL,
)
_NO_ENDPOINT = re.compile(
    r"(?:unexpected|unsupported|unknown|unrecogni[sz]ed|invalid|no such) (?:api )?"
    r"(?:endpoint|route|path|url)\b|(?:endpoint|route)\b.{0,60}\bnot (?:found|supported|exist)",
    re.IGNORECASE,
)
"""How servers say, whatever the status, that they do not know an address."""
_SPENT = re.compile(r"insufficient_quota|credit balance is too low|billing_\w+", re.IGNORECASE)
_RATE = re.compile(r"rate_?limit|too_many_requests", re.IGNORECASE)
_LOAD = re.compile(r"overload|api_error|server_error|internal|unavailable|timeout", re.IGNORECASE)
_KEY = re.compile(r"authentication|permission|unauthori[sz]ed|invalid_api_key", re.IGNORECASE)
_RETRY_IN = re.compile(r"retry in ([0-9]+(?:\.[0-9]+)?)s")
_MESSAGE_LIMIT = 2_000


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """An error response, or an error in a stream, before it is given a meaning."""

    kind: str
    message: str
    status: int | None = None
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])

    @property
    def request_id(self) -> str | None:
        """The provider's id of the request, for its support."""
        return self.headers.get("request-id") or self.headers.get("x-request-id")


def mapped(refusal: Refusal, endpoint: Endpoint, model: str) -> ProviderError:
    """Make the exception for a refusal, with the remedy in its sentence.

    A server may repeat what it was sent: keys are masked before anybody reads it.
    """
    refusal = _masked(refusal, endpoint)
    said = " ".join(refusal.message.split())[:_MESSAGE_LIMIT] or refusal.kind or "no reason given"
    if refusal.status is None:
        error, remedy = _by_kind(refusal)
    else:
        error, remedy = _by_status(refusal, refusal.status)
    text = remedy.format(
        url=endpoint.base_url,
        model=model,
        said=said,
        status=refusal.status,
        key=f"the key in {endpoint.key_source}" if endpoint.key_source else _KEYLESS,
        remedy=_REMEDIES.get("" if endpoint.backend else endpoint.dialect, "check the base URL"),
        location=refusal.headers.get("location", "elsewhere"),
    )
    if error is BadRequest and endpoint.dialect == "claude-chat" and "cache_control" in said:
        text += _UNMARKED
    made = error(
        text,
        status=refusal.status,
        request_id=refusal.request_id,
        kind=refusal.kind,
        retry_after=_wanted_wait(refusal),
    )
    made.retryable = error.retryable and not _SPENT.search(f"{refusal.kind} {refusal.message}")
    verdict = refusal.headers.get("x-should-retry", "")
    if verdict in {"true", "false"}:
        made.retryable = verdict == "true"
    return made


def _masked(refusal: Refusal, endpoint: Endpoint) -> Refusal:
    mask = endpoint.secrets.mask
    return msgspec.structs.replace(
        refusal,
        kind=mask(refusal.kind),
        message=mask(refusal.message),
        headers={name: mask(value) for name, value in refusal.headers.items()},
    )


_KEYLESS = "the request, sent without a key,"
_REFUSED_KEY = "{key} was refused by {url}: {said}"
_UNKNOWN_MODEL = "{url} does not know the model {model}: {said}; choose another with --model"
_TOO_LONG = "the conversation is too long for {model}: {said}"
_SPENT_TEXT = "the account behind {key} has no credit left at {url}: {said}"
_SLOW_DOWN = "{url} wants fewer requests: {said}; wait, or ask for a higher limit"
_LOADED = "{url} is failing or overloaded ({status}): {said}; try again later"
_REFUSED = "{url} refused the request: {said}"
_REFUSED_BY = "{url} refused the request ({status}): {said}"
_GUARDED = (
    "something before {url} refused the request ({status}) with a web page, so it may not be about "
    "the key: {said}; check the base URL, the network and its proxy"
)
_NO_REPLY = "{url} answered {status}, which is no reply: {said}; check the base URL"
_PROXY_LOGIN = (
    "a proxy before {url} wants a login (407): {said}; put user and password into the proxy's URL"
)
_NO_ADDRESS = "{url} has no such address: {said}; {remedy}"
_REMEDIES = {
    "anthropic": "check the base URL, or say --api chat if it is a server of the chat API",
    "responses": "it seems to know the chat API alone: say --api chat, or check the base URL",
}
"""What to do about an address that is not there, by the API that was asked for."""
_UNMARKED = '; the setting "cacheMarks": false leaves these marks out'
_MOVED = (
    "{url} answered {status} and points to {location}; redirects are not followed: "
    "set the base URL to where the API really is"
)


def _by_status(refusal: Refusal, status: int) -> tuple[type[ProviderError], str]:
    said = f"{refusal.kind} {refusal.message}"
    if status in {401, 403} or (status == 400 and "API key not valid" in refusal.message):
        return Unauthorised, _GUARDED if _is_page(refusal) else _REFUSED_KEY
    if status == 402 or (status in {400, 429} and _SPENT.search(said)):
        return RateLimited if status == 429 else BadRequest, _SPENT_TEXT
    if status == 429:
        return RateLimited, _SLOW_DOWN
    if status == 413 or (status in {400, 422} and _OVERFLOW.search(said)):
        return ContextOverflow, _TOO_LONG
    if status in {400, 404, 422} and _NO_MODEL.search(said):
        return NoSuchModel, _UNKNOWN_MODEL
    if status in {404, 405, 501} or (status in {400, 422} and _NO_ENDPOINT.search(said)):
        return BadRequest, _NO_ADDRESS
    if status in {408, 409} or status >= 500:
        return Overloaded, _LOADED
    if status < 400:
        return BadRequest, _NO_REPLY if status < 300 else _MOVED
    return BadRequest, _PROXY_LOGIN if status == 407 else _REFUSED_BY


def _is_page(refusal: Refusal) -> bool:
    return refusal.headers.get("content-type", "").lower().startswith("text/html")


def _by_kind(refusal: Refusal) -> tuple[type[ProviderError], str]:
    said = f"{refusal.kind} {refusal.message}"
    if _OVERFLOW.search(said):
        return ContextOverflow, _TOO_LONG
    if _SPENT.search(refusal.kind):
        return RateLimited, _SPENT_TEXT
    if _RATE.search(refusal.kind):
        return RateLimited, _SLOW_DOWN
    if _KEY.search(refusal.kind):
        return Unauthorised, _REFUSED_KEY
    if _NO_MODEL.search(refusal.kind):
        return NoSuchModel, _UNKNOWN_MODEL
    if _NO_ENDPOINT.search(refusal.message):
        return BadRequest, _NO_ADDRESS
    if refusal.kind.startswith("invalid"):
        return BadRequest, _REFUSED
    if _LOAD.search(refusal.kind):
        return Overloaded, "{url} failed while it replied: {said}; try again later"
    return BrokenReply, "the reply of {url} could not be used: {said}"


def from_stream(
    fault: Fault, endpoint: Endpoint, model: str, headers: Mapping[str, str]
) -> ProviderError:
    """Make the exception for an error within a reply that had begun well."""
    refusal = Refusal(
        kind=fault.kind,
        message=fault.message,
        # The status was 200 and says nothing; the headers still hold the request id.
        headers={name: headers[name] for name in ("request-id", "x-request-id") if name in headers},
    )
    error = mapped(refusal, endpoint, model)
    error.retryable = fault.retryable and not _SPENT.search(fault.kind)
    return error


def _wanted_wait(refusal: Refusal) -> float | None:
    """Say how many seconds the provider wants to be left alone; one says so in words alone."""
    told = retry_after(refusal.headers)
    if told is None and (found := _RETRY_IN.search(refusal.message)) is not None:
        return _number(found[1])
    return told


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read how many seconds the provider wants to be left alone."""
    seconds = _number(headers.get("retry-after-ms", ""))
    if seconds is not None:
        return seconds / 1000
    text = headers.get("retry-after", "")
    return _until(text) if "," in text else _number(text)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(text: str) -> float | None:
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
