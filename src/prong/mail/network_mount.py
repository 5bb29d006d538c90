"""Whether a folder is on another machine, where locks and syncs do not hold."""

from __future__ import annotations

import re
from pathlib import Path

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "glusterfs", "ncpfs"}
    | {"davfs", "beegfs", "gpfs", "sshfs", "davfs2", "s3fs", "rclone", "gcsfuse"}
)
"""Types of file systems on other machines, those of FUSE without their prefix."""

_OCTAL = re.compile(r"\\([0-7]{3})")


def network_type(folder: Path, mounts: str | None = None) -> str:
    """Name the type of the network file system that a folder is on; empty if it is on none."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape")
        except OSError:
            return ""
    real = folder.resolve()
    kind, longest = "", -1
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[1]))
        # Of two at one place the later covers the earlier.
        if len(point.parts) >= longest and real.is_relative_to(point):
            kind, longest = fields[2], len(point.parts)
    return kind if kind.removeprefix("fuse.") in NETWORK else ""
