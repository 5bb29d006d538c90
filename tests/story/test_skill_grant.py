"""What a skill allows: for the turn it is started in, to the main agent, if it is trusted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from prong.command import UseSkill
from prong.event import ToolFinished
from prong.session import Turn
from prong.testing import Script, World, Worlds, call, forks, report, say
from prong.tools.policy import Policy
from prong.tools.policy_box import PolicyBox
from prong.tools.rule import Rule

pytestmark = [pytest.mark.anyio, pytest.mark.spec("L11")]

SKILL = "---\nname: build\ndescription: Build it\nallowed-tools: Bash(touch:*)\n---\nBuild it.\n"
MINE, THEIRS = "~/.prong/skills/build/SKILL.md", ".prong/skills/build/SKILL.md"
USE = call("Skill", {"skill": "build"})
TOUCH = call("Bash", {"command": "touch made"})


def failed(w: World) -> list[bool]:
    return [e.failed for e in w.told(ToolFinished) if e.name == "Bash"]


@pytest.mark.parametrize("by", ["model", "command", "run"])
async def test_it_holds_for_the_turn_and_no_longer(world: Worlds, by: str) -> None:
    """However the skill is started, its rules allow in that turn and in no other."""
    begin = [USE] if by == "model" else []
    script = [TOUCH, say("no"), *begin, TOUCH, say("yes"), TOUCH, say("no")]
    async with world(script, files={MINE: SKILL}) as w:
        await w.session.run("One")
        if by == "command":
            await w.session.send(UseSkill("build"))
            await w.session.wait_settled()
        else:
            turn = await w.session.run("Two" if by == "model" else UseSkill("build"))
            assert isinstance(turn, Turn)
            assert turn.text == "yes"
        await w.session.run("Three")

        assert failed(w) == [True, False, True]
        assert not any(rule.source == "skill" for rule in w.parts.agent.policy.policy.rules)


async def test_an_interrupted_or_failed_turn_gives_it_back(world: Worlds) -> None:
    """The rules end with the turn, however it ends."""
    script = [USE, say("x"), TOUCH, say("no")]
    async with world(script, files={MINE: SKILL}, max_turns=1) as w:
        assert (await w.session.run("One")).why == "limit"
        await w.session.run("Two")
        await w.session.run("Three")

        assert failed(w) == [True]


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({}, True),
        ({"mode": "plan"}, False),
        ({"mode": "dontAsk"}, True),
        ({"deny": ("Bash(touch:*)",)}, False),
        ({"ask": ("Bash(touch:*)",)}, False),
    ],
)
async def test_rules_and_modes_go_before_it(
    world: Worlds, options: dict[str, Any], allowed: bool
) -> None:
    """What is denied, asked for or only read stays so."""
    async with world([USE, TOUCH, say("end")], files={MINE: SKILL}, **options) as w:
        await w.session.run("Go")

        assert failed(w) == [not allowed]


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_projects_skill_allows_only_if_it_is_trusted(world: Worlds, trusted: bool) -> None:
    """An untrusted folder's skill can be used, and allows nothing."""
    async with world([USE, TOUCH, say("end")], files={THEIRS: SKILL}, trusted=trusted) as w:
        await w.session.run("Go")

        assert failed(w) == [not trusted]
        assert any("allowed-tools" in text for text in w.warnings) == (not trusted)


@pytest.mark.spec("S9", "F10")
async def test_children_have_nothing_of_it(world: Worlds) -> None:
    """Neither a fork of that turn nor one that uses the skill itself is allowed more."""
    script = Script(
        [USE, forks("Part 1."), TOUCH, say("x")],
        {"Part 1.": [TOUCH, USE, TOUCH, report()]},
        forever=say("done"),
    )
    allow = ("Bash(ls:*)",)
    async with world(script, files={MINE: SKILL}, allow=allow) as w:
        await w.session.run("Go")
        ended = [(e.agent, e.event) for e in w.envelopes if isinstance(e.event, ToolFinished)]
        own = [event.failed for agent, event in ended if agent != "main" and event.name == "Bash"]
        told = [event.text for agent, event in ended if agent != "main" and event.name == "Skill"]

        assert own == [True, True]
        assert "is for the main agent alone" in told[0]


