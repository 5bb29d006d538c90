"""Who is let in to the page of this machine: decisions on a request's head, pure but for the codes.

Any page of the web can make a browser send requests to a loopback port, any name can be made to
resolve to 127.0.0.1, and any program of this machine can connect. So the address has a secret, and
without it nothing answers; and who comes with it must also have been sent by nobody else.

A browser sends a cookie to every server of a host, whatever its port: to one that an agent has
started, too, once the user looks at it. So the cookie opens the page's own files and no more; what
is asked for or done needs a key as well, which only the page has.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import TypeAlias
from urllib.parse import parse_qs

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
ACTING = ("/api/act", "/api/control")
"""What changes something: asked for by POST, and by nothing else."""
KEY_HEADER = "x-prong-key"
"""A header that no form can send, and no page of another site without being asked about first."""


class WebRefused(msgspec.Struct, frozen=True):
    """Why a request is not answered."""

    status: int
    why: str


class WebEntered(msgspec.Struct, frozen=True):
    """The secret was in the address: a cookie is to take its place, and the page gets its key."""

    cookie: str
    location: str
    """Where the page is; behind `#` stands the key, which no browser sends anywhere."""


class WebAdmitted(msgspec.Struct, frozen=True):
    """A request is to be answered."""


WebAdmission: TypeAlias = WebRefused | WebEntered | WebAdmitted
_STRANGER = WebRefused(403, "open the address that 'prong web' has printed")
_FILES = "/static/"
"""Where the page's own files are, beside its first."""


class PageSecret:
    """What lets in to one page."""

    def __init__(self, *, acts: bool = False) -> None:
        """Make it up; with `acts`, who has it may also do something."""
        self._acts = acts
        self._token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self._key = secrets.token_urlsafe(32)
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
            cookie = f"{_cookie(port)}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"
            return WebEntered(cookie, f"/#{self._key}")
        if not self._has_cookie(_cookie(port), headers.get("cookie", "")):
            return _STRANGER
        if path in ACTING:
            return self._admit_action(method, headers)
        if method != "GET":
            return WebRefused(405, "this page only reads")
        # A stream of events has no headers of its own.
        keys = [headers.get(KEY_HEADER, ""), *parse_qs(query).get("key", [])]
        is_file = path == "/" or path.startswith(_FILES)
        if not is_file and not any(_same(key, self._key) for key in keys):
            return _STRANGER
        return WebAdmitted()

    def _admit_action(self, method: str, headers: Mapping[str, str]) -> WebAdmission:
        """Decide on what would change something; its host, origin if any, and cookie are right."""
        if not self._acts:
            return WebRefused(403, "this page only reads; 'prong web --allow-actions' lets it act")
        if method != "POST":
            return WebRefused(405, "this is done by POST")
        # A browser says so of every such request, and a page of ours always is the one.
        if "origin" not in headers or not _same(headers.get(KEY_HEADER, ""), self._key):
            return WebRefused(403, "no page of ours has sent this")
        if headers.get("content-type") != "application/json":
            return WebRefused(415, "this takes JSON")
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
        return len(mine) == 1 and _same(mine[0], self._cookie)


def _cookie(port: int) -> str:
    # By port: cookies are not kept apart by it, and two pages would shut each other out.
    return f"prong-{port}"


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())
