"""What slash commands show: each wish to see something, as lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import anyio.to_thread

from prong.errors import NotPossibleNow, UnknownName
from prong.face.draw.phrase import dollars
from prong.face.line import describe_usage
from prong.face.slash import HELP, Show
from prong.face.task_list import list_tasks, todos_of, whole_report
from prong.session import Importable, Session, SessionInfo

_WIDE = 70
_LISTED = 30
"""Tools and prompts of a server that are named."""


async def shown(session: Session, wish: Show) -> list[str]:
    """Give the lines that a wish asks for.

    Raises UsageError if there is no such thing.
    """
    match wish.what:
        case "cost":
            from prong.face.spending import describe_cost

            return list(describe_cost(await session.records.costs()))
        case "rewind":
            messages = await session.records.messages()
            told = [f"{one.number:3}  {_short(one.text)}" for one in messages]
            return [*told, "/rewind N goes back to before one, in a copy of the session"]
        case "export":
            return [await _export(session, wish.rest)]
        case "trace":
            return [await _trace(session, wish.rest)]
        case "web":
            return await _page(session, wish.rest)
        case _:
            return [*_SHOWN.get(wish.what, _tasks)(session, wish.rest)]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


async def _export(session: Session, name: str) -> str:
    """Write the conversation to a file, in the format of its name; none is replaced."""
    from prong.face.session_file import write_page

    folder = Path(session.view().cwd)
    whole = await session.records.whole()
    written = await anyio.to_thread.run_sync(write_page, whole, folder, name)
    return f"written to {written}"


async def _trace(session: Session, name: str) -> str:
    """Write the session's timeline to a file."""
    import msgspec

    from prong.timeline import chrome_trace, timeline

    view, events = session.view(), session.events().drain()
    data = await anyio.to_thread.run_sync(
        lambda: msgspec.json.encode(chrome_trace(timeline(events)))
    )
    return await _written(Path(view.cwd, name or f"trace-{view.session_id}.json"), data)


async def _page(session: Session, name: str) -> list[str]:
    """Write the session's page to a file."""
    from prong.face.web.standalone import standalone
    from prong.session import open_feed

    view = session.view()
    told: list[str] = []

    def made() -> bytes:
        return standalone(open_feed(view.session_id, told.append), with_text=False)

    data = await anyio.to_thread.run_sync(made)
    written = await _written(Path(view.cwd, name or f"prong-{view.session_id}.html"), data)
    live = f"'prong web {view.session_id}' in another terminal shows it live, with texts"
    return [*told, f"{written}, texts left out", live]


async def _written(path: Path, data: bytes) -> str:
    """Write a file; one that is there is never replaced."""

    def write() -> None:
        with path.expanduser().open("xb") as file:
            path.expanduser().chmod(0o600)
            file.write(data)

    try:
        await anyio.to_thread.run_sync(write)
    except FileExistsError:
        raise NotPossibleNow(f"{path} is there already; name another file") from None
    except OSError as error:
        raise NotPossibleNow(f"{path} cannot be written ({error.strerror})") from error
    return f"written to {path}"


def _permissions(session: Session, _: str) -> Iterator[str]:
    yield f"mode {session.view().mode}"
    for rule in session.records.rules:
        yield f"{rule.effect:5}  {rule}  ({rule.source})"
    if not session.records.rules:
        yield "no rules"


def _hooks(session: Session, _: str) -> Iterator[str]:
    for hook in session.records.hooks:
        terms = f" ({hook.terms})" if hook.terms else ""
        yield f"{hook.event} {hook.matcher or '*'}{terms}: {hook.line}  ({hook.path})"
    if not session.records.hooks:
        yield "no hooks"


def _mcp(session: Session, _: str) -> Iterator[str]:
    from prong.face.mcp_command import describe_server

    servers = session.records.servers
    for server in servers:
        yield from describe_server(server)
        lead = f"mcp__{server.name}__"
        names = [tool.removeprefix(lead) for tool in server.tools]
        names += [f"/{prompt}" for prompt in server.prompts]
        if kind := session.records.private_servers.get(server.name):
            yield f"    for agents of the type {kind} alone"
        if names:
            more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
            yield f"    {', '.join(names[:_LISTED])}{more}"
    if not servers:
        yield "no MCP servers are configured"


