"""What an editor is shown and what it answers: pure functions of the editors' face."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.config.document import parse_document
from prong.config.server import parse_servers
from prong.entry import CallId, Usage
from prong.event import (
    MAIN,
    AgentStarted,
    Envelope,
    Event,
    EventsSkipped,
    PermissionAsked,
    ReplyFinished,
    RequestSent,
    SessionStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from prong.face.acp.ask_editor import form_answer, form_params, permission_answer
from prong.face.acp.call_content import CallFolder, diffs_of, read_arguments, resulting
from prong.face.acp.editor_value import ChosenOption, EditorAbility, EditorServerSpec, FormGiven
from prong.face.acp.event_update import EventUpdates
from prong.face.acp.prompt_block import server_config
from prong.face.acp.session_update import SessionUpdate
from prong.ids import RequestId
from prong.question import Choice, Question
from prong.tools.files.diff import unified
from prong.view import View, fold

pytestmark = pytest.mark.spec("X5")

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "- d", "+ e", "@@ f", "--- g"]), max_size=12)


@given(LINES, LINES)
def test_a_diff_is_parts_of_both_texts(before: list[str], after: list[str]) -> None:
    """Whatever changes, each part that is shown stands so in the old text and in the new one."""
    old, new = "\n".join(before), "\n".join(after)
    shown = diffs_of(unified("x.py", old, new), CallFolder("/project"))

    assert bool(shown) == (old.splitlines() != new.splitlines())
    for one in shown:
        assert one.path == "/project/x.py"
        assert (one.old_text or "") in old
        assert one.new_text in new
        assert one.old_text is not None or not old.strip("\n")


@given(st.text())
def test_what_is_no_diff_is_text(text: str) -> None:
    """A result that only looks like a diff, or like fences, is shown as it is."""
    if text.startswith("--- "):
        return
    for part in resulting("Bash", text, "", CallFolder("/")):
        assert text in getattr(part, "content").text  # noqa: B009 - a text, which no diff has


def test_a_path_is_found_where_the_agent_works() -> None:
    """What an agent in a worktree names is in its own copy, whichever way it names it."""
    copy = "/repo/.prong/worktrees/fork-1"
    folder = CallFolder.inside(copy, "/repo/sub")

    assert folder.absolute("a.py") == f"{copy}/sub/a.py"
    assert folder.absolute("/repo/b.py") == f"{copy}/b.py"
    assert folder.absolute(f"{copy}/c.py") == f"{copy}/c.py"
    assert folder.absolute("/elsewhere/d.py") == "/elsewhere/d.py"
    assert CallFolder("/repo").absolute("a.py") == "/repo/a.py"


@given(st.text())
def test_arguments_may_be_anything(text: str) -> None:
    """Arguments that are no object are none."""
    assert isinstance(read_arguments(text), dict)


@given(st.text(alphabet="${}AB:-_ x", max_size=20))
def test_a_server_gets_what_the_editor_wrote(text: str) -> None:
    """No variable of our environment finds its way into the words of an editor's server."""
    server = EditorServerSpec(name="x", command="run", args=(text,))
    document = parse_document("x", json.dumps(server_config([server])))
    servers, problems = parse_servers(document, {"A": "secret", "B": "secret", "AB": "secret"})

    assert problems == []
    assert servers[0].args == (text,)


ASKED = PermissionAsked(
    request_id=RequestId("ask-1"),
    call_id=CallId("c1"),
    tool="Bash",
    title="ls",
    why="",
    suggestion=("Bash(ls:*)",),
)


@given(st.text(), st.text())
def test_only_what_was_offered_is_a_yes(outcome: str, option: str) -> None:
    """Whatever an editor answers, leave is given only by an option that stood there."""
    answer = permission_answer(ASKED, ChosenOption(outcome=outcome, option_id=option))

    assert answer.allow == (outcome == "selected" and option in {"once", "session"})
    assert (
        permission_answer(ASKED, ChosenOption(outcome="selected", option_id="project")) != answer
        or not answer.allow
    )


