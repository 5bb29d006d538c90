"""Notes: what is stored of each kind, and that everything ever stored can be read."""

from __future__ import annotations

import json
import resource
import shutil
import types
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.cost.budget import Bounds
from prong.errors import JournalError, JournalFull
from prong.event import MAIN, Todo
from prong.host.worktree import Kept, Removed, Worktree
from prong.ids import AgentPath, TaskId
from prong.journal import note as notes
from prong.journal.note import (
    Begun,
    ChildEnded,
    ChildRun,
    ChildSpec,
    CoordinatorSet,
    FanPlanned,
    FilesRead,
    FolderEntered,
    MemberKept,
    MemberOf,
    MemberSpec,
    MessagesUnread,
    ModelChosen,
    ModeSet,
    Note,
    NoteChange,
    NotesAsked,
    PlanKept,
    PullsSeen,
    StoredPlan,
    StoredRule,
    TeamKept,
    Titled,
    TodosKept,
    TurnSettled,
    decode_note,
    encode_note,
)
from prong.journal.record import NoteRecord, Opened, reseal, seal
from prong.journal.replay import read_journal
from prong.journal.verify import verify
from prong.journal.writer import Journal

KINDS: tuple[type[Note], ...] = get_args(Note)
JOURNALS = sorted((Path(__file__).parent / "journals").glob("*.jsonl"))

OLD: list[tuple[str, str, Note]] = [
    ("mode", '"acceptEdits"', ModeSet("acceptEdits")),
    ("plan", "null", PlanKept(None)),
    (
        "plan",
        (
            '{"before":"auto","file":"/p/plan.md","rules":[{"effect":"allow","tool":"Bash",'
            '"specifier":null,"source":"session"}]}'
        ),
        PlanKept(
            StoredPlan(
                before="auto",
                file="/p/plan.md",
                rules=(StoredRule("allow", "Bash", None, "session"),),
            )
        ),
    ),
    ("pulls", '{"o/r#7":["comment-1"]}', PullsSeen({"o/r#7": ["comment-1"]})),
    ("coordinator", '"simple"', CoordinatorSet("simple")),
    (
        "endpoint",
        '{"model":"m","base_url":null,"api":"chat"}',
        ModelChosen("m", None, "chat"),
    ),
    ("title", '"A name"', Titled("A name")),
    ("about", '"First words"', Begun("First words")),
    ("reads", '{"/a.py":"5f0a"}', FilesRead({"/a.py": "5f0a"})),
    (
        "todos",
        '[{"content":"x","status":"pending","active":""}]',
        TodosKept((Todo("x", "pending"),)),
    ),
    ("cwd", '"/work"', FolderEntered("/work")),
    ("settled", '"00ff"', TurnSettled("00ff")),
    (
        "memory",
        '{"digest":"00ff","pending":[{"text":"- new","before":"- old"}]}',
        NotesAsked("00ff", (NoteChange("- new", "- old"),)),
    ),
    (
        "child",
        (
            '{"task_id":"a","path":"main/a","parent":"main","kind":"typed","type":"Explore",'
            '"description":"look","call_id":"c1","notify":false,"base_depth":0,"base":"","model":"m",'
            '"spawns":["Plan"],"budget":{"tokens":9,"usd":null,"turns":null,"seconds":null},'
            '"files":["src/**"],"isolation":"worktree","worktree":{"slug":"a","path":"/w","cwd":"/w",'
            '"branch":"b","base_commit":"1","snapshot_commit":"2","parent":"/p","extras":[]}}'
        ),
        ChildSpec(
            task_id=TaskId("a"),
            path=AgentPath("main/a"),
            parent=MAIN,
            kind="typed",
            type="Explore",
            description="look",
            call_id="c1",
            notify=False,
            model="m",
            spawns=("Plan",),
            budget=Bounds(tokens=9),
            files=("src/**",),
            isolation="worktree",
            worktree=Worktree(
                slug="a",
                path="/w",
                cwd="/w",
                branch="b",
                base_commit="1",
                snapshot_commit="2",
                parent="/p",
            ),
        ),
    ),
    (
        "ended",
        (
            '{"run":2,"status":"failed","detail":"why","tool_uses":3,"outcome":{"type":"Kept",'
            '"path":"/w","branch":"b","commits":[],"files":["x"],"uncommitted":true,"why":"work"},'
            '"requests":4,"since":[1,2]}'
        ),
        ChildEnded(2, "failed", "why", 3, Kept("/w", "b", (), ("x",), True, "work"), 4, (1, 2)),
    ),
    (
        "ended",
        (
            '{"run":1,"status":"completed","detail":"","tool_uses":0,"outcome":{"type":"Removed",'
            '"path":"/w","branch":"b"},"requests":1,"since":[0,0]}'
        ),
        ChildEnded(1, "completed", outcome=Removed("/w", "b"), requests=1),
    ),
    ("run", "2", ChildRun(2)),
    ("unread", '["Look again."]', MessagesUnread(["Look again."])),
    (
        "team",
        '{"team":"crew","plans":{"alice":"plan-1"}}',
        TeamKept(team="crew", plans={"alice": "plan-1"}),
    ),
    (
        "member_of",
        '{"team":"crew","name":"alice","colour":"blue","plan":true}',
        MemberOf(MemberSpec(team="crew", name="alice", colour="blue", plan=True)),
    ),
    (
        "member",
        (
            '{"planning":true,"plan":["plan-1","Do it."],"settled":"m1-alice",'
            '"shutdown":"end-1","agreed":false,"idle":"abc","offered":["1"]}'
        ),
        MemberKept(
            planning=True,
            plan=("plan-1", "Do it."),
            settled="m1-alice",
            shutdown="end-1",
            idle="abc",
            offered=("1",),
        ),
    ),
]
"""Names and values as programs of format 1 have stored them, byte for byte."""


