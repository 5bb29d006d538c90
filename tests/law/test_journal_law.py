from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.agent.answer import INTERRUPTED, interrupted, unanswered
from prong.cost import Charge
from prong.entry import (
    Call,
    CallId,
    Entry,
    Image,
    Reply,
    Result,
    Results,
    Text,
    ToolSpec,
    Usage,
    User,
    user_text,
)
from prong.errors import (
    JournalDamaged,
    JournalError,
    NoSuchSession,
    UsageError,
)
from prong.event import Todo
from prong.ids import AgentPath
from prong.journal.branch import branch
from prong.journal.note import ChildRun, FolderEntered, ModeSet, TodosKept
from prong.journal.record import Opened, reseal, seal, unwrap, wrap
from prong.journal.replay import Replay, read_journal
from prong.journal.transfer import entry_record
from prong.journal.verify import verify
from prong.journal.writer import Journal
from prong.prompt import Head, Prompt
from prong.wire import Encoded, HeadSpec, dialect

DIALECTS = ("anthropic", "responses", "chat", "claude-chat", "gemini")
SCHEMA = msgspec.Raw(b'{\n  "type": "object"\n}')


def opened(session: str = "s1") -> Opened:
    return Opened(session=session, created=1.0, cwd="/work", program="0")


def start(name: str = "anthropic", *, model: str = "m-1", explicit: bool = True) -> Prompt:
    spec = HeadSpec(
        model=model,
        system=("Be brief.", "ünïcode  "),
        tools=(ToolSpec("Read", "Reads.", SCHEMA),),
        extra={"temperature": 0.5, "metadata": {"big": 2**53 + 1}},
        betas=("b-1",),
        explicit_marks=explicit,
    )
    return Prompt(Head(dialect(name, explicit=explicit), spec))


def reply(text: str, *calls: str) -> Reply:
    return Reply((), "", text, "", tuple(Call(CallId(c), "Read", '{"path": "a"}') for c in calls))


def results(*calls: str) -> Results:
    return Results(tuple(Result(CallId(c), (Text(f"result of {c}"),)) for c in calls))


def row(agent: str = "main", cost: float | None = 0.25) -> Charge:
    return Charge(
        agent=AgentPath(agent), model="m-1", usage=Usage(uncached=3, output=4), cost=cost, marks=2
    )


def facts(prompt: Prompt) -> list[tuple[Any, ...]]:
    return [
        (n.kind, n.role, n.delta, n.glue, n.mark_at, n.positions, n.digest, n.length, n.depth)
        for n in prompt.nodes()
    ]


def same(a: Prompt, b: Prompt) -> bool:
    return (
        a.open() == b.open()
        and a.body() == b.body()
        and facts(a) == facts(b)
        and (a.head.mark_at, a.head.positions) == (b.head.mark_at, b.head.positions)
        and msgspec.json.encode(_spec(a)) == msgspec.json.encode(_spec(b))
    )


def _spec(prompt: Prompt) -> HeadSpec:
    tools = tuple(
        ToolSpec(t.name, t.description, msgspec.Raw(bytes(t.schema).replace(b"\n", b" ")))
        for t in prompt.head.spec.tools
    )
    return msgspec.structs.replace(prompt.head.spec, tools=tools)


def small(path: Path) -> dict[str, Prompt]:
    """Write a journal with every kind of line; gives the prompts."""
    main = start().append(user_text("hello"), reply("two at once", "c1", "c2"))
    with Journal.create(path, opened()) as journal:
        journal.keep("main", main)
        journal.request(row())
        journal.note("main", TodosKept((Todo("x", "pending"),)))
        child = main.append(results("c1", "c2"), User((Text("go"),), "directive"))
        journal.keep("main/fork-1", child)
        journal.note("main", TodosKept())
        main = main.append(results("c1", "c2"))
        journal.keep("main", main)
    return {"main": main, "main/fork-1": child}


