from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from prong.errors import UsageError
from prong.tools.access import Reading, Running, Using, Writing
from prong.tools.policy import Allow, Ask, Decision, Deny, Mode, Policy, decide
from prong.tools.policy_box import PolicyBox
from prong.tools.rule import Effect, Rule, parse_rule

ROOT, HOME = "/r", "/home/u"
pytestmark = pytest.mark.spec("L5")

VERDICTS = {"allow": Allow, "ask": Ask, "deny": Deny}


def rules(**texts: list[str]) -> tuple[Rule, ...]:
    found: list[Rule] = []
    for effect, lines in texts.items():
        for line in lines:
            kind: Effect = "allow" if effect == "allow" else "ask" if effect == "ask" else "deny"
            parsed = parse_rule(line, effect=kind, source="project")
            assert isinstance(parsed, Rule), parsed
            found.append(parsed)
    return tuple(found)


def policy(mode: Mode = "default", **texts: list[str]) -> Policy:
    return Policy(
        root=ROOT,
        home=HOME,
        mode=mode,
        rules=rules(**texts),
        folders=("/extra",),
        plan_file="/r/.prong/plans/p.md",
        scratchpad="/tmp/pad",
    )


def run(value: Policy, command: str, cwd: str = ROOT) -> Decision:
    return decide(value, "Bash", [Running(command, cwd)])


@pytest.mark.parametrize(
    ("mode", "read_in", "read_out", "write_in", "write_out", "shell", "file_command", "risky"),
    [
        ("default", "allow", "ask", "ask", "ask", "ask", "ask", "ask"),
        ("bubble", "allow", "ask", "ask", "ask", "ask", "ask", "ask"),
        ("acceptEdits", "allow", "ask", "allow", "ask", "ask", "allow", "ask"),
        ("plan", "allow", "ask", "deny", "deny", "deny", "deny", "deny"),
        ("auto", "allow", "ask", "allow", "ask", "allow", "allow", "ask"),
        ("dontAsk", "allow", "deny", "deny", "deny", "deny", "deny", "deny"),
        ("bypassPermissions", "allow", "allow", "allow", "allow", "allow", "allow", "allow"),
    ],
)
def test_each_mode_has_its_defaults(
    mode: Mode, read_in, read_out, write_in, write_out, shell, file_command, risky
):
    """Without rules the mode alone decides, as its row of the table says."""
    value = policy(mode)

    assert isinstance(decide(value, "Read", [Reading("/r/a")]), VERDICTS[read_in])
    assert isinstance(decide(value, "Grep", [Reading("/extra/a")]), VERDICTS[read_in])
    assert isinstance(decide(value, "Read", [Reading("/rest/a")]), VERDICTS[read_out])
    assert isinstance(decide(value, "Edit", [Writing("/r/a")]), VERDICTS[write_in])
    assert isinstance(decide(value, "Write", [Writing("/rest/a")]), VERDICTS[write_out])
    assert isinstance(run(value, "npm test"), VERDICTS[shell])
    assert isinstance(run(value, "mkdir -p a/b && mv c a/b"), VERDICTS[file_command])
    assert isinstance(run(value, "git push --force"), VERDICTS[risky])
    assert isinstance(run(value, "rm -rf build"), VERDICTS[risky])


@pytest.mark.spec("P2")
def test_the_plan_file_is_the_one_writable_path_in_plan_mode():
    """In plan mode the plan may be written, by a tool or by a redirect, and nothing else."""
    value = policy("plan", allow=["Edit", "Bash", "mcp__a"])

    assert isinstance(decide(value, "Write", [Writing("/r/.prong/plans/p.md")]), Allow)
    assert isinstance(run(value, "echo step >> .prong/plans/p.md"), Allow)
    assert isinstance(decide(value, "Write", [Writing("/r/.prong/plans/q.md")]), Deny)
    assert isinstance(decide(value, "Write", [Writing("/tmp/pad/x")]), Deny)
    assert isinstance(run(value, "touch x"), Deny)
    assert isinstance(decide(value, "mcp__c__d", [Using("mcp__c__d")]), Deny)
    assert isinstance(decide(value, "Agent", [Using("explore")]), Allow)


