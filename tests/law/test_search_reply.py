"""What a provider's reply says of its search."""

from __future__ import annotations

import pytest

from prong.cost import Prices
from prong.entry import Reply, Usage
from prong.errors import BrokenReply
from prong.session.provider_search import read_answer
from prong.tools.web_search import SearchHit
from prong.wire import dialect
from prong.wire.dialect import Ended

pytestmark = pytest.mark.spec("L2")

RESULT = (
    b'{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result",'
    b'"url":"https://a.example/","title":"A","encrypted_content":"x","page_age":null}]}'
)
MESSAGE = (
    b'{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Found.",'
    b'"annotations":[{"type":"url_citation","url":"https://b.example/","title":"B"}]}]}'
)
FAILED = (
    b'{"type":"web_search_tool_result","tool_use_id":"s1","content":'
    b'{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}'
)


def test_results_of_both_vendors_are_read() -> None:
    """Titles and addresses are taken from the vendors' own blocks, each once."""
    one = read_answer(Reply((RESULT, RESULT), "anthropic", text=" Said. "))
    two = read_answer(Reply((MESSAGE,), "responses", text="Found."))

    assert one.hits == (SearchHit("A", "https://a.example/"),)
    assert one.said == "Said."
    assert two.hits == (SearchHit("B", "https://b.example/"),)


def test_a_search_that_failed_is_a_failure() -> None:
    """The vendor's code for it is said."""
    with pytest.raises(BrokenReply, match="max_uses_exceeded"):
        read_answer(Reply((FAILED,), "anthropic"))


def test_searches_are_counted_and_paid_for() -> None:
    """A search costs a cent at both vendors, beside its tokens."""
    whole = (
        b'{"id":"m","type":"message","role":"assistant","model":"claude-sonnet-5-5","content":[],'
        b'"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5,'
        b'"server_tool_use":{"web_search_requests":2}}}'
    )
    ended = [e for e in dialect("anthropic").decoder().whole(whole) if isinstance(e, Ended)]
    assert [e.usage.searches for e in ended] == [2]
    call = b'{"type":"web_search_call","id":"w","status":"completed","action":{"type":"search"}}'
    body = b'{"id":"r","model":"gpt","status":"completed","output":[%s,%s],"usage":{}}'
    events = dialect("responses").decoder().whole(body % (call, MESSAGE))
    ended = [e for e in events if isinstance(e, Ended)]
    assert [e.usage.searches for e in ended] == [1]

    prices = Prices()
    plain, searched = (
        prices.cost("claude-sonnet-5-5", Usage(uncached=10, searches=n)) for n in (0, 2)
    )
    assert plain is not None
    assert searched == pytest.approx(plain + 0.02)
    assert (Usage(searches=1) + Usage(searches=2)).searches == 3
