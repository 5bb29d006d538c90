"""Spans and metrics of OpenTelemetry, sent to a real collector on loopback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prong.event import Warned
from prong.session import telemetry_reader
from prong.telemetry import pipeline
from prong.testing import Script, Worlds, call, forks, report, say
from shared.collector import Collector, attributes, collector

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X6")]

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SECRET = "a word that nobody else should read"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a session wait for a collector that is there, however slow the machine is."""
    monkeypatch.setattr(telemetry_reader, "_LOADED", 40.0)
    monkeypatch.setattr(telemetry_reader, "_LAST", 40.0)
    monkeypatch.setattr(pipeline, "_PATIENCE", 40.0)


def settings(url: str, **more: Any) -> str:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "TRACEPARENT": PARENT}
    return json.dumps({"env": env, "telemetry": {"enabled": True, **more}})


def script() -> Script:
    steps = {f"Part {n}.": [call("Bash", {"command": "true"}), report("ok")] for n in (1, 2)}
    return Script([forks("Part 1.", "Part 2."), say("x")], steps, forever=say("Done."))


async def play(world: Worlds, url: str, **more: Any) -> list[str]:
    """Play two forks; gives what was warned of."""
    async with world(script(), mode="bypassPermissions", settings=settings(url, **more)) as w:
        await w.session.run(SECRET)
        await w.session.wait_settled()
        return [event.text for event in w.told(Warned)]


def by_id(kept: Collector) -> dict[bytes, Any]:
    return {span.span_id: span for span in kept.spans}


@pytest.mark.usefixtures("patient")
async def test_spans_of_a_fan_out(world: Worlds) -> None:
    """Turns, requests, calls and the fan-out are spans of one trace, each in what it is part of."""
    with collector() as kept:
        assert not await play(world, kept.url)
    spans = by_id(kept)
    assert len(kept.named("invoke_agent fork")) == 2
    (fan,) = kept.named("invoke_workflow")
    for span in kept.named("invoke_agent fork"):
        assert span.parent_span_id == fan.span_id
    assert spans[fan.parent_span_id].name == "invoke_agent main"
    for span in (*kept.named("chat "), *kept.named("execute_tool")):
        assert spans[span.parent_span_id].name.startswith("invoke_agent")
    # All of them are part of what started the process.
    roots = [span for span in kept.spans if span.parent_span_id not in spans]
    assert {span.parent_span_id.hex() for span in roots} == {"b7ad6b7169203331"}
    assert {span.trace_id.hex() for span in kept.spans} == {"0af7651916cd43dd8448eb211c80319c"}
    told = kept.named("invoke_agent main")[-1]
    assert {spans[link.span_id].name for link in told.links} == {"invoke_agent fork"}
    assert len([e for e in fan.events if e.name == "prong.receipt"]) == 2
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in kept.spans)


@pytest.mark.usefixtures("patient")
async def test_figures_by_the_names_of_the_conventions(world: Worlds) -> None:
    """Input counts what was read and written, both are told; agents are named by their path."""
    with collector() as kept:
        await play(world, kept.url)
    requests = [attributes(span) for span in kept.named("chat ")]
    forked = [one for one in requests if one["gen_ai.agent.id"] == "main/fork-1"]
    assert forked
    for one in requests:
        read, written = (
            one[f"gen_ai.usage.cache_{word}.input_tokens"] for word in ("read", "write")
        )
        assert one["gen_ai.usage.input_tokens"] >= read + written
        assert one["gen_ai.provider.name"] == "anthropic"
        assert one["gen_ai.operation.name"] == "chat"
        assert one["server.address"] == "127.0.0.1"
        assert one["gen_ai.response.time_to_first_chunk"] >= 0
        assert one["gen_ai.response.finish_reasons"]
        assert "gen_ai.usage.cache_creation.input_tokens" not in one
    assert all(one["gen_ai.usage.cache_read.input_tokens"] > 3_000 for one in forked)
    (tool, *_) = kept.named("execute_tool Bash")
    assert attributes(tool)["gen_ai.tool.call.id"]
    names = {one.name for one in kept.metrics}
    assert {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} <= names
    assert {"gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration"} <= names


@pytest.mark.usefixtures("patient")
async def test_texts_are_left_out_unless_asked_for(world: Worlds) -> None:
    """By default nothing that was said, asked or answered leaves; by a setting it does."""
    with collector() as kept:
        await play(world, kept.url)
        assert kept.named("chat ")
        assert SECRET.encode() not in kept.raw
        assert b"Part 1." not in kept.raw
        assert b"Done." not in kept.raw


@pytest.mark.usefixtures("patient")
async def test_texts_are_there_when_asked_for(world: Worlds) -> None:
    """With the setting, messages, arguments and results are there, and the older name, too."""
    with collector() as kept:
        await play(world, kept.url, content=True, oldCacheName=True)
    requests = [attributes(span) for span in kept.named("chat ")]
    assert SECRET in requests[0]["gen_ai.input.messages"]
    assert any("Done." in one["gen_ai.output.messages"] for one in requests)
    tool = attributes(kept.named("execute_tool Bash")[0])
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"command": "true"}
    assert all("gen_ai.usage.cache_creation.input_tokens" in one for one in requests)


@pytest.mark.parametrize("status", [0, 500])
async def test_a_collector_that_fails_costs_nothing_but_a_line(world: Worlds, status: int) -> None:
    """Nobody there, or an error: the session ends as ever, and says it once at the most."""
    with collector(status or 200) as kept:
        url = kept.url if status else "http://127.0.0.1:9"
        warned = await play(world, url)
    assert len(warned) <= 1


@pytest.mark.timeout(240)
async def test_a_stored_session_is_replayed(world: Worlds, program: Any) -> None:
    """`prong trace --otlp URL` sends what a session has recorded; nobody there is an error."""
    async with world(script(), opens=False, mode="bypassPermissions") as w:
        await program.run(w, "-p", SECRET, "--permission-mode", "bypassPermissions")
        with collector() as kept:
            sent = await program.run(w, "trace", "--otlp", kept.url)
            assert sent.returncode == 0, sent.stderr
            assert f"{len(kept.spans)} spans sent".encode() in sent.stdout
            assert len(kept.named("invoke_agent fork")) == 2
            assert SECRET.encode() not in kept.raw
        failed = await program.run(w, "trace", "--otlp", "http://127.0.0.1:9")
        assert failed.returncode == 2
        assert b"--otlp URL" in failed.stderr
        assert b"Traceback" not in failed.stderr
