"""Laws of the view: a pure fold over any stream of events, with or without its deltas."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.entry import CallId, Usage
from prong.event import (
    MAIN,
    AgentFinished,
    AgentStarted,
    CacheMissed,
    CallDelta,
    Delta,
    Envelope,
    Event,
    EventsSkipped,
    InputTaken,
    ModeChanged,
    PermissionAsked,
    Progressed,
    PromptMoved,
    ReceiptIssued,
    ReplyDiscarded,
    ReplyFinished,
    RequestFailed,
    RequestSent,
    RequestSettled,
    SessionFinished,
    SessionStarted,
    TaskFinished,
    TaskStarted,
    TextDelta,
    ThinkingDelta,
    Todo,
    TodosChanged,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Warned,
    WorkKept,
)
from prong.ids import AgentPath, RequestId, TaskId
from prong.testing.span import check_events
from prong.view import Accounted, Called, Replied, Said, Series, endings, fold, fold_all, settled

PATHS = st.sampled_from(["main", "main/fork-1", "main/fork-2", "main/fork-2/worker", "stranger"])
IDS = st.sampled_from(["a", "b", "c"])
USAGE = st.builds(Usage, uncached=st.integers(0, 9), read=st.integers(0, 9))
COSTS = st.none() | st.just(0.5)


def reply(request_id: str, usage: Usage, cost: float | None, sidecar: str) -> Event:
    return ReplyFinished(
        request_id=RequestId(request_id),
        text="t",
        thinking="",
        stop="end",
        stop_detail="",
        usage=usage,
        cost=cost,
        model="m",
        latency=1.0,
        first_event=0.5,
        sidecar=sidecar,
    )


def finished(call_id: str, *, failed: bool, refused: bool) -> Event:
    return ToolFinished(
        call_id=CallId(call_id), name="Read", failed=failed, text="r", refused=refused
    )


EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.just(SessionStarted(session_id="s", model="m", cwd="/", tools=(), mode="default")),
    st.builds(AgentStarted, kind=st.just("fork"), model=st.just("m"), task_id=IDS),
    st.builds(AgentFinished, status=st.sampled_from(["completed", "failed", "killed"])),
    st.builds(InputTaken, kind=st.just("user"), text=IDS),
    st.just(TurnStarted()),
    st.just(TurnFinished(text="", why="done")),
    st.just(TurnFinished(text="", why="interrupted", detail="it was stopped")),
    st.builds(
        RequestSent,
        request_id=IDS,
        model=st.just("m"),
        digest=st.just(""),
        bytes=st.just(1),
        entries=st.just(1),
        sidecar=st.sampled_from(["", "title"]),
    ),
    st.builds(reply, IDS, USAGE, COSTS, st.sampled_from(["", "title"])),
    st.builds(RequestFailed, request_id=IDS, why=IDS, error=IDS, text=IDS, usage=USAGE, cost=COSTS),
    st.builds(
        ReplyDiscarded,
        request_id=IDS,
        why=IDS,
        retry_in=st.just(1.0),
        attempt=st.just(1),
        usage=USAGE,
    ),
    st.builds(
        ToolStarted,
        call_id=IDS.map(CallId),
        name=IDS,
        arguments=st.just("{}"),
        title=IDS,
    ),
    st.builds(finished, IDS, failed=st.booleans(), refused=st.booleans()),
    st.builds(
        PermissionAsked,
        request_id=IDS,
        call_id=IDS.map(CallId),
        tool=IDS,
        title=IDS,
        why=IDS,
    ),
    st.builds(RequestSettled, request_id=IDS, outcome=st.just("allowed")),
    st.builds(TaskStarted, task_id=IDS, title=IDS, kind=IDS),
    st.builds(TaskFinished, task_id=IDS, status=st.just("completed"), summary=IDS),
    st.builds(TodosChanged, todos=st.just((Todo("a", "pending"),))),
    st.builds(Warned, text=IDS),
    st.builds(ModeChanged, mode=IDS),
    st.builds(CacheMissed, predicted=st.just(1), read=st.just(0), why=IDS),
    st.builds(WorkKept, task_id=IDS, path=IDS, branch=IDS),
    st.builds(
        PromptMoved,
        reason=st.just("clear"),
        detail=IDS,
        before=st.just(1),
        after=st.just(0),
    ),
    st.builds(TextDelta, text=IDS),
    st.builds(ThinkingDelta, text=IDS),
    st.builds(CallDelta, call_id=IDS.map(CallId), name=IDS, size=st.just(0)),
    st.builds(ToolOutput, call_id=IDS.map(CallId), text=IDS),
    st.builds(Progressed, what=st.just("load"), done=st.just(1), total=st.just(2)),
)


@st.composite
def streams(draw: st.DrawFn) -> list[Envelope]:
    """Draw any stream of events, numbered as a session numbers them."""
    told: list[Envelope] = []
    seq = 0
    for path, event in draw(st.lists(st.tuples(PATHS, EVENTS), max_size=40)):
        seq += not isinstance(event, Delta)
        told.append(
            Envelope(0 if isinstance(event, Delta) else seq, float(seq), AgentPath(path), event)
        )
    return told


@pytest.mark.spec("X1")
@given(streams(), st.integers(0, 40))
def test_a_view_can_be_folded_on_from_anywhere(told: list[Envelope], cut: int) -> None:
    """A view of a beginning, folded on over the rest, is the view of all of it."""
    first = fold_all(told[:cut])
    assert fold_all(told[cut:], first) == fold_all(told)
    assert fold_all(told[:cut]) == first


@pytest.mark.spec("X1")
@given(streams())
def test_what_is_recorded_makes_the_same_view(told: list[Envelope]) -> None:
    """Deltas change nothing but what is void at the end, and a record keeps all the rest."""
    recorded = [
        msgspec.json.decode(msgspec.json.encode(one), type=Envelope)
        for one in told
        if not isinstance(one.event, Delta)
    ]
    assert fold_all(recorded) == settled(fold_all(told))


@given(streams(), st.integers(0, 40))
def test_what_comes_twice_counts_once(told: list[Envelope], back: int) -> None:
    """A reader that goes back a little and reads on sees the same."""
    numbered = [one for one in told if one.seq]
    assert fold_all(numbered[-back:] if back else [], fold_all(numbered)) == fold_all(numbered)


@given(streams())
def test_nobody_is_left_open(told: list[Envelope]) -> None:
    """Wherever a record breaks off, the endings of its view end all that is open in it."""
    view = fold_all(told)
    for agent, event in endings(view):
        view = fold(view, Envelope(view.seq + 1, view.at, agent, event))
    if not any(isinstance(one.event, SessionStarted) for one in told):
        return
    assert not view.is_open
    assert not view.running
    assert not view.questions
    assert all(agent.ended for agent in view.agents.values())
    assert not any(agent.in_turn or agent.open_requests for agent in view.agents.values())
    assert not any(agent.open_calls for agent in view.agents.values())


@given(st.lists(st.integers()), st.data())
def test_a_series_is_a_list_that_never_changes(items: list[int], data: st.DataObject) -> None:
    """Adding and replacing give what a list would, and leave the old series as it was."""
    series = Series[int]()
    for number, item in enumerate(items * 3):
        before = list(series)
        grown = series.add(item)
        assert list(series) == before
        place = data.draw(st.integers(0, number)) if number < 4 else number // 2
        series = grown.put(place, -1)
        expected = [*before, item]
        expected[place] = -1
        assert list(series) == expected
        assert len(series) == len(expected)
        assert series[-1] == expected[-1]
        assert series == Series(expected)


def test_a_skip_is_seen() -> None:
    """A view that misses events says so, and goes on from there; one that has them does not."""
    started = Envelope(1, 1.0, MAIN, AgentStarted(kind="main", model="m"))
    gap = Envelope(0, 2.0, MAIN, EventsSkipped(until=5))
    view = fold_all([started, gap])
    assert (view.seq, view.holes) == (5, 1)
    assert fold(view, gap) == view


def _story(size: int) -> list[Envelope]:
    """Tell of an agent that reads file after file."""
    told: list[Event] = [
        SessionStarted(session_id="s", model="m", cwd="/", tools=(), mode="default"),
        AgentStarted(kind="main", model="m"),
        TurnStarted(text="Go"),
        InputTaken(kind="user", text="Go"),
    ]
    number = 0
    while len(told) < size:
        number += 1
        call_id = CallId(f"call-{number}")
        told += [
            RequestSent(
                request_id=RequestId(f"r{number}"), model="m", digest="d", bytes=1, entries=1
            ),
            reply(f"r{number}", Usage(read=9, uncached=1), 0.25, ""),
            ToolStarted(call_id=call_id, name="Read", arguments="{}", title="Read a"),
            ToolFinished(call_id=call_id, name="Read", failed=False, text="x" * 100),
        ]
    told += [
        TurnFinished(text="", why="done"),
        AgentFinished(status="completed"),
        SessionFinished(cost=0.0, usage=Usage()),
    ]
    return [Envelope(i, float(i), MAIN, event) for i, event in enumerate(told, 1)]


def test_what_a_view_shows() -> None:
    """The transcript has what was said, replied and called, each call with its own result."""
    told = _story(8)
    check_events(told)
    view = fold_all(told[:-3])
    assert view.busy
    assert view.main.state == "working"
    kinds = [type(item) for item in view.main.transcript]
    assert kinds == [Said, Replied, Called]
    call = view.main.transcript[-1]
    assert isinstance(call, Called)
    assert (call.state, call.text) == ("done", "x" * 100)
    assert view.main.cached == 0.9
    assert view.cost == view.main.cost == 0.25
    assert fold_all(told[:-4]).main.doing == "Read a"


def _receipt(task_id: str, fan: str) -> Event:
    told = {"task_id": task_id, "fan": fan, "cost": 0.1, "uncached": 0.4, "unknown": 1}
    return ReceiptIssued(
        task_id=TaskId(task_id), receipt=msgspec.Raw(msgspec.json.encode(told)), text=task_id
    )


def test_receipts_of_a_fan_out_stand_together() -> None:
    """Siblings are accounted for in one place of their parent's transcript, whoever ends first."""
    told: list[tuple[str, Event]] = [
        ("main", AgentStarted(kind="main", model="m")),
        *((f"main/{n}", AgentStarted(kind="fork", model="m", parent=MAIN)) for n in "abc"),
        ("main/b", _receipt("b", "a")),
        ("main", InputTaken(kind="user", text="meanwhile")),
        ("main/c", _receipt("c", "c")),
        ("main/a", _receipt("a", "a")),
        (
            "main/a",
            ReceiptIssued(task_id=TaskId("a"), receipt=msgspec.Raw(b'{"fan": 3}'), text="odd"),
        ),
    ]
    view = fold_all(
        Envelope(i, float(i), AgentPath(path), one) for i, (path, one) in enumerate(told, 1)
    )
    items = [item for item in view.main.transcript if isinstance(item, Accounted)]
    assert [[one.paid.task_id for one in item.receipts] for item in items] == [
        ["b", "a"],
        ["c"],
    ]
    assert items[0].receipts[1].text == "odd"
    assert items[0].receipts[0].paid.uncached == 0.4
    assert isinstance(view.main.transcript[1], Said)


