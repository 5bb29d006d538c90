"""`prong completion`, tried in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from prong.face.cli import COMMANDS
from prong.face.command_place import CommandPlace, places
from prong.face.completion import script
from prong.face.flag import make_parser
from prong.session import LIFETIME

pytestmark = [pytest.mark.door, pytest.mark.spec("L12")]
SHELLS = ("bash", "zsh", "fish")

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
zpty -r -m z REPLY "*$4*"
print -rn -- "$REPLY"
zpty -d z
"""


def complete(shell: str, folder: Path, line: str, offer: str = "") -> str:
    """Give what a shell offers for a line that was typed; zsh, as far as an offer that is awaited."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = folder / "prong.completion"
    file.write_text(script(shell, COMMANDS))
    words = {
        "bash": ["bash", "--norc", "-c", _BASH, "bash", str(file), line],
        "zsh": ["zsh", "-f", "-c", _ZSH, "zsh", str(file), line, str(folder / "dump"), offer],
        "fish": ["fish", "--no-config", "-c", f"source {file}; complete -C '{line}'"],
    }[shell]
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "TERM": "xterm", "COLUMNS": "200"}
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=folder, env=env, timeout=50
    )
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "offer"),
    [
        ("prong --output-f", "--output-format"),
        ("prong --output-format st", "stream-json"),
        ("prong --permission-mode acc", "acceptEdits"),
        ("prong plan-", "plan-fork"),
        ("prong -C /tmp plan-", "plan-fork"),
        ("prong merge --und", "--undo"),
        ("prong -C /tmp merge --und", "--undo"),
        ("prong show --format out", "outline"),
        ("prong rem", "remote"),
        ("prong remote ch", "check"),
        ("prong mcp add-", "add-json"),
        ("prong mcp add --trans", "--transport"),
        ("prong mcp add --transport std", "stdio"),
        ("prong team delete x --fo", "--force"),
        ("prong acp --perm", "--permission-mode"),
    ],
)
def test_a_shell_completes(shell: str, tmp_path: Path, line: str, offer: str) -> None:
    """Commands, flags and the words of a flag are completed in a real shell."""
    assert offer in complete(shell, tmp_path, line, offer)


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("line", "not_there"),
    [
        ("prong merge --", "--output-format"),
        ("prong mcp list --", "--transport"),
        ("prong mcp add ", "add-json"),
        ("prong remote check ", "check"),
        ("prong merge ", "some file"),
        ("prong remote ", "some file"),
        ("prong sessions ", "merge"),
    ],
)
def test_what_a_command_does_not_take_is_not_offered(
    shell: str, tmp_path: Path, line: str, not_there: str
) -> None:
    """Behind a command stand its own words: neither those of another, nor files that it cannot use."""
    (tmp_path / "some file").touch()

    assert not_there not in complete(shell, tmp_path, line).replace("\\ ", " ")


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_files_and_folders_follow_a_command_that_takes_them(shell: str, tmp_path: Path) -> None:
    """A session may be a journal's file; what is trusted is a folder."""
    (tmp_path / "some-folder").mkdir()
    (tmp_path / "some-file").touch()

    assert "some-file" in complete(shell, tmp_path, "prong show some-")
    assert "some-file" in complete(shell, tmp_path, "prong --settings some-")
    trusted = complete(shell, tmp_path, "prong trust some-")
    assert "some-folder" in trusted
    assert "some-file" not in trusted


@pytest.mark.parametrize("typed", ["--output-format=", "--output-format=st"])
def test_bash_completes_behind_a_sign(tmp_path: Path, typed: str) -> None:
    """Bash hands a flag with its value over as three words."""
    parted = typed.replace("=", " = ").rstrip()

    assert "stream-json" in complete("bash", tmp_path, f"prong {parted}")


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


def test_the_times_to_live_of_a_forecast_are_those_there_are() -> None:
    """The words of commands are written where nothing heavy is loaded; here they are compared."""
    ttl = next(flag for flag in _place("plan-fork").flags if flag.names == ("--ttl",))

    assert ttl.choices == tuple(LIFETIME)


def _place(path: str) -> CommandPlace:
    return next(place for place in places(COMMANDS) if place.path == path)
