"""What a pane is, and what whoever opens panes must be able to do.

A pane shows one program, the session of a teammate. Back-ends differ in how a pane is opened,
listed, named and closed, and in nothing else: whatever members say to each other goes other ways.
Every pane carries a mark of who it is for, so that those of a leader that has crashed are found
again, and so that nothing else is ever touched.
"""

from __future__ import annotations

import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias, get_args

import msgspec

from prong.errors import BadInput, NotPossibleNow
from prong.host.host import Host

PaneColour: TypeAlias = Literal[
    "red", "green", "yellow", "blue", "magenta", "cyan", "orange", "purple", "pink"
]
_COLOURS: tuple[PaneColour, ...] = get_args(PaneColour)

PATIENCE = 10.0
"""Seconds in which a terminal program must have answered."""
COLUMNS, LINES = 50, 12
"""The least size in which a teammate's face can be read."""
BESIDE = 2
"""Teammates that are shown beside their leader; more of them get a window of their own."""

_PLAIN = re.compile(rb"[A-Za-z0-9._-]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARTS = 3
_TITLE = 60
"""Characters of a title that are shown."""


def pane_colour(name: str) -> PaneColour | None:
    """Give the colour of that name; None if panes have none of it."""
    return next((colour for colour in _COLOURS if colour == name), None)


class PaneMark(msgspec.Struct, frozen=True):
    """Whose a pane is."""

    team: str
    leader: str
    """The id of the session that opened it."""
    member: str

    def __post_init__(self) -> None:
        """Refuse a mark that would be another's.

        Raises BadInput.
        """
        if not (self.team and self.leader and self.member):
            raise BadInput("a pane needs the names of its team, its leader and its member")

    @property
    def text(self) -> str:
        """The mark in ASCII without spaces, which every terminal program gives back as it was."""
        return "/".join(_encode(part) for part in (self.team, self.leader, self.member))

    @classmethod
    def parse(cls, text: str) -> PaneMark | None:
        """Read a mark; None if it is none."""
        parts = [_decode(part) for part in text.split("/")]
        if len(parts) != _PARTS or not all(parts):
            return None
        return cls(*(part or "" for part in parts))


def _encode(text: str) -> str:
    raw = text.encode(errors="surrogatepass")
    return "".join(chr(b) if _PLAIN.match(bytes((b,))) else f"%{b:02X}" for b in raw)


def _decode(text: str) -> str | None:
    if not re.fullmatch(r"(?:[A-Za-z0-9._-]|%[0-9A-F]{2})+", text):
        return None
    raw = re.sub(rb"%(..)", lambda found: bytes.fromhex(found[1].decode()), text.encode())
    try:
        return raw.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return None


class PaneSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A pane as it shall be.

    `argv` and `env` end up in the list of processes, which every user of the machine can read:
    nothing secret may stand in them. A member finds its secrets in its start file.
    """

    member: str
    argv: tuple[str, ...]
    """The program and its arguments; they reach it unchanged, no shell reads them."""
    cwd: str
    """An absolute folder."""
    title: str = ""
    """What stands above the pane; the member's name if nothing is given."""
    colour: PaneColour | None = None
    env: Mapping[str, str] = {}
    """Variables beside those that the terminal gives to every program."""

    def __post_init__(self) -> None:
        """Refuse what no program can be started with.

        Raises BadInput.
        """
        if not self.argv or not self.argv[0]:
            raise BadInput(f"the pane of {self.member!r} has no program to run")
        if not self.cwd.startswith("/"):
            raise BadInput(f"the pane of {self.member!r} needs an absolute folder: {self.cwd!r}")
        for name in self.env:
            if not _VARIABLE.fullmatch(name):
                raise BadInput(f"{name!r} is no name of an environment variable")
        if any("\0" in word for word in (*self.argv, self.cwd, *self.env.values())):
            raise BadInput(f"the pane of {self.member!r}: no argument can hold a NUL")

    @property
    def heading(self) -> str:
        """What is shown above the pane."""
        return shown_title(self.title or self.member)


def shown_title(text: str, most: int = _TITLE) -> str:
    """Make a text fit to be shown: one line, without control characters, not too long."""
    words = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(words.split())[:most]


class OpenedPane(msgspec.Struct, frozen=True):
    """A pane that was opened."""

    id: str
    """How its back-end knows it; good for a later process too."""
    note: str = ""
    """What the user should be told, in one line: where it is, and why not beside the leader."""


class Pane(msgspec.Struct, frozen=True, kw_only=True):
    """A pane of ours that is there."""

    id: str
    member: str
    pid: int | None = None
    """The program in it, where the back-end can tell."""
    dead: bool = False
    """Its program has ended, and the pane shows what it said last."""
    status: int | None = None
    """Exit code of an ended program, negative for a signal; None where nobody knows."""
    hidden: bool = False

    @property
    def ending(self) -> str:
        """How its program ended, in words; empty if it has not."""
        if not self.dead:
            return ""
        if self.status is None:
            return "it ended; how is not known"
        if self.status >= 0:
            return f"it ended with code {self.status}"
        try:
            return f"it was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"it was killed by signal {-self.status}"


class PaneSetup(msgspec.Struct, frozen=True, kw_only=True):
    """What a back-end works with."""

    host: Host
    """This machine: where its programs are started, and the environment they are known by."""
    team: str
    leader: str
    """The id of the leader's session: panes of other sessions are never touched."""
    beside: int = BESIDE
    """Teammates that may be shown beside the leader."""
    command: tuple[str, ...] = ()
    """The user's own program, for the back-end `command`."""
    seconds: float = PATIENCE
    """How long a terminal program may take to answer."""

    def mark(self, member: str) -> PaneMark:
        """Give the mark of a member's pane."""
        return PaneMark(self.team, self.leader, member)

    def member(self, text: str) -> str | None:
        """Give the member whose mark a text is; None if it is another's, or no mark."""
        mark = PaneMark.parse(text)
        if mark is None or (mark.team, mark.leader) != (self.team, self.leader):
            return None
        return mark.member


class PaneBackend(ABC):
    """Opens and closes panes, for one leader; an entry point of `prong.backends` names a subclass.

    All but `open` may be called with panes that are gone: that is no error. What a terminal program
    does not do raises PaneFailed, one that is missing or too old NotInstalled.
    """

    name: ClassVar[str]
    """What the setting `team.backend` calls it."""

    def __init__(self, setup: PaneSetup) -> None:
        """Start nothing and ask nothing yet."""
        self.setup = setup

    @abstractmethod
    async def open(self, spec: PaneSpec) -> OpenedPane:
        """Open a pane without taking the user's focus; its program runs when this returns.

        Raises PaneFailed, NotInstalled, NotPossibleNow; nothing is left behind then.
        """

    @abstractmethod
    async def panes(self) -> list[Pane]:
        """List the panes of this leader, those of its earlier processes included."""

    @abstractmethod
    async def title(self, pane_id: str, text: str) -> None:
        """Change what stands above a pane."""

    @abstractmethod
    async def close(self, pane_id: str) -> None:
        """Close a pane and end what runs in it."""

    async def hide(self, pane_id: str) -> None:
        """Take a pane out of sight; its program runs on."""
        raise NotPossibleNow(f"{self.name} cannot hide panes ({pane_id}); look away or close it")

    async def show(self, pane_id: str) -> None:
        """Bring a hidden pane back."""
        raise NotPossibleNow(f"{self.name} cannot hide panes, so {pane_id} is where it was opened")


async def sweep(backend: PaneBackend, *, keep: Collection[str]) -> Sequence[Pane]:
    """Close what a crash has left: panes of members that are not to be kept, and dead ones.

    Gives what was closed.
    """
    left = [pane for pane in await backend.panes() if pane.dead or pane.member not in keep]
    for pane in left:
        await backend.close(pane.id)
    return left
