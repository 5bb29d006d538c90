"""Where types of agents come from: files, a flag, packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from prong.config.agents import FoundTypes, find_types
from prong.config.type_option import read_types
from prong.errors import UsageError
from prong.testing import Script, call, say, world

GOOD = """\
---
name: reviewer
description: Reads changes
tools: Read, Grep, Agent(worker, researcher)
disallowedTools: [Bash]
model: claude-opus-5-5
permissionMode: plan
maxTurns: 7
skills:
  - style
background: yes
effort: high
mcpServers: [git]
initialPrompt: Be brief.
---
You review changes.
"""


def put(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def find(tmp_path: Path, *, trusted: bool = True, flag: str | None = None) -> FoundTypes:
    (tmp_path / "home").mkdir(exist_ok=True)
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True, exist_ok=True)
    home, where = str(tmp_path / "home"), str(root / "sub")
    return find_types(home, str(root), where, trusted=trusted, given=read_types(flag))


@pytest.mark.spec("S3")
def test_every_key_of_a_definition_is_read(tmp_path: Path):
    """Texts, lists, flags and numbers of the front matter become the type's fields."""
    put(tmp_path, "project/.prong/agents/deep/reviewer.md", GOOD)
    kind = find(tmp_path).types["reviewer"]

    assert kind.tools == ("Read", "Grep", "Agent(worker, researcher)")
    assert kind.disallowed_tools == ("Bash",)
    assert (kind.model, kind.permission_mode, kind.max_turns) == ("claude-opus-5-5", "plan", 7)
    assert (kind.skills, kind.background, kind.effort) == (("style",), True, "high")
    assert kind.initial_prompt == "Be brief."
    assert kind.prompt == "You review changes."
    assert (kind.source, kind.custom) == ("project", True)


@pytest.mark.spec("S3")
def test_the_nearest_definition_wins(tmp_path: Path):
    """A flag goes before the nearest folder, that before the root, the home and what is built in."""
    text = "---\nname: Explore\ndescription: {}\n---\nprompt"
    places = ("home/.claude/agents", "project/.agents/agents", "project/sub/.prong/agents")
    for place in places:
        put(tmp_path, f"{place}/x.md", text.format(place))
        found = find(tmp_path)
        assert found.types["Explore"].description == place
    flag = '{"Explore": {"description": "flag", "prompt": "p", "tools": ["Read"]}}'

    assert find(tmp_path, flag=flag).types["Explore"].description == "flag"
    assert any("is hidden by" in warning for warning in find(tmp_path).warnings)


@pytest.mark.spec("S3")
@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("---\nname: x\n", 1, "not closed"),
        ("---\nname: a b\ndescription: d\n---\np", 2, "name 'a b'"),
        ("---\nname: fork\ndescription: d\n---\np", 2, "is taken"),
        ("---\nname: x\n---\np", 1, "no 'description'"),
        ("---\nname: x\ndescription: d\n---\n", 1, "no prompt"),
        ("---\ndescription: d\nmaxTurns: many\n---\np", 3, "maxTurns 'many'"),
        ("---\ndescription: d\npermissionMode: yolo\n---\np", 3, "no permission mode 'yolo'"),
        ("---\ndescription: d\nbackground: perhaps\n---\np", 3, "must be true or false"),
        ("---\ndescription: d\ntools: Read; Write\n---\np", 3, "is not the name of a tool"),
        ("---\ndescription: d\nisolation: moon\n---\np", 3, "isolation 'moon'"),
        ("---\ndescription: 'd\nx: [\n---\np", None, "not valid YAML"),
        ("---\ndescription: d\nhooks:\n  Stop: 5\n---\np", 3, "must be a list"),
    ],
)
def test_a_broken_definition_is_reported_and_hides_no_other(
    tmp_path: Path, text: str, line: int | None, why: str
):
    """What is wrong is said with file and line; the other files count all the same."""
    put(tmp_path, "project/.prong/agents/aaa.md", text)
    put(tmp_path, "project/.prong/agents/reviewer.md", GOOD)
    found = find(tmp_path)
    (problem,) = found.problems

    assert why in str(problem)
    assert problem.path.endswith("aaa.md")
    assert line is None or problem.line == line
    assert "reviewer" in found.types


