"""Makes the back-end of a name: one of ours, or one that a package brings."""

from __future__ import annotations

from prong.errors import NotInstalled, UnknownName
from prong.extension import find_extension
from prong.host.pane.pane import PaneBackend, PaneSetup


def make_backend(name: str, setup: PaneSetup) -> PaneBackend:
    """Make a back-end; nothing is loaded but the one that is named.

    Raises UnknownName if there is none, NotInstalled if the package that brings it is broken, and
    what the back-end itself raises if it cannot be set up so.
    """
    kind = find_pane_backend(name)
    try:
        return kind(setup)
    except Exception as error:
        if kind.__module__.startswith("prong."):
            raise
        raise NotInstalled(
            f"the back-end {name!r} ({kind.__module__}) cannot be set up: {error!r}; update or "
            "uninstall its package"
        ) from error


def find_pane_backend(name: str) -> type[PaneBackend]:
    """Give the back-end of a name, and load it if a package brings it.

    Raises UnknownName if there is none, NotInstalled if its package is broken.
    """
    match name:
        case "tmux":
            from prong.host.pane.tmux import TmuxPanes

            return TmuxPanes
        case "iterm2":
            from prong.host.pane.iterm2 import ITermPanes

            return ITermPanes
        case "wezterm":
            from prong.host.pane.wezterm import WezTermPanes

            return WezTermPanes
        case "command":
            from prong.host.pane.command_panes import CommandPanes

            return CommandPanes
        case _:
            return _load(name)


def _load(name: str) -> type[PaneBackend]:
    found = find_extension("prong.backends", name)
    if found is None:
        raise UnknownName(
            f"there is no back-end {name!r} that opens panes, and no package brings one"
        )
    loaded = found.load()
    if not (isinstance(loaded, type) and issubclass(loaded, PaneBackend)):
        raise found.wrong("is no subclass of prong.host.pane.PaneBackend")
    return loaded
