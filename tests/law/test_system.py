"""What differs between systems is asked for in one package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from shared.structure import modules

ONE_SYSTEM_ONLY = {"fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "msvcrt", "winreg"}
ASKS = {"sys": "platform", "os": "name"}
"""Modules, and what of them says which system this is."""
SHELL = "bash by its name: see prong.system.bash_program"
EXCEPTIONS = (
    "prong.system.",
    "prong.host.sandbox.",  # a sandbox is of one system
    "prong.face.terminal",  # so are the settings of a terminal
    "prong.testing.",
)


def is_bash(word: str) -> bool:
    """Whether a text starts bash, wherever that is."""
    return re.fullmatch(r"(\S*/)?bash( -.*)?", word) is not None


def breaches(tree: ast.Module) -> Iterator[str]:
    """Give what a module does that only one system can."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                known = ONE_SYSTEM_ONLY | {"platform"}
                yield from (one.name for one in names if one.name in known)
            case ast.ImportFrom(module=str(module), names=names):
                if module in ONE_SYSTEM_ONLY or module == "platform":
                    yield module
                yield from (one.name for one in names if ASKS.get(module) == one.name)
            case ast.Attribute(value=ast.Name(id="sys"), attr="platform"):
                yield "sys.platform"
            case ast.Attribute(value=ast.Name(id="os"), attr="name"):
                yield "os.name"
            case ast.List(elts=[ast.Constant(value=str(shell)), *_]) if is_bash(shell):
                yield SHELL
            # A tuple of names is a list of shells; with words behind it is a command.
            case ast.Tuple(elts=[ast.Constant(value=str(shell)), second, *_]) if is_bash(shell):
                if not isinstance(second, ast.Constant) or str(second.value).startswith("-"):
                    yield SHELL
            case ast.Call(args=[ast.Constant(value=str(shell)), *_]) if is_bash(shell):
                yield SHELL
            case _:
                pass


def test_no_module_asks_which_system_this_is() -> None:
    """Only `prong.system` knows of systems, with sandboxes and the terminal's settings."""
    found = {
        name: [*breaches(tree)]
        for name, tree in modules().items()
        if not name.startswith(EXCEPTIONS)
    }
    assert not {name: what for name, what in found.items() if what}


@pytest.mark.parametrize(
    "line",
    [
        "import fcntl",
        "from termios import error",
        "import sys; sys.platform",
        "import os; os.name",
        "from sys import platform",
        "from os import name",
        "import platform",
        "from platform import system",
        'run(["bash", "-c", line])',
        'run(["/bin/bash", "-c", line])',
        'run(("bash", "-c", line))',
        'run(("bash", script))',
        'run("bash -c line")',
        'which("bash")',
    ],
)
def test_a_breach_is_noticed(line: str) -> None:
    """Each way to depend on one system is found, and nothing else is."""
    assert [*breaches(ast.parse(line))]
    assert not [*breaches(ast.parse('SHELLS = ("bash", "zsh"); ONE = ("bash",)'))]
