"""What settings hold once all their files are joined: one value with a type for every key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from prong.agent.spec import INHERIT
from prong.cost.budget import Bounds
from prong.host.pane import BESIDE
from prong.host.target import RemoteTarget
from prong.wire import Ttl


class ForkValues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The setting `fork`."""

    enabled: bool = True
    dispatch: Literal["auto", "keep", "drop"] = "auto"
    schedule: Literal["auto", "at_once", "leader", "prewarm"] = "auto"
    break_even: Literal["off", "warn", "choose"] = "off"
    turns: int | None = None
    wake: Literal["each", "all"] | None = None


class AgentValues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The setting `agents`."""

    backend: Literal["inline", "process"] = "inline"
    model: str = INHERIT
    permission_mode: Literal["default", "acceptEdits"] = "default"


class TeamValues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The setting `team`."""

    enabled: bool = False
    backend: str = "auto"
    window: int = BESIDE
    command: tuple[str, ...] = ()


class RemoteValues(msgspec.Struct, frozen=True, kw_only=True):
    """The setting `remote`."""

    default: str = ""
    targets: Mapping[str, RemoteTarget] = {}


class HandbackValues(msgspec.Struct, frozen=True, kw_only=True):
    """The setting `handback`."""

    model: str = ""


class McpValues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The setting `mcp`."""

    wait: float = 1.0
    search_above: int = 40_000


class SandboxValues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The setting `sandbox`."""

    mode: Literal["on", "off", "required"] = "on"
    network: Literal["none", "working", "always"] = "working"
    unix_sockets: bool = False
    caches: tuple[str, ...] | None = None
    writable: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


class StatusLineValues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The setting `statusLine`."""

    type: Literal["command"] = "command"
    command: str = ""
    padding: int = 0
    refresh_interval: float | None = None


class TelemetryValues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The setting `telemetry`."""

    enabled: bool | None = None
    content: bool = False
    old_cache_name: bool = False


class WebValues(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The setting `web`."""

    fetch: bool = True
    private_hosts: tuple[str, ...] = ()
    search: Literal["auto", "provider", "off"] = "auto"
    search_url: str = ""
    search_headers: Mapping[str, str] = {}


class Values(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Every setting but permissions and hooks; docs/settings.md says what each means.

    None, or what is empty, was not set. The names in files are these in camel case.
    """

    model: str | None = None
    base_url: str | None = None
    api: str | None = None
    proxy: str | None = None
    api_key_helper: str | None = None
    effort: str | None = None
    temperature: float | None = None
    seed: int | None = None
    cache_ttl: Ttl | None = None
    cache_diagnostics: bool = True
    cache_marks: bool | None = None
    titles: bool = True
    cleanup_period_days: int | None = None
    memory: bool = False
    suggest: bool = False
    confirm_above_usd: float | None = None
    ui: Literal["full", "line"] | None = None
    theme: Literal["ansi", "dark", "light", "none"] | None = None
    wheel_rows: int = 3
    status_line: StatusLineValues = StatusLineValues()
    background: bool = True
    scratchpad: bool = True
    compact_at: float | None = None
    max_turns: int | None = None
    max_budget_usd: float | None = None
    env: Mapping[str, str] = {}
    pass_env: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    worktree: Mapping[str, Any] = {}
    fork: ForkValues = ForkValues()
    agents: AgentValues = AgentValues()
    team: TeamValues = TeamValues()
    remote: RemoteValues = RemoteValues()
    retry: Mapping[str, Any] = {}
    explore_model: str | None = None
    worker_tools: str | None = None
    pull_seconds: float | None = None
    model_aliases: Mapping[str, str] = {}
    foreground_seconds: float | None = None
    session_budget: Bounds = Bounds()
    task_budget: Bounds = Bounds()
    handback: HandbackValues = HandbackValues()
    sandbox: SandboxValues = SandboxValues()
    telemetry: TelemetryValues = TelemetryValues()
    mcp: McpValues = McpValues()
    web: WebValues = WebValues()
    enable_all_project_mcp_servers: bool = False
    enabled_mcpjson_servers: tuple[str, ...] = ()
    disabled_mcpjson_servers: tuple[str, ...] = ()
