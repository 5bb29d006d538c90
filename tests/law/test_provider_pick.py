from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.errors import BadInput, Unauthorised, UsageError
from prong.provider import Patience, pick
from prong.provider.address import Proxy, proxy_for, read_url
from prong.provider.api import address

KEYS = {"ANTHROPIC_API_KEY": "a-key", "OPENAI_API_KEY": "o-key", "GEMINI_API_KEY": "g-key"}


@pytest.mark.spec("L9")
@pytest.mark.parametrize(
    ("model", "dialect", "name"),
    [
        ("claude-sonnet-5-5", "anthropic", "claude-sonnet-5-5"),
        ("gpt-6", "responses", "gpt-6"),
        ("o3-mini", "responses", "o3-mini"),
        ("codex-mini", "responses", "codex-mini"),
        ("chatgpt-4o-latest", "responses", "chatgpt-4o-latest"),
        ("openai:anything:7b", "responses", "anything:7b"),
        ("openai-chat:gpt-6", "chat", "gpt-6"),
        ("chat:qwen3:8b", "chat", "qwen3:8b"),
        ("anthropic:my-own", "anthropic", "my-own"),
        ("gemini-2.5-pro", "gemini", "gemini-2.5-pro"),
        ("gemini:my-tuned", "gemini", "my-tuned"),
    ],
)
def test_a_name_chooses_its_api(model: str, dialect: str, name: str):
    """A prefix decides, else the beginning of the name."""
    endpoint, bare = pick(model, env=KEYS)

    assert (endpoint.dialect, bare) == (dialect, name)


@pytest.mark.spec("L9")
def test_an_unknown_name_needs_a_server_or_a_prefix():
    """With a base URL it is a chat model; without one the error says how to choose."""
    with pytest.raises(UsageError, match=r"qwen3.*--base-url.*--api"):
        pick("qwen3", env=KEYS)
    for chosen in (
        pick("qwen3", base_url="http://localhost:8000", env={}),
        pick("qwen3:8b", env={"PRONG_BASE_URL": "http://localhost:8000/v1"}),
        pick("qwen3", env={"OPENAI_BASE_URL": "http://localhost:8000/v1"}),
    ):
        assert chosen[0].dialect == "chat"
        assert chosen[0].headers == ()


@pytest.mark.spec("L9")
@pytest.mark.parametrize("name", ["glm-5", "gpt-6", "gemini-4-argon"])
@pytest.mark.parametrize("variable", ["ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_OPUS_MODEL"])
def test_what_anthropics_variables_name_is_asked_at_their_gateway(variable: str, name: str):
    """A gateway calls its models as it likes; another server that was named goes first."""
    gate = {"ANTHROPIC_BASE_URL": "http://gate.example", "ANTHROPIC_AUTH_TOKEN": "t"}
    env = {**KEYS, **gate, variable: f"{name}[1m]"}
    endpoint, bare = pick(name, env=env)
    assert (endpoint.base_url, endpoint.dialect, bare) == ("http://gate.example", "anthropic", name)
    assert dict(endpoint.headers)["authorization"] == "Bearer t"
    assert pick(name, base_url="http://x", env=env)[0].dialect != "anthropic"
    assert pick(name, api="chat", env=env)[0].base_url == "https://api.openai.com/v1"


@pytest.mark.spec("L9")
def test_a_name_that_may_be_a_gateways_is_told_how_to_ask_there():
    """A name of an option alone is not taken for the gateway's: it may be mistyped."""
    with pytest.raises(UsageError, match="write anthropic:glm-5 if ANTHROPIC_BASE_URL has it"):
        pick("glm-5", env={"ANTHROPIC_BASE_URL": "http://gate.example"})


@pytest.mark.spec("L9")
def test_the_api_may_be_named_apart_from_the_model():
    """A flag or PRONG_API decides for any name; a contradiction is an error."""
    assert pick("qwen", api="chat", base_url="http://x", env={})[0].dialect == "chat"
    assert pick("gpt-6", base_url="http://x", env={"PRONG_API": "chat"})[0].dialect == "chat"
    with pytest.raises(UsageError, match="give one"):
        pick("openai:x", api="chat", env=KEYS)
    with pytest.raises(UsageError, match="PRONG_API is 'soap'"):
        pick("x", env={"PRONG_API": "soap"})