@pytest.mark.spec("S7")
def test_in_plan_mode_a_servers_tool_runs_if_a_rule_allows_it():
    """What a server's tool does only the user can know; an allow rule says that it may be used."""
    use = [Using("mcp__a__b")]
    denied = policy("plan", allow=["mcp__a"], deny=["mcp__a__b"])
    asked = policy("plan", allow=["mcp__a"], ask=["mcp__a__b"])

    assert isinstance(decide(policy("plan", allow=["mcp__a"]), "mcp__a__b", use), Allow)
    assert isinstance(decide(policy("plan"), "mcp__a__b", use), Deny)
    assert isinstance(decide(policy("plan", allow=["mcp__c"]), "mcp__a__b", use), Deny)
    assert isinstance(decide(denied, "mcp__a__b", use), Deny)
    assert isinstance(decide(asked, "mcp__a__b", use), Ask)
    assert isinstance(decide(policy("plan", allow=["Write"]), "Write", [Writing("/r/a")]), Deny)


@pytest.mark.spec("L5")
def test_the_suggested_rule_for_a_servers_tool_is_its_name():
    """Always allowing a server's tool is one word, and that rule allows it."""
    verdict = decide(policy(), "mcp__a__b", [Using("mcp__a__b")])

    assert isinstance(verdict, Ask)
    assert verdict.suggestion == ("mcp__a__b",)
    assert isinstance(
        decide(policy(allow=[*verdict.suggestion]), "mcp__a__b", [Using("mcp__a__b")]), Allow
    )


@pytest.mark.spec("S7", "P2")
@pytest.mark.parametrize("mode", ["default", "plan"])
def test_who_only_reads_by_its_type_is_not_sent_to_a_plan(mode: Mode):
    """Refusals of such an agent speak of its report; only the session's plan mode has a plan."""
    tree = PolicyBox(msgspec.structs.replace(policy(mode), plan_file="/r/.prong/plans/p.md"))
    child = tree.narrow(mode="plan")
    calls = [
        ("Write", Writing("/r/a.py")),
        ("Write", Writing("/r/.prong/plans/p.md")),
        ("Bash", Running("touch a", "/r")),
        ("Bash", Running("echo a > b", "/r")),
        ("Bash", Running("eval $x", "/r")),
        ("mcp__a__b", Using("mcp__a__b")),
    ]
    for tool, access in calls:
        verdict = child.decide(tool, [access])
        assert isinstance(verdict, Deny), access
        assert "only read" in verdict.why
        assert "into the plan" not in verdict.why
        assert "p.md into" not in verdict.why

    told = tree.narrow().decide("Write", [Writing("/r/a.py")])
    assert isinstance(told, Deny) == (mode == "plan")
    if isinstance(told, Deny):
        assert "into the plan at /r/.prong/plans/p.md" in told.why


@pytest.mark.parametrize(
    "command",
    [
        "rm -r a",
        "cp x /etc/y",
        "mv a ..",
        "rm *",
        "cp -t /etc a",
        "touch $x",
        "PATH=. touch a",
        "./touch a",
        "tee ~/x",
        "cp --target-directory=/etc a",
        "mkdir a; npm test",
        "cd .. && touch a",
        "cd $x && touch a",
    ],
)
def test_accepted_edits_end_at_the_project(command: str):
    """File commands that leave the project, recurse or are not certain are asked for."""
    assert isinstance(run(policy("acceptEdits"), command), Ask)


@pytest.mark.parametrize(
    "command",
    [
        "touch a",
        "cp a src/b",
        "rm a b",
        "rm -f src/*.pyc",
        "mkdir -p /r/x",
        "touch /extra/a",
        "cd src && touch a",
        "echo a > b",
        "cat a | tee b",
        "cat <<'EOF' > x\nhi\nEOF",
    ],
)
def test_accepted_edits_include_simple_file_commands(command: str):
    """Making, copying, moving and removing single files in the project is an edit."""
    assert isinstance(run(policy("acceptEdits"), command), Allow)


