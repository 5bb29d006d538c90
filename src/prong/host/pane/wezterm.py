"""Panes of WezTerm, by its program `wezterm cli`.

Its panes carry no mark. A pane's id names the running WezTerm beside the number, so that an id of
one that was closed since means nothing, and what is listed is what this process has opened.
"""

from __future__ import annotations

import os.path
from typing import ClassVar

import anyio
import msgspec

from prong.errors import NotPossibleNow, PaneFailed
from prong.foreign_json import NOT_JSON
from prong.foreign_number import whole_number
from prong.host.pane.pane import COLUMNS, LINES, OpenedPane, Pane, PaneBackend, PaneSetup, PaneSpec
from prong.host.pane.pane_program import PaneProgram, with_variables

REMEDY = "put the wezterm program on the PATH, or choose another back-end with team.backend"


class CellSize(msgspec.Struct, frozen=True):
    """How large a pane is, in the words of WezTerm."""

    rows: int
    cols: int


class WezTermPane(msgspec.Struct, frozen=True):
    """A pane, in the words of WezTerm."""

    pane_id: int
    tab_id: int
    window_id: int
    size: CellSize
    is_zoomed: bool = False


class WezTermPanes(PaneBackend):
    """Panes in the user's WezTerm tab, or tabs of ours."""

    name: ClassVar[str] = "wezterm"

    def __init__(self, setup: PaneSetup) -> None:
        """Ask nothing yet."""
        super().__init__(setup)
        self._program = PaneProgram(
            host=setup.host,
            argv=("wezterm", "cli"),
            name="wezterm cli",
            remedy=REMEDY,
            seconds=setup.seconds,
        )
        self._members: dict[str, str] = {}
        self._hidden = set[str]()

    def _leader(self) -> int:
        """Give the pane that Prong runs in.

        Raises NotPossibleNow.
        """
        number = whole_number(self.setup.host.environment.get("WEZTERM_PANE", ""))
        if number is None:
            raise NotPossibleNow(
                "Prong does not run inside WezTerm (WEZTERM_PANE is not set); start it there, or "
                "choose another back-end with team.backend"
            )
        return number

    def _id(self, number: int) -> str:
        socket = self.setup.host.environment.get("WEZTERM_UNIX_SOCKET", "")
        return f"{os.path.basename(socket)}:{number}"  # noqa: PTH119 - a string throughout

    async def _listed(self) -> dict[str, WezTermPane]:
        said = await self._program.run("list", "--format", "json")
        try:
            found = msgspec.json.decode(said, type=list[WezTermPane])
        except NOT_JSON as error:
            raise PaneFailed(f"wezterm cli list gave no list of panes: {error}") from error
        return {self._id(pane.pane_id): pane for pane in found}

    async def open(self, spec: PaneSpec) -> OpenedPane:
        """Open a pane, and give the focus back to the leader's."""
        leader = self._leader()
        listed = await self._listed()
        way, why = self._place(listed, leader)
        argv = with_variables(spec.argv, spec.env)
        pane_id = ""
        # Cut off in the midst of it, nobody would know the pane's id.
        with anyio.CancelScope(shield=True):
            said = await self._program.run(*way, "--cwd", spec.cwd, "--", *argv)
            if whole_number(said) is None:
                raise PaneFailed(f"wezterm cli {way[0]} gave no pane, but said: {said[:200]!r}")
            try:
                # WezTerm gives a new pane the focus, and has no way to ask it not to.
                await self._program.run("activate-pane", "--pane-id", str(leader))
            except PaneFailed:
                await self._program.ask("kill-pane", "--pane-id", said)
                raise
            pane_id = self._id(int(said))
            self._members[pane_id] = spec.member
        return OpenedPane(pane_id, f"{spec.member} is in a tab of its own: {why}" if why else "")

    def _place(self, listed: dict[str, WezTermPane], leader: int) -> tuple[tuple[str, ...], str]:
        """Say how a pane is opened, and why not beside the leader."""
        me = listed.get(self._id(leader))
        if me is None:
            raise NotPossibleNow(
                f"WezTerm has no pane {leader}, which WEZTERM_PANE names; start Prong anew in it"
            )
        near = [
            pane
            for pane_id, pane in listed.items()
            if pane_id in self._members and pane.tab_id == me.tab_id
        ]
        room = near[-1] if near else me
        half, whole = ("rows", "cols") if near else ("cols", "rows")
        least = {"rows": LINES, "cols": COLUMNS}
        size = {"rows": room.size.rows, "cols": room.size.cols}
        why = ""
        if len(near) >= self.setup.beside:
            why = f"{self.setup.beside} teammates are beside the leader already"
        elif me.is_zoomed:
            why = "this tab is zoomed"
        elif (size[half] - 1) // 2 < least[half] or size[whole] < least[whole]:
            why = f"there is no room beside the leader at {me.size.cols}x{me.size.rows}"
        if why:
            return ("spawn", "--pane-id", str(leader)), why
        side = "--bottom" if near else "--right"
        return ("split-pane", "--pane-id", str(room.pane_id), side, "--percent", "50"), ""

    async def panes(self) -> list[Pane]:
        """List the panes that this process has opened and that are still there."""
        listed = await self._listed()
        self._members = {i: name for i, name in self._members.items() if i in listed}
        return [
            Pane(id=pane_id, member=name, hidden=pane_id in self._hidden)
            for pane_id, name in self._members.items()
        ]

    async def title(self, pane_id: str, text: str) -> None:
        """Refuse: a pane of WezTerm has the title that its program gives it."""
        raise NotPossibleNow(
            f"WezTerm cannot name a pane ({pane_id}, {text!r}); its program can, and Prong does"
        )

    async def close(self, pane_id: str) -> None:
        """Close a pane of the WezTerm that runs now."""
        found = (await self._listed()).get(pane_id)
        if found is not None:
            await self._program.run("kill-pane", "--pane-id", str(found.pane_id))
        self._members.pop(pane_id, None)
        self._hidden.discard(pane_id)

    async def hide(self, pane_id: str) -> None:
        """Move a pane to a tab of its own."""
        found = (await self._listed()).get(pane_id)
        if found is None or pane_id in self._hidden:
            return
        await self._program.run("move-pane-to-new-tab", "--pane-id", str(found.pane_id))
        self._hidden.add(pane_id)
        await self._program.run("activate-pane", "--pane-id", str(self._leader()))

    async def show(self, pane_id: str) -> None:
        """Move a hidden pane beside the leader again."""
        found = (await self._listed()).get(pane_id)
        if found is None or pane_id not in self._hidden:
            return
        leader, moved = str(self._leader()), str(found.pane_id)
        way = ("--pane-id", leader, "--right", "--percent", "50", "--move-pane-id", moved)
        await self._program.run("split-pane", *way)
        self._hidden.discard(pane_id)
        await self._program.run("activate-pane", "--pane-id", leader)
