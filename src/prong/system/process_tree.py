"""A process with all that it starts, ended together: a group of processes, or a job of Windows.

A job is the stronger of the two. No process leaves it, and it ends with the process that made it,
however that ends; so on Windows there is no need for a guardian. A group can be left by whoever
makes a session of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypedDict

if sys.platform == "win32":
    from prong.system import windows_call

    ENDS_BY_ITSELF = True
    """Whether a tree ends with the process that started it, however that ends."""
    INHERITS_NUMBERS = False
    """Whether a process can be given files by their numbers, beside its three streams."""

    class Apart(TypedDict):
        """What `Popen` is told so that a process leads a tree of its own."""

        creationflags: int

    def apart() -> Apart:
        """Give what a process is started with that leads a tree; it runs once the tree is made."""
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | windows_call.SUSPENDED}

    def detached() -> Apart:
        """Give what a process is started with that is to outlive this one."""
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        return {"creationflags": flags}

    class ProcessTree:
        """A job and the process that it was made for."""

        def __init__(self, pid: int) -> None:
            """Take a process that was started `apart`, and let it run; raises OSError."""
            self.pid = pid
            self._job = windows_call.make_job()
            try:
                windows_call.enter_job(self._job, pid)
            except OSError:
                with suppress(OSError):
                    windows_call.end_single(pid)
                self.close()
                raise

        def exists(self) -> bool:
            """Whether anything of it is left."""
            return self._job != 0 and windows_call.count_job(self._job) > 0

        def ask(self) -> bool:
            """Ask all of it to end, as Ctrl+Break does; False if nothing of it is left."""
            if self.exists():
                # Without a console nobody hears it, and it is ended by force after a while.
                windows_call.press_break(self.pid)
                return True
            return False

        def force(self) -> bool:
            """End all of it at once; False if nothing of it is left."""
            if not self.exists():
                return False
            windows_call.end_job(self._job)
            return True

        def has_live_member(self) -> bool:
            """Whether any process of it runs."""
            return self.exists()

        def ask_unheard(self) -> None:
            """Ask those again that have not heard it: all of them have."""

        def close(self) -> None:
            """Forget it; what is left of it ends."""
            job, self._job = self._job, 0
            if job:
                windows_call.release(job)

    def end_foreign(pid: int) -> None:
        """End a process at once that is no child of ours; raises OSError."""
        windows_call.end_single(pid)

    def ask_foreign(pid: int) -> None:
        """Ask a process that is no child of ours to end: there is no way, so it is ended."""
        windows_call.end_single(pid)

    def call_in_copies(work: Callable[[], None]) -> None:
        """Have something called in each copy that this process makes of itself: none here."""
        del work

    def exit_descriptor(pid: int) -> int | None:
        """Give a descriptor that can be read once a process has ended; None if there is none."""
        del pid
        return None

    KILLED = 1
    """The exit code of a process that was ended by force."""

else:
    ENDS_BY_ITSELF = False
    """Whether a tree ends with the process that started it, however that ends."""
    INHERITS_NUMBERS = True
    """Whether a process can be given files by their numbers, beside its three streams."""

    class Apart(TypedDict):
        """What `Popen` is told so that a process leads a tree of its own."""

        start_new_session: bool

    def apart() -> Apart:
        """Give what a process is started with that leads a tree; it runs once the tree is made."""
        return {"start_new_session": True}

    def detached() -> Apart:
        """Give what a process is started with that is to outlive this one."""
        return {"start_new_session": True}

    class ProcessTree:
        """A group of processes, known by the number of its leader.

        Once it is empty its number may be another's: who holds it must not ask again.
        """

        def __init__(self, pid: int) -> None:
            """Take a process that was started `apart`."""
            self.pid = pid

        def exists(self) -> bool:
            """Whether anything of it is left."""
            return self._signal(0)

        def ask(self) -> bool:
            """Ask all of it to end; False if nothing of it is left."""
            return self._signal(signal.SIGTERM)

        def force(self) -> bool:
            """End all of it at once; False if nothing of it is left."""
            return self._signal(signal.SIGKILL)

        def _signal(self, number: int) -> bool:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                return False
            return True

        def has_live_member(self) -> bool:
            """Whether it has members besides zombies that a slow init has not reaped yet.

            Taken for granted where there is no /proc.
            """
            try:
                return any(self._is_live_member(name) for name in _processes())
            except FileNotFoundError:
                return True

        def ask_unheard(self) -> None:
            """Ask those again that have not heard it: they would have ended, and live.

            Between a shell's fork and the program's start a signal meets the handler of the shell,
            and is lost. Who has a handler of its own is asked once. Nobody is, where there is no
            /proc or no way to hold a process fast.
            """
            if sys.platform == "linux":
                with suppress(OSError):
                    for name in filter(self._is_live_member, _processes()):
                        self._ask_unheard_one(name)

        def _ask_unheard_one(self, name: str) -> None:
            if sys.platform == "linux":
                with suppress(OSError):
                    descriptor = os.pidfd_open(int(name))
                    try:
                        # What has the number now is what is asked.
                        if self._is_live_member(name) and _ends_by(name, signal.SIGTERM):
                            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
                    finally:
                        os.close(descriptor)

        def _is_live_member(self, name: str) -> bool:
            with suppress(OSError):
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - many
                    # The second field is the program's name in brackets and may hold anything.
                    state, _, group, *_ = file.read().rpartition(b")")[2].split()
                return int(group) == self.pid and state not in {b"Z", b"X"}
            return False

        def close(self) -> None:
            """Forget it."""

    def _processes() -> list[str]:
        """Give the numbers of all processes; raises FileNotFoundError where there is no /proc."""
        return [one for one in os.listdir("/proc") if one.isdecimal()]  # noqa: PTH208 - many

    def _ends_by(name: str, number: int) -> bool:
        """Whether a signal ends a process, which neither blocks nor ignores nor catches it."""
        with open(f"/proc/{name}/status", "rb") as file:  # noqa: PTH123 - many
            fields = dict(line.split(b":", 1) for line in file if line.startswith(b"Sig"))
        masks = (int(fields[one], 16) for one in (b"SigBlk", b"SigIgn", b"SigCgt"))
        return not any(mask >> (number - 1) & 1 for mask in masks)

    def end_foreign(pid: int) -> None:
        """End a process at once that is no child of ours, with the session that it leads.

        Raises OSError.
        """
        if os.getsid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)

    def ask_foreign(pid: int) -> None:
        """Ask a process that is no child of ours to end; raises OSError."""
        os.kill(pid, signal.SIGTERM)

    def call_in_copies(work: Callable[[], None]) -> None:
        """Have something called in each copy that this process makes of itself."""
        os.register_at_fork(after_in_child=work)

    def exit_descriptor(pid: int) -> int | None:
        """Give a descriptor that can be read once a process has ended; None if there is none."""
        if sys.platform == "linux":
            # A sandbox may lack the call.
            with suppress(OSError):
                return os.pidfd_open(pid)
        return None

    KILLED = -signal.SIGKILL
    """The exit code of a process that was ended by force."""
