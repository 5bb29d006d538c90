"""What travels between a session and a worker comes out as it went in."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.entry import Text, User
from prong.errors import WorkerFailed
from prong.event import TextDelta, Warned
from prong.journal.transfer import begin, grow, growth, head_record
from prong.prompt import Head, Prompt
from prong.team.message import (
    LARGEST,
    LEAD,
    Deliver,
    EventTold,
    Frames,
    Hello,
    NodeChosen,
    Queued,
    Taken,
    Up,
    frame,
    read_down,
    read_up,
)
from prong.team.run import Waiting
from prong.wire import HeadSpec, dialect

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
MESSAGES = st.one_of(
    st.builds(Taken, number=st.integers(0, 9)),
    st.builds(EventTold, agent=TEXTS, event=st.builds(Warned, text=TEXTS)),
    st.builds(EventTold, agent=TEXTS, event=st.builds(TextDelta, text=TEXTS)),
)


CHANNELS = st.integers(0, 2**32 - 1)


@given(
    st.lists(st.tuples(CHANNELS, MESSAGES), max_size=6), st.lists(st.integers(1, 40), min_size=1)
)
def test_frames_are_found_however_the_pipe_cuts_them(
    messages: list[tuple[int, Up]], cuts: list[int]
) -> None:
    """The messages that come out are those that went in, in their order, whole, of their channel."""
    data = b"".join(frame(message, channel) for channel, message in messages)
    frames, found, at, step = Frames(), list[tuple[int, Up]](), 0, 0
    while at < len(data):
        size = cuts[step % len(cuts)]
        cut = frames.feed(data[at : at + size])
        found += [(channel, read_up(whole)) for channel, whole in cut]
        at, step = at + size, step + 1

    assert found == messages
    assert not frames.torn


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    """Whatever comes is messages, the beginning of one, or an error of one kind."""
    with suppress(WorkerFailed):
        for whole in Frames().feed(data):
            read_up(whole.data)


def test_a_frame_that_is_too_large_is_not_waited_for() -> None:
    """Its size alone refuses it."""
    with pytest.raises(WorkerFailed, match="are allowed"):
        list(Frames().feed((LARGEST + 1).to_bytes(4)))


@given(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=5))
@pytest.mark.parametrize("name", ["anthropic", "responses", "chat"])
def test_a_rope_travels_whole(name: str, texts: list[str]) -> None:
    """A prompt that was sent record by record has the very bytes of the one that was sent."""
    speaks = dialect(name, explicit=True)
    prompt = Prompt(Head(speaks, HeadSpec(model="m", system=("You are.",))))
    prompt = prompt.append(*(User((Text(text),)) for text in texts))
    there = begin(head_record("main", prompt.head, "", 0.0), dialect)
    for record in growth("main", prompt):
        there = grow(there, record)

    assert there.open() == prompt.open()
    assert there.digest == prompt.digest
    with pytest.raises(ValueError, match="it extends"):
        grow(there, next(growth("main", prompt)))


@given(TEXTS)
def test_a_session_is_understood(text: str) -> None:
    """What a session says is read as it was said, and is no message of a worker's."""
    told = Deliver(waiting=Waiting(1, User((Text(text),), "notice")))

    assert read_down(frame(told)[LEAD:]) == told
    with pytest.raises(WorkerFailed):
        read_up(frame(Hello())[LEAD:])


@pytest.mark.parametrize("message", [Queued(why="x" * 1_001), NodeChosen(node="n" * 1_001)])
def test_what_is_said_before_a_greeting_is_short(message: Queued | NodeChosen) -> None:
    """It is shown and stored as it is, so nobody may make it long."""
    (whole,) = Frames().feed(frame(message))
    with pytest.raises(WorkerFailed, match="no message of the protocol"):
        read_up(whole.data)
