"""What is protected here and what is not, and what else a session needs: one look around.

Nothing is started but `git` and `tmux`, and only to ask for their versions.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from prong.config.agents import package_types
from prong.config.option import Options
from prong.config.package_tool import load_tools
from prong.config.place import Place, look_around
from prong.config.sandboxing import sandboxing
from prong.config.secrecy import withheld
from prong.errors import ConfigError, NoSuchModel, UsageError
from prong.extension import GROUPS, Extension, installed
from prong.host.launcher import make_launcher
from prong.host.pane.factory import find_pane_backend
from prong.host.sandbox import Ability
from prong.host.sandbox.ability import detect
from prong.provider import find_backend, local_model
from prong.system.bash_program import why_no_bash
from prong.system.program_path import find_program
from prong.system.standard_stream import is_terminal

CheckState: TypeAlias = Literal["good", "limited", "broken"]

_OURS = "prong"
"""Our own package: what it brings is told of by itself."""
_SECONDS = 5
_FULL_SINCE = 6
"""The version of Landlock that holds signals too."""


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of one thing."""

    topic: str
    state: CheckState
    text: str
    remedy: str = ""
    """What to do about it; empty if there is nothing to do."""


def diagnose(cwd: str = ".", *, settings: str | None = None) -> tuple[Checkup, ...]:
    """Look at everything that a session in a folder stands on."""
    try:
        place = look_around(Options(cwd=cwd, settings=settings))
    except (ConfigError, UsageError) as error:
        why = "mend it: no session starts before"
        return (Checkup(topic="settings", state="broken", text=str(error), remedy=why),)
    return tuple(_findings(place))


def _findings(place: Place) -> Iterator[Checkup]:
    mode = place.settings.values.sandbox.mode
    yield from sandbox_findings(detect(), mode)
    yield from _exceptions(place)
    yield _terminal(place)
    yield _program("tmux", "-V", "only tests of the terminal and panes of your own need it")
    yield from _bash()
    yield _git(place)
    yield from _keys(place)
    yield _engine()
    yield from _servers(place)
    yield from _packages()


def sandbox_findings(ability: Ability, mode: str = "on") -> Iterator[Checkup]:
    """Say what the system holds commands to; pure."""
    if mode == "off":
        yield Checkup(
            topic="sandbox",
            state="limited",
            text="off by the setting sandbox.mode; permissions alone decide",
            remedy="remove the setting",
        )
        return
    if not ability.some:
        state: CheckState = "broken" if mode == "required" else "limited"
        text = f"none, permissions alone decide: {ability.why}"
        yield Checkup(topic="sandbox", state=state, text=text, remedy=_remedy(ability))
        return
    named = f"Landlock {ability.abi}" if ability.kind == "landlock" else "Seatbelt"
    if ability.writes:
        text = f"{named}: commands that read can change nothing"
        yield Checkup(topic="sandbox: reading", state="good", text=text)
    else:
        text = f"{named}, in part only: {ability.why}"
        yield Checkup(topic="sandbox: reading", state="limited", text=text, remedy=_remedy(ability))
    yield _of_views(ability, named)
    if ability.kind == "landlock" and ability.abi < _FULL_SINCE:
        text = "children in worktrees can signal your other processes"
        remedy = "Linux 6.12 or newer holds that"
        yield Checkup(topic="sandbox: signals", state="limited", text=text, remedy=remedy)


def _of_views(ability: Ability, named: str) -> Checkup:
    if ability.views and ability.writes:
        return Checkup(
            topic="sandbox: working",
            state="good",
            text=f"{named} with a view of the files: protected and denied files are out of reach",
        )
    return Checkup(
        topic="sandbox: working",
        state="limited",
        text="commands write in the project and in temporary and cache folders alone; protected "
        "and denied files in those, and the refs of siblings, are held by permissions alone: "
        f"{ability.why}",
        remedy=_remedy(ability),
    )


def _remedy(ability: Ability) -> str:
    if ability.kind == "none" or not ability.writes:
        return (
            "use Linux 6.2 or newer with Landlock (on Windows: inside WSL), or let the container "
            "use it"
        )
    return (
        "allow namespaces of users: sysctl user.max_user_namespaces, "
        "kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns; in a "
        "container, its seccomp profile"
    )


def _exceptions(place: Place) -> Iterator[Checkup]:
    """Tell what settings let out."""
    found = sandboxing(place, place.home)
    told = [f"writes in {path}" for path in found.writable]
    told += [f"without a sandbox: {line}" for line in found.outside]
    told += ["sockets of services can be reached"] if found.daemons else []
    told += ["network also for commands that read"] if found.network == "always" else []
    if told:
        yield Checkup(topic="sandbox: exceptions", state="limited", text="; ".join(told))


