"""Another machine, or a container, on which agents can work: what the user says of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from prong.errors import BadInput, NotPossibleNow, UnknownName

# Patterns are texts: they are compiled where there are other machines.
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_WORD = r"[^\s\x00-\x1f\x7f-][^\s\x00-\x1f\x7f]*"
"""What a program takes for a host or an image, and never for an option."""
_OPTION = r"--[a-z][a-z0-9-]*(=[^\x00-\x1f\x7f]*)?"
"""What a program takes for an option, and never for an image or for the value of another."""


IsolationKind: TypeAlias = Literal["", "worktree", "remote"]


class ChosenIsolation(msgspec.Struct, frozen=True):
    """How a child is to be kept apart, as whoever starts it wrote it."""

    kind: IsolationKind = ""
    target: str = ""
    """The machine that is named; empty for the one that is taken without a name."""


def read_isolation(text: str) -> ChosenIsolation:
    """Read `worktree`, `remote` or `remote:NAME`; nothing at all is no isolation.

    Raises BadInput.
    """
    kind, named, target = text.partition(":")
    if kind == "remote" and (not named or re.fullmatch(_NAME, target)):
        return ChosenIsolation("remote", target)
    if text in {"", "worktree"}:
        return ChosenIsolation("worktree" if text else "")
    raise BadInput(
        f"isolation {text!r} must be 'worktree', 'remote', or 'remote:NAME' for a machine of the "
        "setting remote.targets"
    )


class RemoteTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a worker is started, and how."""

    launcher: str
    """`process`, `ssh`, `container`, `ray`, or what a package brings."""
    host: str = ""
    """For `ssh`: as ssh itself would be told."""
    image: str = ""
    """For `container`."""
    engine: Literal["", "docker", "podman"] = ""
    """For `container`; empty for the first that is installed."""
    options: tuple[str, ...] = ()
    """For `container`: further options of the engine's `run`."""
    address: str = ""
    """For `ray`: the cluster's, as `ray.init` takes it."""
    resources: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    """For `ray`: what a worker needs of its machine; one CPU if nothing is said of them."""
    labels: dict[str, str] = {}
    """For `ray`: labels that the machine must have."""
    workers: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1
    """For `ray`: for how many workers room is held, on as many machines as there are."""
    slots: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    """How many agents of a session work there at once; others wait. 0 for any number."""
    python: str = ""
    """The Python over there that has Prong; empty for the usual one."""
    env: tuple[str, ...] = ()
    """Names of variables of this machine that commands over there are given."""
    folder: str = ""
    """Where copies of repositories are kept there; empty for the usual one."""
    patience: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 120.0
    """Seconds for which it is tried again when the line to it was cut."""


_OWN = {
    "host": "ssh",
    "image": "container",
    "engine": "container",
    "options": "container",
    "address": "ray",
    "resources": "ray",
    "labels": "ray",
    "workers": "ray",
}
"""What only one launcher has a use for."""

_PLAIN = RemoteTarget(launcher="process")


def read_target(name: str, given: Mapping[str, Any]) -> RemoteTarget:
    """Read what the settings say of one target.

    Raises BadInput with what is wrong.
    """
    try:
        target = msgspec.convert(dict(given), RemoteTarget)
    except msgspec.ValidationError as error:
        raise BadInput(f"the remote target {name!r} is wrong: {error}") from error
    if why := _fault(name, target):
        raise BadInput(f"the remote target {name!r} is wrong: {why}")
    return target


def _fault(name: str, target: RemoteTarget) -> str:
    if not re.fullmatch(_NAME, name):
        return "its name must be 1 to 64 letters, digits, '.', '_' or '-'"
    for field in ("launcher", "host", "image", "address"):
        text = str(getattr(target, field))
        if text and not re.fullmatch(_WORD, text):
            return f"{field} {text!r} must be one word that does not begin with '-'"
    if why := _fault_of_launcher(target):
        return why
    if wrong := [one for one in target.env if not re.fullmatch(_VARIABLE, one)]:
        return f"env takes names of variables, without values, and {wrong[0]!r} is none"
    if not target.python.isprintable() or target.python.startswith("-"):
        return f"python {target.python!r} must be a program"
    if target.folder and not (
        target.folder.startswith(("/", "~/")) and target.folder.isprintable()
    ):
        return f"folder {target.folder!r} must be an absolute path, or begin with '~/'"
    return ""


def _fault_of_launcher(target: RemoteTarget) -> str:
    """Say what is missing or too much for one of our own launchers."""
    needs = {"process": "", "ssh": "host", "container": "image", "ray": "address"}
    if target.launcher not in needs:
        names = "ssh, container, ray, process or a package's"
        return "" if target.launcher else f"launcher must be {names}"
    needed = needs[target.launcher]
    if needed and not getattr(target, needed):
        return f"the launcher {target.launcher} needs {needed!r}"
    for field, whose in _OWN.items():
        if whose != target.launcher and getattr(target, field) != getattr(_PLAIN, field):
            return f"the launcher {target.launcher} has no use for {field!r}"
    return _fault_of_container(target) if target.launcher == "container" else ""


def _fault_of_container(target: RemoteTarget) -> str:
    if target.folder.startswith("~") or ":" in target.folder:
        return "folder must be an absolute path without ':': it is where a volume is mounted"
    if wrong := [one for one in target.options if not re.fullmatch(_OPTION, one)]:
        return f"options must each be one word like '--network=host', and {wrong[0]!r} is not"
    return ""


def choose_target(
    targets: Mapping[str, RemoteTarget], default: str, name: str = ""
) -> tuple[str, RemoteTarget]:
    """Find the target of a name; without one the default, or the only one that there is.

    Raises UnknownName if it is not clear which one, NotPossibleNow if there is none at all.
    """
    if not targets:
        raise NotPossibleNow(
            "there are no remote workers: the setting remote.targets names no machine; 'worktree' "
            "gives an agent a working copy of its own on this one"
        )
    known = ", ".join(sorted(targets))
    wanted = name or default or (next(iter(targets)) if len(targets) == 1 else "")
    if not wanted:
        raise UnknownName(
            f"which machine is meant? Name it, as 'remote:NAME', with one of: {known}; or set "
            "remote.default"
        )
    if wanted not in targets:
        whose = "" if name else " (the setting remote.default)"
        raise UnknownName(f"there is no remote target {wanted!r}{whose}; there are: {known}")
    return wanted, targets[wanted]