texts = st.text(max_size=40)
parts = st.lists(
    st.one_of(texts.map(Text), st.just(Image("image/png", "aGk="))), min_size=1, max_size=3
).map(tuple)
kinds = st.sampled_from(["user", "notice", "directive", "summary", "reminder"])
users = st.builds(User, parts, kinds)
replies = st.builds(
    lambda text, thought, args: Reply(
        (), "", text, thought, tuple(Call(CallId(f"c{i}"), "Read", a) for i, a in enumerate(args))
    ),
    texts,
    texts,
    st.lists(
        st.sampled_from(["{}", '{"b":1,\n"a":[]}', '{"cut":', "", '{"n":123456789012345678901}']),
        max_size=2,
    ),
)
entries = st.lists(st.one_of(users, replies, st.just(results("c0"))), max_size=8)


@pytest.mark.spec("L8")
@given(name=st.sampled_from(DIALECTS), explicit=st.booleans(), said=entries, more=entries)
@settings(max_examples=150, deadline=None)
def test_replay_rebuilds_the_very_same_bytes(
    name: str, explicit: bool, said: list[Entry], more: list[Entry]
) -> None:
    """Whatever the entries, a resumed prompt equals the stored one in bytes and in every fact."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s1.jsonl"
        prompt = start(name, explicit=explicit).append(*said)
        with Journal.create(path, opened()) as journal:
            journal.keep("main", prompt)
        journal, replay = Journal.resume(path)
        assert same(replay.agents["main"], prompt)
        with journal:
            longer = replay.agents["main"].append(*more)
            journal.keep("main", longer)
        again = read_journal(path).agents["main"]
        assert same(again, prompt.append(*more))
        assert again.extends(prompt)


@given(st.binary(max_size=30).filter(lambda b: b.decode(errors="ignore").encode() == b))
def test_wrapping_keeps_any_bytes(data: bytes) -> None:
    """Entry bytes come back as they were, JSON or not, and never break the line."""
    value = wrap(data)
    assert b"\n" not in bytes(value)
    assert unwrap(value) == data


@pytest.mark.parametrize("depth", [500, 700, 750, 800, 900, 1000, 5000])
def test_deep_nesting_is_read_back_from_a_deeper_stack(tmp_path: Path, depth: int) -> None:
    """A value as deep as the parser can take does not make a journal that cannot be read."""
    path = tmp_path / "s1.jsonl"
    data = b"[" * depth + b"]" * depth
    prompt = start().append_encoded("user", "user", Encoded(data))
    with Journal.create(path, opened()) as journal:
        journal.keep("main", start())
        tip = prompt.tip
        assert tip is not None
        journal._append([entry_record("main", prompt.head, tip, 0.0)])

    def read(more: int) -> Replay:
        return read(more - 1) if more else read_journal(path)

    assert read(100).agents["main"].open() == prompt.open()


@pytest.mark.spec("L8")
def test_wire_bytes_stand_in_the_file_verbatim(tmp_path: Path) -> None:
    """An entry's bytes can be found in the file as they went over the wire."""
    prompts = small(tmp_path / "s1.jsonl")
    data = (tmp_path / "s1.jsonl").read_bytes()
    for node in prompts["main"].nodes():
        assert b'"data":[' + node.data + b"]}\n" in data


@pytest.mark.spec("L8")
def test_agents_share_again_what_they_shared(tmp_path: Path) -> None:
    """After a resume a fork and its parent hold the same nodes, not equal ones."""
    prompts = small(tmp_path / "s1.jsonl")
    replay = read_journal(tmp_path / "s1.jsonl")
    assert {name: same(p, prompts[name]) for name, p in replay.agents.items()} == {
        "main": True,
        "main/fork-1": True,
    }
    main, fork = replay.agents["main"], replay.agents["main/fork-1"]
    assert fork.tip is not None
    assert fork.tip.parent is main.tip
    assert fork.head is main.head
    assert replay.last("main", TodosKept) == TodosKept()
    assert replay.last("main", ModeSet) is None
    assert [paid.row for paid in replay.requests] == [row()]
    seqs = [placed.seq for placed in replay.entries]
    assert seqs == sorted(set(seqs))


