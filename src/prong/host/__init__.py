"""The door to files and processes."""

from prong.host.base import FileKind, Finished, Host, Process, Stat

__all__ = ["FileKind", "Finished", "Host", "Process", "Stat"]
