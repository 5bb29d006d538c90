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
        ("---\nname: fork\ndescription: d\n---\np", 2, "is taken"),
        ("---\nname: x\n---\np", 1, "no 'description'"),
        ("---\nname: x\ndescription: d\n---\n", 1, "no prompt"),
        ("---\ndescription: d\nmaxTurns: many\n---\np", 3, "maxTurns 'many'"),
        ("---\ndescription: d\npermissionMode: yolo\n---\np", 3, "permissionMode 'yolo'"),
        ("---\ndescription: d\nbackground: perhaps\n---\np", 3, "must be true or false"),
        ("---\ndescription: d\ndisallowedTools: Bash; x\n---\np", 3, "not the name of a tool"),
        ("---\ndescription: d\nisolation: moon\n---\np", 3, "isolation 'moon'"),
        ("---\ndescription: d\ndisallowed-tools: Bash\n---\np", 3, "mean 'disallowedTools'"),
        ("---\ndescription: d\npermission_mode: plan\n---\np", 3, "mean 'permissionMode'"),
        ("---\ndescription: d: [e\n\tdisallowedTools: Bash\n---\np", None, "not valid YAML"),
        ("---\ndescription: 'd\nhooks: [\n---\np", None, "not valid YAML"),
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


EXAMPLES = """\
---
name: helper
description: Use this agent when somebody asks. Examples:
<example>
Context: a question
user: "How?"
assistant: "So: like this"
</example>
Context: another
user: "Why?"
tools: Read, Grep
---
You help.
"""


@pytest.mark.spec("S3")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "name: x\ndescription: d\ntools: ['search/codebase', Read, 'github/*']",
            "search/codebase",
        ),
        (
            "name: x\ndescription: d\ntools: Read, Microsoft Docs",
            "there is no tool 'Microsoft Docs'",
        ),
        ("name: x\ndescription: d\ntools: Read Grep", ""),
        ("name: x\ndescription: d\ntools: *", "read line by line"),
        ("name: 'X y!'\ndescription: d", "the name 'X y!' is 'X-y' here"),
        ("name: x\ndescription: d\ncolor: blue", ""),
        ("name: x\n\tdescription: d\ndescription: Use: it [now", ""),
        ("name: x\ndescription: d\ndisallowedTools: Bash Write", ""),
        ("name: x\ndescription: d\ndisallowedTools: search/all", "no tool 'search/all' to forbid"),
    ],
)
def test_a_file_is_read_as_people_write_it(tmp_path: Path, text: str, told: str):
    """What means nothing here is left out and said in one line; the type is there."""
    put(tmp_path, "project/.claude/agents/x.agent.md", f"---\n{text}\n---\nprompt")
    found = find(tmp_path)
    kind = next(kind for kind in found.types.values() if kind.custom)

    assert found.problems == []
    assert told in " ".join(kind.unheeded)
    assert bool(found.warnings) == bool(kind.unheeded)
    if "Read" in text:
        assert set(kind.tools or ()) <= {"Read", "Grep"}
        assert "Read" in (kind.tools or ())
    if "Bash" in text:
        assert kind.disallowed_tools == ("Bash", "Write")


@pytest.mark.spec("S3")
def test_a_description_of_many_unquoted_lines_is_whole(tmp_path: Path):
    """Lines that look like keys and are none belong to the description; real keys still count."""
    put(tmp_path, "project/.claude/agents/x.md", EXAMPLES)
    found = find(tmp_path)
    kind = found.types["helper"]

    assert kind.description.endswith('user: "Why?"')
    assert kind.tools == ("Read", "Grep")
    assert "read line by line" in found.warnings[0]


@pytest.mark.spec("S3")
def test_a_readme_among_the_files_is_no_type(tmp_path: Path):
    """People explain a folder to people; nothing is said about it."""
    put(tmp_path, "project/.claude/agents/README.md", "# Our agents\n\nSee below.")
    found = find(tmp_path)

    assert (found.problems, found.warnings) == ([], [])
    assert not any(kind.custom for kind in found.types.values())


@pytest.mark.spec("S3")
def test_many_odd_files_are_one_line(tmp_path: Path):
    """However many files are odd, a session begins with one line about them."""
    for number in range(40):
        text = f"---\nname: n {number}\ndescription: d\n---\np"
        put(tmp_path, f"project/.claude/agents/{number}.md", text)
    (line,) = find(tmp_path).warnings

    assert "and 35 more" in line


@pytest.mark.spec("S3", "L11")
def test_servers_in_a_file_are_read(tmp_path: Path):
    """A server may be named or written out; written out it is the type's own."""
    text = (
        "---\nname: x\ndescription: d\nmcpServers:\n  - github\n"
        "  - own:\n      command: run\n      args: [a]\n---\np"
    )
    put(tmp_path, "project/.claude/agents/x.md", text)
    kind = find(tmp_path).types["x"]

    assert kind.mcp_servers == ("github", "own")
    assert kind.servers == {"own": {"command": "run", "args": ["a"]}}


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
