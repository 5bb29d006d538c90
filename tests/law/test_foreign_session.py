"""Sessions of other programs become conversations that any API takes, whatever their files hold."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.entry import Entry, Reply, Results, User
from prong.errors import BadInput
from prong.journal.claude_session import read_claude
from prong.journal.codex_session import read_codex

pytestmark = [pytest.mark.spec("L8")]


def written(path: Path, *lines: dict[str, Any] | str) -> Path:
    """Write lines to a file."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in lines]
    path.write_text("\n".join(texts) + "\n")
    return path


def line(uuid: str, parent: str | None, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    """Make a line of Claude Code."""
    key = more.pop("id", uuid)
    role = {"id": key, "model": "claude-x"} if kind == "assistant" else {}
    message = {"role": kind, "content": content, **role}
    common = {"sessionId": "s", "version": "2.1.325", "cwd": "/w", "isSidechain": False}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "message": message, **common, **more}


def use(call: str, name: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": {"command": "ls"}}


def gave(call: str, content: Any = "out", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def shape(entries: tuple[Entry, ...]) -> list[str]:
    """Draw a conversation in one word for each entry."""
    drawn: list[str] = []
    for entry in entries:
        match entry:
            case User(kind=kind):
                drawn.append(f"{kind}:{entry.text}")
            case Reply(text=said, calls=calls):
                drawn.append(f"reply:{said}{''.join(f'[{call.id}]' for call in calls)}")
            case Results(results=results):
                drawn.append("results:" + "".join(f"[{one.call_id}={one.text}]" for one in results))
    return drawn


def is_valid(entries: tuple[Entry, ...]) -> bool:
    """Say whether an API takes them: calls are answered at once, replies do not meet."""
    for before, after in zip(entries, (*entries[1:], None), strict=True):
        if isinstance(before, Reply):
            asked = [call.id for call in before.calls]
            told = [one.call_id for one in after.results] if isinstance(after, Results) else []
            if asked != told or isinstance(after, Reply):
                return False
    calls = [call.id for entry in entries if isinstance(entry, Reply) for call in entry.calls]
    return isinstance(entries[0], User) and len(set(calls)) == len(calls)


def test_a_reply_in_several_lines_is_one(tmp_path: Path) -> None:
    """Parts of a reply are joined by its id, and results of calls beside each other are found."""
    path = written(
        tmp_path / "s.jsonl",
        line("u1", None, "user", "Go"),
        line("a1", "u1", "assistant", [text("I look.")], id="m1"),
        line("a2", "a1", "assistant", [use("c1")], id="m1"),
        line("a3", "a2", "assistant", [use("c2")], id="m1"),
        line("r1", "a2", "user", [gave("c1", "one")]),
        line("r2", "a3", "user", [gave("c2", [text("two")], is_error=True)]),
        line("a4", "r1", "assistant", [{"type": "thinking", "thinking": "hm"}, text("Done.")]),
        {"type": "ai-title", "aiTitle": "A title", "sessionId": "s"},
    )
    found = read_claude(path)
    assert shape(found.agents["main"]) == [
        "user:Go",
        "reply:I look.[c1][c2]",
        "results:[c1=one][c2=two]",
        "reply:Done.",
    ]
    assert (found.title, found.model, found.cwd, found.notes) == ("A title", "claude-x", "/w", ())


def test_replies_do_not_meet_where_a_call_is_told_twice(tmp_path: Path) -> None:
    """A reply whose calls were all made before is joined with the reply that follows on it."""
    path = written(
        tmp_path / "s.jsonl",
        line("u1", None, "user", "Go"),
        line("a1", "u1", "assistant", [use("c1")], id="m1"),
        line("u2", "a1", "user", "And?"),
        line("a2", "u2", "assistant", [text("Again."), use("c1")], id="m2"),
        line("a3", "a2", "assistant", [text("Done.")], id="m3"),
    )
    entries = read_claude(path).agents["main"]
    assert is_valid(entries)
    assert shape(entries)[3:] == ["user:And?", "reply:Again.\n\nDone."]


def test_what_was_taken_back_is_not_taken_over(tmp_path: Path) -> None:
    """Of branches the last counts, and of a conversation that was summarised what came since."""
    path = written(
        tmp_path / "s.jsonl",
        line("u1", None, "user", "First"),
        line("a1", "u1", "assistant", [text("One.")]),
        line("u2", "a1", "user", "WRONG"),
        line("a2", "u2", "assistant", [text("wrong")]),
        line("u3", "a1", "user", "Right"),
        line("a3", "u3", "assistant", [text("Two.")]),
    )
    assert shape(read_claude(path).agents["main"])[2:] == ["user:Right", "reply:Two."]
    edge = {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None}
    summary = line("s1", "b", "user", "SUM", isCompactSummary=True)
    with path.open("a") as file:
        for one in (edge, summary, line("a4", "s1", "assistant", [text("On.")])):
            file.write(json.dumps(one) + "\n")
    assert shape(read_claude(path).agents["main"]) == ["summary:SUM", "reply:On."]


def test_agents_come_along(tmp_path: Path) -> None:
    """Agents stand in files of their own, or as side chains in the session's."""
    path = written(
        tmp_path / "s.jsonl",
        line("u1", None, "user", "Go"),
        line("x1", None, "user", "INSIDE", isSidechain=True, agentId="in/side"),
        line("a1", "u1", "assistant", [text("Done.")]),
    )
    (tmp_path / "s/subagents").mkdir(parents=True)
    written(tmp_path / "s/subagents/agent-7.jsonl", line("y", None, "user", "X", isSidechain=True))
    agents = read_claude(path).agents
    assert {name: shape(own) for name, own in agents.items()} == {
        "main": ["user:Go", "reply:Done."],
        "in-side": ["user:INSIDE"],
        "7": ["user:X"],
    }


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    """Torn lines, lines that are none and blocks of another day are counted; the rest counts."""
    path = written(
        tmp_path / "s.jsonl",
        line("u1", None, "user", [text("Look"), {"type": "hologram"}]),
        "{not json",
        "[1]",
        line("a1", "u1", "assistant", [use("c1"), {"type": "hologram"}]),
    )
    with path.open("a") as file:
        file.write('{"type": "assistant", "mess')
    found = read_claude(path)
    assert shape(found.agents["main"]) == [
        "user:Look",
        "reply:[c1]",
        "results:[c1=No result of this call is recorded.]",
    ]
    assert found.notes == (
        "2 lines could not be read and are left out",
        "its last line is torn and is left out",
        "not known here, and left out: hologram (2)",
    )


@pytest.mark.parametrize("version", ["3.0.0", "17.1"])
def test_a_later_version_is_refused(tmp_path: Path, version: str) -> None:
    """A file of a program that is not known yet is refused, with its version."""
    path = written(tmp_path / "s.jsonl", line("u", None, "user", "Hi", version=version))
    with pytest.raises(BadInput, match=f"written by Claude Code {version}.*upgrade prong"):
        read_claude(path)
    meta = {"type": "session_meta", "payload": {"id": "x", "cwd": "/w", "cli_version": version}}
    with pytest.raises(BadInput, match=f"written by Codex {version}.*upgrade prong"):
        read_codex(written(tmp_path / "c.jsonl", meta))


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": kind, **payload}}


def message(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": words}])


META = {"type": "session_meta", "payload": {"id": "x", "cwd": "/w", "cli_version": "0.144.6"}}


def test_items_of_codex_become_entries(tmp_path: Path) -> None:
    """Calls of all kinds have their results; what the program itself said is left behind."""
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    path = written(
        tmp_path / "r.jsonl",
        META,
        {"type": "turn_context", "payload": {"model": "gpt-x"}},
        message("developer", "be good"),
        message("user", "<environment_context>\n<cwd>/w</cwd>"),
        {"type": "event_msg", "payload": {"type": "user_message", "message": "List"}},
        message("user", "List"),
        item("reasoning", summary=[], encrypted_content="x"),
        item("function_call", name="exec_command", arguments='{"cmd": "ls"}', call_id="c1"),
        item("function_call", name="exec_command", arguments='{"cmd": "pwd"}', call_id="c2"),
        item("function_call_output", call_id="c1", output="a.txt"),
        item("function_call_output", call_id="c2", output={"content": "no", "success": False}),
        item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c3"),
        item("custom_tool_call_output", call_id="c3", output=[picture]),
        message("assistant", "Done."),
        {"type": "later_record", "payload": {}},
    )
    found = read_codex(path)
    entries = found.agents["main"]
    assert shape(entries) == [
        "user:List",
        "reply:[c1][c2]",
        "results:[c1=a.txt][c2=no]",
        "reply:[c3]",
        "results:[c3=[image/png]]",
        "reply:Done.",
    ]
    assert isinstance(entries[2], Results)
    assert [one.failed for one in entries[2].results] == [False, True]
    assert (found.model, found.cwd) == ("gpt-x", "/w")
    assert found.notes == ("not known here, and left out: later_record (1)",)


def test_what_codex_summarised_begins_anew(tmp_path: Path) -> None:
    """After a summary the conversation is what took its place."""
    history = [message("user", "KEPT")["payload"]]
    path = written(
        tmp_path / "r.jsonl",
        META,
        message("user", "OLD"),
        message("assistant", "old"),
        {"type": "compacted", "payload": {"message": "SUM", "replacement_history": history}},
        message("assistant", "On."),
    )
    assert shape(read_codex(path).agents["main"]) == ["summary:SUM", "user:KEPT", "reply:On."]


def test_the_oldest_form_of_codex_is_read(tmp_path: Path) -> None:
    """Files of bare items, and what was typed where only events tell it, are understood."""
    bare = written(
        tmp_path / "old.jsonl",
        {"id": "x", "timestamp": "2025", "instructions": None},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Ho"}],
        },
    )
    assert shape(read_codex(bare).agents["main"]) == ["user:Hi", "reply:Ho"]
    typed = {"type": "event_msg", "payload": {"type": "user_message", "message": "Typed"}}
    path = written(tmp_path / "e.jsonl", META, typed, message("assistant", "Ho"))
    assert shape(read_codex(path).agents["main"]) == ["user:Typed", "reply:Ho"]


def test_what_was_typed_is_found_in_every_form(tmp_path: Path) -> None:
    """Newer files tell what was typed as events of their own, between the items."""

    def typed(words: str) -> dict[str, Any]:
        content = [{"type": "text", "text": words}]
        made = {"type": "UserMessage", "id": "u", "content": content}
        return {"type": "event_msg", "payload": {"type": "item_completed", "item": made}}

    injected = message("user", "<environment_context>not a person</environment_context>")
    lines = [META, injected, typed("A"), message("assistant", "a"), typed("B")]
    path = written(tmp_path / "r.jsonl", *lines, message("assistant", "b"))
    assert shape(read_codex(path).agents["main"]) == ["user:A", "reply:a", "user:B", "reply:b"]
    both = written(tmp_path / "b.jsonl", META, typed("A"), message("user", "A"))
    assert shape(read_codex(both).agents["main"]) == ["user:A"]


def test_agents_of_codex_come_along(tmp_path: Path) -> None:
    """An agent's file names its parent, and has a copy of what that had said, left out here."""
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "x"}}}
    payload = {"id": "child", "cwd": "/w", "timestamp": "2026-02", "source": spawned}
    path = written(tmp_path / "rollout-1.jsonl", META, message("user", "Go"))
    written(
        tmp_path / "rollout-2.jsonl",
        {"type": "session_meta", "timestamp": "2026-02", "payload": payload},
        {**META, "timestamp": "2026-01"},
        {**message("user", "COPY"), "timestamp": "2026-01"},
        {**message("user", "OWN"), "timestamp": "2026-02"},
    )
    written(tmp_path / "rollout-3.jsonl", META, message("user", "another"))
    agents = {name: shape(own) for name, own in read_codex(path).agents.items()}
    assert agents == {"main": ["user:Go"], "child": ["user:OWN"]}


