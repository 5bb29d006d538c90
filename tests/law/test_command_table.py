from __future__ import annotations

from pathlib import Path

import pytest

from prong.tools.access import Running
from prong.tools.policy import Allow, Ask, Deny, Policy, decide

ROOT, HOME = "/r", "/home/u"


def _listed(name: str) -> list[str]:
    """Read a table of commands, one in a line; § is a line break in a command."""
    table = (Path(__file__).parent / "command" / f"{name}.txt").read_text("utf-8")
    return [line.replace("§", "\n") for line in table.removesuffix("\n").split("\n")]


def _plan(command: str):
    policy = Policy(root=ROOT, home=HOME, mode="plan")
    return decide(policy, "Bash", [Running(command, ROOT)])


@pytest.mark.spec("L5", "P2")
@pytest.mark.parametrize("command", _listed("harmless"))
def test_harmless_commands_run_even_in_plan_mode(command: str):
    """A command that only reads inside the project is proven to do so."""
    assert isinstance(_plan(command), Allow), _plan(command)
    assert isinstance(decide(Policy(root=ROOT, home=HOME), "Bash", [Running(command, ROOT)]), Allow)


@pytest.mark.spec("L5", "P2")
@pytest.mark.parametrize("command", _listed("writing"))
def test_what_may_write_is_denied_in_plan_mode(command: str):
    """A command that may write, or run what is not known, is never taken for a reading one."""
    assert isinstance(_plan(command), Deny), _plan(command)
    assert isinstance(decide(Policy(root=ROOT, home=HOME), "Bash", [Running(command, ROOT)]), Ask)


@pytest.mark.spec("L5")
@pytest.mark.parametrize("command", _listed("outside"))
def test_reading_outside_the_project_is_asked_for(command: str):
    """Reading elsewhere, or who knows where, is a question in default and in plan mode."""
    assert isinstance(_plan(command), Ask), _plan(command)
    assert isinstance(decide(Policy(root=ROOT, home=HOME), "Bash", [Running(command, ROOT)]), Ask)