@pytest.mark.spec("S3")
def test_unknown_keys_are_warned_about_once(tmp_path: Path):
    """Two files with the same unknown key make one warning, with the place."""
    for name in ("a", "b"):
        text = f"---\nname: {name}\ndescription: d\nfavourite: tea\n---\np"
        put(tmp_path, f"project/.prong/agents/{name}.md", text)
    warnings = [w for w in find(tmp_path).warnings if "favourite" in w]

    assert len(warnings) == 1
    assert "a.md:4" in warnings[0]


@pytest.mark.spec("S3", "L11")
def test_an_untrusted_folders_types_do_not_count(tmp_path: Path):
    """Without trust a project's types are left out, which is said; those of the home count."""
    put(tmp_path, "project/.prong/agents/reviewer.md", GOOD)
    put(tmp_path, "home/.prong/agents/own.md", "---\ndescription: d\n---\np")
    found = find(tmp_path, trusted=False)

    assert "reviewer" not in found.types
    assert found.types["own"].source == "home"
    assert any("not trusted" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    "flag",
    [
        *("[]", '{"x": {}}', '{"x": {"description": "d", "prompt": "p", "odd": 1}}', "nonsense"),
        '{"x": {"description": "d", "prompt": "p", "maxTurns": 0}}',
        '{"x": {"description": "d", "prompt": ""}}',
    ],
)
def test_a_wrong_flag_is_refused(tmp_path: Path, flag: str):
    """What `--agents` gives is wrong or right as a whole."""
    with pytest.raises(UsageError, match="--agents"):
        find(tmp_path, flag=flag)


@pytest.mark.spec("S4")
def test_packages_bring_types_by_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An installed package's types are named after its entry point; a broken one is reported."""
    put(
        tmp_path,
        "site/acme_agents_for_test.py",
        "from prong.agent.spec import AgentType\n"
        "def types():\n"
        "    return [AgentType(name='tester', description='Tests.', prompt='You test.')]\n",
    )
    put(tmp_path, "site/acme-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme\n")
    points = "[prong.agents]\nacme = acme_agents_for_test:types\nbad = nowhere_at_all:x\n"
    put(tmp_path, "site/acme-1.0.dist-info/entry_points.txt", points)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    found = find(tmp_path)
    kind = found.types["acme:tester"]

    assert (kind.source, kind.path, kind.custom) == ("plug-in", "acme", True)
    assert any("'bad' (nowhere_at_all:x of acme) cannot be loaded" in one for one in found.warnings)


@pytest.mark.anyio
@pytest.mark.spec("S3")
async def test_a_custom_type_works_as_it_is_defined():
    """A project's type is listed for the model, in one order, and gets its own tools and brief."""
    script = Script(
        [
            call("Agent", {"description": "d", "prompt": "BRIEF", "subagent_type": "reviewer"}),
            say("Done."),
        ],
        {"BRIEF": [say("Fine.")]},
        forever=say("Heard."),
    )
    text = GOOD.replace("claude-opus-5-5", "inherit").replace("  - style\n", "  - missing\n")
    async with world(script, files={".prong/agents/r.md": text}, trusted=True) as w:
        await w.session.run("Go")
        first, child = (
            w.bodies()[0],
            next(b for b in w.bodies() if "BRIEF" in str(b["messages"][0])),
        )
        about = next(t["description"] for t in first["tools"] if t["name"] == "Agent")
        listed = [
            line.split(":")[0][2:] for line in about.split("subagent_type`:\n")[1].split("\n")
        ]

        assert listed == ["Explore", "Plan", "general-purpose", "worker", "reviewer"]
        assert child["system"][0]["text"] == "You review changes."
        assert "Be brief.\n\nBRIEF" in str(child["messages"][0]["content"][0]["text"])
        assert [tool["name"] for tool in child["tools"]] == ["Read", "Grep"]
        assert "names the skill 'missing', which is not there" in str(w.bodies())
        assert "names the MCP server 'git', which is not there" in str(w.bodies())
