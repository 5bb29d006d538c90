"""Starts a worker somewhere and carries bytes: a program line, and what its failures mean.

A launcher knows nothing of agents. Whatever it starts reads and writes the frames of a worker on
its standard streams, and ends when its input does; nothing secret is in its arguments.
"""

from __future__ import annotations

import sys
from typing import Protocol, cast

import msgspec

from prong.errors import NotInstalled, UnknownName
from prong.extension import Extension, find_extension
from prong.host.ray_placement import CUT, RayPlacement
from prong.host.target import RemoteTarget

WORKER = ("-P", "-m", "prong", "worker", "--stdio")
"""After Python; by `-P` no module of the folder that it works in is taken for one of ours."""

VOLUME = "/var/prong"
"""Where a container has the volume that outlives it."""

_RUN = (
    *("run", "-i", "--rm", "--init", "--pull=never"),
    # The engine would keep what agents say, and hold back bytes that are keys at a terminal.
    *("--log-driver=none", "--detach-keys="),
)
_RUN_OF_PODMAN = ("--http-proxy=false",)
"""Or it would hand on this machine's proxies, and the passwords in their addresses."""

_SSH = (
    *("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=3"),
    *("ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no"),
    *("RequestTTY=no", "EscapeChar=none", "LogLevel=ERROR"),
)
"""Nobody sits there to be asked, and a line that is cut is noticed within a minute."""

_SSH_LOST = 255
"""The code of ssh when it fails itself, and not what it has started."""

_UNTOLD = ("-u", "SSH_CLIENT", "-u", "SSH2_CLIENT")

_SSH_FAULTS = (
    (
        "identification has changed",
        "the host key has changed: find out why; if that is right, 'ssh-keygen -R {known}'",
    ),
    (
        "host key verification failed",
        "the host is not known: connect once with 'ssh {host}' and compare its key",
    ),
    (
        "permission denied",
        "it lets nobody in without a password: try 'ssh -o BatchMode=yes {host}'",
    ),
    ("could not resolve", "there is no host of that name: look at 'host' and at ~/.ssh/config"),
    ("connection refused", "nothing listens there for ssh"),
    ("timed out", "it does not answer: try 'ssh {host}'"),
)
_NO_PROGRAM = "there is no {python} in the image: name it with 'python'"
_IDLE_ENGINE = "the engine does not run: start it, or name another with 'engine'"
_NO_IMAGE = "the image {image!r} is not on this machine: build or pull it first"
_NO_INIT = "podman lacks the program that it starts containers by: install catatonit"
_ENGINE_FAULTS = (
    (
        "permission denied while trying to connect to the docker",
        "this user may not use docker: let that be allowed, or name another with 'engine'",
    ),
    ("cannot connect to the docker daemon", _IDLE_ENGINE),
    ("failed to connect to the docker api", _IDLE_ENGINE),
    ("cannot connect to podman", _IDLE_ENGINE),
    ("no such image", _NO_IMAGE),
    ("image not known", _NO_IMAGE),
    # Of the engine's own program it is also said that its file was not found.
    ("lookup init binary", _NO_INIT),
    ("container-init binary not found", _NO_INIT),
    ("executable file not found", _NO_PROGRAM),
    ("failed to exec pid1: no such file", _NO_PROGRAM),
    ("unknown flag", "the engine does not know one of the target's 'options'"),
)
_NO_PYTHON = "there is no {python} there: name the Python that has Prong with 'python'"
_RAY_FAULTS = (
    (
        "placed: modulenotfounderror: no module named prong",
        "Prong is not installed for the Python that runs Ray there: install it",
    ),
    ("[errno 2] no such file or directory", _NO_PYTHON),
)
_FAULTS = (
    ("no module named prong", "Prong is not installed for {python} there: install it"),
    ("no space left on device", "the disk over there is full"),
)


class WorkerPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Whose worker is started, and where, for a launcher that can choose between machines."""

    session: str = ""
    """The session's name, which stays when it is resumed."""
    owner: str = ""
    """The process of the session."""
    line: int = 0
    """The number of the line to it among those of that process, which are counted up."""
    open_lines: tuple[int, ...] = ()
    """The earlier lines of that process that are still held: what they have is theirs."""
    node: str = ""
    """The machine that it must be on, as an earlier worker named it; empty if any will do."""


