"""What a skill says once it is used: commands through the gate, files, agents of its own."""

from __future__ import annotations

from typing import Any

import pytest

from prong.command import Accepted, UseSkill
from prong.event import AgentStarted, ToolFinished, ToolStarted
from prong.session import Turn
from prong.testing import Script, World, Worlds, call, report, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11")]

MINE = "~/.prong/skills/build/SKILL.md"
USE = call("Skill", {"skill": "build", "args": "one 'two three'"})


def skill(body: str, *front: str) -> dict[str, str | bytes]:
    head = "\n".join(("description: Build it", *front))
    return {MINE: f"---\n{head}\n---\n{body}\n"}


def commands(w: World) -> list[tuple[bool, bool]]:
    return [(e.failed, e.refused) for e in w.told(ToolFinished) if e.name == "Bash"]


async def started(w: World, by: str) -> str:
    """Use the skill; gives what the model was sent."""
    given = "Go" if by == "model" else UseSkill("build", "one 'two three'")
    turn = await w.session.run(given)
    assert isinstance(turn, Turn)
    return str(w.bodies()[-1]["messages"])


@pytest.mark.parametrize("by", ["model", "user"])
async def test_a_command_in_a_text_is_run_and_its_output_put_there(world: Worlds, by: str) -> None:
    """Whoever uses the skill, the output stands where the command stood; faces see it run."""
    script = [*([USE] if by == "model" else []), say("end")]
    body = "Now: !`echo a-$1-b`.\n\n```!\necho c\necho d\n```\n\nNot `!`echo e``."
    async with world(script, files=skill(body)) as w:
        sent = await started(w, by)

        assert "Now: a-two three-b." in sent
        assert "c\\nd\\n" in sent
        assert "echo e" in sent
        assert len([e for e in w.told(ToolStarted) if e.name == "Bash"]) == 2


@pytest.mark.parametrize("by", ["model", "user"])
@pytest.mark.parametrize(
    ("front", "options", "runs"),
    [
        ((), {}, False),
        (("allowed-tools: Bash(touch:*)",), {}, True),
        (("allowed-tools: Bash(touch:*)",), {"deny": ("Bash(touch:*)",)}, False),
        (("allowed-tools: Bash(touch:*)",), {"mode": "plan"}, False),
        ((), {"allow": ("Bash(touch:*)",)}, True),
    ],
)
async def test_a_command_in_a_text_goes_through_the_gate(
    world: Worlds, by: str, front: tuple[str, ...], options: dict[str, Any], runs: bool
) -> None:
    """It runs if rules, mode and what the skill allows let it; else the text says why not."""
    script = [*([USE] if by == "model" else []), say("end")]
    async with world(script, files=skill("Made: !`touch made`.", *front), **options) as w:
        sent = await started(w, by)

        assert (w.root / "made").exists() == runs
        assert ("gave nothing" in sent) == (not runs)
        assert commands(w) == [(not runs, not runs)]
        assert not any(rule.source == "skill" for rule in w.parts.agent.policy.policy.rules)


async def test_arguments_are_no_commands(world: Worlds) -> None:
    """What a model or a message puts into the arguments is text, whatever it looks like."""
    use = call("Skill", {"skill": "build", "args": "!`touch made` @secret.txt"})
    files = {**skill("Do: $ARGUMENTS"), "secret.txt": "hidden"}
    async with world([use, say("end")], files=files, allow=("Bash(touch:*)",)) as w:
        await w.session.run("Go")

        assert not (w.root / "made").exists()
        assert commands(w) == []
        assert "hidden" not in str(w.bodies()[-1]["messages"])


@pytest.mark.parametrize("by", ["model", "user"])
async def test_a_file_that_a_text_mentions_is_read(world: Worlds, by: str) -> None:
    """`@path` brings the file, of the project or of the skill, if it may be read; else a word."""
    body = "Read @notes.txt and @own.md, ask @somebody, not `@code.txt`, nor @.env."
    files: dict[str, str | bytes] = {
        **skill(body),
        "~/.prong/skills/build/own.md": "of the skill",
        "notes.txt": "of the project",
        "code.txt": "in code",
        ".env": "SECRET",
    }
    script = [*([USE] if by == "model" else []), say("end")]
    async with world(script, files=files, deny=("Read(.env)",)) as w:
        sent = await started(w, by)

        assert "of the project" in sent
        assert "of the skill" in sent
        assert "in code" not in sent
        assert "SECRET" not in sent
        assert "forbidden by" in sent