def test_what_is_lent_is_no_part_of_the_policy() -> None:
    """A view for a child takes nothing, and what is read of a policy holds nothing of it."""
    rule = Rule("allow", "Bash", "touch:*", "skill")
    box = PolicyBox(Policy(root="/r", home="/h"))
    child = box.narrow()

    assert not child.lend([rule])
    assert box.lend([rule])
    assert box.policy.rules == ()
    assert child.policy.rules == ()


STRICT = "---\ndescription: Look\ndisallowed-tools: Bash(touch:*), WebFetch\n---\nLook at it.\n"
CAREFUL = "~/.claude/skills/careful/SKILL.md"


@pytest.mark.spec("L5")
@pytest.mark.parametrize("by", ["model", "run"])
async def test_what_a_skill_forbids_is_forbidden_for_the_turn(world: Worlds, by: str) -> None:
    """In every mode, and to a fork of that turn to its end; in no turn before or after."""
    begin = [call("Skill", {"skill": "careful"})] if by == "model" else []
    script = Script(
        [TOUCH, say("one"), *begin, TOUCH, forks("Part 1."), say("two"), say("t"), TOUCH, say("3")],
        {"Part 1.": [TOUCH, report()]},
        forever=say("done"),
    )
    async with world(script, files={CAREFUL: STRICT}, mode="bypassPermissions") as w:
        await w.session.run("One")
        await w.session.run("Two" if by == "model" else UseSkill("careful"))
        during = failed(w)
        assert not any(rule.source == "skill" for rule in w.parts.agent.policy.policy.rules)
        await w.session.run("Three")

        assert during == [False, True, True]
        assert failed(w)[-1] is False
        refused = [e.refused for e in w.told(ToolFinished) if e.name == "Bash"]
        assert refused == failed(w)


@pytest.mark.spec("L5")
@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ("disallowed-tools: Bash\ncontext: fork", "context: fork are not supported"),
        ("disallowed-tools: Bash(git", "cannot be kept"),
    ],
)
async def test_a_skill_whose_bar_cannot_be_kept_is_left_out(
    world: Worlds, keys: str, why: str
) -> None:
    """A guard that does not hold is worse than no skill, and is named."""
    text = f"---\ndescription: Look\n{keys}\n---\nLook at it.\n"
    async with world(files={CAREFUL: text}) as w:
        assert "careful" not in w.session.records.skills
        assert any(why in one for one in w.warnings)


async def test_paths_are_told_with_the_skill(world: Worlds) -> None:
    """The list says for which files a skill is; its bytes are the same for the whole session."""
    text = "---\ndescription: Tidy.\npaths:\n  - src/**\n  - '*.ts'\n---\nTidy it.\n"
    async with world([say("Hi.")], files={CAREFUL: text}) as w:
        await w.session.run("Hi")
        body = w.server.records[0].body.decode()

        assert "Tidy. Only for work on files like src/**, *.ts." in body
        assert not w.warnings


def test_what_is_barred_is_no_part_of_what_is_kept() -> None:
    """A policy that is made of the one that holds now keeps nothing of a turn's bar."""
    rule = Rule("deny", "Bash", "touch:*", "skill")
    box = PolicyBox(Policy(root="/r", home="/h"))
    child, own = box.narrow(), Rule("deny", "Read", "x", "user")
    box.bar([rule])

    late = box.narrow()
    assert child.policy.rules == (rule,)
    box.revise(replace(box.policy, rules=(own, *box.policy.rules)))
    box.give_back()
    assert box.policy.rules == child.policy.rules == (own,)
    assert late.policy.rules == (own, rule)
    child.bar([rule])
    assert (box.policy.rules, child.policy.rules) == ((own,), (own, rule))
