"""Where a request goes: the server's URL, and the proxy on the way there."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from prong.errors import BadInput, UsageError

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<user>[^@/?#\s]*)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._~-]+)?\]|[A-Za-z0-9._~-]+)"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>/[\x21\x24-\x3b\x3d\x40-\x5b\x5d-\x7e]*)?"
    r"(?P<query>\?[\x21\x24-\x3b\x3d\x3f-\x5b\x5d-\x7e]*)?"
)
_PORTS = {"http": 80, "https": 443}


class Url(msgspec.Struct, frozen=True):
    """The parts of an http or https URL that a connection and a request line need."""

    scheme: str
    host: str
    """Without brackets."""
    port: int
    path: str
    """With the query."""
    user: str = ""
    """Name and password as they stand in the URL; only a proxy may have them."""

    @property
    def authority(self) -> str:
        """The host as a Host header has it: the port only if it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def place(self) -> str:
        """Host and port, for people and for CONNECT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Scheme and authority."""
        return f"{self.scheme}://{self.authority}"


class Proxy(msgspec.Struct, frozen=True):
    """A proxy and the variable that named it."""

    url: Url
    variable: str


def read_url(text: str) -> Url:
    """Read an http or https URL.

    Raises:
        UsageError: it is not one.

    """
    url = _read(text, schemes=("http", "https"))
    if url.user:
        raise BadInput(f"the URL of {url.place} holds a password; give it as a header instead")
    return url


def _read(text: str, *, schemes: tuple[str, ...]) -> Url:
    found = _URL.fullmatch(text)
    if found is None or not (scheme := found["scheme"].lower()) or scheme not in schemes:
        shown = re.sub(r"//[^@/]*@", "//***@", text)[:200]
        names = " or ".join(f"{name}://" for name in schemes)
        raise BadInput(f"{shown!r} is not a URL of the form {names}HOST[:PORT]/PATH")
    port = int(found["port"] or _PORTS[scheme])
    if not 0 < port < 65_536:
        raise BadInput(f"{port} is not a port; it must lie between 1 and 65535")
    path = (found["path"] or "/") + (found["query"] or "")
    return Url(scheme, found["host"].strip("[]"), port, path, found["user"] or "")


def proxy_for(url: Url, env: Mapping[str, str]) -> Proxy | None:
    """Choose the proxy for a URL from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY.

    Loopback addresses are always reached directly.
    """
    if is_loopback(url.host) or _is_exempt(url, _variable(env, "no_proxy")[1]):
        return None
    for name in (f"{url.scheme}_proxy", "all_proxy"):
        variable, value = _variable(env, name)
        if value:
            return Proxy(_proxy_url(value, variable), variable)
    return None


def _variable(env: Mapping[str, str], name: str) -> tuple[str, str]:
    for variable in (name, name.upper()):
        value = env.get(variable, "").strip()
        if value:
            return variable, value
    return name.upper(), ""


def _proxy_url(value: str, variable: str) -> Url:
    try:
        return _read(value if "://" in value else f"http://{value}", schemes=("http",))
    except UsageError as error:
        raise BadInput(f"{variable}: {error}; only HTTP proxies are supported") from None


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine; a name that merely begins with 127 is not."""
    named = host in {"localhost", "::1"} or host.endswith(".localhost")
    return named or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None


def is_near(host: str) -> bool:
    """Say whether a host is this machine or one of the same network, and no public service."""
    if is_loopback(host) or ("." not in host and ":" not in host):
        return True
    if re.fullmatch(r"[0-9.]+|[0-9a-f:.]+", host):
        from ipaddress import ip_address

        try:
            return not ip_address(host).is_global
        except ValueError:
            return False
    return host.endswith((".localhost", ".local", ".lan", ".internal", ".home.arpa"))


def _is_exempt(url: Url, rules: str) -> bool:
    host = url.host.lower()
    for raw in rules.lower().replace(",", " ").split():
        rule = raw
        if rule == "*":
            return True
        if rule.count(":") == 1:
            rule, _, port = rule.partition(":")
            if port != str(url.port):
                continue
        if "/" in rule:
            if _in_network(host, rule):
                return True
            continue
        bare = rule.strip("[]").removeprefix("*").removeprefix(".")
        if bare and (host == bare or host.endswith(f".{bare}")):
            return True
    return False


def _in_network(host: str, network: str) -> bool:
    from ipaddress import ip_address, ip_network

    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def proxy_authorization(proxy: Proxy) -> str:
    """Give the value of the Proxy-Authorization header, or nothing."""
    if not proxy.url.user:
        return ""
    from base64 import b64encode
    from urllib.parse import unquote

    return "Basic " + b64encode(unquote(proxy.url.user).encode()).decode()
