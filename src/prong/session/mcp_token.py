"""Tokens of servers at which the user has logged in: kept in the user's home, used and refreshed.

A file belongs to one address, and its name is made of that address: a project that gives a known
name to another address gets nothing. `prong mcp login` writes it, and whoever refreshes a token.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import msgspec

from prong.errors import ConfigError
from prong.foreign_json import NOT_JSON
from prong.host import make_private
from prong.system.descriptor import copy_rights, is_open_to_others, open_unlinked, sync

if TYPE_CHECKING:
    import httpx2

_EARLY = 30.0
"""Seconds before its end at which a token is taken to have ended."""


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True):
    """What a login has given, and what it takes to refresh it."""

    url: str
    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None
    scope: str | None = None
    token_endpoint: str = ""
    resource: str = ""
    client_id: str = ""
    client_secret: str | None = None
    auth_method: str | None = None

    @property
    def ended(self) -> bool:
        """Whether the token is too old to be tried."""
        return self.expires_at is not None and time.time() > self.expires_at - _EARLY

    @property
    def refreshable(self) -> bool:
        """Whether another token can be had without the user."""
        return bool(self.refresh_token and self.token_endpoint)


class TokenFile(msgspec.Struct, frozen=True):
    """The file that keeps the login at one address."""

    home: str
    url: str

    @property
    def path(self) -> Path:
        """Where it is."""
        name = hashlib.sha256(self.url.encode()).hexdigest()[:32]
        return Path(self.home) / ".prong/mcp-tokens" / f"{name}.json"

    def read(self) -> StoredLogin | None:
        """Give the login; None if there is none.

        Raises ConfigError if the file cannot be read, or others could read it.
        """
        try:
            with self.path.open("rb") as file:
                found, data = os.fstat(file.fileno()), file.read(1 << 20)
            login = msgspec.json.decode(data, type=StoredLogin)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(
                self.path, f"cannot be read ({error.strerror}); log in anew"
            ) from error
        except NOT_JSON as error:
            why = "holds no login that can be read; log in anew"
            raise ConfigError(self.path, why) from error
        if is_open_to_others(found):
            why = "can be read by others, so its token is not used; log in anew"
            raise ConfigError(self.path, why)
        if login.url != self.url:
            raise ConfigError(self.path, f"is the login at {login.url}; log in anew")
        return login

    def write(self, login: StoredLogin) -> None:
        """Keep a login, readable by nobody but the user.

        Raises ConfigError if that is not possible.
        """
        path = self.path
        try:
            make_private(path.parent.parent)
            make_private(path.parent)
            fresh = path.with_suffix(f".{os.getpid()}.tmp")
            number = open_unlinked(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(number, "wb") as file:
                copy_rights(number, 0o600)
                file.write(msgspec.json.encode(login))
                file.flush()
                sync(number)
            fresh.replace(path)
        except OSError as error:
            raise ConfigError(path, f"cannot be written ({error.strerror})") from error

    def delete(self) -> bool:
        """Forget the login; False if there was none.

        Raises ConfigError if that is not possible.
        """
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConfigError(self.path, f"cannot be removed ({error.strerror})") from error
        return True


def token_auth(file: TokenFile) -> httpx2.Auth:
    """Make what puts the stored token on requests, and refreshes it when it has ended."""
    import httpx2

    class Bearer(httpx2.Auth):
        """Reads the file for every request: another process may have refreshed the token."""

        def __init__(self) -> None:
            self._lock = anyio.Lock()

        async def async_auth_flow(
            self, request: httpx2.Request
        ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            login = file.read()
            if login is not None and login.ended and login.refreshable:
                async with self._lock:
                    login = file.read()
                    if login is not None and login.ended:
                        login = await refreshed(file, login, (yield _refresh_request(login)))
            if login is None:
                yield request
                return
            request.headers["Authorization"] = f"Bearer {login.access_token}"
            response = yield request
            if response.status_code != int(httpx2.codes.UNAUTHORIZED) or not login.refreshable:
                return
            async with self._lock:
                now = file.read()
                if now is not None and now.access_token == login.access_token:
                    now = await refreshed(file, now, (yield _refresh_request(now)))
            if now is not None and now.access_token != login.access_token:
                request.headers["Authorization"] = f"Bearer {now.access_token}"
                yield request

    return Bearer()


def _refresh_request(login: StoredLogin) -> httpx2.Request:
    import httpx2

    form = {
        "grant_type": "refresh_token",
        "refresh_token": login.refresh_token or "",
        "client_id": login.client_id,
        **({"resource": login.resource} if login.resource else {}),
    }
    auth = None
    if login.client_secret and login.auth_method == "client_secret_basic":
        auth = httpx2.BasicAuth(login.client_id, login.client_secret)
    elif login.client_secret:
        form["client_secret"] = login.client_secret
    request = httpx2.Request("POST", login.token_endpoint, data=form)
    return next(auth.auth_flow(request)) if auth is not None else request


class _TokenResponse(msgspec.Struct):
    access_token: str
    expires_in: float | None = None
    refresh_token: str | None = None
    scope: str | None = None


async def refreshed(file: TokenFile, login: StoredLogin, response: httpx2.Response) -> StoredLogin:
    """Keep what a refresh has given; the login as it was if it gave nothing."""
    if response.status_code != 200:
        return login
    try:
        given = msgspec.json.decode(await response.aread(), type=_TokenResponse)
    except NOT_JSON:
        return login
    fresh = msgspec.structs.replace(
        login,
        access_token=given.access_token,
        refresh_token=given.refresh_token or login.refresh_token,
        expires_at=None if given.expires_in is None else time.time() + given.expires_in,
        scope=given.scope or login.scope,
    )
    file.write(fresh)
    return fresh
