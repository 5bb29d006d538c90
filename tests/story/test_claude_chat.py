"""Claude behind a gateway of the chat API: marks that it understands, and a cache that is read."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from prong.entry import Usage
from prong.event import CacheMissed, ReceiptIssued
from prong.provider import pick
from prong.testing import Script, Worlds, call, fail, forks, report, say
from prong.wire import Ended, dialect

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L9")]
MODEL = "anthropic/claude-sonnet-5.5"
LONG = "A line that says something about the project.\n" * 400


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (MODEL, "claude-chat"),
        ("claude-opus-5-5", "claude-chat"),
        ("bedrock/us.anthropic.claude-opus-4-5-v1:0", "claude-chat"),
        ("claudette", "chat"),
        ("my-claude", "chat"),
        ("openai/gpt-6", "chat"),
    ],
)
def test_the_models_name_decides(model: str, expected: str):
    """Where the model is Claude its marks are sent, unless the setting cacheMarks says no."""
    url = "https://gate.test/api/v1"
    found = pick(model, base_url=url, api="chat", env={})[0]
    plain = pick(model, base_url=url, api="chat", explicit=False, env={})[0]

    assert found.dialect == expected
    assert found.explicit is (expected == "claude-chat")
    assert plain.dialect == "chat"


def marked(body: Any) -> list[tuple[str, Any]]:
    """Give the roles of the messages that carry marks, and the marks."""
    return [
        (message["role"], part["cache_control"])
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if "cache_control" in part
    ]


async def test_a_conversation_is_read_from_the_cache(world: Worlds):
    """Every request after the first reads all that the one before has sent."""
    steps = [call("Read", {"file_path": "a.txt"}), say("one"), say("two")]
    async with world(steps, files={"a.txt": LONG}, api="chat", model=MODEL) as w:
        await w.session.run("Go")
        await w.session.run("And?")
        usages = [record.usage for record in w.server.records]

        for before, after in itertools.pairwise(usages):
            assert after.read == before.read + before.written
        assert marked(w.bodies()[0]) == [
            ("system", {"type": "ephemeral"}),
            ("user", {"type": "ephemeral"}),
        ]
        assert all(len(marked(body)) <= 4 for body in w.bodies())
        assert not any("prompt_cache" in record.body.decode() for record in w.server.records)
        assert not w.told(CacheMissed)


async def test_a_gateway_that_refuses_marks_is_told_of_with_the_remedy(world: Worlds):
    """The setting that leaves them out is named by the error about them, and by no other."""
    refused = "messages.0.content.0.cache_control: Extra inputs are not permitted"
    steps = [fail(422, "invalid", refused), fail(422, "invalid", "top_k: no"), say("fine")]
    async with world(steps, api="chat", model=MODEL, opens=False) as w:
        async with w.open() as session:
            about_marks = await session.run("Go")
            about_else = await session.run("Go")
        async with w.open(settings='{"cacheMarks": false}') as session:
            without = await session.run("Go")

        assert '"cacheMarks": false' in about_marks.detail
        assert "cacheMarks" not in about_else.detail
        assert without.text == "fine"
        assert marked(w.bodies()[-1]) == []


async def test_the_time_to_live_is_anthropics(world: Worlds):
    """The setting cacheTtl is sent with each mark, and what was written is counted as such."""
    async with world([say("one")], api="chat", model=MODEL, cache_ttl="1h") as w:
        await w.session.run(LONG)
        assert {mark["ttl"] for _, mark in marked(w.bodies()[0])} == {"1h"}


@pytest.mark.spec("F4", "F6", "F16")
@pytest.mark.parametrize("count", [3, 24])
async def test_forks_share_what_their_parent_has_sent(world: Worlds, count: int):
    """Siblings read the base from the cache, each to the last token that they share."""
    names = [f"DIRECTIVE-{n}." for n in range(count)]
    script = Script(
        [
            call("Read", {"file_path": "a.txt"}),
            forks(*names),
            say("waiting"),
            say("all done"),
        ],
        routes={name: [report(f"part {n}")] for n, name in enumerate(names)},
    )
    files = {"a.txt": LONG}
    async with world(script, files=files, api="chat", model=MODEL, mode="bypassPermissions") as w:
        turn = await w.session.run("Go")
        children = w.parts.supervisor.children
        receipts = [one.receipt for one in w.told(ReceiptIssued)]

        assert turn.text == "all done"
        assert len(children) == count
        assert receipts
        assert not w.told(CacheMissed)
        first = {
            name: records[0].usage for name, records in w.server.lineages().items() if "/" in name
        }
        assert len(first) == count
        assert min(usage.read for usage in first.values()) > 5_000
        # One writes the base's end, the others read it.
        assert sorted(usage.written > 200 for usage in first.values())[: count - 1] == [False] * (
            count - 1
        )


def chunk(usage: dict[str, Any]) -> bytes:
    body = {
        "id": "c1",
        "model": MODEL,
        "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": usage,
    }
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
            },
            Usage(uncached=10, read=60, written_5m=30, output=5),
        ),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 5,
                "prompt_tokens_details": {
                    "cached_tokens": 60,
                    "cache_creation_tokens": 30,
                    "cache_creation_token_details": {"ephemeral_1h_input_tokens": 20},
                },
            },
            Usage(uncached=10, read=60, written_5m=10, written_1h=20, output=5),
        ),
        (
            {"prompt_tokens": 100, "completion_tokens": 5},
            Usage(uncached=100, output=5, silent=True),
        ),
    ],
)
def test_what_gateways_count(usage: dict[str, Any], counted: Usage):
    """OpenRouter's and LiteLLM's words for what was written are both understood."""
    (*_, ended) = dialect("claude-chat").decoder().whole(chunk(usage))

    assert isinstance(ended, Ended)
    assert ended.usage == counted
