"""Append an entry to a 450 kB conversation and make the request body."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import conversation
from measure import Row, at_least, ms, race

from prong.entry import user_text
from prong.prompt import Mark
from prong.wire import Tail

SIZE = 450_000


class _Builder(anthropic.Anthropic):
    """The SDK's client, stopped where its request is ready to be sent."""

    def _request(self, cast_to: Any, options: Any, **_: Any) -> Any:
        del cast_to
        return self._build_request(self._prepare_options(options))


def rows() -> Iterator[Row]:
    base = conversation.prompt(SIZE)
    entry, tail = user_text("And now the other one."), Tail(max_tokens=8192)
    client = _Builder(api_key="none", base_url="http://127.0.0.1:9")
    plain = conversation.request(base)
    plain["max_tokens"] = 8192
    # The last entry is a tool's result, so what the user says joins the same turn.
    *history, before = plain.pop("messages")
    said = {"type": "text", "text": "And now the other one."}
    last: Any = {"role": "user", "content": [*before["content"], said]}

    def ours() -> bytes:
        longer = base.append(entry)
        return longer.body((Mark(None), Mark(base.tip), Mark(longer.tip)), tail)

    def dumps() -> bytes:
        return json.dumps({**plain, "messages": [*history, last]}).encode()

    def sdk() -> Any:
        return client.messages.create(**plain, messages=[*history, last])

    unmarked = json.loads(base.append(entry).body((), tail))
    assert unmarked == json.loads(dumps())
    assert json.loads(sdk().content) == unmarked
    own, standard, theirs = race((ours, dumps, sdk), rounds=60)
    size = f"{len(ours()) // 1000} kB, {base.depth} entries"
    yield at_least(
        "append + body, against json.dumps",
        standard / own,
        5,
        f"{ms(own)} to {ms(standard)}; {size}",
    )
    yield at_least(
        f"append + body, against anthropic {anthropic.__version__}",
        theirs / own,
        10,
        f"{ms(own)} to {ms(theirs)}",
    )