def test_only_what_is_new_is_stored(tmp_path: Path) -> None:
    """Storing a prompt step by step, and again, writes each entry once; a step back is kept too."""
    path = tmp_path / "s1.jsonl"
    prompt = start().append(user_text("hi"), reply("yes", "c1"), results("c1"))
    fork = prompt.append(User((Text("go"),), "directive"))
    with Journal.create(path, opened()) as journal:
        for node in (None, *prompt.nodes()):
            journal.keep("main", Prompt(prompt.head, node))
        length = path.stat().st_size
        journal.keep("main", prompt)
        assert path.stat().st_size == length
        journal.keep("main/fork-1", fork)
        journal.keep("main/fork-2", prompt)
        journal.keep("main", Prompt(prompt.head), reason="clear")
    replay = read_journal(path)
    assert same(replay.agents["main/fork-1"], fork)
    assert same(replay.agents["main/fork-2"], prompt)
    assert replay.agents["main"].depth == 0
    assert len(replay.entries) == 4


def test_equal_bytes_of_different_kinds_stay_apart(tmp_path: Path) -> None:
    """A directive and a user text with the same words keep their kinds."""
    path = tmp_path / "s1.jsonl"
    base = start()
    one, two = base.append(user_text("go")), base.append(User((Text("go"),), "directive"))
    with Journal.create(path, opened()) as journal:
        journal.keep("main", one)
        journal.keep("main/a", two)
        journal.keep("main/b", one.append(user_text("x")))
    replay = read_journal(path)
    assert [n.kind for n in replay.agents["main/a"].nodes()] == ["directive"]
    assert [n.kind for n in replay.agents["main"].nodes()] == ["user"]
    assert replay.agents["main/b"].depth == 2


@pytest.mark.spec("L1", "L8")
def test_a_restart_is_all_or_nothing(tmp_path: Path) -> None:
    """Torn at any byte, a compaction leaves the agent at its old prompt or at its new one."""
    path = tmp_path / "s1.jsonl"
    old = start().append(user_text("a"), reply("b"), user_text("c"))
    new = start(model="m-2").append(User((Text("sum"),), "summary"), user_text("c"))
    with Journal.create(path, opened()) as journal:
        journal.keep("main", old)
        length = path.stat().st_size
        journal.keep("main", new, reason="compaction")
    data = path.read_bytes()
    seen: set[str] = set()
    for end in range(length, len(data) + 1):
        path.write_bytes(data[:end])
        seen.add(read_journal(path).agents["main"].digest)
    assert seen == {old.digest, new.digest}


@pytest.mark.spec("L8")
def test_torn_at_every_byte(tmp_path: Path) -> None:
    """Cut anywhere, a journal resumes with exactly its whole lines and goes on from there."""
    path = tmp_path / "s1.jsonl"
    prompts = small(path)
    data = path.read_bytes()
    whole = read_journal(path)
    first = data.index(b"\n")
    for end in range(len(data)):
        path.write_bytes(data[:end])
        if end < first:
            with pytest.raises(NoSuchSession):
                Journal.resume(path)
            continue
        report = verify(path)
        assert report.sound
        journal, replay = Journal.resume(path)
        with journal:
            # A line that only lacks its newline is whole.
            assert replay.lines == data[: end + 1].count(b"\n")
            assert path.read_bytes() == data[: replay.length] + b"\n" * replay.unended
            _is_past(replay, whole)
            journal.note("main", ChildRun(end))
            if "main" in replay.agents:
                journal.keep("main", prompts["main"])
        again = read_journal(path)
        assert again.last("main", ChildRun) == ChildRun(end)
        assert "main" not in replay.agents or same(again.agents["main"], prompts["main"])


def _is_past(replay: Replay, whole: Replay) -> None:
    for prompt in replay.agents.values():
        later = whole.known[prompt.digest]
        assert later.open() == prompt.open()
    assert [p.row for p in replay.requests] == [p.row for p in whole.requests][
        : len(replay.requests)
    ]