ANYWHERE = WorkerPlace()


class Launcher(Protocol):
    """Starts workers in one way."""

    def argv(
        self, name: str, target: RemoteTarget, place: WorkerPlace = ANYWHERE
    ) -> tuple[str, ...]:
        """Give the program and its arguments that start a worker on the target of a name.

        Raises NotInstalled if a program is missing here.
        """
        ...

    def remedy(self, target: RemoteTarget, code: int, errors: str) -> str:
        """Say what a worker means that ended before its first word; empty if that is not known."""
        ...

    def folder(self, target: RemoteTarget) -> str:
        """Give the folder over there that outlives a worker; `~` is the home folder there."""
        ...

    def is_cut(self, code: int) -> bool:
        """Whether a program that ended so has lost its line, so that the worker may live on."""
        ...


class ProcessLauncher:
    """Starts workers on this machine, as if it were another: to try targets, and for tests."""

    def argv(
        self, name: str, target: RemoteTarget, place: WorkerPlace = ANYWHERE
    ) -> tuple[str, ...]:
        """Give the program line of a worker."""
        del name, place
        return (target.python or sys.executable, *WORKER)

    def remedy(self, target: RemoteTarget, code: int, errors: str) -> str:
        """Say what a worker means that ended before its first word."""
        return _remedy((), target, target.python or sys.executable, code, errors)

    def folder(self, target: RemoteTarget) -> str:
        """Give the folder for copies of repositories."""
        return _usual_folder(target)

    def is_cut(self, code: int) -> bool:
        """Know that there is no line beside the worker itself."""
        del code
        return False


class SshLauncher:
    """Starts workers by the user's own ssh: their configuration, keys and jump hosts hold."""

    def argv(
        self, name: str, target: RemoteTarget, place: WorkerPlace = ANYWHERE
    ) -> tuple[str, ...]:
        """Give the program line of ssh.

        Raises NotInstalled if there is no ssh.
        """
        del name, place
        # Modules that no session loads which stays at home.
        import shlex
        import shutil

        if shutil.which("ssh") is None:
            raise NotInstalled("there is no program 'ssh' here: install OpenSSH's client")
        options = tuple(word for option in _SSH for word in ("-o", option))
        # Or every bash there would take itself for one that ssh has started, and read ~/.bashrc.
        line = " ".join(
            ["exec", "env", *_UNTOLD, _for_shell(_python(target)), *map(shlex.quote, WORKER)]
        )
        return ("ssh", *options, "--", target.host, line)

    def remedy(self, target: RemoteTarget, code: int, errors: str) -> str:
        """Say what a worker means that ended before its first word."""
        # With another code it has got there, and what is said is said by what it has started.
        own = _SSH_FAULTS if code == _SSH_LOST else ()
        return _remedy(own, target, _python(target), code, errors)

    def folder(self, target: RemoteTarget) -> str:
        """Give the folder for copies of repositories."""
        return _usual_folder(target)

    def is_cut(self, code: int) -> bool:
        """Whether ssh says so, or was itself killed."""
        return code == _SSH_LOST or code < 0


class ContainerLauncher:
    """Starts each worker in a container of its own; a volume holds what outlives it."""

    def argv(
        self, name: str, target: RemoteTarget, place: WorkerPlace = ANYWHERE
    ) -> tuple[str, ...]:
        """Give the program line of docker or podman.

        Raises NotInstalled if there is neither.
        """
        del place
        import shutil

        engine = target.engine or next((e for e in ("docker", "podman") if shutil.which(e)), "")
        if not engine or shutil.which(engine) is None:
            raise NotInstalled(f"there is no {engine or 'docker and no podman'} here: install it")
        own = _RUN_OF_PODMAN if engine == "podman" else ()
        volume = ("--volume", f"prong-{name}:{self.folder(target)}")
        python = ("--entrypoint", _python(target))
        return (engine, *_RUN, *own, *target.options, *volume, *python, target.image, *WORKER)

    def remedy(self, target: RemoteTarget, code: int, errors: str) -> str:
        """Say what a worker means that ended before its first word."""
        return _remedy(_ENGINE_FAULTS, target, _python(target), code, errors)

    def folder(self, target: RemoteTarget) -> str:
        """Give the folder in the container where the volume is."""
        return target.folder or VOLUME

    def is_cut(self, code: int) -> bool:
        """Know that a container ends with what has started it."""
        del code
        return False