@pytest.mark.spec("L9")
def test_each_vendor_gets_its_own_key_in_its_own_header():
    """Keys come from the argument, PRONG_API_KEY or the vendor's variable, in that order."""
    env = {**KEYS, "ANTHROPIC_AUTH_TOKEN": "token"}
    anthropic, _ = pick("claude-x", env=env)
    assert dict(anthropic.headers) == {"anthropic-version": "2023-06-01", "x-api-key": "a-key"}
    assert anthropic.key_source == "ANTHROPIC_API_KEY"
    token, _ = pick("claude-x", env={"ANTHROPIC_AUTH_TOKEN": "token"})
    assert dict(token.headers)["authorization"] == "Bearer token"
    openai, _ = pick("gpt-6", env=env)
    assert openai.headers == (("authorization", "Bearer o-key"),)
    own, _ = pick("gpt-6", env={**env, "PRONG_API_KEY": "mine"})
    assert own.headers == (("authorization", "Bearer mine"),)
    given_key, _ = pick("gpt-6", key="given\n", env={**env, "PRONG_API_KEY": "mine"})
    assert given_key.headers == (("authorization", "Bearer given"),)
    header, _ = pick("gpt-6", headers=[("Authorization", "Custom x")], env=env)
    assert header.headers == (("authorization", "Custom x"),)
    alone, _ = pick("gpt-6", headers=[("Authorization", "Custom x")], env={})
    assert alone.headers == header.headers
    assert "o-key" not in repr(openai)
    assert "o-key" not in str(openai)


@pytest.mark.spec("L9")
def test_a_missing_key_matters_only_to_the_vendor():
    """The vendor's own server needs one, and the error names the variable; a local one does not."""
    with pytest.raises(Unauthorised, match="set ANTHROPIC_API_KEY"):
        pick("claude-x", env={})
    with pytest.raises(Unauthorised, match="set OPENAI_API_KEY"):
        pick("gpt-6", base_url="https://api.openai.com/v1", env={})
    assert pick("claude-x", env={"ANTHROPIC_BASE_URL": "http://localhost:1"})[0].key_source == ""


@pytest.mark.spec("L9")
def test_gemini_has_an_api_of_its_own():
    """At Google by that API and key; behind a gateway by the chat API, as gateways have it."""
    google, _ = pick("gemini-3.8-flash", env=KEYS)
    assert google.headers == (("x-goog-api-key", "g-key"),)
    assert google.base_url == "https://generativelanguage.googleapis.com/v1beta"
    assert google.explicit is False
    gate, _ = pick("gemini-3.8-flash", base_url="http://gate.test", env=KEYS)
    assert (gate.dialect, dict(gate.headers)["authorization"]) == ("chat", "Bearer o-key")
    own, _ = pick("gemini-3", env={"GOOGLE_GEMINI_BASE_URL": "http://g.test/v1beta"})
    assert (own.dialect, own.base_url, own.headers) == ("gemini", "http://g.test/v1beta", ())
    url = "https://generativelanguage.googleapis.com/v1beta/openai"
    assert pick("gemini-3", base_url=url, env=KEYS)[0].dialect == "chat"
    assert pick("x", base_url=url.removesuffix("/openai"), env=KEYS)[0].dialect == "gemini"
    with pytest.raises(Unauthorised, match="set GEMINI_API_KEY"):
        pick("gemini-2.5-pro", env={"OPENAI_API_KEY": "o"})


AZURE = {"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/", "AZURE_OPENAI_API_KEY": "az-key"}


@pytest.mark.spec("L9")
@pytest.mark.parametrize(
    ("model", "given", "env", "dialect", "url"),
    [
        ("azure:my-gpt", {}, {}, "chat", "https://r.openai.azure.com/openai/v1"),
        ("azure:gpt-6", {}, {}, "responses", "https://r.openai.azure.com/openai/v1"),
        (
            "azure:gpt-6",
            {},
            {"OPENAI_API_VERSION": "2026-09-01"},
            "responses",
            "https://r.openai.azure.com/openai?api-version=2026-09-01",
        ),
        (
            "azure:gpt-6",
            {"api": "chat"},
            {"OPENAI_API_VERSION": "2026-09-01"},
            "chat",
            "https://r.openai.azure.com/openai/deployments/gpt-6?api-version=2026-09-01",
        ),
        (
            "gpt-6",
            {"base_url": "https://gate.test/openai/deployments/gpt-6?api-version=1"},
            {},
            "chat",
            "https://gate.test/openai/deployments/gpt-6?api-version=1",
        ),
    ],
)
def test_azure_is_reached_by_deployment(
    model: str, given: dict[str, Any], env: dict[str, str], dialect: str, url: str
):
    """The address is put together from its variables, and the key goes into its own header."""
    endpoint, _ = pick(model, env={**AZURE, **env, "OPENAI_API_KEY": "o-key"}, **given)

    assert (endpoint.dialect, endpoint.base_url) == (dialect, url)
    assert endpoint.headers == (("api-key", "az-key"),)
    assert endpoint.explicit is False


