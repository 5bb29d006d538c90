"""What happens to servers while a session runs, and what becomes of it.

A head that was sent never changes. So the tools of a server that was late, or that has changed its
list, wait for the next new prompt; until then they are found by `McpSearch`, if that is one of the
tools. A prompt of which nothing was sent yet is begun anew at once: nothing is lost by it.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from prong.agent.agent import Renewal
from prong.config.model import system_of
from prong.event import Warned
from prong.prompt import Head, Prompt
from prong.provider import is_local
from prong.session.crew import Crew
from prong.session.mcp_servers import McpServers
from prong.session.parts import Parts
from prong.tools.filter import is_mcp
from prong.tools.mcp import McpResources, McpTool, full_name
from prong.tools.mcp_search import SEARCH
from prong.wire.brief import readable

_MOST = 20
"""Changes that are told: of a server's list, and tools in one line."""


async def follow_servers(parts: Parts, crew: Crew, servers: McpServers) -> None:
    """Take in what servers tell, one after the other, until the session ends."""
    late = set(servers.starting)
    catch_up(parts, crew, servers)
    if late:
        _tell(parts, _waiting(servers.starting, parts))
    changes: Counter[str] = Counter()
    while True:
        # What was there before the first prompt is no news.
        came = [n for n in await servers.news.next() if n.what == "changed" or n.server in late]
        if parts.over:
            # Servers are being ended; what they lose by it is no change of the session's tools.
            continue
        late -= {news.server for news in came}
        for news in came:
            if news.what == "failed":
                _tell(parts, f"MCP server {news.server!r} could not be started: {news.detail}")
        ready = [news.server for news in came if news.what == "ready"]
        changed = {news.server: news.detail for news in came if news.what == "changed"}
        if not ready and not changed:
            continue
        how = renew(parts, crew)
        if ready:
            _tell(parts, f"{_ready(servers, ready)}; {how}")
        for name, detail in changed.items():
            changes[name] += 1
            if changes[name] <= _MOST:
                more = "; no more is said of it" if changes[name] == _MOST else ""
                _tell(parts, f"MCP server {name!r} has changed its tools ({detail}); {how}{more}")


def catch_up(parts: Parts, crew: Crew, servers: McpServers) -> None:
    """See what has changed since the head of a resumed session was made, and say it."""
    names = parts.agent.conversation.prompt.head.tools
    told = {name for name in names if is_mcp(name)}
    served = (tool for tool in crew.renewed().kit if isinstance(tool, McpTool | McpResources))
    have = {tool.name for tool in served}
    came = set[str]() if SEARCH in names else have - told
    ready = [full_name(one.spec.name, "") for one in servers.servers if one.state == "ready"]
    went = {name for name in told - have if any(name.startswith(lead) for lead in ready)}
    if parts.over or crew.coordinates or not (came or went):
        return
    listed = [*(f"+{name}" for name in sorted(came)), *(f"-{name}" for name in sorted(went))]
    more = f" and {len(listed) - _MOST} more" if len(listed) > _MOST else ""
    changes = f"{', '.join(listed[:_MOST])}{more}"
    how = renew(parts, crew)
    _tell(parts, f"tools of MCP servers since this session began: {changes}; {how}")


def _tell(parts: Parts, text: str) -> None:
    if not parts.bus.closed:
        parts.agent.emit(Warned(text=text))


def _waiting(names: tuple[str, ...], parts: Parts) -> str:
    listed = ", ".join(names)
    found = SEARCH in parts.agent.conversation.prompt.head.tools
    how = "found by McpSearch when it is ready" if found else "there with the next new prompt"
    return f"still starting: MCP server {listed}; the session goes on, and its tools are {how}"


def _ready(servers: McpServers, names: list[str]) -> str:
    told: list[str] = []
    for name in names:
        server = servers.named(name)
        assert server is not None
        count, notes = len(server.features.tools), server.features.notes
        tools = f"{count:,} tool{'' if count == 1 else 's'}"
        told.append(f"{name} ({', '.join((tools, *notes))})")
    return f"ready: MCP server {', '.join(told)}"


def renew(parts: Parts, crew: Crew) -> str:
    """Let agents have the tools that servers have by now; gives when the main agent has them."""
    agent, fresh = parts.agent, crew.renewed()
    parts.supervisor.resolver.renew(fresh.pool, fresh.place)
    if crew.coordinates:
        return "the next worker has its tools"
    prompt = agent.conversation.prompt
    window = None if is_local(prompt.head.model) else fresh.place.options.context_tokens
    spec = replace(
        prompt.head.spec,
        tools=readable(fresh.kit.specs(), window),
        system=system_of(fresh.place),
    )
    if spec.tools == prompt.head.spec.tools:
        # What waited may have been taken back; what servers say of themselves may be new.
        waits = (
            None
            if spec == prompt.head.spec
            else Renewal(Head(prompt.head.dialect, spec), fresh.kit)
        )
        agent.renew(fresh.fitted(prompt.head).kit, waits)
        return "the prompt tells of its tools already"
    head = Head(prompt.head.dialect, spec)
    if not prompt.depth and not parts.busy:
        detail = "servers became ready"
        agent.restart(Prompt(head), reason="tools", detail=detail, kit=fresh.kit)
        return "its tools stand in the prompt, of which nothing was sent yet"
    agent.renew(fresh.fitted(prompt.head).kit, Renewal(head, fresh.kit))
    if SEARCH in prompt.head.tools:
        return "McpSearch finds its tools now, and the next new prompt has them"
    return "its tools come with the next new prompt: /clear, /compact, another model"
