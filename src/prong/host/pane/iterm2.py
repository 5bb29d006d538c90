"""Panes of iTerm2, by the program `it2`; its library is under another licence and never imported.

What `it2` offers to run a command types it into a shell, and what is typed while a shell starts
gets lost. So the command is part of a profile, which iTerm2 reads from a folder when a file appears
there, and the new pane is split with that profile. The program itself is a line of a small script,
so that only one path stands in the profile. Untried on a Mac.
"""

from __future__ import annotations

import re
import shlex
from typing import ClassVar
from uuid import uuid4

import anyio
import msgspec

from prong.errors import NotPossibleNow, PaneFailed
from prong.foreign_json import NOT_JSON
from prong.host.host import Finished
from prong.host.pane.pane import OpenedPane, Pane, PaneBackend, PaneSetup, PaneSpec, shown_title
from prong.host.pane.pane_program import PaneProgram, complaint, with_variables

REMEDY = (
    "install it2 and switch on the Python API in iTerm2's settings (General > Magic), or choose "
    "another back-end with team.backend"
)
PROFILES = "Library/Application Support/iTerm2/DynamicProfiles"
VARIABLE = "user.prong"
"""The variable of a session that holds its mark."""
_WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 0.0)
"""Seconds between looks whether iTerm2 has read a profile."""
_NO_CONNECTION, _NO_TARGET = 2, 3
_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


class ITermSession(msgspec.Struct, frozen=True):
    """A session, in the words of `it2`."""

    id: str


class ITermPanes(PaneBackend):
    """Panes in the user's iTerm2 window."""

    name: ClassVar[str] = "iterm2"

    def __init__(self, setup: PaneSetup) -> None:
        """Ask nothing yet."""
        super().__init__(setup)
        self._program = PaneProgram(
            host=setup.host,
            argv=("it2", "session"),
            name="it2 session",
            remedy=REMEDY,
            seconds=setup.seconds,
        )
        self._marks: dict[str, str] = {}
        """What is known of sessions; a mark is never changed."""

    def _leader(self) -> str:
        """Give the session that Prong runs in.

        Raises NotPossibleNow.
        """
        # `it2` takes an empty or unknown name for the session that has the focus.
        found = _GUID.search(self.setup.host.environment.get("ITERM_SESSION_ID", ""))
        if found is None:
            raise NotPossibleNow(
                "Prong does not run inside iTerm2 (ITERM_SESSION_ID names no session); start it "
                "there, or choose another back-end with team.backend"
            )
        return found[0]

    async def _run(self, *words: str) -> str:
        return self._checked(await self._program.ask(*words), words[0])

    def _checked(self, ended: Finished, verb: str) -> str:
        if ended.code == 0:
            return ended.output.decode(errors="replace").strip()
        said = complaint(ended)
        if ended.code == _NO_CONNECTION:
            said += "; is iTerm2 running, and its Python API on (Settings > General > Magic)?"
        if ended.code == _NO_TARGET:
            said += "; if you have moved, start Prong anew in the window where you are"
        raise PaneFailed(f"it2 session {verb} failed: {said}", detail=said)

    async def open(self, spec: PaneSpec) -> OpenedPane:
        """Split the leader's pane, or that of the last teammate, and give the focus back."""
        leader = self._leader()
        near = await self.panes()
        name = f"prong-{uuid4().hex[:12]}"
        profile = f"{self.setup.host.home}/{PROFILES}/{name}.json"
        script = f"{self.setup.host.home}/.prong/panes/{name}.sh"
        pane_id = ""
        # Cut off in the midst of it, nobody would know the pane's id.
        with anyio.CancelScope(shield=True):
            try:
                await self._write(spec, name, profile, script)
                target = ("-s", near[-1].id) if near else ("-v", "-s", leader)
                pane_id = await self._split(target, name)
                mark = self.setup.mark(spec.member).text
                await self._run("set-var", VARIABLE, mark, "-s", pane_id)
                self._marks[pane_id] = mark
                await self._run("set-name", "-s", pane_id, "--", spec.heading)
                await self._run("focus", leader)
            except BaseException:
                if pane_id:
                    await self._program.ask("close", "-f", "-s", pane_id)
                await self.setup.host.run(("rm", "-f", "--", script))
                raise
            finally:
                await self.setup.host.run(("rm", "-f", "--", profile))
        return OpenedPane(pane_id)

    async def _write(self, spec: PaneSpec, name: str, profile: str, script: str) -> None:
        """Write down what the new pane is to run."""
        line = shlex.join(with_variables(spec.argv, spec.env))
        text = f'rm -f -- "$0"\ncd -- {shlex.quote(spec.cwd)} && exec {line}\n'
        entry = {
            "Name": name,
            "Guid": name,
            "Custom Command": "Yes",
            "Command": f"/bin/sh {shlex.quote(script)}",
        }
        try:
            await self.setup.host.write(script, text.encode(errors="surrogateescape"))
            await self.setup.host.write(profile, msgspec.json.encode({"Profiles": [entry]}))
        except OSError as error:
            raise PaneFailed(f"a profile for iTerm2 could not be written: {error}") from error

    async def _split(self, target: tuple[str, ...], profile: str) -> str:
        for wait in _WAITS:
            ended = await self._program.ask("split", *target, "-p", profile)
            # Until iTerm2 has read the profile it knows none of that name.
            if ended.code in {0, _NO_CONNECTION, _NO_TARGET} or not wait:
                break
            await anyio.sleep(wait)
        else:  # pragma: no cover - the last wait is none
            raise AssertionError
        said = self._checked(ended, "split")
        found = _GUID.search(said)
        if found is None:
            raise PaneFailed(f"it2 session split gave no pane, but said: {said[:200]!r}")
        return found[0]

    async def panes(self) -> list[Pane]:
        """List the sessions that carry marks of this leader."""
        said = await self._run("list", "--json")
        try:
            found = msgspec.json.decode(said, type=list[ITermSession])
        except NOT_JSON as error:
            raise PaneFailed(f"it2 session list gave no list of sessions: {error}") from error
        for session in found:
            if session.id not in self._marks:
                self._marks[session.id] = await self._run("get-var", VARIABLE, "-s", session.id)
        members = ((one.id, self.setup.member(self._marks[one.id])) for one in found)
        return [Pane(id=pane_id, member=name) for pane_id, name in members if name is not None]

    async def _has(self, pane_id: str) -> bool:
        return any(pane.id == pane_id for pane in await self.panes())

    async def title(self, pane_id: str, text: str) -> None:
        """Change what stands above a pane."""
        if await self._has(pane_id):
            await self._run("set-name", "-s", pane_id, "--", shown_title(text))

    async def close(self, pane_id: str) -> None:
        """Close a pane, without the question that iTerm2 may ask."""
        if await self._has(pane_id):
            await self._run("close", "-f", "-s", pane_id)
