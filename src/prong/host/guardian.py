"""Ends what Prong has started if Prong itself is ended by force.

Nothing that runs inside Prong can do that, so a small shell does: started with the first process,
it reads from a pipe which process groups there are, and acts when the pipe ends. Prong alone holds
the other end, and the kernel closes it however Prong goes. In a session of its own the guardian
outlives a Ctrl+C and a closed terminal; when all is over in the ordinary way, it ends with the last
host. Where processes end with the one that started them, as on Windows, there is none.

A group's number may be given to others once the group is empty, so the guardian is told when one
is. Between the end of a group's leader and the end of the rest nobody is told anything, but the
kernel gives the number to no process while the group has members: if there is a process of that
number, the group is a stranger's.

A process runs a moment before Prong knows its number, and a kill may come in that moment. Therefore
a command is given a mark in its environment, of which the guardian knows before; where there is
no /proc to find it by, such a command lives on.

What Prong makes for a while is in one folder, which the guardian removes if Prong cannot.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias
from weakref import WeakSet

from prong.host.private import is_own_folder, remove_tree
from prong.system.descriptor import make_nonblocking
from prong.system.process_tree import ENDS_BY_ITSELF, call_in_copies, detached

Sign: TypeAlias = Literal["+", "=", "-"]
"""What there is of a group: its leader, the rest without it, nothing."""

MARK = "PRONG_SPAWN"
"""The environment variable that a command is known by until its number is."""

SCRIPT = r"""# Ends what Prong has started, once Prong is gone.
trap '' HUP INT QUIT TERM
all=' ' due= folder=
drop() { case $all in *" $1 "*) all="${all%%" $1 "*} ${all#*" $1 "}" ;; esac; }
tell() {
  found=1
  for one in $all; do
    group=${one#=}
    if [ "$one" != "$group" ] && kill -s 0 -- "$group"; then continue; fi
    if kill -s "$1" -- "-$group"; then found=0; fi
  done
  return $found
}
end() {
  tell TERM || return
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.1
    tell 0 || return
  done
  tell KILL
}
while read -r sign group; do
  drop "$group"
  drop "=$group"
  case $sign in
    +) all="$all$group " due= ;;
    =) all="$all=$group " ;;
    '?') due=$group ;;
    /) folder=$group ;;
  esac
