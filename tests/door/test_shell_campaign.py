"""Hostile lines by the thousand against real bash; `make torture` runs more of them."""

from __future__ import annotations

import random

import pytest

from prong.testing import shell_campaign, torture

pytestmark = [pytest.mark.spec("L5", "P2"), pytest.mark.door, pytest.mark.hunt]


@pytest.mark.parametrize("seed", [11, 12])
def test_no_hostile_line_gets_past_the_gate(seed: int):
    """Whatever the gate lets pass neither reaches the forbidden program nor changes a file."""
    assert torture.run("shell", seed=seed, count=1500).failures == ()


def test_the_hostile_lines_are_hostile():
    """Many of them do reach it where nobody stops them, so that the campaign proves something."""
    assert shell_campaign.power(150, 3) > 30


def test_a_hole_in_the_gate_would_be_found():
    """A line that is let pass and reaches the program is reported with what it did."""
    with shell_campaign.ground() as place:
        assert place.run("echo ${x:-`zap`}", seconds=40) == (True, False)
        assert place.run("echo x > f", seconds=40) == (False, True)
        assert place.run("cat f", seconds=40) == (False, False)
        assert shell_campaign.judge(place, "cat f") is None
        assert shell_campaign.freedoms("cat f", str(place.work)) == ["plan", "default", "denied"]
        assert shell_campaign.freedoms("zap", str(place.work)) == []


def test_the_same_seed_gives_the_same_lines():
    """A campaign can be repeated."""
    one, other = random.Random(5), random.Random(5)

    assert [shell_campaign.generate(one) for _ in range(50)] == [
        shell_campaign.generate(other) for _ in range(50)
    ]


def test_no_line_leads_out_of_the_project():
    """Lines of file commands that are accepted as edits stay in the project, links or not."""
    assert torture.run("paths", seed=21, count=300).failures == ()
