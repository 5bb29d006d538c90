"""How often hooks may keep an agent from ending."""

from __future__ import annotations

from prong.agent.limit import STOP_REFUSALS, StopRefusals
from prong.agent.verdict import Verdict
from prong.event import Warned

NO = Verdict(block="go on")


def test_work_between_refusals_begins_the_count_anew() -> None:
    """Hooks overruled are those that refuse in a row; they always know that they keep an agent."""
    refusals, told = StopRefusals(), list[Warned]()
    assert not refusals.active
    for _ in range(3 * STOP_REFUSALS):
        assert refusals.refusal(NO, told.append) == "go on"
        refusals.worked()
        assert refusals.active
    assert not told
    more = [refusals.refusal(NO, told.append) for _ in range(STOP_REFUSALS)]
    assert more == ["go on"] * (STOP_REFUSALS - 1) + [None]
    assert [f"{STOP_REFUSALS} times in a row" in one.text for one in told] == [True]


def test_who_does_not_refuse_or_ends_the_turn_is_not_counted() -> None:
    """A turn that a hook ends is over, whatever another refuses."""
    refusals, told = StopRefusals(), list[Warned]()
    for verdict in (Verdict(), Verdict(block="go on", stop="enough")):
        assert refusals.refusal(verdict, told.append) is None
    assert not refusals.active
    assert not told