@pytest.mark.parametrize(
    ("specifier", "path", "fits"),
    [
        ("//etc/**", "/etc/passwd", True),
        ("//etc/**", "/r/etc/passwd", False),
        ("~/x/**", "/home/u/x/y/z", True),
        ("~/x/**", "/home/u/y", False),
        ("/src/**", "/r/src/a/b.py", True),
        ("/src/**", "/r/lib/src/a", False),
        ("src/**", "/r/src/a", True),
        ("./src", "/r/src/a", True),
        ("./src", "/r/srcs", False),
        (".env", "/r/.env", True),
        (".env", "/r/deep/down/.env", True),
        (".env", "/r/.environment", False),
        ("*.pem", "/r/keys/a.pem", True),
        ("/*.py", "/r/a.py", True),
        ("/*.py", "/r/src/a.py", False),
        ("src/*.py", "/r/src/a.py", True),
        ("src/**/test_*.py", "/r/src/test_a.py", True),
        ("src/**/test_*.py", "/r/src/x/y/test_a.py", True),
        ("a?c", "/r/abc", True),
        ("a[bx]c", "/r/abc", True),
        ("a[!b]c", "/r/abc", False),
        ("a.c", "/r/abc", False),
        ("SECRET", "/r/secret", True),
    ],
)
def test_path_patterns(specifier: str, path: str, fits: bool):
    """Path specifiers read like gitignore lines; a denied one ignores case."""
    verdict = decide(
        policy("bypassPermissions", deny=[f"Read({specifier})"]), "Read", [Reading(path)]
    )

    assert isinstance(verdict, Deny) == fits


def test_read_and_edit_rules_govern_their_groups():
    """Read rules reach every reading tool and Edit rules every writing one; unreadable is unwritable."""
    value = policy("bypassPermissions", deny=["Read(.env)", "Edit(/dist/**)"])

    for tool in ("Read", "Grep", "Glob"):
        assert isinstance(decide(value, tool, [Reading("/r/.env")]), Deny)
        assert isinstance(decide(value, tool, [Reading("/r/dist/a")]), Allow)
    for tool in ("Edit", "Write", "NotebookEdit"):
        assert isinstance(decide(value, tool, [Writing("/r/dist/a")]), Deny)
        assert isinstance(decide(value, tool, [Writing("/r/.env")]), Deny)
    for command in (
        "cat .env",
        "cat < .env",
        "python x.py .env",
        "grep a --file=.env",
        "cat ./x/../.env",
        "echo > dist/a",
        "cp a dist/b",
        "cd dist && touch a",
    ):
        assert isinstance(run(value, command), Deny), command
    assert isinstance(run(value, "cat .e*"), Ask)
    assert isinstance(run(value, "cat dist/a"), Allow)


