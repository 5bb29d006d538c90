"""What the loopback server says about lineages, and how it keeps its books."""

from __future__ import annotations

from typing import Any

import pytest

from prong.entry import Usage
from prong.testing.cache import Cache
from prong.testing.ledger import Ledger, Rates
from prong.testing.model import Model
from prong.testing.request import Refused, Request
from prong.testing.script import Player, Script, say
from prong.testing.witness import Witness
from shared.ask import HELLO, RESULT, ask


def witness(*requests: Request, several: bool = False) -> Witness:
    made = Witness(several=several)
    for number, request in enumerate(requests):
        made.accept(made.see(number + 1, request))
    return made


def tail(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def test_a_lineage_that_grows_is_lawful() -> None:
    """Marks may move, max_tokens may change, and same-role messages may be merged."""
    marked = {
        "role": "user",
        "content": [HELLO["content"][0] | {"cache_control": {"type": "ephemeral"}}],
    }
    found = witness(
        ask(marked),
        ask(HELLO, tail("a"), marked, max_tokens=99),
        ask(HELLO, tail("a"), HELLO, RESULT),
    )

    assert found.breaches() == []
    assert [seen.parent for seen in found.seen] == [None, 1, 2]


@pytest.mark.parametrize(
    ("requests", "breach"),
    [
        (
            (ask(HELLO, tail("abc")), ask(HELLO, tail("abX"), HELLO)),
            "messages.1.content.0, byte 28",
        ),
        (
            (ask(HELLO, tail("abc")), ask(HELLO, tail("abcd"), HELLO)),
            "messages.1.content.0, byte 29",
        ),
        ((ask(HELLO, tail("abc")), ask(HELLO)), "messages.1.content.0 is missing"),
        ((ask(HELLO), ask(tail("hello"))), "messages.0.content.0 was user text"),
        ((ask(HELLO), ask(HELLO, tail("a"), thinking={"type": "adaptive"})), "params, thinking"),
        (
            (
                ask(HELLO, headers={"x-prong-lineage": "root"}, system="one"),
                ask(HELLO, headers={"x-prong-lineage": "root"}, system="two"),
            ),
            "system, byte 1",
        ),
        (
            (
                ask(HELLO, headers={"x-prong-lineage": "root"}),
                ask(HELLO, headers={"x-prong-lineage": "root"}, model="n"),
            ),
            "model: 'm' became 'n'",
        ),
    ],
)
def test_a_broken_lineage_is_told_to_the_byte(requests: tuple[Request, ...], breach: str) -> None:
    """The first difference is named by request, place and byte."""
    found = witness(*requests).breaches()

    assert len(found) == 1
    assert "request 2 does not extend request 1" in found[0]
    assert breach in found[0]


def test_several_sessions_are_told_apart() -> None:
    """Main agents of two sessions each extend their own last request; who extends none is found."""
    named = {"x-prong-lineage": "main"}
    one, other = ask(HELLO, headers=named, system="one"), ask(HELLO, headers=named, system="two")
    grown = ask(HELLO, tail("a"), headers=named, system="one")
    more = ask(HELLO, tail("b"), headers=named, system="two")

    found = witness(one, other, grown, more, several=True)
    assert found.breaches() == []
    assert found.lineages() == {"main": [1, 3], "main 2": [2, 4]}
    moved = ask(HELLO, tail("X"), headers=named, system="one")
    assert len(witness(grown, moved, several=True).breaches()) == 1


def test_a_sidecar_must_extend_but_is_not_extended() -> None:
    """A request beside the conversation does not become the end of its lineage."""
    beside = {"x-prong-sidecar": "compact"}

    lawful = witness(
        ask(HELLO), ask(HELLO, tail("sum up"), headers=beside), ask(HELLO, tail("go on"))
    )
    broken = witness(ask(HELLO), ask(tail("sum up"), headers=beside))

    assert lawful.breaches() == []
    assert len(broken.breaches()) == 1


def test_a_sidecar_may_be_overtaken_once() -> None:
    """It may be sent when the conversation has gone on already, but not long after."""
    aside = ask(HELLO, tail("sum up"), headers={"x-prong-sidecar": "title"})
    grown = ask(HELLO, tail("go on"))

    assert witness(ask(HELLO), grown, aside).breaches() == []
    late = witness(ask(HELLO), grown, ask(HELLO, tail("go on"), HELLO), aside)
    assert len(late.breaches()) == 1
    assert len(witness(ask(HELLO), grown, ask(HELLO, tail("sum up"))).breaches()) == 1


def test_named_lineages_are_apart() -> None:
    """A fork has its own name, and the request it grew from is known."""
    root, fork = {"x-prong-lineage": "root"}, {"x-prong-lineage": "root/1"}
    found = witness(
        ask(HELLO, headers=root),
        ask(HELLO, tail("parent"), headers=root),
        ask(HELLO, tail("child"), headers=fork),
    )

    assert found.breaches() == []
    assert found.lineages() == {"root": [1, 2], "root/1": [3]}
    assert found.seen[2].parent == 1


def test_a_refused_request_need_not_be_extended() -> None:
    """Only an answered request is the end of its lineage."""
    found = Witness()
    found.accept(found.see(1, ask(HELLO)))
    found.see(2, ask(HELLO, tail("too long")))
    found.accept(found.see(3, ask(HELLO, tail("shorter"))))

    assert found.breaches() == []


def test_the_ledger_adds_up() -> None:
    """Paid, uncached and least follow their formulas on a parent with two children."""
    books = Ledger(Rates())
    cache, model = Cache(), Model(minimum=0)
    shared = {"type": "text", "text": "s" * 500, "cache_control": {"type": "ephemeral"}}

    requests = [
        ask({"role": "user", "content": [shared, {"type": "text", "text": directive}]})
        for directive in ("one", "two")
    ]
    for number, request in enumerate(requests):
        plan = cache.look(request, model, 0)
        cache.begin(plan)
        books.book(number, "x", "m", plan, 5)
    size, own = (block.tokens for block in requests[0].blocks)

    assert books.uncached() == 2 * (size + own)
    assert books.paid() == pytest.approx(size * 1.25 + size * 0.1 + 2 * own)
    assert books.least_possible() == pytest.approx(books.paid())
    assert Rates().cost(
        Usage(read=10, written_1h=10, written_12h=10, written_30m=8)
    ) == pytest.approx(51)


def test_routes_have_their_own_queues() -> None:
    """The last text chooses the route, a request that extends it inherits it, the rest is in order."""
    player = Player(Script([say("main")], {"Directive A": [say("a1"), say("a2")]}))
    directive = ask({"role": "user", "content": "Do Directive A now"})

    assert player.route(ask(HELLO), None) is None
    assert player.route(directive, None) == "Directive A"
    assert player.route(ask(HELLO), "Directive A") == "Directive A"
    assert player.step(directive, "Directive A") == say("a1")
    assert player.step(ask(HELLO), None) == say("main")
    assert player.left == 1
    with pytest.raises(Refused, match="script exhausted: the script has no step for: hello"):
        player.step(ask(HELLO), None)
