"""The door to files and processes."""

from prong.host.host import FileKind, Finished, Host, Process, Sink, Stat, Storage
from prong.host.local_host import LocalHost
from prong.host.private import close_to_others, make_private
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
    "close_to_others",
    "make_private",
    "ripgrep",
]