def _terminal(place: Place) -> Checkup:
    kind = place.env.get("TERM", "")
    if not is_terminal(sys.stdout):
        return Checkup(topic="terminal", state="good", text="none here; -p works without one")
    if kind in {"", "dumb"}:
        text = f"TERM is {kind!r}: no colours, no editing of the line"
        return Checkup(topic="terminal", state="limited", text=text, remedy="set TERM")
    width = shutil.get_terminal_size().columns
    return Checkup(topic="terminal", state="good", text=f"{kind}, {width} columns")


def _program(name: str, flag: str, without: str) -> Checkup:
    said = _version(name, flag)
    if said is None:
        return Checkup(topic=name, state="limited", text=f"not found; {without}")
    return Checkup(topic=name, state="good", text=said)


def _version(name: str, flag: str) -> str | None:
    path = find_program(name)
    if path is None:
        return None
    try:
        ended = subprocess.run(
            [path, flag], capture_output=True, timeout=_SECONDS, check=False, text=True, cwd="/"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stdout.strip().partition("\n")[0] or None


def _bash() -> Iterator[Checkup]:
    """Tell of the program that runs commands, where it is not a matter of course."""
    if why := why_no_bash():
        text = "not found: the model has no tool for commands"
        yield Checkup(topic="bash", state="limited", text=text, remedy=why)


def _git(place: Place) -> Checkup:
    said = _version("git", "--version")
    if said is None:
        text = "not found: no worktrees, no merging"
        return Checkup(topic="git", state="limited", text=text, remedy="install git")
    if not os.path.lexists(f"{place.root}/.git"):
        text = f"{said}; {place.root} is no repository, so there are no worktrees"
        return Checkup(topic="git", state="limited", text=text, remedy="git init")
    return Checkup(topic="git", state="good", text=f"{said}; repository at {place.root}")


def _keys(place: Place) -> Iterator[Checkup]:
    hidden = withheld(place)
    there = sorted(name for name in hidden if place.env.get(name))
    if there:
        text = f"{', '.join(there)}: used by Prong, kept from commands"
        yield Checkup(topic="keys", state="good", text=text)
    else:
        text = "none in the environment; a model on this machine needs none"
        remedy = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use -m local"
        yield Checkup(topic="keys", state="limited", text=text, remedy=remedy)
    if passed := sorted(set(place.settings.values.pass_env) & set(place.env)):
        text = f"commands see {', '.join(passed)} by the setting passEnv"
        yield Checkup(topic="keys", state="limited", text=text)


def _engine() -> Checkup:
    try:
        path = local_model()
    except (NoSuchModel, UsageError) as error:
        text = "models do not run on this machine"
        return Checkup(topic="engine", state="limited", text=text, remedy=str(error))
    return Checkup(topic="engine", state="good", text=f"-m local runs {path.name}")


def _servers(place: Place) -> Iterator[Checkup]:
    if not place.servers.servers:
        yield Checkup(topic="MCP", state="good", text="no servers are configured")
    for server in place.servers.servers:
        topic = f"MCP: {server.name}"
        if server.url:
            yield Checkup(topic=topic, state="good", text=f"{server.url} (not asked)")
        elif shutil.which(server.command, path=place.env.get("PATH")) is None:
            text = f"{server.command} is not found; it would run outside the sandbox"
            remedy = f"install it, or remove the server from {server.path}"
            yield Checkup(topic=topic, state="broken", text=text, remedy=remedy)
        else:
            text = f"{server.command} (not started); it runs outside the sandbox"
            yield Checkup(topic=topic, state="good", text=text)


def _packages() -> Iterator[Checkup]:
    """Name what installed packages bring, and load it to see whether it can be used."""
    for found in (one for group in GROUPS for one in installed(group) if one.package != _OURS):
        topic = f"package {found.package} {found.version}".strip()
        try:
            try_extension(found)
        except UsageError as error:
            yield Checkup(topic=topic, state="broken", text=str(error))
        else:
            yield Checkup(topic=topic, state="good", text=f"brings {found}")


def try_extension(found: Extension) -> None:
    """Load one entry point as a session would that asks for it.

    Raises UsageError if that fails.
    """
    match found.group:
        case "prong.providers":
            find_backend(found.name)
        case "prong.backends":
            find_pane_backend(found.name)
        case "prong.launchers":
            make_launcher(found.name)
        case "prong.tools":
            load_tools(found)
        case "prong.agents":
            package_types(found)
