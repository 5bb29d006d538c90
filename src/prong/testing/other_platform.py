"""Another operating system, as far as Python shows it: what it lacks is hidden.

    python -m prong.testing.other_platform windows -m prong -p "Hello"

runs a module, or a program's text after `-c`, in a process in which modules, functions and
constants are missing that a Python on that system does not have, and `sys.platform` says its name.
What Prong calls of Windows itself is played by what this system has. So the code for the other
system runs, every line but those in `prong.system.windows_call`. It is no Windows: paths, rights,
the console and the scheduler stay those of this machine.
"""

from __future__ import annotations

import asyncio
import builtins
import importlib
import importlib.abc
import importlib.machinery
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias

OtherPlatform: TypeAlias = Literal["windows", "macos"]

HIDDEN_MODULES = frozenset(
    [
        "crypt",
        "fcntl",
        "grp",
        "nis",
        "ossaudiodev",
        "posix",
        "pty",
        "pwd",
        "readline",
        "resource",
        "spwd",
        "syslog",
        "termios",
        "tty",
    ]
)
"""What Windows has not; modules of the library that hold on to them have been loaded before."""
NOT_ON_WINDOWS: dict[types.ModuleType, str] = {
    os: "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH WIFEXITED chown chroot fchdir "
    "fchmod fchown fdatasync fork forkpty getegid geteuid getgid getloadavg getpgid getpgrp getsid "
    "getuid killpg lchown listxattr memfd_create mkfifo nice openpty pidfd_open posix_spawn pread "
    "preadv pwrite register_at_fork sched_getaffinity sched_yield set_blocking setsid setuid "
    "statvfs sysconf uname wait waitid wait3 wait4",
    signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGTTIN "
    "SIGTTOU SIGUSR1 SIGUSR2 SIGWINCH alarm pthread_sigmask sigwait",
    socket: "AF_UNIX recv_fds send_fds SCM_RIGHTS",
}
NOT_ON_MACOS: dict[types.ModuleType, str] = {
    os: "O_PATH fdatasync listxattr memfd_create pidfd_open posix_fadvise sched_getaffinity "
    "setxattr waitid",
    signal: "SIGPOLL SIGPWR SIGSTKFLT",
    socket: "MSG_CMSG_CLOEXEC",
}


class _Missing(importlib.abc.MetaPathFinder):
    """Finds no module that is hidden."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Say that a hidden module is not there, and nothing of the others."""
        del path, target
        if fullname in HIDDEN_MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


_KEPT = ("concurrent.futures.thread", "ctypes", "shutil", "tempfile", "anyio._backends._asyncio")
"""What the library builds on stays there for itself; only new imports find nothing."""


def become(platform: OtherPlatform) -> None:
    """Hide from this process, which has loaded nothing of Prong, what the other system lacks."""
    assert not [name for name in sys.modules if name.startswith("prong.system.")]
    # Paths stay those of this machine: with others no file could be opened, and no program found.
    for name in (*_KEPT, "prong.system.path_form", "prong.system.program_path"):
        importlib.import_module(name)
    if platform == "windows":
        _become_windows()
    else:
        _become_macos()


def _add(module: types.ModuleType, **names: Any) -> None:
    module.__dict__.update(names)


def _become_macos() -> None:
    _hide(NOT_ON_MACOS)
    _hide_proc()
    # What it asks for is unknown here, as it is to some file systems there.
    _add(importlib.import_module("fcntl"), F_FULLFSYNC=51)
    sys.platform = "darwin"


def _hide(names: dict[types.ModuleType, str]) -> None:
    for module, listed in names.items():
        for name in listed.split():
            if hasattr(module, name):
                delattr(module, name)


def _become_windows() -> None:
    played = importlib.import_module("prong.testing.windows_stand_in")
    _take_flags()
    # There it is made of two sockets of the network, which is more than the event loop needs.
    _add(socket, socketpair=partial(socket.socketpair, vars(socket)["AF_UNIX"]))
    _hide(NOT_ON_WINDOWS)
    _hide_proc()
    for name in HIDDEN_MODULES & set(sys.modules):
        del sys.modules[name]
    sys.meta_path.insert(0, _Missing())
    _refuse_watching()
    _add(signal, SIGBREAK=signal.Signals(23))
    sys.modules["prong.system.windows_call"] = played
    sys.platform = "win32"


def _hide_proc() -> None:
    """Let nobody see /proc: neither system has it."""
    for home, name in ((builtins, "open"), (os, "listdir")):
        _add(home, **{name: partial(_outside_proc, vars(home)[name])})


def _outside_proc(use: Callable[..., Any], path: Any = ".", *args: Any, **more: Any) -> Any:
    if str(path).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return use(path, *args, **more)


def _take_flags() -> None:
    """Take what `Popen` takes on Windows, and refuse what it refuses there."""
    start = subprocess.Popen.__init__
    _add(subprocess, CREATE_NEW_PROCESS_GROUP=0x200, CREATE_NO_WINDOW=0x0800_0000)

    def begin(self: Any, *args: Any, **more: Any) -> None:
        flags = more.pop("creationflags", 0)
        for name in ("preexec_fn", "pass_fds"):
            if more.pop(name, None):
                raise ValueError(f"{name} is not supported on Windows platforms")
        more["start_new_session"] = bool(flags)
        start(self, *args, **more)

    setattr(subprocess.Popen, "__init__", begin)  # noqa: B010 - not as the type checker has it


def _refuse_watching() -> None:
    """Refuse what Windows and its event loop cannot wait for: pipes beside sockets, signals."""
    loop = asyncio.SelectorEventLoop
    watch = loop.add_reader
    wait = select.select

    def demand_socket(file: Any) -> None:
        if not _is_socket(file if isinstance(file, int) else file.fileno()):
            raise OSError(10038, "An operation was attempted on something that is not a socket")

    def add_reader(self: Any, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        if isinstance(fd, int):
            demand_socket(fd)
        watch(self, fd, callback, *args)

    def select_sockets(*args: Any) -> Any:
        for file in chain(*args[:3]):
            demand_socket(file)
        return wait(*args)

    def refuse(*args: Any) -> None:
        raise NotImplementedError

    for name, method in (
        ("add_reader", add_reader),
        ("add_signal_handler", refuse),
        ("remove_signal_handler", refuse),
    ):
        setattr(loop, name, method)
    setattr(select, "select", select_sockets)  # noqa: B010 - not as the type checker has it


def _is_socket(fd: int) -> bool:
    return (os.fstat(fd).st_mode & 0o170000) == 0o140000


def main(words: Sequence[str]) -> None:
    """Run a module or a text as on another system."""
    platform, how, what, *rest = words
    assert platform in {"windows", "macos"}
    become("windows" if platform == "windows" else "macos")
    sys.argv = [what, *rest]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<other platform>", "exec"), {"__name__": "__main__"})  # noqa: S102 - that is its job


if __name__ == "__main__":
    main(sys.argv[1:])
