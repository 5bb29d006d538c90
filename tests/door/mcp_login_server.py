"""An MCP server that wants a login, and the place to log in, for tests: `... PORT [WORD ...]`.

Words make it worse: `denies`, `elsewhere`, `far_token` and `far_register` (metadata leads to another
machine), `other_resource`, `other_issuer`, `short` (tokens end at once), `no_refresh`; with
`agreed` it knows one program and registers none, with `secret` that one has a secret.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import sys
from urllib.parse import urlencode

import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

PORT, WORDS = int(sys.argv[1]), set(sys.argv[2:])
BASE = f"http://127.0.0.1:{PORT}"
FAR = "http://169.254.169.254"
codes: dict[str, str] = {}
tokens: set[str] = set()
refreshes: set[str] = set()
server = MCPServer("locked", log_level="ERROR")


@server.tool()
def secret() -> str:
    """Tell what only friends are told."""
    return "the cat is in the bag"


async def resource(_: Request) -> Response:
    named = "https://other.example/mcp" if "other_resource" in WORDS else f"{BASE}/mcp"
    return JSONResponse({"resource": named, "authorization_servers": [BASE]})


async def metadata(_: Request) -> Response:
    away = FAR if "elsewhere" in WORDS else BASE
    return JSONResponse(
        {
            "issuer": "https://other.example" if "other_issuer" in WORDS else BASE,
            "authorization_endpoint": f"{away}/authorize",
            "token_endpoint": f"{FAR if 'far_token' in WORDS else BASE}/token",
            "registration_endpoint": f"{FAR if 'far_register' in WORDS else BASE}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
        }
    )


async def register(request: Request) -> Response:
    if "agreed" in WORDS:
        return JSONResponse({"error": "access_denied"}, status_code=403)
    return JSONResponse({**await request.json(), "client_id": "client-1"}, status_code=201)


async def authorize(request: Request) -> Response:
    given = request.query_params
    back = given["redirect_uri"].startswith("http://localhost:")
    if "agreed" in WORDS and not (given["client_id"] == "agreed-1" and back):
        return Response("unknown program", status_code=400)
    code = secrets.token_urlsafe(8)
    codes[code] = given["code_challenge"]
    answer = {"code": code, "state": given["state"]}
    if "denies" in WORDS:
        answer = {"error": "access_denied", "state": given["state"]}
    return RedirectResponse(f"{given['redirect_uri']}?{urlencode(answer)}")


async def token(request: Request) -> Response:
    form = await request.form()
    if "secret" in WORDS and form.get("client_secret") != "hush-0123456789":
        return JSONResponse({"error": "invalid_client"}, status_code=401)
    if form["grant_type"] == "refresh_token":
        if form["refresh_token"] not in refreshes or "no_refresh" in WORDS:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
        refreshes.discard(str(form["refresh_token"]))
    else:
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if codes.pop(str(form["code"]), None) != proof:
            return JSONResponse({"error": "invalid_grant"}, status_code=400)
    fresh, again = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
    if "short" in WORDS:
        # Only what was refreshed is good for a while.
        tokens.clear()
    tokens.add(fresh)
    refreshes.add(again)
    short = "short" in WORDS and form["grant_type"] != "refresh_token"
    answer = {"access_token": fresh, "token_type": "Bearer", "refresh_token": again}
    return JSONResponse({**answer, "expires_in": 1 if short else 3600})


async def revoke(_: Request) -> Response:
    tokens.clear()
    return JSONResponse({})


class Locked:
    """Lets only those in who have a token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            given = headers.get(b"authorization", b"").decode().removeprefix("Bearer ")
            if given not in tokens:
                where = f'Bearer resource_metadata="{BASE}/.well-known/oauth-protected-resource"'
                refused = Response(status_code=401, headers={"WWW-Authenticate": where})
                await refused(scope, receive, send)
                return
        await self._app(scope, receive, send)


def main() -> None:
    inner = server.streamable_http_app()
    routes = [
        Route("/.well-known/oauth-protected-resource", resource),
        Route("/.well-known/oauth-protected-resource/mcp", resource),
        Route("/.well-known/oauth-authorization-server", metadata),
        Route("/register", register, methods=["POST"]),
        Route("/authorize", authorize),
        Route("/token", token, methods=["POST"]),
        Route("/revoke", revoke, methods=["POST"]),
        Mount("/", Locked(inner)),
    ]
    app = Starlette(routes=routes, lifespan=inner.router.lifespan_context)
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="error")


main()
