"""Where an MCP server may lead, judged by the text of an address."""

from __future__ import annotations

import pytest

from prong.session.server_address import may_lead, may_visit

pytestmark = pytest.mark.spec("L13")

FAR = "https://mcp.example/mcp"
HERE = "http://127.0.0.1:8080/mcp"


@pytest.mark.parametrize(
    ("server", "url", "may"),
    [
        (FAR, "https://mcp.example/token", True),
        (FAR, "https://login.example/authorize", True),
        (FAR, "https://8.8.8.8/token", True),
        (FAR, "http://mcp.example/token", False),
        (FAR, "http://login.example/token", False),
        (FAR, "file:///etc/passwd", False),
        (FAR, "https:///token", False),
        (FAR, "https://[::1", False),
        *((FAR, f"https://{host}/token", False) for host in ("localhost", "127.0.0.1", "[::1]")),
        *((FAR, f"https://{host}/token", False) for host in ("127.0.0.2", "127.1", "2130706433")),
        *((FAR, f"https://{host}/token", False) for host in ("0x7f.1", "0.0.0.0", "localhost.")),
        *((FAR, f"https://{host}/token", False) for host in ("[::]", "[::ffff:127.0.0.1]")),
        *((FAR, f"https://{host}/token", False) for host in ("a.localhost", "169.254.169.254")),
        ("http://mcp.example/mcp", "http://mcp.example/token", True),
        (HERE, "http://localhost:9090/token", True),
        (HERE, "https://127.0.0.1/token", True),
        (HERE, "ftp://127.0.0.1/token", False),
        (HERE, "https://login.example/token", True),
        (HERE, "http://login.example/token", False),
    ],
)
def test_a_login_leads_nowhere_in_the_clear_and_not_here(
    server: str, url: str, *, may: bool
) -> None:
    """Whatever a server says: a login goes by https, to the server itself, or stays on this machine."""
    assert may_lead(server, url) is may


@pytest.mark.parametrize(
    ("url", "may"),
    [
        ("https://pay.example/x", True),
        ("http://127.0.0.1:8080/x", True),
        ("http://localhost/x", True),
        ("http://[::1]:80/x", True),
        ("http://pay.example/x", False),
        ("http://127.0.0.1.evil.example/", False),
        ("http://localhost.evil.example/", False),
        ("http://127.0.0.1@evil.example/", False),
        ("http://localhostevil.example/", False),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("https://", False),
        ("https://[", False),
    ],
)
def test_a_user_is_asked_to_visit_no_other_address(url: str, *, may: bool) -> None:
    """A name that begins like this machine's is another machine's."""
    assert may_visit(url) is may
