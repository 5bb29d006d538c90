"""The door to files and processes."""

from prong.host.base import FileKind, Finished, Host, Process, Sink, Stat, Storage
from prong.host.local import LocalHost
from prong.host.private import make_private
from prong.host.ripgrep import ripgrep

__all__ = [
    "FileKind",
    "Finished",
    "Host",
    "LocalHost",
    "Process",
    "Sink",
    "Stat",
    "Storage",
    "make_private",
    "ripgrep",
]