async def test_variables_name_the_session_and_its_folders(world: Worlds) -> None:
    """`${CLAUDE_...}` of a text is the session, the project, and the skill's own folder."""
    body = "${CLAUDE_SESSION_ID}|${CLAUDE_PROJECT_DIR}|${CLAUDE_SKILL_DIR}|"
    async with world([USE, say("end")], files=skill(body)) as w:
        sent = await started(w, "model")

        assert f"{w.session.id}|{w.root}|{w.home}/.prong/skills/build|" in sent


@pytest.mark.parametrize("by", ["model", "user", "command"])
@pytest.mark.parametrize("front", [(), ("agent: Explore",), ("model: claude-opus-5-5",)])
async def test_a_skill_runs_in_an_agent_of_its_own(
    world: Worlds, by: str, front: tuple[str, ...]
) -> None:
    """`context: fork` forks, with `agent` or `model` it starts a typed one; its report comes."""
    script = Script(
        [*([USE] if by == "model" else []), say("begun"), say("all done")],
        {"Build one now.": [report("built") if not front else say("built")]},
        forever=say("all done"),
    )
    files = skill("Build $0 now.", "context: fork", *front)
    async with world(script, files=files, allow=("Bash(ls:*)",)) as w:
        if by == "command":
            outcome = await w.session.send(UseSkill("build", "one"))
            assert isinstance(outcome, Accepted)
            assert "skill build" in outcome.text
            await w.session.wait_settled()
        else:
            turn = await w.session.run("Go" if by == "model" else UseSkill("build", "one"))
            assert turn.text
        (child,) = [e for e in w.told(AgentStarted) if e.kind != "main"]
        told = str(w.bodies()[-1]["messages"])

        assert child.kind == ("typed" if front else "fork")
        assert "built" in told
        if front == ("model: claude-opus-5-5",):
            assert any(body["model"] == "claude-opus-5-5" for body in w.bodies())


async def test_rules_about_agents_hold_for_a_skill_that_starts_one(world: Worlds) -> None:
    """What may not be started is not started because a skill asks for it."""
    files = skill("Build it.", "context: fork", "agent: Explore")
    async with world([USE, say("end")], files=files, deny=("Agent(Explore)",)) as w:
        await w.session.run("Go")

        assert [e.kind for e in w.told(AgentStarted)] == ["main"]
        assert "forbidden by" in str(w.bodies()[-1]["messages"])


async def test_a_fork_that_uses_such_a_skill_does_it_itself(world: Worlds) -> None:
    """A fork starts no agents; the skill runs in its conversation, and the user is told."""
    script = Script(
        [call("Agent", {"description": "d", "prompt": "Part 1."}), say("x")],
        {"Part 1.": [USE, report()]},
        forever=say("done"),
    )
    files = skill("Build it.", "context: fork")
    async with world(script, files=files, allow=("Bash(ls:*)",)) as w:
        await w.session.run("Go")

        assert len([e for e in w.told(AgentStarted) if e.kind == "fork"]) == 1
        assert any("runs in this conversation" in text for text in w.warnings)


async def test_a_model_that_cannot_be_had_is_said(world: Worlds) -> None:
    """A skill in the conversation runs on the conversation's model, and the user is told."""
    files = skill("Build it.", "model: claude-opus-5-5")
    async with world([USE, say("x"), say("y")], files=files) as w:
        await w.session.run("Go")
        await w.session.run(UseSkill("build"))

        assert len([text for text in w.warnings if "asks for the model" in text]) == 2


