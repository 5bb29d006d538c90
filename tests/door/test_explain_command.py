"""`prong explain`, `receipt`, `cost` and `plan-fork`, as processes over real journals and files."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from prong.cost import Charge, Prices
from prong.cost.breakeven import Scenario, estimate
from prong.entry import Usage, user_text
from prong.event import MAIN
from prong.journal import store
from prong.journal.record import Opened
from prong.journal.writer import Journal
from prong.prompt import Head, Prompt
from prong.testing import Script, Worlds, call, say
from prong.testing.scene import World
from prong.wire import HeadSpec, dialect

pytestmark = [pytest.mark.anyio, pytest.mark.door]

REPORT = "Scope: a part\nResult: done\nKey files: a.py\nFiles changed: none\nIssues: none"
SOURCES = str(Path(__file__).parents[2] / "src")


async def prong(home: Path, cwd: Path, *words: str) -> tuple[int, str, str]:
    """Run the program; give its exit code, output and errors."""
    done = await anyio.run_process(
        [sys.executable, "-m", "prong", *words],
        cwd=cwd,
        env={"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": SOURCES},
        check=False,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def told(home: Path, cwd: Path, *words: str) -> Any:
    """Run the program for its JSON."""
    code, out, error = await prong(home, cwd, *words, "--json")
    assert code == 0, error
    return json.loads(out)


async def forked(world: World) -> str:
    """Let a session fork three children of two requests each; give its id."""
    await world.session.run("Here is all that is known: " + "fact " * 12_000)
    await world.session.fork([f"Do part {n} now." for n in range(3)])
    return world.session.id


def script() -> Script:
    work = [call("Read", {"file_path": "a.py"}), say(REPORT)]
    return Script([say("Understood. " * 40)], routes={f"part {n} now": work for n in range(3)})


@pytest.mark.spec("F18")
async def test_siblings_part_at_their_directives(world: Worlds) -> None:
    """Two forks' first requests differ first inside the directive, and share all before it."""
    async with world(script(), mode="dontAsk", files={"a.py": "x = 1\n" * 50}) as w:
        session = await forked(w)
        first, second = (f"{session}:main/fork-{n}:1" for n in (1, 2))

        found = await told(w.home, w.root, "explain", first, second)
        code, shown, _ = await prong(w.home, w.root, "explain", first, second)

    assert found["relation"] == "differs"
    assert found["difference"]["section"] == "messages"
    assert "part 0" in found["difference"]["left"]
    assert "part 1" in found["difference"]["right"]
    receipt = w.session.receipts()[0]
    assert found["shared_tokens"] == pytest.approx(receipt.tokens_shared, rel=0.005)
    after = found["rewritten_tokens"]
    assert found["cost"] == pytest.approx(after * (2.5 - 0.1) / 1e6)
    assert code == 0
    assert f"first difference in messages: {found['difference']['path']}" in shown
    assert f"written instead of read: {after:,} tokens" in shown
    assert max(map(len, shown.splitlines())) <= 120


@pytest.mark.spec("F18")
async def test_a_request_that_goes_on_loses_nothing(world: Worlds) -> None:
    """A session's next request extends the one before: nothing is written instead of read."""
    async with world(script(), mode="dontAsk", files={"a.py": "x = 1\n"}) as w:
        session = await forked(w)

        for words in ([f"{session}:2"], [f"{session}:1", f"{session}:2"]):
            found = await told(w.home, w.root, "explain", *words)
            assert found["relation"] == "extends"
            assert (found["rewritten_tokens"], found["cost"]) == (0, 0)
        turned = await told(w.home, w.root, "explain", f"{session}:2", f"{session}:1")
        same = await told(w.home, w.root, "explain", f"{session}:1", f"{session}:main:1")
        last = await told(w.home, w.root, "explain")

    assert turned["relation"] == "extended"
    assert same["relation"] == "same"
    assert same["difference"] is None
    assert (last["left"][:-6], last["right"][:-6]) != ("", "")
    assert f"{session}:7 (" in last["right"]