def _context(session: Session, _: str) -> Iterator[str]:
    filled = session.records.context()
    whole = sum(filled.sizes.values()) or 1
    full = filled.tokens / filled.window
    yield f"about {filled.tokens:,} of {filled.window:,} tokens ({full:.0%})"
    for kind, size in filled.sizes.items():
        share = size / whole
        yield f"  {kind:10} {'#' * round(share * 20):20} {share:4.0%}  {size:,} bytes"
    if filled.compact_at:
        yield f"it is compacted at {filled.compact_at:.0%}"


def _usage(session: Session, _: str) -> Iterator[str]:
    from prong.session import money

    view = session.view()
    for agent in view.agents.values():
        name = agent.task_id or agent.path
        yield f"{name}: {describe_usage(agent.usage)}; {money(agent.cost)}"
    yield f"session: {describe_usage(view.usage)}; {money(view.cost)}"


def _receipts(session: Session, task_id: str) -> list[str]:
    from prong.session import describe as describe_receipt

    found = [r for r in session.receipts() if task_id in {"", r.task_id}]
    if not found:
        raise UnknownName("there is no such receipt; /tasks lists what has run")
    return [describe_receipt(receipt) for receipt in found]


def _agents(session: Session, name: str) -> list[str]:
    from prong.face.type_list import list_types, show_type
    from prong.session import type_report

    types = session.records.types
    if not name:
        return list_types(types)
    return show_type(type_report(types, name, session.view().tools))


def _doctor(session: Session, _: str) -> list[str]:
    from prong.face.doctor import describe_findings
    from prong.session import diagnose

    return describe_findings(diagnose(session.view().cwd))


def _memory(session: Session, _: str) -> list[str]:
    from prong.face.inspect import describe_memory

    return describe_memory(session.records.memory)


def _team(session: Session, _: str) -> list[str]:
    return session.records.team()


def _others(session: Session, _: str) -> Iterator[str]:
    for info in session.records.others()[:20]:
        yield f"{info.id}  {describe_session(info)[:55]}"
    for one in session.records.importable()[:20]:
        yield f"{describe_importable(one)[:60]}  {one.path}"
    yield "/resume ID goes on with one, /resume FILE.jsonl with a copy of another program's"


def describe_importable(one: Importable) -> str:
    """Say whose a session is, when it was last used, and what it is about."""
    return f"{one.day[5:]}  {one.program}: {' '.join(one.title.split())}"


def describe_session(info: SessionInfo) -> str:
    """Say when a session was last used, what it cost, and what it is about."""
    day = time.strftime("%m-%d %H:%M", time.localtime(info.modified))
    return f"{day}  {dollars(info.cost):>8}  {info.damage or info.title or '(nothing was said)'}"


def _tasks(session: Session, _: str) -> list[str]:
    return list_tasks(session.view())


_SHOWN: dict[str, Callable[[Session, str], Iterable[str]]] = {
    "help": lambda _, __: [HELP],
    "model": lambda session, _: [session.view().model],
    "mode": lambda session, _: [session.view().mode],
    "effort": lambda session, _: [session.records.effort or "the model's own"],
    "outline": lambda session, _: [session.records.outline()],
    "plan": lambda session, _: [f"plan mode {session.records.plan_file}".strip()],
    "report": lambda session, rest: whole_report(session.view(), rest),
    "tasks": _tasks,
    "todos": lambda session, rest: todos_of(session.view(), rest),
    "team": _team,
    "agents": _agents,
    "receipt": _receipts,
    "resume": _others,
    "doctor": _doctor,
    "memory": _memory,
    "permissions": _permissions,
    "hooks": _hooks,
    "mcp": _mcp,
    "context": _context,
    "usage": _usage,
}
"""What can be shown without waiting, by the name of its command."""
