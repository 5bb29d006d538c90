"""Where a program is that is called by its name.

Windows looks in the folder that one stands in before it looks along the path, so that whoever gave
us a project could give us a `git.exe` with it. There a name is looked up along the path alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import PureWindowsPath

PLAIN_ENDINGS = (".exe", ".com")
"""Of what Windows starts by itself; all else is started by cmd.exe, which reads its words anew."""


def windows_folders(env: Mapping[str, str]) -> list[str]:
    """Give the folders of the path; a relative one would be the project's, and is left out."""
    whole = next((text for name, text in env.items() if name.upper() == "PATH"), "")
    entries = (one.strip('"') for one in whole.split(";"))
    return [one for one in entries if PureWindowsPath(one).is_absolute()]


def find_windows_program(
    name: str, env: Mapping[str, str], is_file: Callable[[str], bool]
) -> str | None:
    """Give the path of a program of Windows; None if there is none. A path stays as it is."""
    if set(name) & set("/\\:"):
        return name
    ended = name.lower().endswith(PLAIN_ENDINGS)
    names = [name] if ended else [f"{name}{ending}" for ending in PLAIN_ENDINGS]
    places = (str(PureWindowsPath(one, file)) for one in windows_folders(env) for file in names)
    return next((place for place in places if is_file(place)), None)


if sys.platform == "win32":

    def program_path(name: str) -> str:
        """Give what a program is started by; raises FileNotFoundError."""
        import errno

        found = find_program(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "it is not on the path", name)
        return found

    def find_program(name: str, folder: str | None = None) -> str | None:
        """Give where a program is, along the path or in one folder; None if it is not there."""
        env = os.environ if folder is None else {"PATH": folder}
        return find_windows_program(name, env, os.path.isfile)

else:

    def program_path(name: str) -> str:
        """Give what a program is started by; raises FileNotFoundError."""
        return name

    def find_program(name: str, folder: str | None = None) -> str | None:
        """Give where a program is, along the path or in one folder; None if it is not there."""
        import shutil

        return shutil.which(name, path=folder)