@pytest.mark.spec("L9")
@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1"),
        ("https://gate.test/azure/", "https://gate.test/azure/openai/v1"),
        ("https://openai.test", "https://openai.test/openai/v1"),
        ("https://gate.test/openai/v1", "https://gate.test/openai/v1"),
        (
            "https://gate.test/openai/deployments/dep?api-version=1",
            "https://gate.test/openai/deployments/dep?api-version=1",
        ),
    ],
)
def test_an_address_beside_azure_is_that_of_the_resource(given: str, base: str):
    """Whatever the host, `azure:` is asked in Azure's way, with Azure's key in its header."""
    endpoint, name = pick("azure:dep", base_url=given, env={"AZURE_OPENAI_API_KEY": "az-key"})

    assert (endpoint.base_url, name) == (base, "dep")
    assert dict(endpoint.headers) == {"api-key": "az-key"}


def test_two_deployments_contradict_each_other():
    """The name and the address must mean one deployment."""
    with pytest.raises(BadInput, match="azure:a and the address of the deployment b contradict"):
        pick("azure:a", base_url="https://r.openai.azure.com/openai/deployments/b", env=AZURE)


def test_azures_key_stays_at_azure():
    """No other vendor is sent it, and without any the error names its variable."""
    assert pick("gpt-6", env={**AZURE, **KEYS})[0].headers == (("authorization", "Bearer o-key"),)
    assert pick("x", base_url="http://else.test", env=AZURE)[0].headers == ()
    with pytest.raises(Unauthorised, match="set AZURE_OPENAI_API_KEY"):
        pick("azure:x", env={"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com"})
    with pytest.raises(UsageError, match="set AZURE_OPENAI_ENDPOINT"):
        pick("azure:x", env={"AZURE_OPENAI_API_KEY": "k"})
    token, _ = pick(
        "azure:x", env={**AZURE, "AZURE_OPENAI_API_KEY": "", "AZURE_OPENAI_AD_TOKEN": "t"}
    )
    assert token.headers == (("authorization", "Bearer t"),)
    claude, _ = pick("claude-x", base_url="https://r.services.ai.azure.com/anthropic", env=KEYS)
    assert dict(claude.headers)["x-api-key"] == "a-key"


@pytest.mark.spec("L9")
def test_what_is_for_one_vendor_is_sent_to_no_other():
    """Headers and keys that were set for Anthropic, or for Azure, stay with them."""
    env = {**KEYS, "ANTHROPIC_CUSTOM_HEADERS": "X-Team: core"}
    assert dict(pick("claude-x", env=env)[0].headers)["x-team"] == "core"
    assert "x-team" not in dict(pick("gpt-6", env=env)[0].headers)
    assert pick("claude-x", key_helper="ask", env={})[0].key_helper == "ask"
    assert pick("m", base_url="http://x.test", key_helper="ask", env={})[0].key_helper == ""
    with pytest.raises(Unauthorised):
        pick("gpt-6", key_helper="ask", env={})
    assert pick("x", base_url="https://evilopenai.azure.com", env=AZURE)[0].headers == ()


@pytest.mark.spec("L9")
def test_what_is_nearer_counts():
    """Options go before variables, and a header that says who asks before a key."""
    env = {**KEYS, "ANTHROPIC_CUSTOM_HEADERS": "X-Team: core", "PRONG_BASE_URL": "http://b.test"}
    given = (("X-Team", "mine"), ("Authorization", "me"), ("Anthropic-Version", "2030-01-01"))
    endpoint, _ = pick("claude-x", base_url="http://a.test", headers=given, env=env)

    assert endpoint.base_url == "http://a.test"
    assert dict(endpoint.headers)["x-team"] == "mine"
    assert dict(endpoint.headers)["anthropic-version"] == "2030-01-01", "before the usual ones too"
    assert "x-api-key" not in dict(endpoint.headers)


