"""Panes by a program of the user's own, which is asked in JSON."""

from __future__ import annotations

import os.path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec

from prong.errors import BadInput, PaneFailed
from prong.foreign_json import NOT_JSON
from prong.host.pane.pane import OpenedPane, Pane, PaneBackend, PaneSetup, PaneSpec, shown_title
from prong.host.pane.pane_program import PaneProgram

VERSION = 1
PaneVerb: TypeAlias = Literal["open", "list", "title", "close", "hide", "show"]
_NOTE = 300
"""Characters of a note that are shown."""


class OpenAnswer(msgspec.Struct, frozen=True):
    """What the program says when it has opened a pane."""

    id: str
    note: str = ""


class ListedPane(msgspec.Struct, frozen=True):
    """What the program says of a pane that is there."""

    id: str
    mark: str
    """As it was given when the pane was opened."""
    pid: int | None = None
    dead: bool = False
    status: int | None = None
    hidden: bool = False


class ListAnswer(msgspec.Struct, frozen=True):
    """What the program says when it is asked for its panes."""

    panes: tuple[ListedPane, ...]


class DoneAnswer(msgspec.Struct, frozen=True):
    """What the program says to everything else: nothing."""


Answered = TypeVar("Answered", OpenAnswer, ListAnswer, DoneAnswer)


class CommandPanes(PaneBackend):
    """Panes that a program of the user's opens; docs/teams.md has its contract."""

    name: ClassVar[str] = "command"

    def __init__(self, setup: PaneSetup) -> None:
        """Start nothing yet.

        Raises BadInput if no program is set.
        """
        super().__init__(setup)
        if not setup.command or not setup.command[0]:
            raise BadInput('no program is set; name one, e.g. "team": {"command": ["my-panes"]}')
        self._program = PaneProgram(
            host=setup.host,
            argv=(os.path.expanduser(setup.command[0]), *setup.command[1:]),  # noqa: PTH111 - leaves ~nobody alone
            name=f"the command {setup.command[0]}",
            remedy="correct the setting team.command",
            seconds=setup.seconds,
        )

    async def open(self, spec: PaneSpec) -> OpenedPane:
        """Have a pane opened."""
        answer = await self._ask(
            "open",
            OpenAnswer,
            mark=self.setup.mark(spec.member).text,
            team=self.setup.team,
            leader=self.setup.leader,
            member=spec.member,
            title=spec.heading,
            colour=spec.colour,
            argv=spec.argv,
            cwd=spec.cwd,
            env=dict(spec.env),
        )
        if not answer.id:
            raise PaneFailed(f"{self._program.name} open gave an empty id")
        return OpenedPane(answer.id, shown_title(answer.note, _NOTE))

    async def panes(self) -> list[Pane]:
        """List the panes that carry marks of this leader."""
        answer = await self._ask("list", ListAnswer, team=self.setup.team, leader=self.setup.leader)
        return [
            Pane(
                id=pane.id,
                member=member,
                pid=pane.pid,
                dead=pane.dead,
                status=pane.status,
                hidden=pane.hidden,
            )
            for pane in answer.panes
            if (member := self.setup.member(pane.mark)) is not None
        ]

    async def title(self, pane_id: str, text: str) -> None:
        """Have a pane named."""
        if await self._has(pane_id):
            await self._ask("title", DoneAnswer, id=pane_id, title=shown_title(text))

    async def close(self, pane_id: str) -> None:
        """Have a pane closed."""
        if await self._has(pane_id):
            await self._ask("close", DoneAnswer, id=pane_id)

    async def hide(self, pane_id: str) -> None:
        """Have a pane hidden, if the program can."""
        if await self._has(pane_id):
            await self._ask("hide", DoneAnswer, id=pane_id)

    async def show(self, pane_id: str) -> None:
        """Have a pane shown again, if the program can."""
        if await self._has(pane_id):
            await self._ask("show", DoneAnswer, id=pane_id)

    async def _has(self, pane_id: str) -> bool:
        """Whether a pane is there and ours: an id may have become another's."""
        return any(pane.id == pane_id for pane in await self.panes())

    async def _ask(self, verb: PaneVerb, kind: type[Answered], **fields: Any) -> Answered:
        question = msgspec.json.encode({"v": VERSION, "verb": verb, **fields})
        said = await self._program.run(stdin=question + b"\n")
        try:
            fault = msgspec.json.decode(said, type=dict[str, Any]).get("error")
            if fault is None:
                return msgspec.json.decode(said, type=kind)
        except NOT_JSON as error:
            raise PaneFailed(
                f"{self._program.name} answered {verb!r} with something else than the JSON that "
                f"docs/teams.md asks for ({error}): {said[:200]!r}",
                detail=said,
            ) from error
        raise PaneFailed(f"{self._program.name} refused {verb!r}: {fault}", detail=str(fault))