BODY: dict[str, Any] = {
    "model": "claude-opus-5-5",
    "max_tokens": 99,
    "system": [{"type": "text", "text": "Be brief | be kind."}],
    "tools": [
        {"name": "Read", "description": "Reads a | b.", "input_schema": {"type": "object"}},
        {"name": "Grep", "description": "Finds x | y.", "input_schema": {"type": "object"}},
    ],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hello | there"}]},
        {"role": "assistant", "content": "Well | then"},
        {"role": "user", "content": [{"type": "text", "text": "Go on"}]},
    ],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Copy the body with one thing changed; a path is keys and numbers between dots."""
    body = json.loads(json.dumps(BODY))
    *way, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    place = body
    for step in way:
        place = place[step]
    place[last] = value
    return body


@pytest.mark.spec("F18")
@pytest.mark.parametrize(
    ("path", "value", "section", "where", "byte"),
    [
        ("model", "claude-opus-5", "model", "model", 14),
        ("tools.1.description", "Finds x | z.", "tools", "tools[1].description", 11),
        ("system.0.text", "Be brief | be bold.", "system", "system[0].text", 15),
        ("tool_choice", {"type": "none"}, "parameters", "tool_choice", -1),
        ("tools", BODY["tools"][:1], "tools", "tools[1]", -1),
        (
            "messages.0.content.0.text",
            "Hello | here",
            "messages",
            "messages[0].content[0].text",
            9,
        ),
        ("messages.1.content", "Well | so", "messages", "messages[1].content", 8),
        ("messages.2.role", "assistant", "messages", "messages[2].role", 1),
    ],
)
async def test_captured_bodies_are_compared(tmp_path, path, value, section, where, byte) -> None:
    """In files from anywhere the first difference is found, with its section, item and byte."""
    (tmp_path / "a.json").write_text(json.dumps(BODY, indent=2))
    (tmp_path / "b.json").write_text(json.dumps(changed(path, value)))

    found = await told(tmp_path, tmp_path, "explain", "a.json", "b.json")

    difference = found["difference"]
    assert found["relation"] == "differs"
    assert (difference["section"], difference["path"]) == (section, where)
    assert difference["byte"] == byte
    assert difference["left"] != difference["right"]
    assert found["model"] == (value if path == "model" else "claude-opus-5-5")
    assert found["rewritten_tokens"] > 0
    assert not found["counted"]


@pytest.mark.spec("F18")
async def test_marks_layout_and_wrapping_do_not_count(tmp_path) -> None:
    """A marked, pretty-printed or wrapped capture is the same request as the plain one."""
    marked = changed("messages.2.content.0.cache_control", {"type": "ephemeral"})
    texts = {
        "plain": json.dumps(BODY, separators=(",", ":")),
        "pretty": "\ufeff\n" + json.dumps(marked, indent=4) + "\n",
        "http": "POST /v1/messages HTTP/1.1\r\nhost: x\r\n\r\n" + json.dumps(BODY),
        "record": json.dumps({"url": "x", "request": {"body": json.dumps(BODY, indent=1)}}),
        "delivery": json.dumps(BODY | {"stream": True, "max_tokens": 1, "metadata": {}}),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)

    for name in texts:
        found = await told(tmp_path, tmp_path, "explain", "plain", name)
        assert found["relation"] == "same", name


@pytest.mark.spec("F18")
async def test_beta_headers_count(tmp_path) -> None:
    """Two stored requests of equal bodies differ if their beta headers do."""
    path = store.location(tmp_path, "s1", tmp_path / ".prong")
    with Journal.create(path, Opened(session="s1", created=1.0, cwd=str(tmp_path))) as journal:
        for betas in (("a-1",), ("a-1", "b-2")):
            spec = HeadSpec(model="claude-opus-5-5", betas=betas)
            prompt = Prompt(Head(dialect("anthropic"), spec)).append(user_text("Hello " * 900))
            journal.keep("main", prompt, reason="betas")
            usage = Usage(written_5m=1_000)
            journal.request(
                Charge(agent=MAIN, model=spec.model, usage=usage, cost=1.0, digest=prompt.digest)
            )

    found = await told(tmp_path, tmp_path, "explain", "s1")

    assert found["difference"]["path"] == "anthropic-beta (header)"
    assert (found["difference"]["left"], found["difference"]["right"]) == ("a-1", "a-1, b-2")
    assert found["rewritten_tokens"] == 1_000


@pytest.mark.spec("F18")
async def test_what_cannot_be_compared_is_said(tmp_path) -> None:
    """A wrong argument ends with code 2 and a remedy, never with a traceback."""
    (tmp_path / "a.json").write_text(json.dumps(BODY))
    (tmp_path / "list").write_text("[1]")
    (tmp_path / "odd").write_text('{"messages": 7, "tools": [3], "system": {"a": []}}')
    for words, remedy in (
        (("a.json", "gone.json"), "neither a file nor of the form SESSION:N"),
        (("a.json",), "name two requests"),
        (("a.json", "list"), "a JSON object is expected"),
        (("a.json", "a.json", "a.json"), "give two"),
        (("a.json", "s:0"), "with N from 1 on"),
        (("a.json", "s:1"), "no session"),
    ):
        code, out, error = await prong(tmp_path, tmp_path, "explain", *words)
        assert (code, out) == (2 if "no session" not in remedy else 1, ""), words
        assert remedy in error
        assert "Traceback" not in error
    code, _, error = await prong(tmp_path, tmp_path, "explain", "a.json", "odd")
    assert code in (0, 2)
    assert "Traceback" not in error


@pytest.mark.spec("K3", "F16")
async def test_costs_are_told_by_agent_fan_and_session(world: Worlds) -> None:
    """Paid is what was billed, and the least possible what a perfect cache would have billed."""
    async with world(script(), mode="dontAsk", files={"a.py": "x = 1\n" * 50}) as w:
        await forked(w)
        server = w.server
        lines = await told(w.home, w.root, "cost")
        code, shown, _ = await prong(w.home, w.root, "cost")

    by = {line["agent"]: line for line in lines}
    assert list(by) == [
        "main", "main/fork-1", "main/fork-2", "main/fork-3", "3 forks of main", "session",
    ]  # fmt: skip
    session, fan = by["session"], by["3 forks of main"]
    rates, dollars = 0.05, 2 / 1e6
    output = session["usage"]["output"] * 10 / 1e6
    paid = sum(
        r.usage.uncached + rates * r.usage.read + 1.25 * r.usage.written for r in server.records
    )
    assert session["cost"] == pytest.approx(paid * dollars + output)
    assert session["uncached"] == pytest.approx(server.uncached() * dollars + output)
    assert session["least"] <= session["cost"] * 1.005
    assert session["least"] > 0.9 * session["cost"]
    assert fan["cost"] == pytest.approx(sum(by[f"main/fork-{n}"]["cost"] for n in (1, 2, 3)))
    assert fan["unshared"] > 3 * fan["cost"]
    assert session["unshared"] - session["cost"] == pytest.approx(fan["unshared"] - fan["cost"])
    assert code == 0
    assert f"session: ${session['cost']:.4f}" in shown
    assert f"least possible ${session['least']:.4f}" in shown
    assert session["estimated"] is None
    assert f"estimated ${fan['estimated']:.4f}, measured ${fan['cost']:.4f} (" in shown


@pytest.mark.spec("F16")
async def test_receipts_outlive_the_session(world: Worlds) -> None:
    """What the library gave as receipts is what the command reads from the journal later."""
    async with world(script(), mode="dontAsk", files={"a.py": "x = 1\n" * 50}) as w:
        session = await forked(w)
        given = w.session.receipts()
    home, root = w.home, w.root

    found = await told(home, root, "receipt", session)
    one = await told(home, root, "receipt", session, "fork-2")
    same = await told(home, root, "receipt", "main/fork-2")
    _, shown, _ = await prong(home, root, "receipt")
    _, whole, _ = await prong(home, root, "receipt", "fork-1")
    code, _, error = await prong(home, root, "receipt", session, "fork-9")

    (fan,) = found["fans"]
    assert [r["saved"] for r in fan["receipts"]] == pytest.approx([r.saved for r in given])
    assert fan["saved"] == pytest.approx(sum(r.saved or 0 for r in given))
    assert fan["least"] <= fan["paid"] < fan["unshared"] < fan["uncached"]
    assert one == same == fan["receipts"][1]
    assert fan["plan"] == fan["estimate"]["plan"]
    assert fan["plan"]["reason"] == given[0].reason
    assert fan["estimated"] == fan["estimate"]["fork"]["children_cost"] > 0
    assert f"estimated ${fan['estimated']:.4f}, measured ${fan['paid']:.4f} (" in shown
    assert "expected 9 requests, made" in shown
    assert re.search(r"fork-3 completed: [\d,]+ of [\d,]+ tokens cached", shown)
    assert "delivered as returned" in whole
    assert max(map(len, (shown + whole).splitlines())) <= 80
    assert code == 2
    assert "fork-1, fork-2, fork-3" in error


@pytest.mark.spec("F19")
async def test_a_forecast_is_printed(tmp_path) -> None:
    """The table has all three ways, the cheapest first, at the model's price."""
    words = ["plan-fork", "--model", "claude-opus-5-5", "--history", "100000", "--children", "8"]

    found = await told(tmp_path, tmp_path, *words)
    cold = await told(tmp_path, tmp_path, *words, "--cold")
    _, shown, _ = await prong(tmp_path, tmp_path, *words)
    unknown, _, error = await prong(tmp_path, tmp_path, "plan-fork")
    bad, _, _ = await prong(tmp_path, tmp_path, *words, "--wakes", "9")

    expected = estimate(
        Scenario(history=100_000, children=8, turns=3), price=Prices().of("claude-opus-5-5")
    )
    assert found["best"] == expected.best
    assert found["fork"]["cost"] == pytest.approx(expected.fork.cost)
    assert cold["plan"]["schedule"] == "leader"
    assert cold["fork"]["cost"] > found["fork"]["cost"]
    ways = [
        line.split()[0] for line in shown.splitlines() if line[:5] in ("fork ", "fresh", "alone")
    ]
    assert ways[:3] == [option.way for option in expected.options]
    assert f"${expected.fork.cost:.4f}" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert (unknown, bad) == (2, 2)
    assert "--history" in error