@pytest.mark.spec("L8")
def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    """Change any one byte, also into a newline: the line it stood in is named."""
    path = tmp_path / "s1.jsonl"
    small(path)
    data = path.read_bytes()
    starts = [0] + [i + 1 for i, byte in enumerate(data) if byte == 10]
    for at in range(len(data)):
        line = sum(start <= at for start in starts[:-1])
        for other in {data[at] ^ 1, 10} - {data[at]}:
            path.write_bytes(data[:at] + bytes([other]) + data[at + 1 :])
            with pytest.raises(JournalDamaged) as caught:
                read_journal(path)
            assert (caught.value.line, caught.value.offset) == (line, starts[line - 1])


@pytest.mark.spec("L8")
def test_lines_cannot_go_missing_or_change_places(tmp_path: Path) -> None:
    """A line that was taken out, doubled or swapped is found, although each line is sound."""
    path = tmp_path / "s1.jsonl"
    small(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for i in range(1, len(lines) - 1):
        without = lines[:i] + lines[i + 1 :]
        doubled = lines[: i + 1] + lines[i:]
        swapped = [*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]]
        for changed, at in ((without, i + 1), (doubled, i + 2), (swapped, i + 1)):
            path.write_bytes(b"".join(changed))
            damage = verify(path).damage
            assert damage is not None
            assert damage.line == at


@pytest.mark.spec("L8")
def test_the_digest_chain_is_verified(tmp_path: Path) -> None:
    """Bytes altered together with their checksums still do not match their digest."""
    path = tmp_path / "s1.jsonl"
    small(path)
    chain, out = 0, b""
    for line in path.read_bytes().splitlines():
        sealed, chain = reseal(line[18:].replace(b"hello", b"hullo"), chain)
        out += sealed
    path.write_bytes(out)
    with pytest.raises(JournalDamaged, match=r"s1\.jsonl:3 .*digest"):
        read_journal(path)
    assert verify(path).records == 2


