"""tmux, as a program that is asked: which version, which panes, and what it says when it fails.

Three things are easy to get wrong. An argument that ends in a semicolon ends tmux's command, and
titles and folders are expanded as formats, in which `#(...)` runs a program: both are escaped here.
What is printed loses its tabs and whatever is not ASCII where the locale is plain, so fields are
separated by a bar, and no field but the last can hold one.
"""

from __future__ import annotations

import re
from contextlib import suppress

import msgspec

from prong.errors import NotInstalled, PaneFailed
from prong.foreign_number import whole_number
from prong.host.host import Host
from prong.host.pane.pane import PATIENCE, PaneMark
from prong.host.pane.pane_program import PaneProgram, complaint

LEAST = (3, 2)
"""The version that keeps a pane only if its program failed (3.2) and takes variables (3.0)."""
REMEDY = (
    "install it (apt install tmux, dnf install tmux, brew install tmux), or choose another way "
    "with the setting team.backend, such as in-process"
)
MARK = "@prong"
"""The option of a pane that holds its mark."""
TITLE = "@prong_title"
LAYOUT = "@prong_layout"
"""The option of a user's window that holds its layout before our first pane."""
BORDER = "@prong_border"
"""The option of a user's window that says that its titles are shown for our panes only."""
KIND = "@prong_window"
"""The option of a window of ours: `team`, or `hidden`."""
VARIABLE = "PRONG_PANE"
"""What a placeholder's command names the mark by, until the pane has it as an option."""

_FIELDS = (
    *("pane_id", "pane_pid", "pane_dead", "pane_dead_status", "pane_dead_signal", "pane_active"),
    *("pane_width", "pane_height", "window_id", "window_width", "window_height"),
    *("window_zoomed_flag", "session_id", "session_name", "window_index", "window_layout"),
    *("pane-border-status", LAYOUT, BORDER, KIND, MARK, "pane_start_command"),
)
_BARRED = {"session_name": "s/[|]/_/:session_name"}
"""A field that is the user's own text, with its bars taken out."""
_FORMAT = "|".join(f"#{{{_BARRED.get(name, name)}}}" for name in _FIELDS)
_GONE = re.compile(r"no server running|error connecting|lost server|server exited|no sessions")
_PLACEHOLDER = re.compile(rf"{VARIABLE}=([A-Za-z0-9._%/-]+)")


class TmuxPane(msgspec.Struct, frozen=True, kw_only=True):
    """A pane of any kind, as tmux lists it."""

    id: str
    pid: int
    dead: bool
    status: int | None
    active: bool
    width: int
    height: int
    window: str
    window_width: int
    window_height: int
    zoomed: bool
    session: str
    session_name: str
    index: str
    layout: str
    border: str
    """Where the window shows titles; `off` if it does not."""
    saved: str
    """The layout of its window before our first pane came into it."""
    bordered: bool
    kind: str
    mark: str


