"""What an agent of a type is made of: which model, which tools, which system prompt."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from prong.agent import Agent, Hooks, ModelSettings
from prong.agent.spec import INHERIT, AgentType, AgentTypes
from prong.config.alias import cloud_of, is_family
from prong.config.firing import UserHooks
from prong.config.guard import Guard
from prong.config.model import Chosen, choose, notes_of_servers, surroundings
from prong.config.place import Place
from prong.config.sampling import sampling
from prong.cost.fact import LONG_BETA
from prong.entry import ToolSpec
from prong.errors import UnknownName
from prong.journal.note import MemberSpec
from prong.prompt import Head
from prong.provider import Provider, Providers, is_local
from prong.text import load_text, without
from prong.tools.delegate import AgentTool
from prong.tools.filter import (
    Filtered,
    Request,
    absent_tools,
    filter_kit,
    is_brought,
    is_function,
    is_mcp,
    not_there,
)
from prong.tools.kit import Kit
from prong.tools.mcp import McpResources, McpTool, full_name
from prong.tools.mcp_search import CALL, SEARCH, searchable
from prong.tools.policy import Policy, usable_in_plan
from prong.tools.skill import find_skill
from prong.tools.skill_text import preloaded
from prong.tools.tool import Tool
from prong.wire import HeadSpec, dialect
from prong.wire.brief import readable


def describe_agent_tool(
    types: AgentTypes,
    *,
    forks: bool,
    only: tuple[str, ...] | None,
    background: bool = True,
    targets: Sequence[str] = (),
) -> str:
    """Describe the Agent tool with the types, and the other machines, that can be chosen."""
    about = load_text("tool/Agent" if forks else "tool/AgentPlain")
    about = about if background else without(about, "run_in_background")
    if targets:
        about = f"{about.rstrip()}\n{load_text('remote').rstrip()}"
    if len(targets) > 1:
        about = f"{about} `remote:NAME` names the machine: {', '.join(sorted(targets))}."
    listing = types.listing(only).text
    return f"{about}\n\nTypes of agents for `subagent_type`:\n{listing}" if listing else about


def offered(kit: Kit, kind: AgentType) -> list[Tool]:
    """Give the tools of a session with the functions of a type, in the order of all prompts."""
    if not kind.functions:
        return list(kit)
    tools = {tool.name: tool for tool in (*kit, *kind.functions)}.values()

    def place(tool: Tool) -> tuple[int, str]:
        if is_function(tool.name):
            return 1, tool.name
        return (2 if is_mcp(tool.name) else 0), ""

    return sorted(tools, key=place)


def filtered(
    kind: AgentType,
    names: Sequence[str],
    *,
    background: bool,
    policy: Policy | None = None,
    member: MemberSpec | None = None,
    readers: Container[str] = (),
    private: Mapping[str, str] = MappingProxyType({}),
) -> Filtered:
    """Say which tools an agent of a type gets, and which layer takes the others.

    With the `policy` it starts under, the tools of servers are left out that it could not use, and
    so are functions that are not among the `readers`. Servers that are `private` are of one type.
    """
    servers = kind.mcp_servers
    plan = kind.permission_mode == "plan" or (policy is not None and policy.mode == "plan")
    usable = None
    if policy is not None and plan:
        usable = frozenset(
            n
            for n in names
            if is_brought(n) and usable_in_plan(policy, n, reads=is_function(n) and n in readers)
        )
    leads = tuple(full_name(server, "") for server in servers or ())
    shared = without_private(names, private, kind.name)
    offered = [n for n in shared if servers is None or not is_mcp(n) or n.startswith(leads)]
    return filter_kit(
        offered,
        Request(
            custom=kind.custom,
            background=background,
            plan=plan or (member is not None and member.plan),
            usable=usable,
            teammate=member is not None,
            allow=kind.tool_names,
            deny=tuple(kind.disallowed_tools),
        ),
    )


def without_private(names: Iterable[str], private: Mapping[str, str], kind: str) -> list[str]:
    """Leave out the tools of servers that are of other types than this one."""
    others = tuple(full_name(server, "") for server, owner in private.items() if owner != kind)
    return [name for name in names if not is_mcp(name) or not name.startswith(others)]


class TypedParts(Struct, frozen=True, kw_only=True):
    """What a typed child is made of, beside what the tables of isolation say."""

    kind: AgentType
    provider: Provider
    settings: ModelSettings
    head: Head
    kit: Kit
    hooks: Hooks
    model: str
    """The model as it was named, by which it can be found again."""
    spawns: tuple[str, ...] | None = None
    images: bool = True
    edits: bool = False
    """Whether the user's settings let it edit where the mode of the tree would ask."""
    warnings: tuple[str, ...] = ()
    """What of the type's definition could not be honoured."""


