"""The starter: a small process in a namespace of users, which starts commands for Prong.

A view of the files takes such a namespace for everybody but root, and Prong itself has too many
threads to enter one. It also would not want to: whatever it starts would be in it, `sudo` for one.
So this process enters it while it has one thread, and then does for each order what Prong's own
thread does for root: a fresh thread enters the view, binds itself and starts the command.

Of an order it gets a file with everything, a socket for the answer and the command's streams, all
of them as descriptors. It ends with Prong, whose end of the socket the kernel closes. Little is
imported, since the first command waits for it.
"""

from __future__ import annotations

import _socket
import _thread
import errno
import fcntl
import marshal
import os
import sys
from collections.abc import Mapping, Sequence

from prong.host.sandbox import mounts
from prong.host.sandbox.bind import bind

assert sys.platform == "linux"

_RESTORED = (13, 25)
"""SIGPIPE and SIGXFSZ, which Python ignores and no other program expects to be."""
_MOST = 4 * 253
"""Bytes of as many descriptors as the kernel passes at once."""


def serve(number: int) -> None:
    """Start what is ordered by a socket of this number, until that ends."""
    os.set_inheritable(number, False)
    control = _socket.socket(fileno=number)
    refused = None
    try:
        mounts.enter_users()
    except OSError as error:
        refused = error
    while True:
        data, sent, _, _ = control.recvmsg(1, _socket.CMSG_SPACE(_MOST), _socket.MSG_CMSG_CLOEXEC)
        if not data:
            os._exit(0)
        given = [one for _, _, packed in sent for one in memoryview(packed).cast("i").tolist()]
        try:
            _thread.start_new_thread(_answer, (given, refused))
        except RuntimeError:
            _answer(given, OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)))


def _answer(given: list[int], refused: OSError | None) -> None:
    """Start what is ordered and tell its number, then how it has ended."""
    order, place, *streams = given
    answer = _socket.socket(fileno=place)
    try:
        if refused is not None:
            raise refused
        process, view = _start(order, streams)
    except OSError as error:
        _tell(answer, b"-" + marshal.dumps((error.errno, error.strerror, error.filename)))
        return
    except ValueError as error:
        # A NUL or a lone surrogate in a word.
        _tell(answer, b"-" + marshal.dumps((errno.EINVAL, f"cannot be started: {error}", None)))
        return
    finally:
        # Whoever reads from a stream waits until the last who could write to it has gone.
        for one in (order, *streams):
            os.close(one)
    _tell(answer, b"+%d" % process, view)
    os.close(view)
    ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    exited = ended.si_code == os.CLD_EXITED
    _tell(answer, b"%d" % (ended.si_status if exited else -ended.si_status))
    # Its number, and so its group's, is not given to others before Prong knows of its end.
    answer.recv(1)
    os.waitpid(process, 0)


def _tell(answer: _socket.socket, data: bytes, descriptor: int = -1) -> None:
    kind = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
    sent = [(*kind, memoryview(bytearray(4)).cast("i"))] if descriptor >= 0 else []
    for _, _, packed in sent:
        packed[0] = descriptor
    try:
        answer.sendmsg([data], sent)
    except OSError:
        # Nobody wants to know any more.
        return


def _start(order: int, streams: Sequence[int]) -> tuple[int, int]:
    """Bring this thread into the view, bind it and start the process; gives what holds the view."""
    data = b""
    while piece := os.pread(order, 1 << 24, len(data)):
        data += piece
    argv, env, view, binding, targets = marshal.loads(data)  # noqa: S302 - Prong has written it
    mounts.enter(**view)
    held = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        bind(*binding)
        return _spawn(argv, env, streams, targets), held
    except BaseException:
        os.close(held)
        raise


def _spawn(
    argv: list[str], env: Mapping[str, str], streams: Sequence[int], targets: Sequence[int]
) -> int:
    program = _found(argv[0], env)
    # Out of the way first: the number that one gets may be that of another.
    lifted = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, max(targets) + 1) for one in streams]
    try:
        return os.posix_spawn(
            program,
            argv,
            env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, one, target)
                for one, target in zip(lifted, targets, strict=True)
            ],
            setsid=True,
            setsigdef=_RESTORED,
        )
    except OSError as error:
        raise OSError(error.errno, error.strerror, argv[0]) from error
    finally:
        for one in lifted:
            os.close(one)


def _found(name: str, env: Mapping[str, str]) -> str:
    if "/" in name:
        return name
    for folder in env.get("PATH", os.defpath).split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 - few imports
            return path
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
