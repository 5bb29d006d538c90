"""What of this machine can be used for panes, found out by looking and asking."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from prong.errors import NotInstalled, PaneFailed
from prong.extension import installed
from prong.host.host import Host
from prong.host.pane.choice import Inside, TerminalFacts
from prong.host.pane.tmux import is_inside
from prong.host.pane.tmux_server import TmuxServer
from prong.system.user_socket import HAS_USER_SOCKETS


async def survey(host: Host, *, interactive: bool, command: Sequence[str] = ()) -> TerminalFacts:
    """Look around; `command` is the user's own program, if one is set."""
    env = host.environment
    version, problem = "", ""
    inside = set[Inside]()
    try:
        version = await TmuxServer(host, inside=False).version()
        if await is_inside(host):
            inside.add("tmux")
    except (NotInstalled, PaneFailed) as error:
        version, problem = "", str(error)
    # An editor that was started in iTerm2 hands its variables on to terminals of its own.
    program = env.get("TERM_PROGRAM", "iTerm.app")
    if env.get("ITERM_SESSION_ID") and program == "iTerm.app":
        inside.add("iterm2")
    if env.get("WEZTERM_PANE") and env.get("TERM_PROGRAM", "WezTerm") == "WezTerm":
        inside.add("wezterm")
    path = env.get("PATH")
    return TerminalFacts(
        interactive=interactive,
        sockets=HAS_USER_SOCKETS,
        inside=frozenset(inside),
        tmux=version,
        no_tmux=problem,
        it2=shutil.which("it2", path=path) is not None,
        wezterm=shutil.which("wezterm", path=path) is not None,
        command=bool(command),
        packages=tuple(sorted({one.name for one in installed("prong.backends")})),
    )