@pytest.mark.spec("L8")
def test_a_damaged_journal_goes_on_in_a_branch(tmp_path: Path) -> None:
    """Branching off a damaged journal keeps everything before the damage."""
    path, copy = tmp_path / "s1.jsonl", tmp_path / "s2.jsonl"
    small(path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[6] = lines[6].replace(b"note", b"nope")
    path.write_bytes(b"".join(lines))
    with pytest.raises(JournalDamaged, match="--fork-session"):
        Journal.resume(path)
    branch(path, copy, opened("s2"))
    journal, replay = Journal.resume(copy)
    journal.close()
    assert replay.lines == 6
    assert replay.agents["main"].depth == 2


@pytest.mark.spec("L8")
def test_a_branch_keeps_the_bytes_and_not_the_bill(tmp_path: Path) -> None:
    """A branch has the same prompts under a new id; what they cost stays with the source."""
    path, copy = tmp_path / "s1.jsonl", tmp_path / "s2.jsonl"
    prompts = small(path)
    source, _ = Journal.resume(path)
    with source:
        made = branch(path, copy, opened("s2"))
    assert (made.forked_from, made.inherited) == ("s1", read_journal(path).lines - 1)
    journal, replay = Journal.resume(copy)
    with journal:
        assert journal.session == "s2"
        journal.request(row(cost=1.0))
    assert all(same(replay.agents[name], prompt) for name, prompt in prompts.items())
    again = read_journal(copy)
    assert [paid.inherited for paid in again.requests] == [True, False]
    assert again.tally.cost == 1.0
    assert read_journal(path).tally.cost == 0.25


@pytest.mark.spec("L8")
def test_a_branch_can_start_in_the_past(tmp_path: Path) -> None:
    """Only lines up to the given one are copied."""
    path, copy = tmp_path / "s1.jsonl", tmp_path / "s2.jsonl"
    small(path)
    seq = read_journal(path).entries[0].seq
    branch(path, copy, opened("s2"), upto=seq)
    replay = read_journal(copy)
    assert replay.agents["main"].depth == 1
    assert list(replay.agents) == ["main"]
    with pytest.raises(UsageError, match="s2"):
        branch(path, copy, opened("s2"))


def test_unknown_kinds_are_passed_over_and_newer_formats_refused(tmp_path: Path) -> None:
    """A sound line of another program's kind does no harm; a newer format asks for an upgrade."""
    path = tmp_path / "s1.jsonl"
    small(path)
    data = path.read_bytes()
    chain = int(data.splitlines()[-1][8:16], 16)
    path.write_bytes(data + reseal(b'"k":"telepathy","x":1}', chain)[0])
    assert read_journal(path).agents["main"].depth == 3
    path.write_bytes(seal(msgspec.structs.replace(opened(), version=99), 0)[0])
    with pytest.raises(JournalError, match="upgrade"):
        read_journal(path)
    path.write_bytes(reseal(b'"k":"note","agent":"a","name":"n","value":1}', 0)[0])
    with pytest.raises(JournalDamaged, match="open"):
        read_journal(path)
    path.write_bytes(b"{}\n")
    with pytest.raises(JournalDamaged, match=":1 "):
        read_journal(path)
    damage = verify(path).damage
    assert damage is not None
    assert (damage.line, damage.offset) == (1, 0)


def test_text_that_is_not_unicode_is_stored(tmp_path: Path) -> None:
    """Lone surrogates, as in odd file names, do not stop the journal."""
    path = tmp_path / "s1.jsonl"
    spec = HeadSpec(model="m", system=("a\udcffb",))
    prompt = Prompt(Head(dialect("anthropic"), spec)).append(user_text("x\ud800y"))
    with Journal.create(path, msgspec.structs.replace(opened(), cwd="/a\udcff")) as journal:
        journal.keep("main", prompt)
        journal.note("main", FolderEntered("/a\udcff"))
    assert read_journal(path).agents["main"].open() == prompt.open()


def test_a_journal_is_private_and_never_overwritten(tmp_path: Path) -> None:
    """The file is the user's alone; to create it again is refused; a closed one says so."""
    path = tmp_path / "deep" / "s1.jsonl"
    small(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    before = path.read_bytes()
    with pytest.raises(UsageError, match="--resume s1"):
        Journal.create(path, opened())
    assert path.read_bytes() == before
    journal, _ = Journal.resume(path)
    journal.close()
    with pytest.raises(UsageError, match="closed"):
        journal.note("main", ChildRun(1))


@pytest.mark.spec("L1")
@pytest.mark.parametrize("name", DIALECTS)
def test_unanswered_calls_are_answered_as_interrupted(name: str) -> None:
    """A conversation cut off in the midst of its calls is completed, call by call."""
    asked = start(name).append(user_text("go"), reply("", "c1", "c2", "c3"))
    assert [call.id for call in unanswered(asked)] == ["c1", "c2", "c3"]
    partly = asked.append(results("c2"), User((Text("by the way"),), "notice"))
    assert [call.id for call in unanswered(partly)] == ["c1", "c3"]
    answer = interrupted(partly)
    assert answer is not None
    assert [(r.call_id, r.parts, r.failed) for r in answer.results] == [
        ("c1", (Text(INTERRUPTED),), True),
        ("c3", (Text(INTERRUPTED),), True),
    ]
    assert "interrupted" in INTERRUPTED
    assert interrupted(partly.append(answer)) is None
    assert interrupted(start(name)) is None
    assert interrupted(start(name).append(user_text("x"), reply("done"))) is None


@pytest.mark.spec("L8")
def test_a_million_tokens_replay_in_little_memory(tmp_path: Path) -> None:
    """Reading a journal of some 5 MB allocates less than four times its size."""
    path = tmp_path / "s1.jsonl"
    prompt = start()
    with Journal.create(path, opened()) as journal:
        for i in range(1000):
            prompt = prompt.append(
                user_text(f"{i} " + "word " * 250), reply("yes " * 400, f"c{i}"), results(f"c{i}")
            )
            journal.keep("main", prompt)
            journal.request(row())
    del prompt
    size = path.stat().st_size
    tracemalloc.start()
    try:
        replay = read_journal(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert replay.agents["main"].depth == 3000
    assert peak < 4 * size