done
if [ -n "$due" ]; then
  sleep 0.1
  for file in $(grep -ls "PRONG_SPAWN=$due" /proc/[0-9]*/environ); do
    one=${file#/proc/}
    all="$all${one%/environ} "
  done
fi
end
if [ -d "$folder" ]; then
  # Again, as what is being ended may still have written to it.
  rm -rf -- "$folder" || { sleep 0.1; rm -rf -- "$folder"; }
fi
"""

_PATIENCE = 1.0
"""Seconds to wait for a guardian that has nothing left to do."""


class Holder(Protocol):
    """Whoever starts processes, and may be told that they are not guarded."""

    warn: Callable[[str], None] | None


class Guardian:
    """The one process that watches over all others which this one starts."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._holders = WeakSet[Holder]()
        self._groups: dict[int, Sign] = {}
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._broken = False
        self._lock = threading.RLock()
        # A copy of this process would keep the pipe open after the original's end.
        call_in_copies(self._forget)

    @property
    def pid(self) -> int | None:
        """The guardian's process, while there is one."""
        return self._process.pid if self._process is not None else None

    @property
    def groups(self) -> frozenset[int]:
        """The groups that there are, as far as is known."""
        return frozenset(self._groups)

    @property
    def idle(self) -> bool:
        """Whether nobody needs it: no holder is left, and no group."""
        return not self._holders and not self._groups

    def hold(self, holder: Holder) -> None:
        """Keep the guardian, once there is one, until the holder lets go or is no more."""
        self._holders.add(holder)

    def release(self, holder: Holder) -> None:
        """Let go; with the last holder and the last group the guardian ends."""
        with self._lock:
            self._holders.discard(holder)
            self._end_if_idle()

    def ready(self) -> None:
        """Start the guardian if there is none, so that a group is told of as soon as it is."""
        with self._lock:
            if self._process is None and not self._broken and not ENDS_BY_ITSELF:
                self._start()

    def folder(self) -> str:
        """Give the folder for what this process makes for a while, which nobody else can open.

        It is there until nobody needs the guardian any more. Raises OSError.
        """
        with self._lock:
            # Programs that tidy up remove old ones, and then anybody can make one of that name.
            if not (self._folder and is_own_folder(self._folder)):
                import tempfile

                temp = os.path.realpath(tempfile.gettempdir())
                self._folder = f"{temp}/prong-{os.urandom(8).hex()}"
                self.ready()
                # Told before it is there: a kill may come in between.
                if not self._write(self._told_folder()):
                    self._replace()
                os.mkdir(self._folder, 0o700)  # noqa: PTH102
            return self._folder

    def expect(self) -> str:
        """Announce a group that is about to be started; gives the value of its mark."""
        mark = os.urandom(8).hex()
        with self._lock:
            self.ready()
            if not self._write(f"? {mark}\n"):
                self._replace()
                self._write(f"? {mark}\n")
        return mark

    def give_up(self) -> None:
        """Take an announcement back: nothing was started."""
        with self._lock:
            self._write("?\n")

    def tell(self, sign: Sign, group: int) -> None:
        """Say what there is of a group."""
        with self._lock:
            if sign == "-":
                self._groups.pop(group, None)
            else:
                self._groups[group] = sign
            if not self._write(f"{sign} {group}\n"):
                self._replace()
            self._end_if_idle()

    def _start(self) -> None:
        try:
            source, self._pipe = os.pipe()
            make_nonblocking(self._pipe)
            with os.fdopen(source, "rb", buffering=0) as stdin:
                self._process = subprocess.Popen(
                    ["sh", "-c", SCRIPT],
                    cwd="/",
                    env={"PATH": os.environ.get("PATH", os.defpath)},
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    **detached(),
                )
        except (OSError, ValueError) as error:
            self._fail(str(error))
        groups = "".join(f"{sign} {n}\n" for n, sign in self._groups.items())
        if not self._write(groups + self._told_folder()):
            self._fail("it ended at once")

    def _told_folder(self) -> str:
        """Give what the guardian is told of the folder; nothing of one that no line can hold."""
        return f"/ {self._folder}\n" if self._folder and "\n" not in self._folder else ""

    def _replace(self) -> None:
        """Start another in place of one that somebody has ended or halted."""
        assert self._process is not None
        # Before its pipe ends: halted and let go on later, it would do its duty by mistake.
        self._process.kill()
        self._end()
        self._start()

    def _write(self, text: str) -> bool:
        """Write to the pipe if there is one; False if nobody reads it."""
        if self._pipe < 0:
            return True
        data = os.fsencode(text)
        try:
            # Never waits: a guardian that has been halted must not halt Prong.
            return os.write(self._pipe, data) == len(data)
        except OSError:
            return False

    def _fail(self, why: str) -> None:
        self._end()
        self._broken = True
        for holder in list(self._holders):
            if holder.warn is not None:
                holder.warn(
                    f"Commands would go on running if Prong were killed: the guardian that is to "
                    f"end them could not be started ({why})."
                )

    def _end_if_idle(self) -> None:
        if self.idle:
            folder, self._folder = self._folder, ""
            if folder:
                remove_tree(folder)
            self._end()
            self._broken = False

    def _end(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            # Halted, or short of time: it must neither outlive us nor keep us from ending.
            process.kill()
            process.wait()

    def _forget(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
        self._pipe, self._process = -1, None
        self._groups, self._folder = {}, ""


GUARDIAN = Guardian()
"""Of this process, for all sessions in it."""
