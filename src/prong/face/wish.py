"""What slash commands show: each wish to see something, as lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import anyio.to_thread

from prong.errors import BadInput, UnknownName
from prong.face.draw.phrase import dollars
from prong.face.line import describe_usage
from prong.face.slash import HELP, Show
from prong.face.task_list import list_tasks, todos_of, whole_report
from prong.session import Importable, Session, SessionInfo

_WIDE = 70
_DIFF = 2_000
"""Lines of a diff that are shown."""
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
            told = [f"{one.number:3}  {_short(one.title)}" for one in messages]
            return [*told, "/rewind N goes back to before one, in a copy of the session"]
        case "diff":
            return await _diff(session, wish.rest)
        case "export":
            return [await _export(session, wish.rest)]
        case "trace":
            return [await _trace(session, wish.rest)]
        case "web" if wish.rest.split()[:1] == ["act"]:
            return _acting(session, wish.rest.split()[1:])
        case "web":
            return await _page(session, wish.rest)
        case _:
            return [*_SHOWN.get(wish.what, _tasks)(session, wish.rest)]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


async def _diff(session: Session, name: str) -> list[str]:
    """Show what was changed; of very much only the beginning."""
    lines = (await session.records.diff(name)).expandtabs(4).split("\n")
    if lines == [""]:
        return ["nothing was changed"]
    left = len(lines) - _DIFF
    more = [f"… {left:,} more lines; git shows them all"] if left > 0 else []
    return [*lines[:_DIFF], *more]


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
    return await _written(view.cwd, name, f"trace-{view.session_id}.json", data)


async def _page(session: Session, name: str) -> list[str]:
    """Write the session's page to a file."""
    from prong.face.web.standalone import standalone
    from prong.session import open_feed

    view = session.view()
    told: list[str] = []

    def made() -> bytes:
        return standalone(open_feed(view.session_id, told.append), with_text=False)

    data = await anyio.to_thread.run_sync(made)
    written = await _written(view.cwd, name, f"prong-{view.session_id}.html", data)
    live = f"'prong web {view.session_id}' in another terminal shows it live, with texts"
    return [*told, f"{written}, texts left out", live]


def _acting(session: Session, words: list[str]) -> list[str]:
    """Do what `/web act` says: let requests come, let one in by its code, or end all of it.

    Raises UsageError if there is no such request.
    """
    control = session.records.control
    match words:
        case []:
            if control.state == "closed":
                control.open()
            return _acting_state(session)
        case ["off"]:
            return [f"nobody acts in this session any more ({control.close()} sent away)"]
        case [code] if code.isdecimal():
            found = [request for request in control.waiting if request.code == code]
            if len(found) != 1:
                many = "several ask" if found else "nobody asks"
                raise UnknownName(f"{many} with the code {code}; /web act shows who does")
            found[0].settle(allow=True)
            return [f"process {found[0].pid} may act in this session"]
        case _:
            raise BadInput("say /web act, /web act CODE or /web act off")


def _acting_state(session: Session) -> list[str]:
    control = session.records.control
    if control.fault:
        return [f"nobody can act in this session: {control.fault}"]
    asked = "" if control.state == "free" else "; you are asked here before it can do anything"
    return [
        *(f"process {one.pid} (code {one.code}) acts here" for one in control.admitted),
        *(f"process {one.pid} asks, code {one.code}" for one in control.waiting),
        f"'prong web --allow-actions {session.id}' in another terminal: a page to act from{asked}",
    ]


async def _written(folder: str, name: str, usual: str, data: bytes) -> str:
    """Write a file; one that is there is never replaced, and only a name that was given refused."""
    from prong.face.owned_file import write_numbered, write_owned

    def write() -> str:
        if not name:
            return f"written to {write_numbered(Path(folder, usual), data)}"
        path = Path(folder) / Path(name).expanduser()
        write_owned(path, data)
        return f"written to {path}"

    return await anyio.to_thread.run_sync(write)


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
    if not found and not task_id:
        return ["no fork has ended yet: there are no receipts"]
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