@pytest.mark.parametrize(
    ("rule", "command", "fits"),
    [
        ("Bash(npm test)", "npm test", True),
        ("Bash(npm test)", "npm test x", False),
        ("Bash(npm test:*)", "npm test", True),
        ("Bash(npm test:*)", "npm test -- --watch", True),
        ("Bash(npm test:*)", "npm tests", False),
        ("Bash(npm test:*)", "npm 'test'", True),
        ("Bash(npm run *)", "npm run build", True),
        ("Bash(npm run *)", "npm run $x", True),
        ("Bash(npm run build:*)", "npm run $x", False),
        ("Bash(npm:*)", "npm test && git push", False),
        ("Bash(npm:*)", "npm test; npm x | npm y", True),
        ("Bash(npm:*)", "npm test > out", False),
        ("Bash(npm:*)", "npm test > /dev/null 2>&1", True),
        ("Bash(npm:*)", "npm test $(git push)", False),
        ("Bash(npm:*)", "npm test $(git log)", True),
        ("Bash(npm:*)", "npm --silent $(git log)", False),
        ("Bash(npm:*)", "timeout 60 npm test | tail -5", True),
        ("Bash(npm:*)", "sudo npm test", False),
        ("Bash(npm:*)", "PATH=. npm test", False),
        ("Bash(npm:*)", "NODE_ENV=test npm test", True),
        ("Bash(npm:*)", "export PATH=.; npm test", False),
        ("Bash(npm:*)", "./npm test", False),
        ("Bash(npm:*)", "npm() { git push; }; npm test", False),
        ("Bash(npm:*)", "npm() { npm x; }; npm test", False),
        ("Bash(npm:*)", "$x test", False),
        ("Bash(uv run pytest:*)", "uv run pytest -x", True),
        ("Bash(uv run:*)", "uv run pytest -x", False),
        ("Bash(sudo npm:*)", "sudo npm test", True),
        ("Bash(find:*)", "find . -exec npm {} ;", False),
        ("Bash(npm run build && npm test)", "npm run build && npm test", True),
        ("Bash(git * main)", "git push main", True),
        ("Bash(git * main)", "git push main; ls x", True),
        ("Bash(git * main)", "git push dev", False),
        ("Bash(git * main)", "git push 'x main'", False),
        ("Bash(PORT=1 npm test)", "PORT=1 npm test", True),
        ("Bash", "anything $at all > x", True),
        ("Bash(*)", "a | b", True),
        ("Bash(:*)", "a | b", True),
    ],
)
def test_allow_rules_cover_every_part(rule: str, command: str, fits: bool):
    """A command runs unasked only if each of its parts is allowed or proven harmless."""
    assert isinstance(run(policy(allow=[rule]), command), Allow) == fits


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("Bash(git push:*)", "git push", "deny"),
        ("Bash(git push:*)", "git -C x push", "deny"),
        ("Bash(git push:*)", "git --no-pager push", "deny"),
        ("Bash(git push:*)", "git $x", "ask"),
        ("Bash(git push:*)", f"git {'-c a=b ' * 400} push", "deny"),
        ("Bash(git push:*)", f"git {'-a ' * 400} log", "allow"),
        ("Bash(git push:*)", "git log push", "allow"),
        ("Bash(git push:*)", "git log --grep push", "allow"),
        ("Bash(git push)", "git push", "deny"),
        ("Bash(git push)", "git push origin", "allow"),
        ("Bash(git push)", "git push $x", "ask"),
        ("Bash(rm:*)", "rmdir x", "allow"),
        ("Bash(rm:*)", "echo rm", "allow"),
        ("Bash(rm:*)", "RM x", "deny"),
        ("Bash(* --force)", "git push --force", "deny"),
        ("Bash(curl * | sh)", "curl x | sh", "deny"),
        ("Bash", "ls", "deny"),
    ],
)
def test_deny_rules_look_behind_options(rule: str, command: str, verdict: str):
    """A deny rule finds its command behind options; what may be it is asked for."""
    assert isinstance(run(policy("bypassPermissions", deny=[rule]), command), VERDICTS[verdict])


@pytest.mark.parametrize(
    ("rule", "tool", "specifier", "fits"),
    [
        ("mcp__a", "mcp__a__x", "", True),
        ("mcp__a__*", "mcp__a__x", "", True),
        ("mcp__a__x", "mcp__a__x", "", True),
        ("mcp__a__x", "mcp__a__xy", "", False),
        ("mcp__a", "mcp__ab__x", "", False),
        ("Task(explore)", "Agent", "explore", True),
        ("Agent(explore)", "Agent", "plan", False),
        ("Skill(pdf)", "Skill", "pdf", True),
        ("WebFetch(domain:a.org)", "WebFetch", "domain:a.org", True),
        ("WebFetch(domain:a.org)", "WebFetch", "domain:A.ORG", True),
        ("WebFetch(domain:a.org)", "WebFetch", "domain:www.a.org", True),
        ("WebFetch(domain:a.org)", "WebFetch", "domain:xa.org", False),
    ],
)
def test_other_tools_by_name_and_specifier(rule: str, tool: str, specifier: str, fits: bool):
    """Servers, agents, skills and domains are matched by name."""
    verdict = decide(policy("bypassPermissions", deny=[rule]), tool, [Using(specifier)])

    assert isinstance(verdict, Deny) == fits