def _settings(parent: Agent, chosen: Chosen | None) -> ModelSettings:
    """Give the parent's settings; how much it reads and writes is not that of another model."""
    own = parent.client.settings
    return own if chosen is None else replace(own, context_tokens=None, max_output=None)


class TypeResolver(Struct, kw_only=True):
    """Finds the model, the tools and the head for types of agents, in one session."""

    place: Place
    providers: Providers
    types: AgentTypes
    kit: Kit
    """All tools of the session: a child's are chosen from these, not from its parent's."""
    hooks: UserHooks
    """Those of the session, which every agent has; a type may add its own."""
    cache_key: str
    _heads: dict[tuple[object, ...], Head] = field(default_factory=dict[tuple[object, ...], Head])

    def renew(self, kit: Kit, place: Place) -> None:
        """Choose from other tools from now on; agents that are there keep theirs."""
        self.kit, self.place = kit, place

    def resolve(
        self,
        parent: Agent,
        kind: AgentType,
        *,
        model: str | None,
        background: bool,
        member: MemberSpec | None = None,
    ) -> TypedParts:
        """Find out what an agent of a type is made of here.

        Raises ProngError if its model cannot be used.
        """
        warnings: list[str] = []
        chosen = self._model(parent, kind, model, warnings)
        if chosen is None:
            own = parent.conversation.prompt.head
            provider, wire = parent.client.provider, own.model
            speaks, explicit, betas = own.dialect, own.spec.explicit_marks, own.spec.betas
        else:
            provider, explicit = chosen.connect(self.providers), chosen.endpoint.explicit
            speaks, wire = dialect(chosen.endpoint.dialect, explicit=explicit), chosen.model
            betas = chosen.betas
        policy = parent.policy.policy
        pool = offered(self.kit, kind)
        found = filtered(
            kind,
            [tool.name for tool in pool],
            background=background,
            policy=policy,
            member=member,
            readers={tool.name for tool in pool if tool.effect == "reads"},
            private=self.place.servers.private,
        )
        named = [(one, full_name(one, "")) for one in kind.mcp_servers or ()]
        here = [name for name in self.kit.names if is_mcp(name)]
        missing = [one for one, lead in named if not any(n.startswith(lead) for n in here)]
        warnings += [f"the type names the MCP server {s!r}, which is not there" for s in missing]
        absent = absent_tools(kind.tool_names or (), [tool.name for tool in pool])
        if absent:
            warnings.append(f"the type names tools that are not there: {', '.join(absent)}")
        kit = Kit(self._tools(pool, found, waits=member is not None))
        asked = (wire, betas, speaks.name, explicit, self.place.server_notes)
        key = (kind.name, asked, kit.names, found.spawns, member is not None)
        if (head := self._heads.get(key)) is None:
            reads = None if chosen or is_local(wire) else parent.client.settings.context_tokens
            specs = readable(kit.specs(), reads)
            system = self._system(kind, warnings, absent)
            own = {tool.server for tool in kit if isinstance(tool, McpTool | McpResources)}
            if notes := notes_of_servers(self.place, only=own):
                system = (*system, notes)
            if member is not None:
                system = (*system, load_text("teammate"))
            extra = sampling(self.place, speaks.name)
            spec = self._spec(kind, wire, system, specs, explicit=explicit, extra=extra)
            head = self._heads[key] = Head(speaks, replace(spec, betas=betas))
        return TypedParts(
            kind=kind,
            provider=provider,
            head=head,
            kit=kit,
            hooks=self._hooks(parent, kind),
            model=chosen.named if chosen else "",
            spawns=found.spawns,
            settings=_settings(parent, chosen),
            images=chosen.images if chosen else parent.context.images,
            edits=self.place.settings.values.agents.permission_mode == "acceptEdits",
            warnings=tuple(f"[{warning}]" for warning in warnings),
        )

    def _model(
        self, parent: Agent, kind: AgentType, wanted: str | None, warnings: list[str]
    ) -> Chosen | None:
        """Find the model: as the call names it, the setting for Explore, the type.

        None is the parent's.
        """
        head, values = parent.conversation.prompt.head, self.place.settings.values
        explore = values.explore_model if kind.name == "Explore" else None
        name = wanted or explore or kind.model
        name = values.model_aliases.get(name, name)
        if name in {"", INHERIT, head.model}:
            return None
        if is_family(name) and head.dialect.name != "anthropic":
            warnings.append(
                f"the type's model {name!r} is unknown to this provider, so the agent runs on "
                f"{head.model}; the setting modelAliases can name another"
            )
            return None
        if is_family(name) and (cloud := cloud_of(head.model)):
            # What its parent has been reached by so far is where its family is, too.
            name = f"{cloud}:{name}"
        chosen = choose(self.place, name)
        long = LONG_BETA in head.spec.betas
        same = (chosen.model, LONG_BETA in chosen.betas) == (head.model, long)
        return None if same and chosen.endpoint.dialect == head.dialect.name else chosen

    def _tools(self, pool: Sequence[Tool], found: Filtered, *, waits: bool) -> list[Tool]:
        """Give the tools; a member of a team waits for the agents that it starts."""
        tools = [tool for tool in pool if tool.name in found.kept]
        denied = {one.tool for one in found.removed if one.why.startswith("the type denies")}
        if denied & {SEARCH, CALL}:
            # Who may not search has what it is told of and nothing else.
            tools = [tool for tool in tools if not getattr(tool, "deferred", False)]
        tools = searchable(tools)
        if found.spawns is None and not waits:
            return tools
        return [
            self._bounded(tool, found.spawns, waits=waits) if isinstance(tool, AgentTool) else tool
            for tool in tools
        ]

    def _bounded(self, tool: AgentTool, only: tuple[str, ...] | None, *, waits: bool) -> AgentTool:
        forks, background = tool.forks and not waits, tool.background and not waits
        targets = tool.targets if background else ()
        about = describe_agent_tool(
            self.types, forks=forks, only=only, background=background, targets=targets
        )
        return AgentTool(forks=forks, description=about, background=background, targets=targets)

    def _system(
        self, kind: AgentType, warnings: list[str], absent: Sequence[str]
    ) -> tuple[str, ...]:
        facts = surroundings(self.place, instructions=not kind.omit_instructions)
        parts = [kind.prompt, facts]
        for name in kind.skills:
            if (skill := find_skill(self.place.skills, name)) is not None:
                parts.append(f"# Skill {name}\n\n{preloaded(skill)}")
                if skill.forbids:
                    told = f"disallowed-tools of the skill {name!r} hold where it is used, not here"
                    warnings.append(told)
            else:
                warnings.append(f"the type names the skill {name!r}, which is not there")
        if absent:
            parts.append(not_there(absent))
        return tuple(parts)

    def _spec(
        self,
        kind: AgentType,
        model: str,
        system: tuple[str, ...],
        tools: tuple[ToolSpec, ...],
        *,
        explicit: bool,
        extra: dict[str, Any],
    ) -> HeadSpec:
        options, values = self.place.options, self.place.settings.values
        return HeadSpec(
            model=model,
            system=system,
            tools=tools,
            effort=kind.effort or options.effort or values.effort,
            thinking=options.thinking,
            extra=extra,
            cache_key=f"{self.cache_key}:{kind.name}",
            explicit_marks=explicit,
        )

    def _hooks(self, parent: Agent, kind: AgentType) -> Hooks:
        own = replace(self.hooks, hooks=(*self.hooks.hooks, *kind.hooks))
        above = parent.hooks
        if not isinstance(above, Guard):
            return own
        return above.clone(own, instructed=not kind.omit_instructions)


def known_type(types: AgentTypes, name: str) -> AgentType:
    """Find a type.

    Raises UsageError, with the known ones, if there is none of that name.
    """
    kind = types.get(name)
    if kind is None:
        raise UnknownName(f"there is no agent type {name!r}; the types are: {', '.join(types)}")
    return kind
