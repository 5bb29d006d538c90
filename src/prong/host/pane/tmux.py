"""Panes of tmux.

A pane is opened with a placeholder in it, given its mark, title and options, and only then its
program, which takes the placeholder's place: so they are there before the program can end, and
nothing is ever typed into a shell. The user's focus stays where it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

import anyio

from prong.errors import NotPossibleNow, PaneFailed
from prong.host.host import Host
from prong.host.pane.pane import (
    PATIENCE,
    OpenedPane,
    Pane,
    PaneBackend,
    PaneColour,
    PaneMark,
    PaneSetup,
    PaneSpec,
    shown_title,
)
from prong.host.pane.pane_program import as_words
from prong.host.pane.tmux_server import (
    KIND,
    MARK,
    TITLE,
    TmuxPane,
    TmuxServer,
    escape_format,
    gone,
    placeholder,
)
from prong.host.pane.tmux_spot import OUTSIDE, WINDOW, TmuxSpot, place
from prong.host.pane.tmux_window import keep_layout, restore_layouts, zoom_again
from prong.host.process_end import end_process
from prong.system.identity import started

HIDDEN = "prong-hidden"
_SIZE = ("-x", "200", "-y", "50")
"""A session that nobody has attached to yet."""
_COLOURS: dict[PaneColour, str] = {
    "orange": "colour208",
    "purple": "colour141",
    "pink": "colour211",
}
_NO_ROOM = "no space for new pane"
_NAMES = 20
"""Names that are tried for a session of ours."""


class TmuxPanes(PaneBackend):
    """Panes in the user's tmux window, a window of ours, or a session of ours."""

    name: ClassVar[str] = "tmux"

    def __init__(self, setup: PaneSetup) -> None:
        """Ask nothing yet."""
        super().__init__(setup)
        self._known: TmuxServer | None = None
        self._lock = anyio.Lock()

    async def _server(self) -> TmuxServer:
        """Find the server: the one that Prong runs in if it answers, otherwise the user's own."""
        if self._known is None:
            host = self.setup.host
            inside = await is_inside(host, self.setup.seconds)
            server = TmuxServer(host, inside=inside, seconds=self.setup.seconds)
            await server.version()
            self._known = server
        return self._known

    async def open(self, spec: PaneSpec) -> OpenedPane:
        """Open a pane without taking the user's focus; its program runs when this returns."""
        mark = self.setup.mark(spec.member)
        folder = await self.setup.host.stat(spec.cwd)
        if folder is None or folder.kind != "folder":
            # tmux would start the program elsewhere.
            raise NotPossibleNow(f"the folder {spec.cwd} of {spec.member} is not there")
        async with self._lock:
            server = await self._server()
            panes = await server.panes()
            if server.inside and not panes:
                raise gone("no server is running")
            spot, pane_id = await self._make(server, panes, mark)
            try:
                await self._dress(server, pane_id, spec)
                await self._arrange(server, panes, spot, pane_id)
                await self._start(server, pane_id, spec)
                note = await self._note(server, pane_id, spot, spec.member)
            except BaseException:
                with anyio.CancelScope(shield=True), suppress(PaneFailed):
                    await server.run("kill-pane", "-t", pane_id)
                    await restore_layouts(server)
                raise
        return OpenedPane(pane_id, note)

    def _place(self, server: TmuxServer, panes: Sequence[TmuxPane], *, moved: str = "") -> TmuxSpot:
        ours = {pane.id for pane in panes if self.setup.member(pane.mark) is not None} - {moved}
        leader = self.setup.host.environment.get("TMUX_PANE", "") if server.inside else ""
        return place(panes, leader=leader, ours=ours, beside=self.setup.beside)

    async def _make(
        self, server: TmuxServer, panes: Sequence[TmuxPane], mark: PaneMark
    ) -> tuple[TmuxSpot, str]:
        """Make a pane with a placeholder in it."""
        spot = self._place(server, panes)
        try:
            return spot, await self._split(server, spot, mark)
        except PaneFailed as error:
            if _NO_ROOM not in error.detail:
                raise
        session = next(pane.session for pane in panes if pane.id == spot.target)
        spot = TmuxSpot(how="window", target=session, why="tmux finds no room here")
        return spot, await self._split(server, spot, mark)

    async def _split(self, server: TmuxServer, spot: TmuxSpot, mark: PaneMark) -> str:
        told = ("-P", "-F", "#{pane_id}", "--", *placeholder(mark))
        pane_id = ""
        # Cut off in the midst of it, nobody would know the pane's id.
        with anyio.CancelScope(shield=True):
            if spot.how == "session":
                pane_id = await self._begin_session(server, told)
            elif spot.how == "window":
                where = ("-t", f"{spot.target}:", "-n", WINDOW)
                pane_id = await server.run("new-window", "-d", *where, *told)
            else:
                where = ("-t", spot.target, "-h" if spot.across else "-v", "-l", "50%")
                pane_id = await server.run("split-window", "-d", *where, *told)
        if not re.fullmatch(r"%\d+", pane_id):
            raise PaneFailed(f"tmux gave no pane, but said: {pane_id[:200]!r}", detail=pane_id)
        return pane_id

    async def _begin_session(self, server: TmuxServer, told: tuple[str, ...]) -> str:
        plain = re.sub(r"[^A-Za-z0-9_-]", "-", self.setup.team)
        for number in range(1, _NAMES + 1):
            name = f"prong-{plain}" + (f"-{number}" if number > 1 else "")
            try:
                # Where a user's sessions end when nobody is attached, ours would end at once.
                return await server.begin(
                    *("new-session", "-d", "-s", name, "-n", WINDOW, *_SIZE, *told),
                    then=("set-option", "-t", f"={name}:", "destroy-unattached", "off"),
                )
            except PaneFailed as error:
                if "duplicate session" not in error.detail:
                    raise
        raise PaneFailed(f"there are {_NAMES} tmux sessions prong-{plain} already; end some")

    async def _arrange(
        self, server: TmuxServer, panes: Sequence[TmuxPane], spot: TmuxSpot, pane_id: str
    ) -> None:
        """See to the window that a new pane is in."""
        if spot.how == "beside":
            await keep_layout(server, next(pane for pane in panes if pane.id == spot.target))
        elif spot.how == "tiled":
            await server.run("select-layout", "-t", pane_id, "tiled")
        else:
            await server.run("set-option", "-w", "-t", pane_id, KIND, "team")
            await server.run("set-option", "-w", "-t", pane_id, "pane-border-status", "top")

    async def _dress(self, server: TmuxServer, pane_id: str, spec: PaneSpec) -> None:
        """Give a pane its mark, its options and its title."""
        # The colour of borders is the whole window's, and so the user's; that of a title is ours.
        style = f"fg={_COLOURS.get(spec.colour, spec.colour)}" if spec.colour else "default"
        options = {
            MARK: self.setup.mark(spec.member).text,
            "remain-on-exit": "failed",
            "pane-border-format": f"#[{style},bold] #{{{TITLE}}} #[default]",
        }
        for name, value in options.items():
            await server.run("set-option", "-p", "-t", pane_id, name, value)
        await self._name(server, pane_id, spec.heading)

    async def _name(self, server: TmuxServer, pane_id: str, title: str) -> None:
        await server.run("select-pane", "-t", pane_id, "-T", escape_format(title))
        # The program may name the pane as well; what stands above it stays ours.
        await server.run("set-option", "-p", "-t", pane_id, TITLE, escape_format(title))

    async def _start(self, server: TmuxServer, pane_id: str, spec: PaneSpec) -> None:
        variables = [word for name, value in spec.env.items() for word in ("-e", f"{name}={value}")]
        where = ("-k", "-t", pane_id, "-c", escape_format(spec.cwd))
        await server.run("respawn-pane", *where, *variables, "--", *as_words(spec.argv))

    async def _note(self, server: TmuxServer, pane_id: str, spot: TmuxSpot, member: str) -> str:
        if spot.how == "beside":
            return ""
        panes = await server.panes()
        if not panes:
            raise PaneFailed(
                "tmux ended as soon as it had started; if exit-unattached is on in your tmux.conf, "
                "switch it off, or start Prong inside tmux"
            )
        found = next((pane for pane in panes if pane.id == pane_id), None)
        if found is None:
            return f"the program of {member} has ended already"
        if spot.why == OUTSIDE:
            attach = f"tmux attach -t {found.session_name}"
            return f"{member} is in a tmux session of ours; look at it with: {attach}"
        return f"{member} is in tmux window {found.index} ({WINDOW}): {spot.why}"

    async def panes(self) -> list[Pane]:
        """List the panes of this leader, those of its earlier processes included."""
        server = await self._server()
        listed = await server.panes()
        if any(_is_overlooked(pane) and self.setup.member(pane.mark) for pane in listed):
            await server.look_after_children()
            listed = await server.panes()
        return [
            Pane(
                id=pane.id,
                member=member,
                pid=pane.pid or None,
                dead=pane.dead,
                status=pane.status if pane.dead else None,
                hidden=pane.kind == "hidden",
            )
            for pane in listed
            if (member := self.setup.member(pane.mark)) is not None
        ]

    async def _find(self, pane_id: str) -> tuple[TmuxServer, list[TmuxPane], TmuxPane | None]:
        server = await self._server()
        panes = await server.panes()
        found = (pane for pane in panes if pane.id == pane_id and self.setup.member(pane.mark))
        return server, panes, next(found, None)

    async def title(self, pane_id: str, text: str) -> None:
        """Change what stands above a pane."""
        async with self._lock:
            server, _, found = await self._find(pane_id)
            if found is not None:
                await self._name(server, pane_id, shown_title(text))

    async def close(self, pane_id: str) -> None:
        """Close a pane and end what runs in it; restore the user's layout with the last."""
        async with self._lock:
            server, panes, found = await self._find(pane_id)
            if found is not None:
                began = started(found.pid)
                try:
                    await server.run("kill-pane", "-t", pane_id)
                except PaneFailed as error:
                    # It may have ended by itself in between.
                    if "can't find" not in error.detail:
                        raise
                if not found.dead:
                    # Its terminal is gone, which tells it to end.
                    with suppress(PermissionError):
                        await end_process(found.pid, began, ask=False)
                await zoom_again(server, panes, found.window)
            await restore_layouts(server)

    async def hide(self, pane_id: str) -> None:
        """Move a pane to a window that is not shown; its program runs on."""
        async with self._lock:
            server, panes, found = await self._find(pane_id)
            if found is None or found.kind == "hidden":
                return
            if sum(pane.window == found.window for pane in panes) > 1:
                await server.run("break-pane", "-d", "-s", pane_id, "-n", HIDDEN)
                await zoom_again(server, panes, found.window)
            else:
                await server.run("rename-window", "-t", found.window, HIDDEN)
            await server.run("set-option", "-w", "-t", pane_id, KIND, "hidden")
            await restore_layouts(server)

    async def show(self, pane_id: str) -> None:
        """Bring a hidden pane back beside the leader, or to a window of ours."""
        async with self._lock:
            server, panes, found = await self._find(pane_id)
            if found is None or found.kind != "hidden":
                return
            spot = self._place(server, panes, moved=pane_id)
            if spot.how in {"beside", "tiled"}:
                way = ("-h" if spot.across else "-v", "-l", "50%")
                await server.run("join-pane", "-d", "-s", pane_id, "-t", spot.target, *way)
            else:
                await server.run("rename-window", "-t", found.window, WINDOW)
            await self._arrange(server, panes, spot, pane_id)


def _is_overlooked(pane: TmuxPane) -> bool:
    return pane.dead and pane.status is None


async def is_inside(host: Host, seconds: float = PATIENCE) -> bool:
    """Whether Prong runs in a pane of a tmux server that answers, for which it has so long."""
    if not host.environment.get("TMUX"):
        return False
    return bool(await TmuxServer(host, inside=True, seconds=seconds).panes())