@pytest.mark.parametrize(
    ("command", "suggestion"),
    [
        ("npm test -x", ("Bash(npm test:*)",)),
        ("git commit -m x && cargo build", ("Bash(git commit:*)", "Bash(cargo build:*)")),
        ("pytest -q", ("Bash(pytest:*)",)),
        ("ls && pytest", ("Bash(pytest:*)",)),
        ("echo a > src/b", ("Edit(/src/**)",)),
        ("echo a > b", ("Edit(/b)",)),
        ("cat /etc/x", ("Read(//etc/**)",)),
        ("cat /x", ("Read(//x)",)),
        ("bash x.sh", ("Bash(bash x.sh)",)),
        ("git -C x push", ()),
        ("cd src && git log -1", ("Bash(git log:*)",)),
        ("cd /etc && git log -1", ()),
        ("$x y", ()),
        ("touch .git/x", ()),
    ],
)
def test_suggestions_are_small_and_work(command: str, suggestion: tuple[str, ...]):
    """The offered rules are the narrowest useful ones, and with them the question is gone."""
    verdict = run(policy(), command)
    assert isinstance(verdict, Ask)
    assert verdict.suggestion == suggestion

    if suggestion:
        assert isinstance(run(policy(allow=list(suggestion)), command), Allow)


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [
        ("/home/u/work/r", ()),
        ("/home/u/work", ()),
        ("/home", ()),
        ("/home/u/work/other.txt", ("Edit(~/work/other.txt)",)),
        ("/home/u/work/r/a.py", ("Edit(/a.py)",)),
        ("/home/u/work/r/src", ("Edit(/src)",)),
        ("/home/u/work/r/src/a.py", ("Edit(/src/**)",)),
        ("/home/u/else/a.py", ("Edit(~/else/**)",)),
        ("/srv/a/b", ("Edit(//srv/a/**)",)),
    ],
)
def test_no_rule_is_offered_for_what_holds_the_project(path: str, suggestion: tuple[str, ...]):
    """A call on a folder never offers to allow the folder above the project or the home."""
    value = Policy(root="/home/u/work/r", home="/home/u")
    verdict = decide(value, "Edit", [Writing(path)])
    assert isinstance(verdict, Ask)
    assert verdict.suggestion == suggestion


def test_links_are_followed_if_the_caller_can():
    """A shell path is judged by what the caller's resolver makes of it."""
    value = policy("acceptEdits")

    def through_link(path: str) -> str:
        return path.replace("/r/link", "/etc")

    call = [Running("cat link/passwd", ROOT)]
    assert isinstance(decide(value, "Bash", call), Allow)
    assert isinstance(decide(value, "Bash", call, resolve=through_link), Ask)


def test_a_refusal_names_the_rule_and_where_it_stands():
    """Who is refused learns which rule of which settings is the reason."""
    verdict = run(policy(deny=["Bash(rm:*)"]), "ls; sudo rm x")

    assert isinstance(verdict, Deny)
    assert "`Bash(rm:*)`" in verdict.why
    assert "project" in verdict.why


def test_a_wrong_session_rule_is_refused():
    """A text that is no rule changes nothing."""
    box = PolicyBox(policy())

    with pytest.raises(UsageError, match="not a rule"):
        box.allow_for_session("Bash(")
    assert box.policy == policy()


def test_the_parser_is_loaded_only_when_needed():
    """Importing the policy does not load the bash parser."""
    code = "import sys, prong.tools.policy; sys.exit('tree_sitter' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
