"""Root without most of what root can do.

The file rights of root are bound by Landlock and the view like anybody's. Other capabilities go
around both: one reads the memory of any process, one mounts, one makes devices. A process that
is started by root gets what is in the bounding set of the thread that starts it, and no more.
"""

from __future__ import annotations

import ctypes
import os
import sys

_CAPBSET_DROP = 24
_LAST = 40
"""The highest that there is (CHECKPOINT_RESTORE)."""
_KEPT = frozenset(
    (
        0,  # CHOWN
        1,  # DAC_OVERRIDE
        2,  # DAC_READ_SEARCH
        3,  # FOWNER
        4,  # FSETID
        5,  # KILL
        6,  # SETGID
        7,  # SETUID
        10,  # NET_BIND_SERVICE
        13,  # NET_RAW
        18,  # SYS_CHROOT
    )
)

_SHED = tuple(number for number in range(_LAST + 1) if number not in _KEPT)

_prctl = ctypes.CDLL(None).prctl


def shed() -> None:
    """Let what the calling thread starts have no privileges beyond those about files."""
    assert sys.platform == "linux"
    if os.geteuid() != 0:
        # Nothing to lose: a program gets none, since none can be gained any more.
        return
    for number in _SHED:
        # One that there is not cannot be dropped, and need not be.
        _prctl(_CAPBSET_DROP, number)
