"""From what a member in a session of its own begins: its leader's conversation, or a type.

A fork's session is a copy of its leader's, cut before the reply that starts it; one of a type has
that type's prompt. What a session of its own could not honour in full is said here too.
"""

from __future__ import annotations

import re
from functools import partial

import anyio.to_thread
from msgspec.structs import replace

from prong.agent.answer import unanswered
from prong.agent.spec import AgentType
from prong.config.option import Options
from prong.config.place import Place
from prong.errors import NotPossibleNow, UnknownName
from prong.event import MAIN
from prong.journal import store
from prong.journal.branch import branch
from prong.journal.note import MemberSpec
from prong.journal.replay import read_journal
from prong.prompt import Prompt
from prong.session.entrance import opened_as
from prong.session.foundation import Foundation
from prong.session.member_start import MemberStart, plain_options
from prong.team.member_record import member_brief
from prong.text import load_text
from prong.tools.delegate import SpawnArguments
from prong.wire import dialect

_OF_TERMINAL = re.compile(
    r"(TERM|TERMINFO|COLORTERM|COLUMNS|LINES|TMUX|WINDOWID|PWD|OLDPWD|SHLVL|SSH_TTY|_)$"
    r"|(TERM_PROGRAM|TERM_SESSION|TMUX_|ITERM_|WEZTERM_|KITTY_|VTE_|XTERM_)"
)
"""Variables that speak of the terminal one sits at, which a pane has of its own."""
_SAME = {"model", "max_turns", "effort", "initial_prompt", "background", "source", "path"}
"""What a session of its own has of a type as an agent of this process has it."""


def unfit(place: Place, args: SpawnArguments) -> str:
    """Say why a member cannot be a session of its own; empty if it can."""
    if args.isolation:
        return "members with a worktree run in the leader's process"
    try:
        plain_options(place.options)
    except NotPossibleNow as error:
        return str(error)
    kind = place.types.get(args.subagent_type or "")
    if args.subagent_type is None or kind is None:
        return ""
    plain = AgentType(name=kind.name, description=kind.description, prompt=kind.prompt)
    fields = set(AgentType.__struct_fields__) - _SAME
    if any(getattr(kind, name) != getattr(plain, name) for name in fields):
        return f"the type {kind.name} has tools, rules or hooks of its own"
    return ""


async def make_start(
    base: Foundation, spec: MemberSpec, session: str, args: SpawnArguments
) -> MemberStart:
    """Make what a member begins with; a fork's session is there when this returns.

    Raises ProngError, OSError.
    """
    place = base.place
    env = {name: value for name, value in place.env.items() if not _OF_TERMINAL.match(name)}
    options = replace(
        place.options,
        resume=None,
        continue_last=False,
        fork_session=False,
        session_id=session,
        name=None,
        team=None,
        member=spec,
        json_schema=None,
        env=None,
        cwd=place.cwd,
        store=place.store.as_posix(),
    )
    if args.subagent_type is None:
        await _copy(base, session)
        options = replace(options, resume=session, session_id=None)
        brief = member_brief(spec, args.prompt, forked=True)
    else:
        kind = _kind(place, args.subagent_type)
        options = _typed(options, kind, args.model)
        said = _joined(kind.initial_prompt, args.prompt)
        brief = member_brief(spec, said, forked=False)
    return MemberStart(spec=spec, given=plain_options(options), env=env, brief=brief)


async def _copy(base: Foundation, session: str) -> None:
    """Copy the conversation as it stood before the reply that starts the member."""
    journal, place = base.journal, base.place
    await journal.sync()
    replay = await anyio.to_thread.run_sync(read_journal, journal.path)
    prompt = replay.agents[MAIN]
    while unanswered(prompt) and prompt.tip is not None:
        prompt = Prompt(prompt.head, prompt.tip.parent)
    lines = {
        one.prompt.tip.digest: one.seq
        for one in replay.entries
        if one.agent == MAIN and one.prompt.tip is not None
    }
    if prompt.tip is None or prompt.tip.digest not in lines:
        raise NotPossibleNow("there is no conversation yet that a fork could go on from")
    make = partial(
        branch,
        journal.path,
        store.location(place.cwd, session, place.store),
        opened_as(place, session),
        dialect,
        upto=lines[prompt.tip.digest],
    )
    await anyio.to_thread.run_sync(make)


def _kind(place: Place, name: str) -> AgentType:
    kind = place.types.get(name)
    if kind is None:
        known = ", ".join(place.types)
        raise UnknownName(f"there is no agent type {name!r}; there are: {known}")
    return kind


def _typed(options: Options, kind: AgentType, model: str | None) -> Options:
    """Give the options of a session that is a member of a type."""
    own = None if kind.model == "inherit" else kind.model
    return replace(
        options,
        system=kind.prompt or None,
        append_system=_joined(options.append_system or "", load_text("teammate")),
        model=model or own or options.model,
        max_turns=kind.max_turns or options.max_turns,
        effort=kind.effort or options.effort,
    )


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)
