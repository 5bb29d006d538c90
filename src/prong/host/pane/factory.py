"""Makes the back-end of a name: one of ours, or one that a package brings."""

from __future__ import annotations

from prong.errors import NotInstalled, UnknownName
from prong.host.pane.pane import PaneBackend, PaneSetup

GROUP = "prong.backends"
"""The entry points by which packages bring back-ends, each under the name that chooses it."""


def make_backend(name: str, setup: PaneSetup) -> PaneBackend:
    """Make a back-end; nothing is loaded but the one that is named.

    Raises UnknownName if there is none, NotInstalled if the package that brings it is broken, and
    what the back-end itself raises if it cannot be set up so.
    """
    kind = _find(name)
    try:
        return kind(setup)
    except Exception as error:
        if kind.__module__.startswith("prong."):
            raise
        raise NotInstalled(
            f"the back-end {name!r} ({kind.__module__}) cannot be set up: {error!r}; update or "
            "uninstall its package"
        ) from error


def _find(name: str) -> type[PaneBackend]:
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
    from importlib.metadata import entry_points

    points = tuple(entry_points(group=GROUP, name=name))
    if not points:
        raise UnknownName(
            f"there is no back-end {name!r} that opens panes, and no package brings one"
        )
    sources = sorted(
        f"{point.value} of {point.dist.name if point.dist else '?'}" for point in points
    )
    if len(sources) > 1:
        raise NotInstalled(
            f"the back-end {name!r} is brought by several packages ({', '.join(sources)}); "
            "uninstall all but one"
        )
    try:
        loaded: object = points[0].load()
    except Exception as error:
        # Foreign code may fail in any way; it must be said whose it is.
        raise NotInstalled(
            f"the back-end {name!r} ({sources[0]}) cannot be loaded: {error!r}; update or "
            "uninstall that package"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, PaneBackend)):
        raise NotInstalled(
            f"the back-end {name!r} ({sources[0]}) is no subclass of prong.host.pane.PaneBackend; "
            "update or uninstall that package"
        )
    return loaded


def installed() -> list[str]:
    """List the back-ends that installed packages bring, without loading any."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=GROUP)})
