"""`prong completion`, tried in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from prong.face.cli import COMMANDS
from prong.face.completion import SHELLS, script
from prong.face.flag import make_parser

pytestmark = [pytest.mark.door, pytest.mark.spec("L12")]

_BASH = """
source "$1"
COMP_WORDS=($2)
[[ $2 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_prong
printf '%s\\n' "${COMPREPLY[@]}"
"""
_ZSH = """
zmodload zsh/zpty
zpty -b z zsh -fi
zpty -w z "PS1='READY> '; autoload -Uz compinit; compinit -u -d $3; source $1"
zpty -w z "zstyle ':completion:*' list-prompt ''; setopt nobeep; LISTMAX=0; echo LOADED"
zpty -r -m z REPLY '*LOADED*READY> '
zpty -w -n z "$2"$'\\t\\t'
sleep 1
while zpty -r -t z REPLY; do print -rn -- "$REPLY"; done
zpty -d z
"""


def complete(shell: str, folder: Path, line: str) -> str:
    """Give what a shell offers for a line that was typed."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = folder / "prong.completion"
    file.write_text(script(shell, COMMANDS))
    words = {
        "bash": ["bash", "--norc", "-c", _BASH, "bash", str(file), line],
        "zsh": ["zsh", "-f", "-c", _ZSH, "zsh", str(file), line, str(folder / "dump")],
        "fish": ["fish", "--no-config", "-c", f"source {file}; complete -C '{line}'"],
    }[shell]
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "TERM": "xterm", "COLUMNS": "200"}
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=folder, env=env, timeout=60
    )
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offers"),
    [
        ("prong --output-f", ["--output-format"]),
        ("prong --output-format st", ["stream-json"]),
        ("prong --permission-mode acc", ["acceptEdits"]),
        ("prong plan-", ["plan-fork"]),
    ],
)
def test_a_shell_completes(shell: str, tmp_path: Path, line: str, offers: list[str]) -> None:
    """Commands, flags and the words of a flag are completed in a real shell."""
    made = complete(shell, tmp_path, line)

    for offer in offers:
        assert offer in made


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_folders_follow_a_flag_that_takes_one(shell: str, tmp_path: Path) -> None:
    """Behind `-C` stand folders, and no files."""
    (tmp_path / "some folder").mkdir()
    (tmp_path / "some file").touch()

    made = complete(shell, tmp_path, "prong -C some")

    assert "some folder" in made.replace("\\ ", " ")
    assert "some file" not in made.replace("\\ ", " ")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_flag_and_command_is_known(shell: str) -> None:
    """The script is made from the parser, and has all that it has."""
    text = script(shell, COMMANDS)

    for name in COMMANDS:
        assert name in text
    for action in make_parser(COMMANDS)._actions:
        for name in action.option_strings:
            assert name.lstrip("-") in text