async def test_a_cut_list_is_said_at_the_start_and_frozen(world: Worlds) -> None:
    """With very many skills and agents the lists are bounded, the user is told, nothing moves."""
    files: dict[str, str | bytes] = {
        f"~/.claude/skills/s{n:04}/SKILL.md": f"---\ndescription: {'word ' * 30}\n---\nx"
        for n in range(600)
    }
    for n in range(200):
        front = f"---\nname: a{n:03}\ndescription: {'word ' * 100}\n---\nx"
        files[f"~/.claude/agents/a{n:03}.md"] = front
    async with world([say("x"), say("y")], files=files) as w:
        await w.session.run("Go")
        w.write("~/.claude/skills/new/SKILL.md", "later")
        await w.session.run("On")
        told = [text for text in w.warnings if "that the model reads" in text]
        head = w.bodies()[-1]["tools"]

        assert len(told) == 2
        assert sum(len(str(tool)) for tool in head) < 70_000
        assert head == w.bodies()[0]["tools"]


@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_a_child_in_another_process_is_told_what_was_not_done(
    world: Worlds, backend: str
) -> None:
    """Commands of a skill run where its user works; one elsewhere reads them, and that they are."""
    settings = f'{{"agents": {{"backend": "{backend}"}}}}'
    script = Script(
        [call("Agent", {"description": "d", "prompt": "Part 1."}), say("x")],
        {"Part 1.": [USE, report()]},
        forever=say("done"),
    )
    async with world(
        script, files=skill("Now: !`echo $((6*7))`."), settings=settings, allow=("Bash(ls:*)",)
    ) as w:
        await w.session.run("Go")
        used = [e.text for e in w.told(ToolFinished) if e.name == "Skill"]

        assert ("commands in it were not run" in used[0]) == (backend == "process")
        assert ("Now: !`echo" in used[0]) == (backend == "process")


@pytest.mark.parametrize("front", [(), ("context: fork",)])
async def test_a_hook_that_refuses_a_message_refuses_the_skill(
    world: Worlds, front: tuple[str, ...]
) -> None:
    """It is asked once, about the text as it is written, before a command of it has run."""
    hook = {"type": "command", "command": "cat >> seen; echo no >&2; exit 2"}
    hooks = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
    files = skill("Made: !`touch made`.", *front)
    async with world([], files=files, settings=hooks, allow=("Bash(touch:*)",)) as w:
        turn = await w.session.run(UseSkill("build"))

        assert (turn.why, "no" in turn.detail) == ("refused", True)
        assert not (w.root / "made").exists()
        assert (w.root / "seen").read_text().count("hook_event_name") == 1
        assert [e.kind for e in w.told(AgentStarted)] == ["main"]


async def test_a_skill_whose_agent_is_not_there_is_refused(world: Worlds) -> None:
    """The user reads which type is missing; nothing is said to the model."""
    files = skill("Build it.", "context: fork", "agent: nobody")
    async with world([], files=files) as w:
        turn = await w.session.run(UseSkill("build"))

        assert turn.why == "refused"
        assert "no agent type 'nobody'" in turn.detail


TOUCH = call("Bash", {"command": "touch more"})


@pytest.mark.parametrize("by", ["model", "user"])
@pytest.mark.spec("S9", "F10")
async def test_what_a_skill_allows_is_not_for_its_agent(world: Worlds, by: str) -> None:
    """Commands in the text have it; neither the agent, nor the turn that started it, and it is said."""
    begin = [USE, TOUCH] if by == "model" else []
    script = Script(
        [*begin, say("begun"), say("end")], {"Made it.": [TOUCH, report()]}, forever=say("end")
    )
    files = skill(
        "Made it.!`touch x` !`touch made`", "context: fork", "allowed-tools: Bash(touch:*)"
    )
    async with world(script, files=files, allow=("Bash(ls:*)",)) as w:
        await w.session.run("Go" if by == "model" else UseSkill("build"))

        assert (w.root / "made").exists()
        assert not (w.root / "more").exists()
        assert any("are for its own commands alone" in text for text in w.warnings)


async def test_a_childs_skill_allows_its_commands_nothing(world: Worlds) -> None:
    """A child that uses a skill has nothing of what it allows, in the skill's commands neither."""
    script = Script(
        [call("Agent", {"description": "d", "prompt": "Part 1."}), say("x")],
        {"Part 1.": [USE, report()]},
        forever=say("done"),
    )
    files = skill("Now: !`touch made`.", "allowed-tools: Bash(touch:*)")
    async with world(script, files=files, allow=("Bash(ls:*)",)) as w:
        await w.session.run("Go")

        assert not (w.root / "made").exists()
