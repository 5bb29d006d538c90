"""Who is let in to the page of this machine: decisions on a request's head, pure but for the codes.

Any page of the web can make a browser send requests to a loopback port, any name can be made to
resolve to 127.0.0.1, and any program of this machine can connect. So the address has a secret, and
without it nothing answers; and who comes with it must also have been sent by nobody else.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every answer says, refusals too."""

_NAMES = ("127.0.0.1", "localhost", "[::1]")
_SITES = ("same-origin", "none")


class WebRefused(msgspec.Struct, frozen=True):
    """Why a request is not answered."""

    status: int
    why: str


class WebEntered(msgspec.Struct, frozen=True):
    """The secret was in the address: it is to go into a cookie, and out of the address."""

    cookie: str


class WebAdmitted(msgspec.Struct, frozen=True):
    """A request is to be answered."""


WebAdmission: TypeAlias = WebRefused | WebEntered | WebAdmitted


class PageSecret:
    """What lets in to one page."""

    def __init__(self) -> None:
        """Make it up."""
        self._token = secrets.token_urlsafe(32)
        self._codes: set[str] = set()

    def address(self, port: int) -> str:
        """Give the address of the page at a port; for the user's eyes."""
        return f"http://127.0.0.1:{port}/enter?{self._token}"

    def one_use_address(self, port: int) -> str:
        """Give an address that lets in once.

        It is for the command line of a browser, which other users of a machine can read.
        """
        code = secrets.token_urlsafe(32)
        self._codes.add(code)
        return f"http://127.0.0.1:{port}/enter?{code}"

    def admit(
        self, port: int, method: str, target: str, headers: Mapping[str, str]
    ) -> WebAdmission:
        """Decide on a request that came in at a port by its head."""
        hosts = {f"{name}:{port}" for name in _NAMES}
        host = headers.get("host", "")
        if host not in hosts:
            return WebRefused(421, "this is the page of 127.0.0.1 and of no other name")
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{each}" for each in hosts}:
            return WebRefused(403, "another page has sent this")
        if headers.get("sec-fetch-site", "none") not in _SITES:
            return WebRefused(403, "another page has sent this")
        path, _, query = target.partition("?")
        if path == "/enter" and method == "GET" and self._is_secret(query):
            cookie = f"{_cookie(port)}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            return WebEntered(cookie)
        if not self._has_cookie(_cookie(port), headers.get("cookie", "")):
            return WebRefused(403, "open the address that 'prong web' has printed")
        if method != "GET":
            return WebRefused(405, "this page only reads")
        return WebAdmitted()

    def _is_secret(self, given: str) -> bool:
        if _same(given, self._token):
            return True
        for code in self._codes:
            if _same(given, code):
                self._codes.discard(code)
                return True
        return False

    def _has_cookie(self, wanted: str, given: str) -> bool:
        pairs = [part.strip().partition("=") for part in given.split(";")]
        mine = [value for name, _, value in pairs if name == wanted]
        return len(mine) == 1 and _same(mine[0], self._token)


def _cookie(port: int) -> str:
    # By port: cookies are not kept apart by it, and two pages would shut each other out.
    return f"prong-{port}"


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())
