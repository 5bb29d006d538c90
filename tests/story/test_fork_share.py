"""What forks share: one base, one head, every byte up to the directive."""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
import pytest

from prong.cost import total
from prong.cost.receipt import as_json, describe
from prong.event import CacheMissed, ReceiptIssued, TaskFinished, ToolFinished, ToolStarted
from prong.team.fork import PLACEHOLDER
from prong.team.make import FORK_TURNS
from prong.testing import Script, Step, Worlds, call, calls, forks, report, say

pytestmark = pytest.mark.anyio

APIS = ["anthropic", "responses", "chat", "gemini"]
LONG = "A line that says something about the project.\n" * 400


def names(count: int) -> list[str]:
    return [f"DIRECTIVE-{n}." for n in range(count)]


def fanned(count: int, *steps: Step) -> Script:
    """A parent that reads a file and splits into so many forks, each with a few steps."""
    return Script(
        [
            call("Read", {"file_path": "a.txt"}),
            forks(*names(count)),
            say("waiting"),
            say("all done"),
        ],
        routes={name: [*steps, report(f"part {n}")] for n, name in enumerate(names(count))},
    )


def settings(**fork: Any) -> str:
    return msgspec.json.encode({"fork": fork}).decode()


@pytest.mark.spec("F4", "F6", "F16", "F23")
@pytest.mark.parametrize("dispatch", ["keep", "drop"])
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("count", [1, 3, 10, 40])
async def test_siblings_share_everything_but_the_directive(
    world: Worlds, api: str, dispatch: str, count: int
) -> None:
    """Siblings have one base object, and their requests differ only after it."""
    files = {"a.txt": LONG}
    options = {"settings": settings(dispatch=dispatch), "mode": "bypassPermissions"}
    async with world(fanned(count), files=files, api=api, **options) as w:
        turn = await w.session.run("Go")

        assert turn.text == "all done"
        children = w.parts.supervisor.children
        assert len(children) == count
        bases = {id(child.account.fan.base) for child in children if child.account.fan}
        assert len(bases) == 1
        for child in children:
            assert child.account.fan is not None
            base = child.account.fan.base
            assert child.account.receipt.dispatch == dispatch
            assert child.agent.conversation.base is base.tip
            assert child.agent.conversation.prompt.extends(base)
            assert child.account.receipt.bytes_shared == len(base)
            # The directive is one entry; before it everything is the base, byte for byte.
            node = child.agent.conversation.prompt.nodes()[base.depth]
            assert (node.kind, node.parent) == ("directive", base.tip)
        if dispatch == "keep":
            fan = children[0].account.fan
            assert fan is not None
            assert w.parts.agent.conversation.prompt.extends(fan.base)
        assert {e.status for e in w.told(TaskFinished)} == {"completed"}
        assert not w.told(CacheMissed)


@pytest.mark.spec("F4", "F12")
async def test_the_server_sees_the_same_bytes(world: Worlds) -> None:
    """On the wire, too, the first requests of siblings are equal up to the directive."""
    async with world(fanned(3), files={"a.txt": LONG}, mode="bypassPermissions") as w:
        await w.session.run("Go")
        firsts = [lin[0].body for name, lin in w.server.lineages().items() if name != "main"]
        assert len(firsts) == 3
        marks = [b',"cache_control":{"type":"ephemeral"}', b"DIRECTIVE-"]
        plain = [body.replace(marks[0], b"") for body in firsts]
        shared = min(body.index(marks[1]) for body in plain)
        assert len({body[:shared] for body in plain}) == 1
        assert shared > len(LONG)


@pytest.mark.spec("F3", "F5")
@pytest.mark.parametrize("api", APIS)
async def test_the_head_is_the_parents_head(world: Worlds, api: str) -> None:
    """A fork has the parent's head itself: model, system, tools in order, and every parameter."""
    script = fanned(2, call("Bash", {"command": "echo x"}))
    options = {"effort": "high", "extra": {"temperature": 0.5}, "mode": "bypassPermissions"}
    async with world(script, files={"a.txt": "x"}, api=api, **options) as w:
        await w.session.run("Go")
        main = w.parts.agent
        for child in w.parts.supervisor.children:
            agent = child.agent
            assert agent.conversation.prompt.head is main.conversation.prompt.head
            assert agent.kit is main.kit
            assert agent.run.limits.max_turns == FORK_TURNS == 200
            assert agent.client.settings.max_output == main.client.settings.max_output
            assert agent.client.settings.ttl == main.client.settings.ttl
            assert agent.client.provider is main.client.provider
            assert agent.policy.policy.mode == "bypassPermissions"
        bodies = [r.json for r in w.server.records]
        for field in ("model", "tools", "system", "max_tokens", "temperature", "output_config"):
            assert len({msgspec.json.encode(body.get(field)) for body in bodies}) == 1