def of(hint: Any) -> st.SearchStrategy[Any]:
    """Make values of a type."""
    origin, args = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return struct(hint)
    if origin in {Union, types.UnionType}:
        return st.one_of([of(arg) for arg in args])
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple and args[-1] is not Ellipsis:
        return st.tuples(*map(of, args))
    if origin in {tuple, list}:
        return st.lists(of(args[0]), max_size=2).map(origin)
    if origin is dict:
        return st.dictionaries(of(args[0]), of(args[1]), max_size=2)
    if hint is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if hint is int:
        return st.integers(0, 2**40)
    return st.text(max_size=8) if hint is str else st.from_type(hint)


@cache
def struct(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{name: of(hints[name]) for name in kind.__struct_fields__})


def test_the_names_on_disk_are_these() -> None:
    """No kind of note is ever renamed, and no two share a name."""
    assert [kind.tag for kind in KINDS] == [
        "mode",
        "plan",
        "pulls",
        "coordinator",
        "endpoint",
        "title",
        "about",
        "reads",
        "todos",
        "cwd",
        "settled",
        "memory",
        "team",
        "member_of",
        "member",
        "child",
        "opened",
        "receipt",
        "ended",
        "run",
        "unread",
        "fan",
    ]


def test_every_note_of_the_module_is_in_the_union() -> None:
    """The union is closed over all classes that can be stored."""
    every = {
        kind
        for kind in vars(notes).values()
        if isinstance(kind, type) and issubclass(kind, notes._Note) and kind is not notes._Note
    }
    assert every == set(KINDS)


@given(st.one_of([struct(kind) for kind in KINDS]))
def test_a_note_comes_back_as_it_was(note: Note) -> None:
    """Whatever is in a note, of every kind, is read back equal."""
    key = note.key if isinstance(note, FanPlanned) else None
    assert decode_note(type(note), bytes(encode_note(note)), key=key) == note
    assert note.name == (f"{note.tag}/{key}" if isinstance(note, FanPlanned) else note.tag)


@pytest.mark.parametrize("note", [ModeSet("a\ud800"), ChildEnded(detail="a\ud800")])
def test_a_text_that_is_not_unicode_is_repaired(note: Note) -> None:
    """A lone surrogate keeps no note from being stored, whether all of it is or one field."""
    back = decode_note(type(note), bytes(encode_note(note)))

    assert "a\ufffd" in repr(back)


@pytest.mark.spec("L8")
@pytest.mark.parametrize(("name", "value", "note"), OLD)
def test_what_is_stored_has_its_old_form(name: str, value: str, note: Note) -> None:
    """The value stands on disk as it always did, but for new members, and an old one is read."""
    assert note.name == name
    assert grown(json.loads(bytes(encode_note(note))), json.loads(value))
    assert decode_note(type(note), value.encode()) == note


@pytest.mark.spec("L8")
def test_the_old_forms_leave_out_no_kind() -> None:
    """Each kind has an old form: in the table above, or in a stored journal."""
    seen = {name for name, _, _ in OLD}
    for path in JOURNALS:
        seen |= {name.partition("/")[0] for _, name, _ in stored(path)}
    assert seen == {kind.tag for kind in KINDS}


def grown(now: Any, before: Any) -> bool:
    """Say whether a value is an older one, apart from members of objects that have come since."""
    if isinstance(now, dict) and isinstance(before, dict):
        return all(key in now and grown(now[key], value) for key, value in before.items())
    return now == before