@pytest.mark.spec("F19")
async def test_a_forecast_at_rates_of_ones_own(tmp_path) -> None:
    """Rates that are given go before the model's, in equivalents and in dollars."""
    words = ["plan-fork", "--model", "claude-opus-5-5", "--history", "100000"]

    found = await told(tmp_path, tmp_path, *words, "--rates", "0.02,1,4")
    _, shown, _ = await prong(tmp_path, tmp_path, *words, "--rates", "0.02,1")

    assert (found["rates"], found["output_rate"]) == ({"read": 0.02, "write": 1.0}, 4.0)
    for way in ("fork", "fresh", "alone"):
        assert found[way]["cost"] == pytest.approx(found[way]["equivalents"] * 4 / 1_000_000)
    assert "rates of your own\nread 0.02, write 1, output 5 times an input token" in shown
    for wrong in ("0.1", "1,2,3,4", "a,b", "-1,1", "nan,1"):
        code, _, error = await prong(tmp_path, tmp_path, *words, f"--rates={wrong}")
        assert (code, "such as 0.1,1.25,5" in error) == (2, True)


@pytest.mark.spec("F19")
async def test_a_forecast_starts_from_a_session(world: Worlds) -> None:
    """Model and history are those of the session's last request."""
    async with world([say("Yes.")]) as w:
        await w.session.run("Here it is: " + "fact " * 9_000)
        history = w.server.records[-1].usage.input

        found = await told(w.home, w.root, "plan-fork", "--session", w.session.id)

    assert found["scenario"]["history"] == history
    assert found["model"] == "claude-sonnet-5-5"
    assert found["rates"]["read"] == pytest.approx(0.05)
    assert 0 < found["scenario"]["setup"] < history
    assert found["plan"]["schedule"] == "at_once"