@pytest.mark.spec("F3", "F5")
async def test_another_model_is_refused(world: Worlds) -> None:
    """A fork on another model is refused with the remedy, not started on the parent's."""
    script = [forks("Do it.", model="claude-haiku-5-5"), say("I see.")]
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Go")
        (result,) = [e for e in w.told(ToolFinished) if e.name == "Agent"]
        assert result.failed
        assert "leave `model` out" in result.text
        assert not w.parts.supervisor.children


@pytest.mark.spec("F3")
async def test_the_fork_is_not_a_listed_type(world: Worlds) -> None:
    """Nothing the model is shown lists a type called fork; an unknown type is refused."""
    script = [forks("Do it.", subagent_type="nobody"), say("I see.")]
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Go")
        (result,) = [e for e in w.told(ToolFinished) if e.name == "Agent"]
        assert "there is no agent type 'nobody'" in result.text
        assert "fork" not in result.text


@pytest.mark.spec("F2")
async def test_without_anybody_to_answer_there_are_no_forks(world: Worlds) -> None:
    """Headless with nobody to answer: the schema has run_in_background, a fork is refused."""
    script = [forks("Do it.", subagent_type="fork"), say("I see.")]
    async with world(script) as w:
        await w.session.run("Go")
        (tool,) = [t for t in w.bodies()[0]["tools"] if t["name"] == "Agent"]
        assert "run_in_background" in tool["input_schema"]["properties"]
        (result,) = [e for e in w.told(ToolFinished) if e.name == "Agent"]
        assert "forks are off: nobody is here to answer" in result.text
        assert "subagent_type" in result.text


@pytest.mark.spec("F2")
@pytest.mark.parametrize(
    "options",
    [{"mode": "bypassPermissions"}, {"mode": "dontAsk"}, {"allow": ("Bash",)}, {"attended": True}],
    ids=str,
)
async def test_a_policy_or_a_person_turns_forks_on(world: Worlds, options: Any) -> None:
    """A mode that never asks, a rule, or somebody who answers turns forks on."""
    script = Script([forks("Part 1."), say("waiting"), say("done")], {"Part 1.": [report()]})
    async with world(script, **options) as w:
        assert (await w.session.run("Go")).text == "done"
        (tool,) = [t for t in w.bodies()[0]["tools"] if t["name"] == "Agent"]
        assert "run_in_background" not in tool["input_schema"]["properties"]
        assert [c.status for c in w.parts.supervisor.children] == ["completed"]


@pytest.mark.spec("F12")
async def test_the_parent_goes_on_at_once(world: Worlds) -> None:
    """Every fork call has the constant result, and the parent works while its forks do."""
    slow = call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})
    # Their reports may come with the result of that command, or after it.
    script = Script(
        [forks("Part 1.", "Part 2."), call("Bash", {"command": "touch go"})],
        {"Part 1.": [slow, report()], "Part 2.": [slow, report()]},
        forever=say("done"),
    )
    async with world(script, mode="bypassPermissions") as w:
        assert (await w.session.run("Go")).text == "done"
        results = [e.text for e in w.told(ToolFinished) if e.name == "Agent"]
        assert results == [PLACEHOLDER] * 2


