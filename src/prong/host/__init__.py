"""The door to files and processes."""

from prong.host.base import FileKind, Finished, Host, Process, Stat
from prong.host.local import LocalHost
from prong.host.private import make_private
from prong.host.ripgrep import ripgrep

__all__ = [
    "FileKind",
    "Finished",
    "Host",
    "LocalHost",
    "Process",
    "Stat",
    "make_private",
    "ripgrep",
]