class RayLauncher:
    """Has workers placed on a Ray cluster, by a process in which Ray is by itself."""

    def argv(
        self, name: str, target: RemoteTarget, place: WorkerPlace = ANYWHERE
    ) -> tuple[str, ...]:
        """Give the program line of what leads to the cluster.

        Raises NotInstalled if Ray is not installed here.
        """
        from importlib.util import find_spec

        if find_spec("ray") is None:
            raise NotInstalled("Ray is not installed here: pip install 'prong[ray]'")
        wanted = RayPlacement(
            address=target.address,
            actor=f"{place.session or place.owner}:{name}",
            owner=place.owner,
            line=place.line,
            open_lines=place.open_lines,
            node=place.node,
            resources=target.resources,
            labels=target.labels,
            python=target.python,
        )
        told = msgspec.json.encode(wanted).decode()
        return (sys.executable, "-P", "-m", "prong.team.ray_carrier", told)

    def remedy(self, target: RemoteTarget, code: int, errors: str) -> str:
        """Say what a worker means that ended before its first word."""
        return _remedy(_RAY_FAULTS, target, target.python or "python", code, errors)

    def folder(self, target: RemoteTarget) -> str:
        """Give the folder for copies of repositories."""
        return _usual_folder(target)

    def is_cut(self, code: int) -> bool:
        """Whether what leads there has given up, or was itself killed."""
        return code == CUT or code < 0


def make_launcher(name: str) -> Launcher:
    """Make a launcher; nothing is loaded but the one that is named.

    Raises UnknownName if there is none, NotInstalled if the package that brings it is broken.
    """
    match name:
        case "process":
            return ProcessLauncher()
        case "ssh":
            return SshLauncher()
        case "container":
            return ContainerLauncher()
        case "ray":
            return RayLauncher()
        case _:
            return _load(name)


def launcher_fault(name: str) -> str:
    """Say why there is no launcher of a name, without loading any; empty if there is one."""
    if name in ("process", "ssh", "container", "ray"):
        return ""
    try:
        _find(name)
    except (UnknownName, NotInstalled) as error:
        return str(error)
    return ""


def _find(name: str) -> Extension:
    """Find the launcher that a package brings.

    Raises UnknownName if none does, NotInstalled if several do.
    """
    found = find_extension("prong.launchers", name)
    if found is None:
        raise UnknownName(
            f"there is no launcher {name!r}, and no package brings one; ours are process, ssh, "
            "container and ray"
        )
    return found


def _load(name: str) -> Launcher:
    found = _find(name)
    loaded = found.load()
    try:
        made: object = loaded() if callable(loaded) else loaded
    except Exception as error:
        raise found.wrong(f"cannot be made: {error!r}") from error
    missing = [
        one
        for one in ("argv", "remedy", "folder", "is_cut")
        if not callable(getattr(made, one, None))
    ]
    if missing:
        raise found.wrong(f"has no {missing[0]}()")
    return cast("Launcher", made)  # its methods were looked for


def _python(target: RemoteTarget) -> str:
    return target.python or "python3"


def _usual_folder(target: RemoteTarget) -> str:
    return target.folder or "~/.cache/prong/remote"


def _for_shell(path: str) -> str:
    """Quote a path for a shell that is to know its `~`."""
    import shlex

    return f"~/{shlex.quote(path[2:])}" if path.startswith("~/") else shlex.quote(path)


def _known_host(errors: str) -> str:
    """Find the name by which ssh knows a host whose key has changed: often not the one it is told.

    In quotes for a shell; empty if there is none.
    """
    import re
    import shlex

    found = re.search(r"^Host key for ([\w.:\[\]-]+) has changed", errors, re.MULTILINE)
    return shlex.quote(found[1]) if found else ""


def _remedy(
    own: tuple[tuple[str, str], ...], target: RemoteTarget, python: str, code: int, errors: str
) -> str:
    said = errors.lower().replace("'", "")
    for words, means in (*own, *_FAULTS):
        if words in said:
            known = _known_host(errors) or target.host
            return means.format(host=target.host, known=known, image=target.image, python=python)
    return _NO_PYTHON.format(python=python) if code == 127 else ""
