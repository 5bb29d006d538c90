"""What a Linux kernel can hold, tried out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cache

from msgspec import Struct

from prong.host.sandbox import landlock, mounts, seccomp
from prong.host.sandbox.bind import install, restrict

_OPEN = ("/dev",)
"""A folder to open for writing: that takes every call which a view can need."""


class KernelAbility(Struct, frozen=True):
    """What was found."""

    abi: int
    """The version of Landlock; 0 if there is none to use."""
    filters: bool = False
    views: str = ""
    """Why there can be no views of the files; empty if there can."""


def probe() -> KernelAbility:
    """Try what this kernel, and whatever contains us, allows."""
    abi = landlock.version()
    if abi < 1 or _try_rules(abi):
        return KernelAbility(0)
    return KernelAbility(abi, filters=_try_filter() == "", views=_try_view())


def _try_rules(abi: int) -> str:
    """Bind a thread by rules: a container may tell the version and forbid the use."""
    rules = landlock.rules_for(abi, network=False, signals=False, devices=False)
    return _tried(lambda: restrict(*landlock.spell(abi, rules, _OPEN, (), _OPEN)))


def _try_filter() -> str:
    kind = seccomp.machine()
    if kind is None:
        return "the numbers of this machine's calls are not known"
    data = seccomp.program(kind, seccomp.Refusals())
    return _tried(lambda: install(kind.seccomp, data))


def enters_by_thread() -> bool:
    """Whether a view is entered by a thread: root needs no namespace of users."""
    assert sys.platform != "win32"
    return _enters(os.geteuid())


@cache
def _enters(user: int) -> bool:
    return user == 0 and _tried(lambda: mounts.enter(writable=_OPEN, cwd="/")) == ""


def _try_view() -> str:
    if enters_by_thread() or _forked(lambda: mounts.enter(writable=_OPEN, cwd="/")):
        return ""
    return (
        "namespaces of users, or mounts in them, are not allowed here "
        "(kernel.unprivileged_userns_clone, user.max_user_namespaces, AppArmor or the container)"
    )


def has_terminals() -> bool:
    """Whether a view can have terminals of its own."""
    assert sys.platform != "win32"
    return _terminals(os.geteuid())


@cache
def _terminals(user: int) -> bool:
    del user

    def enter() -> None:
        mounts.enter(terminals=True, cwd="/")

    return _tried(enter) == "" if enters_by_thread() else _forked(enter)


def _forked(enter: Callable[[], None]) -> bool:
    """Try a view by a process that is thrown away."""

    def enter_both() -> None:
        mounts.enter_users()
        enter()

    try:
        subprocess.run(["true"], preexec_fn=enter_both, check=True, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _tried(work: Callable[[], None]) -> str:
    """Do something in a thread that is thrown away; gives why it failed, empty if it did not."""
    told: list[str] = []

    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - what was not seen to work cannot be held
            told.append(str(error) or repr(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return told[0] if told else ""