class TmuxServer:
    """The server that Prong runs in, or the user's own."""

    def __init__(self, host: Host, *, inside: bool, seconds: float = PATIENCE) -> None:
        """Ask nothing yet."""
        # A variable that names a server which is gone would still be followed.
        argv = ("tmux",) if inside else ("env", "-u", "TMUX", "-u", "TMUX_PANE", "tmux")
        self._program = PaneProgram(
            host=host, argv=argv, name="tmux", remedy=REMEDY, seconds=seconds
        )
        self.inside = inside
        """Whether Prong itself runs in one of its panes."""

    async def version(self) -> str:
        """Give its version.

        Raises NotInstalled if there is none, or one that is too old.
        """
        ended = await self._program.ask("-V")
        text = ended.output.decode(errors="replace").strip().removeprefix("tmux ")
        if ended.code != 0:
            raise NotInstalled(f"tmux does not run: {complaint(ended)}; {REMEDY}")
        if not is_new(text):
            least = ".".join(map(str, LEAST))
            raise NotInstalled(
                f"tmux {text} is too old: {least} is needed for panes that keep what a failed "
                f"program said; update it, or {REMEDY.partition(', or ')[2]}"
            )
        return text

    async def run(self, *words: str) -> str:
        """Run one command and give what it printed.

        Raises PaneFailed.
        """
        return await self._run(*(escape_end(word) for word in words))

    async def begin(self, *first: str, then: tuple[str, ...]) -> str:
        """Run two commands as one, so that the server does nothing in between.

        Raises PaneFailed.
        """
        words = (*(escape_end(word) for word in first), ";", *(escape_end(w) for w in then))
        return await self._run(*words)

    async def _run(self, *words: str) -> str:
        try:
            return await self._program.run(*words)
        except PaneFailed as error:
            if _GONE.search(error.detail):
                raise gone(error.detail) from error
            raise

    async def panes(self) -> list[TmuxPane]:
        """List all panes of the server; none if there is no server.

        Raises PaneFailed.
        """
        ended = await self._program.ask("list-panes", "-a", "-F", _FORMAT)
        if ended.code != 0:
            said = complaint(ended)
            if _GONE.search(said):
                return []
            raise PaneFailed(f"tmux list-panes failed: {said}", detail=said)
        lines = ended.output.decode(errors="replace").splitlines()
        return [_parse(line) for line in lines if line]

    async def look_after_children(self) -> None:
        """Let the server notice the ends of programs that it has overlooked.

        It is told of a child's end by a signal, and misses some. A pane then counts as dead, but
        nobody knows how it ended, and one that ended well is not taken away. When another child
        ends, it looks after all of them.
        """
        with suppress(PaneFailed):
            await self.run("run-shell", "true")


def gone(detail: str) -> PaneFailed:
    """Say that there is no server any more."""
    return PaneFailed(
        f"the tmux server is gone, and its panes with it ({detail}); start tmux again, and Prong "
        "in it",
        detail=detail,
    )


def _parse(line: str) -> TmuxPane:
    values = line.split("|", len(_FIELDS) - 1)
    if len(values) != len(_FIELDS):
        raise PaneFailed(f"tmux list-panes answered with something else: {line[:200]!r}")
    field = dict(zip(_FIELDS, values, strict=True))
    signal = whole_number(field["pane_dead_signal"])
    placeholder = _PLACEHOLDER.search(field["pane_start_command"])
    return TmuxPane(
        id=field["pane_id"],
        pid=whole_number(field["pane_pid"]) or 0,
        dead=field["pane_dead"] == "1",
        status=-signal if signal else whole_number(field["pane_dead_status"]),
        active=field["pane_active"] == "1",
        width=whole_number(field["pane_width"]) or 0,
        height=whole_number(field["pane_height"]) or 0,
        window=field["window_id"],
        window_width=whole_number(field["window_width"]) or 0,
        window_height=whole_number(field["window_height"]) or 0,
        zoomed=field["window_zoomed_flag"] == "1",
        session=field["session_id"],
        session_name=field["session_name"],
        index=field["window_index"],
        layout=field["window_layout"],
        border=field["pane-border-status"],
        saved=field[LAYOUT],
        bordered=bool(field[BORDER]),
        kind=field[KIND],
        mark=field[MARK] or (placeholder[1] if placeholder else ""),
    )


def placeholder(mark: PaneMark) -> tuple[str, ...]:
    """Give the program that holds a pane until the real one can be started in it.

    Several words, so that no shell is started for it; it names the mark, so that it is found even
    if whoever opened it is killed before the pane carries the mark.
    """
    return ("env", f"{VARIABLE}={mark.text}", "cat")


def escape_end(word: str) -> str:
    r"""Keep a semicolon at the end of a word from ending the command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def escape_format(text: str) -> str:
    """Keep a text from being expanded as a format."""
    return text.replace("#", "##")


def is_new(version: str) -> bool:
    """Whether a version is new enough; one that is no number is of the newest source."""
    found = re.search(r"(\d+)\.(\d+)", version)
    if found is None or version.startswith("openbsd"):
        return True
    return (int(found[1]), int(found[2])) >= LEAST
