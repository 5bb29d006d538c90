"""Lines that try to leave their sandbox, and what bash runs; `make torture` runs more of them."""

from __future__ import annotations

import random

import pytest

from prong.host.sandbox.ability import detect
from prong.testing import escape_campaign, program_campaign, torture
from prong.testing.escape import DEEDS, DISGUISES
from prong.tools.commandline import parse_command

ABLE = detect()
views = pytest.mark.skipif(not (ABLE.writes and ABLE.views), reason=f"needs namespaces: {ABLE.why}")
kernel = pytest.mark.skipif(not ABLE.writes, reason=f"needs Landlock and seccomp: {ABLE.why}")
pytestmark = [pytest.mark.door, pytest.mark.timeout(300), pytest.mark.hunt]


@views
@pytest.mark.spec("L13", "P2", "S2", "W3")
def test_no_line_leaves_its_sandbox():
    """Whatever a line does, in whatever disguise, nothing outside its profile is touched."""
    assert torture.run("escapes", seed=31, count=150).failures == ()


def test_the_lines_are_many():
    """There are tens of thousands of lines to draw from, of every aim."""
    assert len(DEEDS) * len(DISGUISES) > 30_000
    assert {deed.aim for deed in DEEDS} == {"write", "ref", "read", "network", "signal"}


@views
def test_the_lines_would_get_out():
    """Most of them do their deed where nothing holds them, so that the campaign proves something."""
    assert escape_campaign.power(40, 4) > 20


@views
def test_each_kind_of_harm_would_be_seen():
    """A change, a secret, a connection and a killed process are told, each by its name."""
    with escape_campaign.escapes() as (escape, attempt):
        world = escape.world
        scene = next(one for one in escape.scenes if one.name == "plan mode")
        told = {
            f"echo x > {world.home}/.bashrc": "changed",
            f"chmod 700 {world.outside}/f": "changed",
            f"base64 {world.root}/.env": "printed a secret",
            f"od -c {world.home}/.ssh/id": "printed a secret",
            f"cat {world.home}/.prong/teams/red/keys/ann": "printed a secret",
            f"echo x > /dev/tcp/127.0.0.1/{world.port}": "reached TCP",
            f"echo x > /dev/udp/127.0.0.1/{world.port}": "reached UDP",
            f"kill -9 {world.pid}": "killed a process",
        }
        for line, what in told.items():
            assert attempt(scene, line).wrong == "", line
            assert what in attempt(scene, line, free=True, seconds=60).wrong, line
        assert attempt(scene, "true", free=True).wrong == ""


@kernel
@pytest.mark.spec("L5")
def test_bash_runs_what_the_parser_says():
    """Where the parser is certain, no program runs that it did not name."""
    assert torture.run("programs", seed=32, count=700).failures == ()


@kernel
def test_the_parser_is_certain_of_many_lines():
    """And many of them run programs, so that the comparison proves something."""
    known, programs = program_campaign.power(100, 5)

    assert known > 25
    assert programs > known


@kernel
def test_a_program_that_was_not_named_would_be_found():
    """What runs beside what was named is told, and so is another word."""
    with program_campaign.recorder() as place:
        work = str(place.work)
        ran = place.run("cat f | sort -r", seconds=60)
        assert {one.name for one in ran} == {"cat", "sort"}
        assert program_campaign.compare(parse_command("cat f | sort -r", work, work), ran) == ""
        assert "sort" in program_campaign.compare(parse_command("cat f", work, work), ran)
        assert "-r" in program_campaign.compare(parse_command("cat f | sort", work, work), ran)


def test_the_same_seed_gives_the_same_spoilt_lines():
    """A campaign can be repeated."""
    one, other = random.Random(5), random.Random(5)

    assert [program_campaign.draw(one) for _ in range(50)] == [
        program_campaign.draw(other) for _ in range(50)
    ]