def stored(path: Path) -> list[tuple[str, str, Any]]:
    """Read the notes of a journal with nothing of ours."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [(one["agent"], one["name"], one["value"]) for one in lines if one["k"] == "note"]


@pytest.mark.spec("L8")
@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_journals_of_older_programs_are_read(path: Path, tmp_path: Path) -> None:
    """Each note of a journal from before notes were a union is read, and it can be resumed."""
    kinds = {kind.tag: kind for kind in KINDS}
    latest = {(agent, name): value for agent, name, value in stored(path)}
    assert verify(path).sound
    copy = Path(shutil.copy(path, tmp_path))
    journal, replay = Journal.resume(copy)
    with journal:
        for (agent, name), value in latest.items():
            tag, parted, key = name.partition("/")
            note = replay.last(agent, kinds[tag], key if parted else None)
            assert note is not None
            assert note.name == name
            assert grown(json.loads(bytes(encode_note(note))), value)
            journal.note(agent, note)
    again = read_journal(copy)
    assert again.tally == replay.tally
    for (agent, name, now), (which, value) in zip(
        stored(copy)[-len(latest) :], latest.items(), strict=True
    ):
        assert (agent, name) == which
        assert grown(now, value)


def make(path: Path, *bodies: bytes) -> Path:
    opening, chain = seal(Opened(session="s1", created=0.0, cwd="/"), 0)
    lines = [opening]
    for body in bodies:
        line, chain = reseal(body, chain)
        lines.append(line)
    path.write_bytes(b"".join(lines))
    return path


def body(name: str, value: str) -> bytes:
    record = NoteRecord(agent="main", name=name, value=msgspec.Raw(value.encode()))
    return msgspec.json.encode(record)[1:]


@pytest.mark.spec("L8")
def test_what_newer_programs_note_is_passed_over(tmp_path: Path) -> None:
    """Unknown notes, unknown members and lines of events disturb nothing; nothing is lost."""
    path = make(
        tmp_path / "s1.jsonl",
        body("shape", '{"of":["things","to","come"]}'),
        b'"k":"event","agent":"main","at":0.0,"value":{"type":"warned"}}',
        body("endpoint", '{"model":"m","region":"moon"}'),
        body("run/7", '"keyed one day"'),
        body("run", "3"),
    )
    before = path.read_bytes()
    journal, replay = Journal.resume(path)
    with journal:
        assert replay.last("main", ModelChosen) == ModelChosen("m")
        assert replay.last("main", ChildRun) == ChildRun(3)
        assert list(replay.each(ChildRun)) == [("main", ChildRun(3))]
        journal.note("main", Titled("on"))
    assert path.read_bytes().startswith(before)
    assert read_journal(path).tally.title == "on"


@pytest.mark.spec("L8")
def test_notes_that_are_given_together_are_stored_together(tmp_path: Path) -> None:
    """Of notes that belong together a full disk takes all or none; later they are there in order."""
    path = tmp_path / "s1.jsonl"
    with Journal.create(path, Opened(session="s1", created=0.0, cwd="/")) as journal:
        size = path.stat().st_size
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # Enough for the first of them.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 120, hard))
        try:
            with pytest.raises(JournalFull):
                journal.note("main", ChildRun(2), Titled("on"), ChildRun(3))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert path.stat().st_size == size

        journal.note("main", ChildRun(2), Titled("on"), ChildRun(3))
        assert journal.tally.title == "on"
    assert read_journal(path).last("main", ChildRun) == ChildRun(3)
    assert read_journal(path).tally.title == "on"


def test_a_note_of_another_shape_is_said(tmp_path: Path) -> None:
    """A value that is none of its kind is an error with the note's name, once it is asked for."""
    path = make(tmp_path / "s1.jsonl", body("run", '"often"'), body("child", "[]"))
    replay = read_journal(path)
    with pytest.raises(JournalError, match="'run' cannot be read"):
        replay.last("main", ChildRun)
    with pytest.raises(JournalError, match="'child' cannot be read"):
        list(replay.each(ChildSpec))


@given(struct(FanPlanned), struct(FanPlanned))
def test_fan_outs_are_told_apart_by_their_key(
    tmp_path_factory: pytest.TempPathFactory, one: FanPlanned, other: FanPlanned
) -> None:
    """Of each key the latest counts, whatever text it is."""
    path = tmp_path_factory.mktemp("fan") / "s1.jsonl"
    with Journal.create(path, Opened(session="s1", created=0.0, cwd="/")) as journal:
        journal.note("main", one)
        journal.note("main", other)
    replay = read_journal(path)
    assert replay.last("main", FanPlanned, other.key) == other
    assert one.key == other.key or replay.last("main", FanPlanned, one.key) == one
