"""Fork, fresh agents or alone: weighed before a fan-out, and held against what was paid."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from prong.agent import Sent
from prong.entry import Usage
from prong.errors import ConfigError
from prong.event import TaskStarted, ToolFinished, ToolStarted, Warned
from prong.face.plain import Talk
from prong.face.terminal import Terminal
from prong.journal import store
from prong.journal.book import Books
from prong.journal.note import FanPlanned
from prong.journal.replay import Replay, read_journal
from prong.team.fanout import tokens
from prong.testing import Script, World, Worlds, call, forks, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("F19")]

LONG = "fact " * 24_000
LONGER = "fact " * 90_000
READ = call("Read", {"file_path": "a.py"})
FILES = {"a.py": "x = 1  # a line of some length\n" * 90}
PARTS = ["Part 1.", "Part 2.", "Part 3."]


def given(**fork: Any) -> Any:
    fork = {"wake": "each"} | fork
    settings = msgspec.json.encode({"fork": fork}).decode()
    return {"settings": settings, "mode": "bypassPermissions", "files": FILES}


def script() -> Script:
    return Script(
        [forks(*PARTS), say("waiting")],
        {part: [READ, READ, report()] for part in PARTS},
        forever=say("done"),
    )


def replayed(w: World) -> Replay:
    return read_journal(store.location(w.root, w.session.id, w.store))


def refusals(w: World) -> list[str]:
    return [e.text for e in w.told(ToolFinished) if e.name == "Agent" and e.failed]


@pytest.mark.parametrize(
    ("turns", "way", "instead"),
    [
        (1, "going on alone would cost", "do the parts yourself"),
        (40, "fresh agents with a brief would cost", "start agents of a type"),
    ],
)
async def test_choose_refuses_what_another_way_undercuts(
    world: Worlds, turns: int, way: str, instead: str
) -> None:
    """No fork starts; the model is told the figures and what to do, and nothing is converted."""
    async with world(script(), **given(breakEven="choose", turns=turns)) as w:
        await w.session.run(LONGER)

        told = refusals(w)
        assert len(told) == len(PARTS)
        assert all(way in text and instead in text and "$" in text for text in told)
        assert not w.told(TaskStarted)
        assert not w.parts.supervisor.children


async def test_warn_names_the_cheaper_way_once(world: Worlds) -> None:
    """The user is told once per fan-out, and the forks run."""
    async with world(script(), **given(breakEven="warn", turns=1)) as w:
        await w.session.run(LONG)

        (warned,) = [e.text for e in w.told(Warned) if "would cost" in e.text]
        assert warned.startswith("going on alone would cost about ")
        assert "3 forks of 1 turn each" in warned
        assert len(w.told(TaskStarted)) == len(PARTS)


@pytest.mark.parametrize("fork", [{"turns": 1}, {"breakEven": "choose", "wake": "all"}])
async def test_nothing_is_said_without_need(world: Worlds, fork: dict[str, Any]) -> None:
    """Nothing is weighed aloud by default, nor where no other way is clearly cheaper."""
    async with world(script(), **given(**fork)) as w:
        await w.session.run(LONG)

        assert not refusals(w)
        assert not [e for e in w.told(Warned) if "would cost" in e.text]
        assert len(w.told(TaskStarted)) == len(PARTS)


async def test_forks_by_hand_are_never_refused(world: Worlds) -> None:
    """What the user asks for is done, with a warning."""
    played = Script([say("Hello.")], {part: [report()] for part in PARTS}, forever=say("ok"))
    async with world(played, **given(breakEven="choose", turns=40)) as w:
        await w.session.run(LONGER)
        results = await w.session.fork(PARTS)

        assert {result.status for result in results} == {"completed"}
        assert len([e for e in w.told(Warned) if "fresh agents with a brief" in e.text]) == 1


@pytest.mark.parametrize("wrong", [{"breakEven": "maybe"}, {"turns": 0}])
async def test_a_setting_that_makes_no_sense_is_refused(world: Worlds, wrong: Any) -> None:
    """The session does not open, and the sentence names the setting."""
    with pytest.raises(ConfigError, match=f"'fork.{next(iter(wrong))}' must be"):
        async with world(script(), **given(**wrong)):
            pass


@pytest.mark.spec("F16", "K3")
async def test_the_estimate_is_stored_and_compared(world: Worlds) -> None:
    """The journal keeps what each fan-out was estimated to cost, close to what it did cost."""
    async with world(script(), **given()) as w:
        await w.session.run(LONG)
        await w.session.fork([f"Again: {part}" for part in PARTS[:2]])
        replay, prices = replayed(w), w.parts.agent.client.billing.prices
        receipts = w.session.receipts()

    noted = [replay.last("main", FanPlanned, receipts[index].fan) for index in (0, 3)]
    first, second = (note.value for note in noted if note is not None)
    assert (first.size, second.size) == (3, 2)
    assert first.base == receipts[0].base
    assert first.estimate.plan.reason == receipts[0].reason
    assert first.estimate.scenario.turns == 3
    fans = [told for told in Books(replay, prices).lines() if told.kind == "fan"]
    assert [told.agent for told in fans] == ["3 forks of main", "2 forks of main"]
    told = first.estimate
    assert fans[0].estimated == told.fork.children_cost
    # The scripted model says less than any real one, so only the input can agree.
    used, s = fans[0].usage, told.scenario
    said = s.children * ((s.turns - 1) * s.reply + s.report)
    measured = told.rates.read * used.read + told.rates.write * used.written + used.uncached
    assert told.fork.children - said * told.output_rate == pytest.approx(measured, rel=0.03)


@pytest.mark.spec("F15")
async def test_turns_count_the_first_request(world: Worlds) -> None:
    """With one expected turn the plan counts no later request: each child reads the base once."""
    async with world(script(), **given(turns=1)) as w:
        await w.session.run(LONG)
        fan = w.parts.supervisor.children[0].account.fan

    assert fan is not None
    plan, rates = fan.plan, fan.estimate.rates
    one = rates.read * plan.cached + rates.write * (plan.fresh if plan.dispatch == "keep" else 0)
    dropped = rates.write * (fan.estimate.scenario.dispatch + fan.estimate.scenario.placeholders)
    expected = len(PARTS) * one + (dropped if plan.dispatch == "drop" else 0)
    assert plan.estimates[f"{plan.dispatch}/at_once"] == pytest.approx(expected)


@pytest.mark.spec("K3")
async def test_cost_at_the_prompt(world: Worlds, capsys: pytest.CaptureFixture[str]) -> None:
    """/cost says by agent, by fan-out and in all what `prong cost` says, running forks included."""
    async with world(script(), **given()) as w:
        await w.session.run(LONG)
        w.server.push(call("Bash", {"command": "sleep 60"}))
        await w.session.start_forks(["Wait."])
        with anyio.fail_after(50):
            while "sleep 60" not in [e.title for e in w.told(ToolStarted)][-1]:
                await anyio.sleep(0.01)
        capsys.readouterr()
        talk = Talk(w.session, Terminal(), w.session.events(since=None))
        await talk._carrier.obey("/cost")
        shown, cost = capsys.readouterr().out, w.session.cost

    assert "\n3 forks of main: $" in shown
    assert "\n1 fork of main: $" in shown
    assert f"\nsession: ${cost:.4f}\n" in shown
    assert shown.count("without sharing $") == shown.count("least possible $") == 8
    assert shown.count("estimated $") == 2


async def test_bytes_that_no_model_reads_do_not_count(world: Worlds) -> None:
    """Tokens are guessed by what was counted, unless the provider cannot have read all bytes."""
    async with world(Script([say("Yes.")])) as w:
        await w.session.run("Hi")
        last = w.parts.agent.conversation.last
        seen = last.length / last.usage.input
        shortened = Sent(usage=Usage(uncached=last.length // 20), length=last.length)

        assert tokens(last, 1_000) == round(1_000 / seen)
        assert tokens(shortened, 1_000) == 250
