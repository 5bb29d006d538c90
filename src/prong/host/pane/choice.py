"""Which back-end a team gets, as a pure function of what is there; docs/teams.md has the table."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from prong.errors import NotInstalled, UnknownName

AUTO = "auto"
IN_PROCESS = "in-process"
BUILT_IN = (IN_PROCESS, "tmux", "iterm2", "wezterm", "command")
"""Back-ends that come with Prong, as the setting `team.backend` names them."""
Inside: TypeAlias = Literal["tmux", "iterm2", "wezterm"]

_TMUX = "install tmux (apt install tmux, dnf install tmux, brew install tmux)"
_IT2 = "install it2 and switch on the Python API in iTerm2's settings (General > Magic)"
_NO_SOCKETS = "members in panes meet at Unix sockets, and there are none for Python on Windows"
_OR = "or choose in-process with --backend or the setting team.backend"


class TerminalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is there to open panes with."""

    interactive: bool
    """A person sits at a terminal."""
    inside: frozenset[Inside] = frozenset()
    """The programs in whose panes Prong runs, of those that answer."""
    tmux: str = ""
    """The version of tmux; empty if there is none that can be used."""
    no_tmux: str = ""
    """Why tmux cannot be used, with the remedy."""
    it2: bool = False
    wezterm: bool = False
    command: bool = False
    """A program of the user's own is set."""
    sockets: bool = True
    """Processes of one user can meet at sockets, as members in panes do."""
    packages: tuple[str, ...] = ()
    """Back-ends that installed packages bring."""


class BackendState(msgspec.Struct, frozen=True):
    """Whether a back-end can be used here."""

    name: str
    usable: bool
    why: str
    """Why it can, or cannot."""
    remedy: str = ""
    """What would make it usable."""

    def __str__(self) -> str:
        """Say it in one line."""
        verb = "can be used" if self.usable else "cannot be used"
        return f"{self.name}: {verb}: {self.why}" + (f"; {self.remedy}" if self.remedy else "")


class ChosenBackend(msgspec.Struct, frozen=True):
    """The back-end that a team gets."""

    name: str
    why: str
    others: tuple[BackendState, ...]
    """The rest, each with what is missing for it."""

    def __str__(self) -> str:
        """Say what was chosen and why, then what of the others can be used, a line each."""
        return "\n".join([f"{self.name}: chosen: {self.why}", *map(str, self.others)])


def states(facts: TerminalFacts) -> tuple[BackendState, ...]:
    """Say of every back-end whether it can be used here."""
    if not facts.sockets:
        others = (name for name in (*BUILT_IN, *facts.packages) if name != IN_PROCESS)
        away = (BackendState(name, usable=False, why=_NO_SOCKETS, remedy=_OR) for name in others)
        return BackendState(IN_PROCESS, usable=True, why="teammates share this process"), *away
    return (
        BackendState(IN_PROCESS, usable=True, why="teammates share this process"),
        _tmux(facts),
        _iterm2(facts),
        _wezterm(facts),
        _command(facts),
        *(
            BackendState(name, usable=True, why="brought by a package")
            for name in facts.packages
            if name not in BUILT_IN
        ),
    )


def _tmux(facts: TerminalFacts) -> BackendState:
    if facts.tmux:
        inside = "Prong runs in it" if "tmux" in facts.inside else "in a session of its own"
        return BackendState("tmux", usable=True, why=f"tmux {facts.tmux}, {inside}")
    why, _, remedy = (facts.no_tmux or f"tmux is not installed; {_TMUX}").partition("; ")
    return BackendState("tmux", usable=False, why=why, remedy=remedy)


def _iterm2(facts: TerminalFacts) -> BackendState:
    if "iterm2" not in facts.inside:
        remedy = "start Prong in iTerm2"
        return BackendState(
            "iterm2", usable=False, why="Prong does not run inside iTerm2", remedy=remedy
        )
    if not facts.it2:
        return BackendState("iterm2", usable=False, why="it2 is not installed", remedy=_IT2)
    return BackendState("iterm2", usable=True, why="Prong runs in it, and it2 is installed")


def _wezterm(facts: TerminalFacts) -> BackendState:
    if "wezterm" not in facts.inside:
        remedy = "start Prong in WezTerm"
        return BackendState(
            "wezterm", usable=False, why="Prong does not run inside WezTerm", remedy=remedy
        )
    if not facts.wezterm:
        remedy = "put the wezterm program on the PATH"
        return BackendState("wezterm", usable=False, why="wezterm is not found", remedy=remedy)
    return BackendState("wezterm", usable=True, why="Prong runs in it; only when named")


def _command(facts: TerminalFacts) -> BackendState:
    if facts.command:
        return BackendState("command", usable=True, why="a program is set; only when named")
    remedy = "name one in the setting team.command"
    return BackendState("command", usable=False, why="no program is set", remedy=remedy)


def choose(facts: TerminalFacts, wanted: str = AUTO) -> ChosenBackend:
    """Choose a back-end, the one that is wanted or the one that fits.

    Raises UnknownName for a name that means nothing, NotInstalled with what is to be done if it
    cannot be used.
    """
    known = {state.name: state for state in states(facts)}
    if wanted != AUTO:
        return _named(known, wanted)
    if not facts.sockets:
        return _chosen(known, IN_PROCESS, _NO_SOCKETS)
    if "tmux" in facts.inside and facts.tmux:
        return _chosen(known, "tmux", "Prong runs inside tmux")
    if "iterm2" in facts.inside:
        if facts.it2:
            return _chosen(known, "iterm2", "Prong runs inside iTerm2, and it2 is installed")
        if facts.tmux:
            return _chosen(known, "tmux", "Prong runs inside iTerm2, and it2 is not installed")
        raise NotInstalled(f"teammates in panes of iTerm2 need it2 or tmux: {_IT2}; {_TMUX}; {_OR}")
    if not facts.interactive:
        return _chosen(known, IN_PROCESS, "no person sits at a terminal")
    if facts.tmux:
        return _chosen(known, "tmux", "tmux is installed")
    raise NotInstalled(f"{facts.no_tmux or f'tmux is not installed; {_TMUX}'}; {_OR}")


def _chosen(known: dict[str, BackendState], name: str, why: str) -> ChosenBackend:
    others = tuple(state for state in known.values() if state.name != name)
    return ChosenBackend(name, why, others)


def _named(known: dict[str, BackendState], wanted: str) -> ChosenBackend:
    state = known.get(wanted)
    if state is None:
        names = ", ".join([AUTO, *known])
        raise UnknownName(
            f"there is no back-end {wanted!r}; there are {names}, and a package may bring one "
            "(entry points of prong.backends)"
        )
    if state.usable:
        return _chosen(known, wanted, "it was asked for")
    raise NotInstalled(f"the back-end {wanted} cannot be used: {state.why}; {state.remedy}")
