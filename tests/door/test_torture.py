"""The campaigns in short form, and the program that runs them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, nullcontext

import pytest

from prong.testing import cut_campaign, ray_campaign, torture
from prong.testing.counted_trial import CountedTrial
from prong.testing.torture import CAMPAIGNS, Campaign, Trial, chance
from shared.ssh import needs_sshd

pytestmark = [pytest.mark.door, pytest.mark.hunt]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        pytest.param("kills", 2, marks=pytest.mark.spec("L1", "L8", "T4", "W4")),
        pytest.param("remote", 2, marks=pytest.mark.spec("R3")),
        pytest.param("merges", 2, marks=pytest.mark.spec("W5")),
        pytest.param("bytes", 800, marks=pytest.mark.spec("L8", "T4")),
        pytest.param("streams", 40, marks=pytest.mark.spec("L9", "L10")),
        pytest.param("forgeries", 600, marks=pytest.mark.spec("T3", "T10")),
    ],
)
def test_a_short_campaign_finds_nothing(name: str, count: int):
    """What was found once does not come back."""
    report = torture.run(name, seed=1, count=count)

    assert report.failures == ()
    assert report.tried == count


@needs_sshd
@pytest.mark.timeout(300)
@pytest.mark.spec("R3")
def test_a_line_by_ssh_is_cut_and_comes_back():
    """By a real sshd: nothing is lost or done twice, with cuts of seconds in place of a minute."""
    with cut_campaign.trials(away=(0.5, 2.0)) as trial:
        # Who is quicker, the work or the cut, is open: until one has met it.
        while not trial.counts["network"]:
            assert trial(chance(1, 2)) == ""


@contextmanager
def _trials() -> Generator[Trial]:
    def trial(rng: random.Random) -> str:
        number = rng.randrange(10)
        if number == 0:
            raise ValueError("even this")
        return f"drew {number}" if number < 3 else ""

    yield trial


@pytest.fixture
def dice(monkeypatch: pytest.MonkeyPatch) -> str:
    """Give a campaign that fails now and then."""

    class Dice(Campaign, frozen=True):
        def trials(self):
            return _trials()

    monkeypatch.setitem(CAMPAIGNS, "dice", Dice("dice", 50, ""))
    return "dice"


def test_a_failure_can_be_repeated_alone(dice: str):
    """Seed and number give the same trial again, whatever was tried before it."""
    report = torture.run(dice, seed=5)

    assert report.tried == 50
    assert len(report.failures) > 3
    for failure in report.failures:
        again = torture.run(dice, seed=5, only=failure.number)
        assert again.failures == (failure,)
    assert (
        torture.run(dice, seed=5).failures == report.failures != torture.run(dice, seed=6).failures
    )


def test_what_a_trial_runs_into_is_a_failure(dice: str):
    """An exception is told like anything else that was found, and the campaign goes on."""
    told = [failure.what for failure in torture.run(dice, seed=5).failures]

    assert any("ValueError: even this" in what for what in told)
    assert any(what.startswith("drew") for what in told)


def test_time_is_bounded(dice: str):
    """No trial is begun after the time is up."""
    assert torture.run(dice, seed=5, seconds=0.0).tried == 0


def test_the_program_prints_a_table(dice: str, capsys: pytest.CaptureFixture[str]):
    """It says what was tried and how each failure can be repeated, and ends with 1 if there was one."""
    assert torture.main([dice, "--seed", "5", "--count", "40"]) == 1

    printed = capsys.readouterr().out
    number = torture.run(dice, seed=5).failures[0].number
    assert "seed 5" in printed
    assert "dice             40" in printed
    assert f"dice --seed 5 --only {number}\n" in printed
    assert torture.main(["forgeries", "--seed", "1", "--count", "20"]) == 0


def test_what_was_done_is_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """A campaign of several kinds of kills says how often each of them happened."""

    def throw(rng: random.Random, counts: Counter[str]) -> str:
        counts["high" if rng.random() < 0.5 else "low"] += 1
        return ""

    class Coin(Campaign, frozen=True):
        def trials(self):
            return nullcontext(CountedTrial(throw))

    monkeypatch.setitem(CAMPAIGNS, "coin", Coin("coin", 30, ""))
    report = torture.run("coin", seed=5)

    (_, high), (_, low) = report.counts
    assert high + low == 30
    assert torture.main(["coin", "--seed", "5"]) == 0
    assert f"30 done: high {high}, low {low}" in capsys.readouterr().out


def test_what_cannot_be_tried_here_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Where Ray is not installed, its campaign is left out, and the table says why; no failure."""
    monkeypatch.setattr(ray_campaign, "HAS_RAY", False)

    assert torture.main(["ray", "--seed", "5"]) == 0
    printed = capsys.readouterr().out
    assert "left out: Ray is not installed here: pip install 'prong[ray]'" in printed
    assert torture.run("ray", seed=5).tried == 0


@pytest.mark.parametrize("words", [["nothing"], ["--only", "3"], ["kills", "--only", "3"]])
def test_wrong_words_are_refused(words: list[str]):
    """A campaign that is not there, and a trial without its seed, are errors of usage."""
    with pytest.raises(SystemExit) as caught:
        torture.main(words)

    assert caught.value.code == 2