@given(
    st.dictionaries(
        st.sampled_from(["answer1", "other1", "answer2", "x"]),
        st.from_type(type(None)) | st.text() | st.integers() | st.lists(st.text()),
    )
)
def test_a_form_is_answered_whole_or_not(content: dict[str, Any]) -> None:
    """There is a line for each question, or no answer."""
    questions = (
        Question("Which?", options=(Choice("a"), Choice("b"))),
        Question("What?", options=(Choice("c"), Choice("d")), multiple=True),
    )
    answer = form_answer("ask-1", questions, FormGiven(action="accept", content=content))

    assert not answer.allow or len(answer.text.split("\n")) == 2
    assert set(form_params("s", questions, badge="").requested_schema["properties"]) == {
        "answer1",
        "other1",
        "answer2",
        "other2",
    }


class Told:
    """Gives events to what makes updates, and keeps what it made."""

    def __init__(self) -> None:
        self.updates = EventUpdates("s", EditorAbility())
        self.view = View()
        self.seq = 0
        self.all: list[SessionUpdate] = []
        started = SessionStarted(session_id="s", model="m", cwd="/", tools=(), mode="default")
        self.tell(started, AgentStarted(kind="main", model="m"))

    def tell(self, *events: Event, missed: bool = False) -> list[SessionUpdate]:
        """Tell events; those that are missed change the view alone."""
        found: list[SessionUpdate] = []
        for event in events:
            self.seq += not isinstance(event, TextDelta | EventsSkipped)
            seq = 0 if isinstance(event, TextDelta | EventsSkipped) else self.seq
            envelope = Envelope(seq, 1.0, MAIN, event)
            self.view = fold(self.view, envelope)
            if not missed:
                found += [one for _, one in self.updates.of(envelope, self.view)]
        self.all += found
        return found

    @property
    def text(self) -> str:
        chunks = [one for one in self.all if type(one).__name__ == "ReplyChunk"]
        return "".join(getattr(one, "content").text for one in chunks)  # noqa: B009 - as above


REQUEST = RequestSent(request_id=RequestId("r"), model="m", digest="", bytes=0, entries=0)


def reply(text: str) -> ReplyFinished:
    return ReplyFinished(
        request_id=RequestId("r"),
        text=text,
        thinking="",
        stop="end",
        stop_detail="",
        usage=Usage(),
        cost=0.0,
        model="m",
        latency=0.0,
        first_event=0.0,
    )


@pytest.mark.parametrize("lost", ["deltas", "beginning"])
def test_an_editor_that_reads_too_slowly_gets_the_whole_reply(lost: str) -> None:
    """What it has missed of a reply follows at the end, and it is told that something was missing."""
    told = Told()
    if lost == "deltas":
        told.tell(REQUEST, TextDelta(text="Hel"))
    else:
        told.tell(REQUEST, missed=True)
    told.tell(TextDelta(text="lo, wo"), missed=True)
    told.tell(EventsSkipped(until=told.seq))
    assert "read too slowly" in told.text
    told.tell(TextDelta(text="rl"), reply("Hello, world."))

    first, _, last = told.text.partition("\n*prong: ")
    assert first + last.rpartition("*\n\n")[2] == "Hello, world."


def test_a_call_whose_end_was_missed_ends() -> None:
    """No call stays at work for ever because an editor has missed its end."""
    told = Told()
    told.tell(ToolStarted(call_id=CallId("c1"), name="Bash", arguments="{}", title="ls"))
    told.tell(ToolFinished(call_id=CallId("c1"), name="Bash", failed=False, text=""), missed=True)
    ended = told.tell(EventsSkipped(until=told.seq))[-1]

    assert (getattr(ended, "tool_call_id"), getattr(ended, "status")) == ("c1", "completed")  # noqa: B009