def test_nothing_said_is_nothing_to_take_over(tmp_path: Path) -> None:
    """A file without a word is refused."""
    with pytest.raises(BadInput, match="nothing was said"):
        read_codex(written(tmp_path / "r.jsonl", META))
    with pytest.raises(BadInput, match="nothing was said"):
        read_claude(written(tmp_path / "s.jsonl", {"type": "summary", "sessionId": "x"}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(seed=st.integers(0, 10_000), noise=st.lists(JSON, max_size=4))
def test_whatever_a_file_holds_comes_out_valid(
    tmp_path_factory: pytest.TempPathFactory, seed: int, noise: list[Any]
) -> None:
    """Lines in any order, lost, doubled, with anything in them: every call has one result."""
    rough = random.Random(seed)
    lines = [
        line("u1", None, "user", "Go"),
        line("a1", "u1", "assistant", [use("c1"), use("c2"), text("x")], id="m1"),
        line("r1", "a1", "user", [gave("c2"), text("aside")]),
        line("a2", "r1", "assistant", [use("c1")], id="m2"),
        line("a3", "a2", "assistant", [use("c3")], id="m2"),
        line("r2", "a3", "user", [gave("c1"), gave("c3", None)]),
        line("a4", "r2", "assistant", noise),
        line("u2", "a4", "user", noise[:1]),
        *({"type": "user", "message": one, "uuid": one, "sessionId": "s"} for one in noise),
    ]
    chosen = rough.choices(lines, k=rough.randint(1, 12))
    path = written(tmp_path_factory.getbasetemp() / "rough.jsonl", *chosen)
    try:
        entries = read_claude(path).agents["main"]
    except BadInput:
        return
    assert is_valid(entries), shape(entries)
