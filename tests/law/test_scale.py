"""Many agents at a provider's limits, simulated: what docs/scale.md says of it."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.spec("R4")


@pytest.fixture(scope="module")
def scale():
    """The simulation, a program that lives beside its own modules."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        yield import_module("scale")
    finally:
        sys.path.remove(str(ROOT / "bench"))


@pytest.fixture(scope="module")
def crowd(scale):
    """Sixty agents in three processes at limits that feed a few, and the same in a herd."""
    limits = scale.Limits(requests=200, input=240_000, output=50_000)
    setup = scale.Setup(limits=limits)
    herd = scale.Setup(limits=limits, throttled=False)
    return scale.simulate(60, setup), scale.simulate(60, setup), scale.simulate(60, herd)


@pytest.mark.parametrize("agents", [10, 100])
def test_the_tables_of_the_page_are_what_the_simulation_prints(scale, agents):
    """A row of docs/scale.md is the row that a run of that size prints."""
    page = (ROOT / "docs/scale.md").read_text("utf-8").splitlines()
    run = scale.simulate(agents, scale.Setup())

    assert all(row in page for row in (*scale.TIME, *scale.MONEY))
    assert scale.time_row(run) in page
    assert scale.money_row(run) in page


def test_all_agents_come_through_limits_that_feed_a_few(crowd):
    """Nobody fails, and the time is near to what the limits allow."""
    run, _, _ = crowd

    assert run.outcome.failed == 0
    assert run.api.served == 1 + 60 * run.work.turns
    assert run.outcome.seconds < 1.5 * run.least_seconds


def test_agents_do_not_come_back_as_a_herd(crowd):
    """Not a tenth of what is refused if each comes back by itself."""
    run, _, herd = crowd

    assert 10 * sum(run.api.refusals.values()) < sum(herd.api.refusals.values())


def test_the_base_is_written_once_however_many_read_it(crowd):
    """One agent leads and writes the shared prefix; no request misses what it should have read."""
    run, _, _ = crowd

    assert run.base_writes == 1
    assert run.outcome.missed == {}


def test_a_run_follows_from_its_seed(crowd, scale):
    """The same seed gives the same run to the last digit."""
    once, again, _ = crowd

    assert (once.outcome, once.api.refusals) == (again.outcome, again.api.refusals)