def test_what_the_cache_saved() -> None:
    """The saving is the price without a cache less the price; unknown as soon as one part is."""
    paid = reply("a", Usage(read=9), 0.25, "")
    known = msgspec.structs.replace(paid, uncached=1.0)
    assert fold(fold_all([]), Envelope(1, 0.0, MAIN, known)).saved == 0.75
    assert fold(fold_all([]), Envelope(1, 0.0, MAIN, paid)).saved is None
    void = RequestFailed(request_id=RequestId("a"), why="", error="")
    assert fold(fold_all([]), Envelope(1, 0.0, MAIN, void)).saved == 0.0


def _sent(lives: float = 300.0) -> Event:
    return RequestSent(
        request_id=RequestId("r"), model="m", digest="", bytes=1, entries=1, lives=lives
    )


def test_how_long_a_prompt_stays_warm() -> None:
    """Counted from the start of the last request that used it: its own, or one of its forks."""
    told: list[tuple[str, Event]] = [
        ("main", AgentStarted(kind="main", model="m")),
        ("main", _sent()),
        ("main/a", AgentStarted(kind="fork", model="m", parent=MAIN)),
        ("main/b", AgentStarted(kind="typed", model="m", parent=MAIN)),
        ("main/a", _sent()),
        ("main/b", _sent()),
        ("main", PromptMoved(reason="clear", detail="", before=1, after=0)),
        ("main", _sent()),
        ("main/a", _sent()),
    ]
    stream = [Envelope(i, float(i), AgentPath(path), one) for i, (path, one) in enumerate(told, 1)]
    until = [fold_all(stream[:size]).warm_until("main") for size in range(1, 10)]
    assert until == [None, 302.0, 302.0, 302.0, 305.0, 305.0, None, 308.0, 308.0]
    silent = [stream[0], Envelope(2, 2.0, MAIN, _sent(0.0))]
    assert fold_all(silent).warm_until("main") is None


def test_a_view_shares_what_has_not_changed() -> None:
    """An event copies one block of a transcript: all the rest is the very same values."""
    told = _story(2_100)
    before = fold_all(told[:-4])
    after = fold(before, told[-4])
    was, now = list(before.main.transcript), list(after.main.transcript)
    assert len(was) == len(now) > 1_000
    assert [one is other for one, other in zip(was, now, strict=True)] == [
        *[True] * (len(was) - 1),
        False,
    ]
