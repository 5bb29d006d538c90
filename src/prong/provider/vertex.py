"""Claude at Google's Vertex AI: tokens by google-auth, the stream as Anthropic sends it."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec

from prong.errors import BadInput, Unauthorised
from prong.provider.backend import Resources
from prong.provider.hosted import CloudBackend, CloudSigner, gateway_pass, hosted, library
from prong.provider.signing import OutboundRequest

_VERSION = "vertex-2023-10-16"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_PROJECTS = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_HOSTS = {
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
    "eu": "aiplatform.eu.rep.googleapis.com",
}


class VertexSigner(CloudSigner):
    """Sends requests of the Messages API to Vertex AI."""

    def __init__(self, given: Resources) -> None:
        """Find region and project; raises NotInstalled without google-auth."""
        super().__init__(given)
        self._auth = library("google.auth", "vertex")
        env = self._env = given.env
        self._region = env.get("CLOUD_ML_REGION", "").strip() or "global"
        named = given.base_url or env.get("ANTHROPIC_VERTEX_BASE_URL", "").strip().rstrip("/")
        host = _HOSTS.get(self._region, f"{self._region}-aiplatform.googleapis.com")
        self.base = named or f"https://{host}/v1"
        self.gate = gateway_pass(given, "CLAUDE_CODE_SKIP_VERTEX_AUTH", named=bool(named))
        self._project = next(filter(None, (env.get(one, "").strip() for one in _PROJECTS)), "")
        self._credentials: Any = None
        self._lock = anyio.Lock()

    async def sign(self, request: OutboundRequest) -> OutboundRequest:
        """Turn it into a prediction, with a token that is made anew when it has grown old."""
        told = hosted(request, _VERSION, plain=True)
        token = self.gate.token
        if not self.gate.on:
            async with self._lock:
                token = await anyio.to_thread.run_sync(self._token)
        if not self._project:
            raise BadInput(f"vertex: models belong to a project; set {_PROJECTS[0]}")
        verb = "streamRawPredict" if told.stream else "rawPredict"
        place = f"projects/{self._project}/locations/{self._region}/publishers/anthropic/models"
        sent = msgspec.structs.replace(
            request,
            url=f"{self.base}/{place}/{quote(told.model, safe='@')}:{verb}",
            body=told.body,
        )
        return sent.with_headers(authorization=f"Bearer {token}") if token else sent

    def _token(self) -> str:
        exceptions = library("google.auth.exceptions", "vertex")
        requests = library("google.auth.transport.requests", "vertex")
        try:
            if self._credentials is None:
                self._credentials, found = self._find()
                self._project = self._project or str(found or "")
            if not self._credentials.valid:
                self._credentials.refresh(requests.Request())
        except (exceptions.GoogleAuthError, OSError) as error:
            raise Unauthorised(
                f"no Google credentials for Vertex AI: {error}; run 'gcloud auth "
                f"application-default login', or set {_FILE}"
            ) from error
        return str(self._credentials.token)

    def _find(self) -> tuple[Any, str | None]:
        file = self._env.get(_FILE, "").strip()
        if not file:
            return self._auth.default(scopes=[_SCOPE])
        # The session's environment, which need not be the process's. The library warns of files
        # that come from others; this one is the user's own.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._auth.load_credentials_from_file(file, scopes=[_SCOPE])

    def renew(self) -> bool:
        """Ask for another token."""
        self._credentials = None
        return True

    @property
    def secrets(self) -> tuple[str, ...]:
        """The token, of the cloud or of the gateway."""
        made = str(self._credentials.token or "") if self._credentials else ""
        return (made, self.gate.token)


class Vertex(CloudBackend):
    """The models of `vertex:`."""

    prefix: ClassVar = "vertex"
    key_source: ClassVar = "Google Cloud"
    signer: ClassVar = VertexSigner
