"""Azure's addresses of OpenAI's API: by deployment and dated version, or one for all."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prong.errors import BadInput
from prong.provider.address import read_url

ENDPOINT_VARIABLE = "AZURE_OPENAI_ENDPOINT"
_VERSIONS = ("AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION")
_DEPLOYMENTS = ("AZURE_OPENAI_DEPLOYMENT", "AZURE_OPENAI_DEPLOYMENT_NAME")
_HOSTS = (
    ".openai.azure.com",
    ".services.ai.azure.com",
    ".cognitiveservices.azure.com",
    ".azure-api.net",
)
_DEPLOYMENT = re.compile(r"/openai/deployments/[^/?]+")


def is_azure(base_url: str) -> bool:
    """Say whether an address is Azure's, or that of a gateway before it."""
    url = read_url(base_url)
    dated = "api-version=" in url.path.partition("?")[2]
    return url.host.endswith(_HOSTS) or dated or _DEPLOYMENT.search(url.path) is not None


def has_deployment(base_url: str) -> bool:
    """Say whether an address names a deployment, below which there is the chat API alone."""
    return _DEPLOYMENT.search(base_url) is not None


def azure_base(name: str, dialect: str, env: Mapping[str, str], given: str = "") -> str:
    """Give the address of a deployment; `given` is that of its resource, or its own.

    Raises BadInput if neither it nor the environment says whose, or it is another deployment's.
    """
    endpoint = given.rstrip("/") or env.get(ENDPOINT_VARIABLE, "").strip().rstrip("/")
    if found := _DEPLOYMENT.search(endpoint):
        named = found[0].rpartition("/")[2]
        if named != name:
            raise BadInput(
                f"azure:{name} and the address of the deployment {named} contradict each other; "
                "give one of them, or the model without azure: beside that address"
            )
    if "/openai" in endpoint.partition("://")[2]:
        return endpoint
    if not endpoint:
        raise BadInput(
            f"azure:{name} needs the address of the resource: set {ENDPOINT_VARIABLE} "
            "(https://NAME.openai.azure.com), or give the deployment's URL with --base-url"
        )
    version = next(filter(None, (env.get(one, "").strip() for one in _VERSIONS)), "")
    if not version:
        return f"{endpoint}/openai/v1"
    place = f"/deployments/{name}" if dialect == "chat" else ""
    return f"{endpoint}/openai{place}?api-version={version}"


def azure_deployment(env: Mapping[str, str]) -> str:
    """Give the deployment that the environment names; empty if it names none."""
    if not env.get(ENDPOINT_VARIABLE, "").strip():
        return ""
    return next(filter(None, (env.get(one, "").strip() for one in _DEPLOYMENTS)), "")


def azure_path(base: str, path: str) -> str | None:
    """Join a path to a base URL without its query; None if that is no address of this kind."""
    if _DEPLOYMENT.search(base) is None:
        return f"{base}{path}" if base.endswith("/openai") else None
    # Only the chat API is below a deployment; the Responses API finds it by the model's name.
    return f"{_DEPLOYMENT.sub('/openai', base)}{path}" if path == "/responses" else f"{base}{path}"
