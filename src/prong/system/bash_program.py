"""Which program runs the command lines of a model: bash, and nothing else.

What a command line would do is read by bash's own grammar before it runs, so no other shell may run
it. On Windows that is the bash of Git for Windows. The `bash.exe` of Windows itself is another
system with files of its own (WSL), and is passed over.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import PureWindowsPath

from prong.system.program_path import windows_folders

VARIABLE = "PRONG_BASH"
"""Names the program on Windows, if it is none that is found."""
MISSING = (
    "No Bash: commands cannot run, as there is no bash.exe. Install Git for Windows, or name one "
    f"in {VARIABLE}."
)
"""What is said where there is none."""


def find_windows_bash(env: Mapping[str, str], is_file: Callable[[str], bool]) -> str:
    """Give the path of a bash on Windows; empty if there is none.

    One that is named counts alone, whether it is there or not.
    """
    lower = {name.upper(): value for name, value in env.items()}
    if named := lower.get(VARIABLE, ""):
        return named if is_file(named) and not _is_wsl(named) else ""
    return next((one for one in _candidates(lower) if is_file(one) and not _is_wsl(one)), "")


def _candidates(env: Mapping[str, str]) -> list[str]:
    found = [str(PureWindowsPath(one, "bash.exe")) for one in windows_folders(env)]
    # Git's own folder of programs is on the path more often than its bash is.
    folders = [PureWindowsPath(one) for one in windows_folders(env)]
    beside = (one.parent for one in folders if one.name.lower() in {"cmd", "bin"})
    found.extend(str(one / "bin" / "bash.exe") for one in beside)
    for name in ("PROGRAMFILES", "PROGRAMW6432", "PROGRAMFILES(X86)", "LOCALAPPDATA"):
        if (folder := env.get(name)) is not None:
            inner = "Programs/Git" if name == "LOCALAPPDATA" else "Git"
            found.append(str(PureWindowsPath(folder, inner, "bin", "bash.exe")))
    return found


def _is_wsl(path: str) -> bool:
    parts = [part.lower() for part in PureWindowsPath(path).parts]
    return any(one in parts for one in ("system32", "sysnative", "syswow64", "windowsapps"))


if sys.platform == "win32":

    def bash_program() -> str:
        """Give the program that runs command lines; raises FileNotFoundError if there is none."""
        import errno

        if found := find_windows_bash(os.environ, os.path.isfile):
            return found
        raise FileNotFoundError(errno.ENOENT, MISSING)

    def why_no_bash() -> str:
        """Say why no command can run; empty if one can."""
        return "" if find_windows_bash(os.environ, os.path.isfile) else MISSING

else:

    def bash_program() -> str:
        """Give the program that runs command lines."""
        return "bash"

    def why_no_bash() -> str:
        """Say why no command can run; empty if one can."""
        return ""