@pytest.mark.spec("F12")
async def test_tasks_go_by_call_id_or_name(world: Worlds) -> None:
    """A fork is addressed by its name, or by its call's id, which stand in the shared bytes."""
    named = calls(
        ("Agent", {"description": "d", "prompt": "Part 1.", "name": "lexer"}),
        ("Agent", {"description": "d", "prompt": "Part 2."}),
    )
    again = call("Agent", {"description": "d", "prompt": "Part 3.", "name": "lexer"})
    script = Script(
        [named, say("x"), again, say("done")],
        {"Part 1.": [report()], "Part 2.": [report()]},
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Go")
        ids = [c.spec.task_id for c in w.parts.supervisor.children]
        assert ids == ["lexer", "fork-1"]
        assert "choose another name" in w.told(ToolFinished)[-1].text


@pytest.mark.spec("F16", "K1")
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("count", [1, 3, 10])
async def test_receipts_are_right_to_the_token(world: Worlds, api: str, count: int) -> None:
    """A receipt's counts are the server's own, request by request, and its sums add up."""
    steps = [call("Read", {"file_path": "a.txt", "limit": 3}), call("Bash", {"command": "echo x"})]
    script = fanned(count, *steps)
    async with world(script, files={"a.txt": LONG}, api=api, mode="bypassPermissions") as w:
        await w.session.run("Go")
        lineages = w.server.lineages()
        for receipt in w.session.receipts():
            seen = lineages[receipt.agent]
            assert receipt.requests == len(seen) == 3
            assert receipt.read == seen[0].usage.read
            assert receipt.written == seen[0].usage.written
            assert receipt.computed == seen[0].usage.input - receipt.read
            # The server's model of the chat API caches by itself and tells of no writes.
            assert receipt.counts_writes == (api not in {"chat", "gemini"})
            assert receipt.predicted_computed == max(
                0, seen[0].usage.input - receipt.predicted_read
            )
            predicted = receipt.predicted_computed if receipt.counts_writes else 0
            assert receipt.predicted_write == predicted
            assert ("wrote" in describe(receipt)) == receipt.counts_writes
            assert receipt.usage == sum((r.usage for r in seen[1:]), seen[0].usage)
            assert receipt.status == "completed"
            assert receipt.delivered == "notice"
            assert receipt.reason
            if api == "anthropic":
                # A sibling or the parent may have written more of the base by then.
                assert receipt.predicted_read <= receipt.read <= receipt.tokens_shared + 20
        paid = total(w.parts.ledger.rows)
        assert paid.usage.input == sum(r.usage.input for r in w.server.records)
        issued = [msgspec.json.decode(e.receipt) for e in w.told(ReceiptIssued)]
        settled = [as_json(r) for r in w.session.receipts()]
        assert sorted(issued, key=str) == sorted(settled, key=str)


@pytest.mark.spec("F15", "F16")
@pytest.mark.parametrize("count", [1, 3, 10, 40])
async def test_a_live_parent_pays_hardly_more_than_the_least(world: Worlds, count: int) -> None:
    """With a live parent the whole session costs at most a hundredth more than is possible."""
    steps = [call("Read", {"file_path": "a.txt", "limit": 3}), call("Bash", {"command": "echo x"})]
    script = fanned(count, *steps)
    async with world(script, files={"a.txt": LONG * 8}, mode="bypassPermissions") as w:
        await w.session.run("Go")
        assert w.server.paid() / w.server.least_possible() < 1.01
        assert {r.schedule for r in w.session.receipts()} == {"at_once"}


@pytest.mark.spec("F23")
async def test_auto_keeps_for_one_and_drops_for_many(world: Worlds) -> None:
    """What was taken stands on the receipt, with the numbers."""
    for count, taken in ((1, "keep"), (12, "drop")):
        async with (
            world(fanned(count), files={"a.txt": LONG}, mode="bypassPermissions", opens=False) as w,
            w.open() as session,
        ):
            await session.run("Go")
            (reason,) = {r.reason for r in session.receipts()}
            assert {r.dispatch for r in session.receipts()} == {taken}
            assert reason.startswith(taken)
        w.root.rename(w.folder / f"project-{count}")
        w.home.rename(w.folder / f"home-{count}")


@pytest.mark.spec("F21")
@pytest.mark.parametrize("api", APIS)
async def test_forking_by_hand(world: Worlds, api: str) -> None:
    """session.fork gives reports and receipts, and the conversation knows nothing of it."""
    script = Script(
        [say("Hello."), say("Still here.")],
        {name: [report(f"part {n}")] for n, name in enumerate(names(3))},
    )
    async with world(script, api=api, mode="bypassPermissions") as w:
        await w.session.run(f"Hi {LONG}")
        before = w.parts.agent.conversation.prompt
        results = await w.session.fork(names(3))
        assert [r.report.result for r in results] == ["part 0", "part 1", "part 2"]
        assert {r.status for r in results} == {"completed"}
        assert all(r.receipt.saved is not None for r in results)
        assert {r.receipt.delivered for r in results} == {"returned"}
        assert w.parts.agent.conversation.prompt is before
        assert (await w.session.run("And?")).text == "Still here."


@pytest.mark.spec("F21")
async def test_a_hand_fork_in_the_middle_of_a_turn(world: Worlds) -> None:
    """While calls of a reply still run, a hand fork starts from what stood before that reply."""
    wait = call("Bash", {"command": "while [ ! -e go ]; do sleep 0.02; done"})
    script = Script([wait, say("done")], {"Part 1.": [report("one")]})
    async with world(script, mode="bypassPermissions") as w:
        await w.session.say("Go")
        while not w.told(ToolStarted):
            await anyio.sleep(0.01)
        (result,) = await w.session.fork(["Part 1."])
        assert result.report.result == "one"
        w.write("go", "")
        await w.session.wait_settled()
        assert w.session.last is not None
        assert w.session.last.text == "done"