@pytest.mark.parametrize(
    ("model", "explicit"),
    [
        ("gpt-5.6", True),
        ("gpt-5.6-luna", True),
        ("gpt-6", True),
        ("gpt-6.1-codex", True),
        ("gpt-10", True),
        ("gpt-5.5-pro", False),
        ("gpt-5", False),
        ("gpt-4o", False),
        ("gpt-4.1", False),
        ("o3", False),
    ],
)
def test_marks_are_for_models_that_know_them(model: str, explicit: bool):
    """OpenAI's models understand cache marks since 5.6, on its own servers; a setting overrules."""
    assert pick(model, env=KEYS)[0].explicit is explicit
    assert pick(model, base_url="http://localhost", env={})[0].explicit is False
    assert pick(model, explicit=not explicit, env=KEYS)[0].explicit is not explicit


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "/v1/messages", "https://api.anthropic.com/v1/messages"),
        ("http://localhost:8000", "/responses", "http://localhost:8000/v1/responses"),
        ("http://localhost:8000/v1", "/responses", "http://localhost:8000/v1/responses"),
        ("https://a.test/v1beta/openai/", "/responses", "https://a.test/v1beta/openai/responses"),
        ("https://a.test/api/v4", "/responses", "https://a.test/api/v4/responses"),
        ("https://a.test/gate", "/responses", "https://a.test/gate/v1/responses"),
        ("https://v2.test", "/responses", "https://v2.test/v1/responses"),
        ("https://a.test/v1?api-version=3", "/responses", "https://a.test/v1/responses?api-version=3"),
        ("https://g.test", "/v1beta/models/m:g?alt=sse", "https://g.test/v1beta/models/m:g?alt=sse"),
        ("https://g.test/gemini/", "/v1beta/models/m:g", "https://g.test/gemini/v1beta/models/m:g"),
        ("https://g.test/v1beta", "/v1beta/models/m:g", "https://g.test/v1beta/models/m:g"),
        ("https://g.test/v1alpha", "/v1beta/models/m:g", "https://g.test/v1alpha/models/m:g"),
        ("https://a.test/v1/chat/completions", "/chat/completions", "https://a.test/v1/chat/completions"),
        ("https://a.test/openai/deployments/d?api-version=3", "/chat/completions",
         "https://a.test/openai/deployments/d/chat/completions?api-version=3"),
        ("https://a.test/openai/deployments/d/chat/completions?api-version=3", "/chat/completions",
         "https://a.test/openai/deployments/d/chat/completions?api-version=3"),
        ("https://a.test/openai/deployments/d?api-version=3", "/responses",
         "https://a.test/openai/responses?api-version=3"),
        ("https://a.test/openai?api-version=3", "/responses", "https://a.test/openai/responses?api-version=3"),
        ("https://r.openai.azure.com/openai/v1/", "/responses", "https://r.openai.azure.com/openai/v1/responses"),
    ],
)  # fmt: skip
def test_a_base_url_may_name_the_version_or_not(base: str, path: str, url: str):
    """The version is there once, whoever named it."""
    assert address(base, path) == url


@pytest.mark.parametrize(
    ("rules", "direct"),
    [
        ("", False),
        ("*", True),
        ("a.test", True),
        (".a.test", True),
        ("*.a.test", True),
        ("b.test, A.TEST", True),
        ("api.a.test:443", True),
        ("api.a.test:80", False),
        ("i.a.test", False),
        ("10.0.0.0/8", False),
    ],
)
def test_no_proxy_names_hosts_and_their_subdomains(rules: str, direct: bool):
    """NO_PROXY is matched by whole labels, by port and by network."""
    env = {"https_proxy": "http://p.test:3128", "NO_PROXY": rules}

    assert (proxy_for(read_url("https://api.a.test/"), env) is None) is direct


def test_the_proxy_is_chosen_by_scheme():
    """ALL_PROXY stands in for either; loopback is never proxied; SOCKS is refused by name."""
    env = {"HTTPS_PROXY": "s.test:1", "ALL_PROXY": "http://a.test:2"}
    found = proxy_for(read_url("http://x.test/"), env)
    assert found is not None
    assert found.url.place == "a.test:2"
    secure = proxy_for(read_url("https://x.test/"), env)
    assert isinstance(secure, Proxy)
    assert (secure.url.place, secure.variable) == ("s.test:1", "HTTPS_PROXY")
    for loopback in ("http://localhost:1/", "http://127.0.0.1/", "http://[::1]/"):
        assert proxy_for(read_url(loopback), env) is None
    ten = {**env, "NO_PROXY": "10.0.0.0/8"}
    assert proxy_for(read_url("http://10.1.2.3/"), ten) is None
    with pytest.raises(UsageError, match=r"ALL_PROXY.*only HTTP proxies") as caught:
        proxy_for(read_url("http://x.test/"), {"ALL_PROXY": "socks5://u:secret@x:1"})
    assert "secret" not in str(caught.value)


@pytest.mark.spec("L10")
@given(st.integers(1, 60), st.none() | st.floats(0, 1e4), st.randoms(use_true_random=False))
def test_a_wait_is_bounded_and_never_sooner_than_asked(attempt: int, asked: float | None, random):
    """Full jitter under a growing bound, or what the provider asked for and a little more."""
    patience = Patience()
    wait = patience.wait(attempt, asked, random)

    if asked is None:
        assert 0 <= wait <= min(32, 0.5 * 2 ** (attempt - 1))
    else:
        assert asked <= wait <= asked + 1
