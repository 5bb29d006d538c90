"""How a connection is made: directly or through a proxy, with TLS or without, and what may fail."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio

from prong.errors import BadInput, Unreachable, UsageError
from prong.provider.address import Proxy, Url, proxy_authorization
from prong.provider.connection import Broken, Connection
from prong.provider.public_address import AddressGuard

if TYPE_CHECKING:
    from ssl import SSLContext

_SECOND_ADDRESS_AFTER = 0.25


async def dial(
    connection: Connection,
    url: Url,
    proxy: Proxy | None,
    tls: SSLContext | None,
    *,
    limit: float,
    guard: AddressGuard | None = None,
) -> None:
    """Connect to the server of a URL; on failure nothing is left open.

    Raises:
        Unreachable: it did not work, or the guard forbids it; the text says what to check.
        UsageError: the host's name is none.

    """
    try:
        with anyio.fail_after(limit):
            await _open(connection, url, proxy, tls, guard)
    except BaseException as error:
        connection.abort()
        mapped = _mapped(error, url, proxy, limit)
        if mapped is None:
            raise
        raise mapped from error


def _mapped(
    error: BaseException, url: Url, proxy: Proxy | None, limit: float
) -> Unreachable | UsageError | None:
    match error:
        case TimeoutError():
            return Unreachable(
                f"no connection to {_place(url, proxy)} within {limit:g} s; "
                "check the network, the firewall and HTTPS_PROXY"
            )
        case OSError():
            return _unreachable(url, proxy, error)
        case Broken():
            return Unreachable(f"{_place(url, proxy)} failed: {error.why}")
        case ValueError():
            return BadInput(f"{_place(url, proxy)} is not the name of a host ({error})")
        case _:
            return None


async def _open(
    connection: Connection,
    url: Url,
    proxy: Proxy | None,
    tls: SSLContext | None,
    guard: AddressGuard | None,
) -> None:
    loop = asyncio.get_running_loop()
    first = url if proxy is None else proxy.url
    hosts = [first.host]
    if guard is not None and proxy is None:
        hosts = await guard.addresses(url.host, url.port)
    elif guard is not None:
        await guard.check_name(url.host, url.port)
    direct = tls if proxy is None else None
    for place, host in enumerate(hosts, 1):
        is_name = ":" not in host and not host.replace(".", "").isdigit()
        try:
            await loop.create_connection(
                lambda: connection,
                host,
                first.port,
                ssl=direct,
                server_hostname=url.host if direct is not None else None,
                happy_eyeballs_delay=_SECOND_ADDRESS_AFTER if is_name else None,
            )
            break
        except OSError:
            if place == len(hosts) or connection.transport is not None:
                raise
    if proxy is None or tls is None:
        return
    await connection.exchange("CONNECT", _connect_head(url, proxy))
    parser = connection.parser
    assert parser is not None
    if not 200 <= parser.status < 300:
        raise _refused(url, proxy, parser.status)
    connection.open_tunnel()
    assert connection.transport is not None
    secured = await loop.start_tls(connection.transport, connection, tls, server_hostname=url.host)
    if secured is None:
        raise Broken("the connection was closed in the TLS handshake", began=True)
    connection.connection_made(secured)


def _connect_head(url: Url, proxy: Proxy) -> bytes:
    authorization = proxy_authorization(proxy)
    line = f"proxy-authorization: {authorization}\r\n" if authorization else ""
    return f"CONNECT {url.place} HTTP/1.1\r\nhost: {url.place}\r\n{line}\r\n".encode("latin-1")


def tls_context(env: Mapping[str, str]) -> SSLContext:
    """Trust what the system trusts, and what SSL_CERT_FILE names."""
    import ssl

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    bundle = env.get("SSL_CERT_FILE")
    if bundle:
        try:
            context.load_verify_locations(cafile=bundle)
        except OSError as error:
            raise BadInput(
                f"SSL_CERT_FILE names {bundle}, which cannot be used ({error}); "
                "set it to a file of certificates in PEM form, or unset it"
            ) from error
    return context


def _place(url: Url, proxy: Proxy | None) -> str:
    if proxy is None:
        return url.place
    return f"the proxy {proxy.url.place} (from {proxy.variable})"


def _refused(url: Url, proxy: Proxy, status: int) -> Unreachable:
    hint = "; it wants a name and a password in its URL" if status == 407 else ""
    error = Unreachable(
        f"{_place(url, proxy)} answered {status} to CONNECT {url.place}{hint}", status=status
    )
    error.retryable = status >= 500
    return error


def _unreachable(url: Url, proxy: Proxy | None, error: OSError) -> Unreachable:
    place = _place(url, proxy)
    why = error.strerror or str(error) or type(error).__name__
    if isinstance(error, socket.gaierror):
        host = url.host if proxy is None else proxy.url.host
        return _absent(
            f"the name {host} cannot be resolved ({why}); check the address and the network"
        )
    verify = getattr(error, "verify_message", None)
    if verify is not None:
        refused = Unreachable(
            f"the certificate of {url.place} is not trusted ({verify}); if that is your own "
            "server or gateway, set SSL_CERT_FILE to a file with its authority's certificate"
        )
        # The same certificate will be shown again.
        refused.retryable = False
        return refused
    if url.scheme == "https" and type(error).__module__ == "ssl":
        return Unreachable(
            f"no TLS connection to {place} ({why}); check whether its base URL begins with http://"
        )
    if error.errno:
        # The event loop puts words of its own in their place.
        why = os.strerror(error.errno).lower()
    return _absent(
        f"nothing answers at {place} ({why}); check that the server runs and that "
        f"the base URL {url.origin} is right"
    )


def _absent(why: str) -> Unreachable:
    error = Unreachable(why)
    error.absent = True
    return error
