"""Many processes at one mailbox and one task list, killed at any moment."""

from __future__ import annotations

import pytest

from prong.testing.claim_campaign import rush
from prong.testing.mail_campaign import storm

pytestmark = [pytest.mark.door, pytest.mark.timeout(120), pytest.mark.hunt]


@pytest.mark.spec("M5")
@pytest.mark.parametrize("seed", [1, 2])
def test_kills_lose_no_mail_and_repeat_none(seed: int):
    """Eight writers and a reader are killed and started again: all is read, once, in order."""
    assert storm(seed, each=250) == ""


@pytest.mark.spec("M8")
@pytest.mark.parametrize("seed", [1, 2])
def test_a_task_is_claimed_once(seed: int):
    """Eight claim 200 tasks and are killed and started again: each has one owner."""
    assert rush(seed, tasks=200) == ""
