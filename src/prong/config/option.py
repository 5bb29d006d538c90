"""What a caller may ask of a session; the command line's flags mean the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec

from prong.agent.spec import AgentType
from prong.errors import UnknownName, nearest
from prong.journal.note import MemberSpec
from prong.wire import Ttl


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to open a session; what is not given comes from settings or the environment."""

    model: str | None = None
    """Any model: `claude-…`, `gpt-…`, or with a prefix, `anthropic:…`, `openai:…`, `chat:…`."""
    fallback_model: str | None = None
    """What goes on where the model is overloaded."""
    cwd: str | os.PathLike[str] = "."
    """The project folder."""
    base_url: str | None = None
    """Where the model's API is, for any compatible server."""
    api: str | None = None
    """Which API that server speaks: `anthropic`, `responses` or `chat`."""
    api_key: str | None = None
    headers: Mapping[str, str] = {}
    """Sent with every request."""
    proxy: str | None = None
    """The proxy through which servers are reached, in place of the environment's."""
    resume: str | None = None
    """Id, beginning of an id, or name of a session to go on with."""
    continue_last: bool = False
    """Go on with the last session of this folder."""
    fork_session: bool = False
    """Go on in a copy, and leave the resumed session as it is."""
    session_id: str | None = None
    """Id for a new session."""
    persist: bool = True
    """Whether the session is kept when it has ended, and can be resumed."""
    name: str | None = None
    """A name by which the session can be found again."""
    mode: str | None = None
    """Permission mode."""
    allow_actions: bool = False
    """Whether other processes of the user, such as `prong web --allow-actions`, may act in the
    session without anybody being asked: answer, send messages, stop."""
    permission_prompt_tool: str | None = None
    """A tool of an MCP server that is asked for permission where nobody else can be."""
    agent: str | None = None
    """The type of agent that the main agent is to be."""
    worktree: str | None = None
    """A name for a worktree of the repository to work in; empty for one that is made up."""
    team: bool | None = None
    """Whether it may lead a team of agents; None is what the settings say."""
    member: MemberSpec | None = None
    """The member of a team that the main agent is; its leader sets this."""
    coordinator: bool = False
    """Only give work to others: workers do everything."""
    worker_tools: str | None = None
    """What a coordinator's workers have: `simple` (Bash, Read, Edit) or `full`."""
    allow: Sequence[str] = ()
    """Rules for what needs no asking, such as `Bash(npm test:*)`."""
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    add_dirs: Sequence[str | os.PathLike[str]] = ()
    """Further folders the agent may work in."""
    tools: Sequence[str | Callable[..., Any]] | None = None
    """Functions that are tools beside Prong's own; names choose among those: only these."""
    skills: bool = True
    """Whether skills and commands of files are offered."""
    hooks: Sequence[Callable[[Any], Any]] = ()
    """Functions that are told of events and may object, beside the commands of settings."""
    system: str | None = None
    """In place of our own system prompt."""
    append_system: str = ""
    """After the system prompt."""
    max_turns: int | None = None
    max_usd: float | None = None
    max_tokens: int | None = None
    """Tokens in the whole session."""
    max_output: int | None = None
    """Tokens in one reply."""
    context_tokens: int | None = None
    """How many tokens the model can read, where that is not known."""
    compact_at: float | None = None
    """Share of the context at which to compact; 0 never does."""
    effort: str | None = None
    thinking: bool | int | None = None
    temperature: float | None = None
    """How freely the model picks its words; from 0 to 1, or 2 where the API takes that."""
    seed: int | None = None
    """Where the API takes one: what lets the same words be picked again."""
    cache_ttl: Ttl | None = None
    betas: Sequence[str] = ()
    """Names of Anthropic's beta features, sent with every request."""
    settings: Mapping[str, Any] | str | os.PathLike[str] | None = None
    """Settings as a mapping or as JSON, or a file of them."""
    setting_sources: Sequence[str] | None = None
    """Which files of settings are read: some of `user`, `project` and `local`; None for all."""
    mcp_config: Mapping[str, Any] | Sequence[Mapping[str, Any] | str | os.PathLike[str]] = ()
    """Further MCP servers: what such files hold, as mappings or as JSON, or files."""
    strict_mcp: bool = False
    """Only the servers of `mcp_config`."""
    plugin_dirs: Sequence[str | os.PathLike[str]] = ()
    """Folders of plug-ins that count in this session, as they are."""
    bare: bool = False
    """Nothing of the project but its folder, nothing of the home: only what options say."""
    agents: Sequence[AgentType] | Mapping[str, Any] | str | None = None
    """Further types of agents, which go before those of files: values, or by name as in JSON."""
    json_schema: type | Mapping[str, Any] | str | None = None
    """The answer must be an object of this type or JSON schema; a text may name its file."""
    memory: bool | None = None
    """Whether notes are kept for later sessions of the project, and those of earlier ones read."""
    store: str | os.PathLike[str] | None = None
    """In place of `~/.prong`."""
    env: Mapping[str, str] | None = None
    """In place of the process's environment."""
    extra: Mapping[str, Any] = {}
    """Further fields of the request that hold for the whole conversation, such as `top_k`."""


class OptionKeywords(TypedDict, total=False):
    """The fields of `Options` as keywords; a test holds the two together."""

    model: str | None
    fallback_model: str | None
    cwd: str | os.PathLike[str]
    base_url: str | None
    api: str | None
    api_key: str | None
    headers: Mapping[str, str]
    proxy: str | None
    resume: str | None
    continue_last: bool
    fork_session: bool
    session_id: str | None
    persist: bool
    name: str | None
    mode: str | None
    allow_actions: bool
    permission_prompt_tool: str | None
    agent: str | None
    worktree: str | None
    team: bool | None
    member: MemberSpec | None
    coordinator: bool
    worker_tools: str | None
    allow: Sequence[str]
    ask: Sequence[str]
    deny: Sequence[str]
    add_dirs: Sequence[str | os.PathLike[str]]
    tools: Sequence[str | Callable[..., Any]] | None
    skills: bool
    hooks: Sequence[Callable[[Any], Any]]
    system: str | None
    append_system: str
    max_turns: int | None
    max_usd: float | None
    max_tokens: int | None
    max_output: int | None
    context_tokens: int | None
    compact_at: float | None
    effort: str | None
    thinking: bool | int | None
    temperature: float | None
    seed: int | None
    cache_ttl: Ttl | None
    betas: Sequence[str]
    settings: Mapping[str, Any] | str | os.PathLike[str] | None
    setting_sources: Sequence[str] | None
    mcp_config: Mapping[str, Any] | Sequence[Mapping[str, Any] | str | os.PathLike[str]]
    strict_mcp: bool
    plugin_dirs: Sequence[str | os.PathLike[str]]
    bare: bool
    agents: Sequence[AgentType] | Mapping[str, Any] | str | None
    json_schema: type | Mapping[str, Any] | str | None
    memory: bool | None
    store: str | os.PathLike[str] | None
    env: Mapping[str, str] | None
    extra: Mapping[str, Any]


def with_keywords(options: Options, given: Mapping[str, Any]) -> Options:
    """Give options with some of them changed.

    Raises UnknownName, with the nearest, if there is none of a name.
    """
    for name in given:
        if name not in options.__struct_fields__:
            close = nearest(name, options.__struct_fields__)
            hint = f"; did you mean {close!r}?" if close else ""
            raise UnknownName(f"there is no option {name!r}{hint}")
    return msgspec.structs.replace(options, **given)
