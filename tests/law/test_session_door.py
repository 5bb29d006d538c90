"""The session's door: what faces may take from it."""

from __future__ import annotations

import pytest

from prong import session


def test_every_name_of_the_door_can_be_taken() -> None:
    """What the door promises is there, each name once, and is what it is called."""
    assert sorted(session.__all__) == sorted(session._HOMES)
    for name in session.__all__:
        assert getattr(session, name) is not None
    assert set(dir(session)) == set(session.__all__)


def test_the_door_has_no_other_names() -> None:
    """A name that is not promised is an attribute error, as of any module."""
    with pytest.raises(AttributeError, match="no attribute 'Replay'"):
        session.Replay  # pyright: ignore[reportAttributeAccessIssue]  # noqa: B018 - that is asked
