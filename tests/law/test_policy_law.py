from __future__ import annotations

import random
import shlex
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.tool.access import Access, Reading, Running, Using, Writing
from prong.tool.command import parse_command
from prong.tool.ground import is_protected
from prong.tool.policy import Allow, Ask, Deny, Mode, Policy, PolicyBox, Verdict, decide
from prong.tool.rule import BadRule, Effect, Rule, parse_rule

ROOT, HOME = "/r", "/home/u"
MODES: tuple[Mode, ...] = get_args(Mode)
RANK = {Allow: 0, Ask: 1, Deny: 2}

pytestmark = pytest.mark.spec("L5")


def rule(effect: Effect, text: str) -> Rule:
    parsed = parse_rule(text, effect=effect, source="user")
    assert isinstance(parsed, Rule), parsed
    return parsed


def policy(mode: Mode = "default", *rules: Rule) -> Policy:
    return Policy(root=ROOT, home=HOME, mode=mode, rules=rules, plan_file="/r/.prong/plans/p.md")


def run(value: Policy, command: str) -> Verdict:
    return decide(value, "Bash", [Running(command, ROOT)])


def rank(verdict: Verdict) -> int:
    return RANK[type(verdict)]


SPELLINGS = [
    "rm",
    r"\rm",
    r"r\m",
    '"rm"',
    "'rm'",
    'r""m',
    "r''m",
    "$'rm'",
    r"$'\x72m'",
    r"$'\162\u006d'",
    "/bin/rm",
    "/usr/bin/../bin/rm",
    "r\\\nm",
    "\"r\"'m'",
    "$(echo rm)",
    "`echo rm`",
    "${x:-rm}",
    "/bin/r?",
    "{rm,-f}",
]

WRAPPINGS = [
    "{}; ls",
    "ls; {}",
    "ls && {}",
    "false || {}",
    "{} &",
    "ls | {}",
    "{} | cat",
    "ls |& {}",
    "ls\n{}",
    "# note\n{}",
    "ls # note\n{}",
    "ls \\\n; {}",
    "({})",
    "{{ {}; }}",
    "! {}",
    "if {}; then :; fi",
    "if true; then {}; fi",
    "if false; then :; elif true; then {}; fi",
    "if false; then :; else {}; fi",
    "while true; do {}; break; done",
    "until {}; do break; done",
    "for i in a; do {}; done",
    "for i in $({}); do :; done",
    "case a in a) {};; esac",
    "case $({}) in *) ;; esac",
    "echo $({})",
    'echo "$({})"',
    'echo "a ${{x:-$({})}} b"',
    "echo ${{x:-$({})}}",
    "echo $(( $({}) + 1 ))",
    "cat <({})",
    "echo a | tee >({})",
    "cat <<< $({})",
    'cat <<< "$({})"',
    "cat <<EOF\n$({})\nEOF",
    "cat <<-EOF\n\t$({})\n\tEOF",
    "cat <<EOF | wc\n$({})\nEOF",
    "cat <<EOF && {}\nhi\nEOF",
    "cat <<'EOF'\nhi\nEOF\n{}",
    "x=$({})",
    "x=$({}) ls",
    "x=1 {}",
    "a=(1 $({}))",
    "export x=$({})",
    "[[ -n $({}) ]]",
    '[ -n "$({})" ]',
    "f() {{ {}; }}; f",
    "function f {{ {}; }}; f",
    "ls() ({}); ls",
    "time {}",
    "> /dev/null {}",
    "{} > /dev/null 2>&1",
    "{} < /dev/null",
    "ls $({}) > /dev/null",
    "coproc {}",
]
"""Shell syntax around a command; doubled braces stand for one."""

PREFIXES = [
    "env",
    "env A=1 B=2",
    "env -u X -i",
    "env -- ",
    "sudo",
    "sudo -u root -E",
    "sudo -n --",
    "doas",
    "nohup",
    "nice",
    "nice -n 5",
    "nice -5",
    "timeout 5",
    "timeout -k 1 -s KILL 5",
    "timeout --signal=KILL 5",
    "time",
    "time -p",
    "command",
    "command -p",
    "exec",
    "exec -a x",
    "setsid",
    "stdbuf -oL",
    "ionice -c 3",
    "xargs",
    "xargs -n 1 -P 2",
    "xargs -0",
    "xargs -I X",
    "find . -exec",
    "find . -name x -o -execdir",
    "busybox",
    "strace -f -o /dev/null",
    "flock /tmp/l",
    "parallel",
    "uv run",
    "npx",
    "npm x",
    "npm exec --",
    "poetry run",
    "bundle exec",
    "git bisect run",
    "command env nohup",
]
"""Programs that run the words after them."""

JOINING = ["watch", "watch -n 1", "ssh host", "ssh -p 22 host", "eval", "git submodule foreach"]
"""Programs that join the words after them and read the result anew, so that quotes are lost."""

SCRIPTED = [
    "bash -c {}",
    "sh -c {}",
    "bash -lc {}",
    "bash -e -o pipefail -c {}",
    "zsh -c {}",
    "/bin/bash -c {} x y",
    "eval {}",
    "eval -- {}",
    "trap {} EXIT",
    "su -c {}",
    "script -qc {} /dev/null",
    "env -S {}",
    "git -c alias.x='!'{} x",
    "git rebase -x {} HEAD~1",
    "ssh host {}",
    "watch {}",
    "xargs sh -c {}",
    "echo {} | sh",
    "echo {} | sudo bash -s",
    "bash <<< {}",
    "bash <(echo {})",
    "source <(echo {})",
    ". /dev/stdin <<< {}",
    "alias x={}; x",
]
"""Programs that take a command line as one quoted word."""

FOREIGN = [
    "python -c 'import os; os.system(\"rm x\")'",
    "perl -e 'system \"rm x\"'",
    "awk 'BEGIN {{ system(\"rm x\") }}'",
    'node -e \'require("child_process").execSync("rm x")\'',
]
"""Programs in other languages that say the name plainly."""


@st.composite
def hidden_removals(draw: st.DrawFn) -> str:
    """Build a command line that runs rm somewhere inside."""
    text = f"{draw(st.sampled_from(SPELLINGS))} {draw(st.sampled_from(['x', '-rf x', '', '-- x']))}"
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["wrap", "prefix", "script"]))
        if kind == "wrap":
            # A line break inside a here-document's first line would make the rest its text.
            fitting = [w for w in WRAPPINGS if "EOF" not in w or "\n" not in text]
            text = draw(st.sampled_from(fitting)).format(text)
        elif kind == "prefix" and "\n" not in text and not text.startswith("x="):
            plain = not set(text) & set("\\\"'`$")
            text = f"{draw(st.sampled_from(PREFIXES + JOINING * plain))} {text}"
        else:
            text = draw(st.sampled_from(SCRIPTED)).format(shlex.quote(text))
    return text


@settings(max_examples=600, deadline=None)
@given(hidden_removals(), st.sampled_from(MODES), st.booleans())
def test_a_denied_command_is_out_of_reach(command: str, mode: Mode, lax: bool):
    """However it is wrapped, a denied command is never allowed, in no mode, by no other rule."""
    rules = [rule("deny", "Bash(rm:*)")]
    if lax:
        rules += [rule("allow", "Bash"), rule("allow", "Bash(rm:*)"), rule("allow", "Bash(* x)")]

    assert not isinstance(run(policy(mode, *rules), command), Allow)


@pytest.mark.spec("P2")
@settings(max_examples=300, deadline=None)
@given(hidden_removals(), st.booleans())
def test_plan_mode_runs_nothing_that_writes(command: str, lax: bool):
    """In plan mode a hidden removal never runs, whatever the rules allow."""
    rules = [rule("allow", "Bash"), rule("allow", "Bash(rm:*)")] if lax else []

    assert not isinstance(run(policy("plan", *rules), command), Allow)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("wrapping", [*WRAPPINGS, "{}"])
def test_every_spelling_in_every_construct(spelling: str, wrapping: str):
    """Each way to write a name is seen in each construct of the shell."""
    command = wrapping.format(f"{spelling} x")

    assert not isinstance(
        run(policy("bypassPermissions", rule("deny", "Bash(rm:*)")), command), Allow
    )


@pytest.mark.parametrize("wrapper", [*PREFIXES, *JOINING, *SCRIPTED, *FOREIGN])
def test_every_wrapper_is_seen_through(wrapper: str):
    """Each program that runs another is either opened or not trusted."""
    command = wrapper if "rm x" in wrapper else f"{wrapper} rm x"
    if "{}" in wrapper:
        command = wrapper.format("'rm x'")

    assert not isinstance(
        run(policy("bypassPermissions", rule("deny", "Bash(rm:*)")), command), Allow
    )
    assert isinstance(run(policy("plan"), command), Deny)


COMMANDS = st.one_of(
    hidden_removals(),
    st.sampled_from(
        [
            "ls",
            "git push",
            "git log",
            "npm test",
            "echo a > x",
            "cat /etc/passwd",
            "mkdir a",
            "cat .env",
        ]
    ),
)
PATHS = st.sampled_from(
    ["/r/a.py", "/r/src/b.py", "/r/.git/config", "/etc/passwd", "/home/u/.bashrc", "/r/.env"]
)
CALLS: st.SearchStrategy[tuple[str, Access]] = st.one_of(
    st.tuples(st.just("Bash"), st.builds(Running, COMMANDS, st.just(ROOT))),
    st.tuples(st.sampled_from(["Read", "Grep", "Glob"]), st.builds(Reading, PATHS)),
    st.tuples(st.sampled_from(["Edit", "Write", "NotebookEdit"]), st.builds(Writing, PATHS)),
    st.tuples(
        st.sampled_from(["Agent", "Skill", "WebFetch", "mcp__a__b", "mcp__c__d"]),
        st.builds(Using, st.sampled_from(["", "x", "domain:a.org"])),
    ),
)
RULES = st.builds(
    rule,
    st.sampled_from(["allow", "ask", "deny"]),
    st.sampled_from(
        [
            *["Bash", "Bash(*)", "Bash(rm:*)", "Bash(git:*)", "Bash(npm test:*)", "Bash(ls)"],
            *["Read", "Read(.env)", "Read(//etc/**)", "Read(~/**)", "Grep", "Edit", "Write"],
            *["Edit(/src/**)", "Edit(*.py)", "mcp__a", "mcp__a__*", "mcp__c__d", "Agent(x)"],
            *["Skill", "WebFetch(domain:a.org)", "Task", "Bash(* x)", "Bash(git * x)"],
        ]
    ),
)


@settings(max_examples=400, deadline=None)
@given(CALLS, st.sampled_from(MODES), st.lists(RULES, max_size=5), RULES)
def test_forbidding_more_never_permits_more(
    call: tuple[str, Access], mode: Mode, rules: list[Rule], extra: Rule
):
    """A deny or ask rule more makes no decision laxer; an allow rule more makes none stricter."""
    tool, access = call
    before = decide(policy(mode, *rules), tool, [access])
    after = decide(policy(mode, *rules, extra), tool, [access])

    if extra.effect == "allow":
        assert rank(after) <= rank(before)
    else:
        assert rank(after) >= rank(before)


@settings(max_examples=200, deadline=None)
@given(CALLS, st.sampled_from(MODES), st.lists(RULES, max_size=6), st.integers())
def test_the_order_of_rules_is_irrelevant(
    call: tuple[str, Access], mode: Mode, rules: list[Rule], seed: int
):
    """Shuffled rules give the same kind of answer."""
    tool, access = call
    shuffled = random.Random(seed).sample(rules, len(rules))

    assert type(decide(policy(mode, *rules), tool, [access])) is type(
        decide(policy(mode, *shuffled), tool, [access])
    )


@settings(max_examples=300, deadline=None)
@given(
    CALLS,
    st.sampled_from(MODES),
    st.lists(st.sampled_from(MODES), min_size=1, max_size=3),
    st.lists(RULES, max_size=4),
    st.lists(RULES, max_size=2),
)
def test_a_child_is_never_laxer_than_its_parent(
    call: tuple[str, Access], mode: Mode, modes: list[Mode], rules: list[Rule], own: list[Rule]
):
    """Narrowing to any mode, at any depth, before or after the parent changes, only narrows."""
    tool, access = call
    top = PolicyBox(policy("default", *rules))
    boxes = [top]
    for child in modes:
        boxes.append(boxes[-1].narrow(mode=child, rules=own))
    top.set_mode(mode)

    ranks = [rank(box.decide(tool, [access])) for box in boxes]

    assert ranks == sorted(ranks)


def test_a_parents_new_rules_reach_its_children():
    """An answer given for the session counts in the whole tree, at once."""
    top = PolicyBox(policy())
    child = top.narrow().narrow(mode="acceptEdits")
    call = [Running("npm test", ROOT)]
    assert isinstance(child.decide("Bash", call), Ask)

    child.allow_for_session("Bash(npm test:*)")

    assert isinstance(top.decide("Bash", call), Allow)
    assert isinstance(child.decide("Bash", call), Allow)


def test_a_bubbling_fork_decides_as_its_tree_does():
    """A fork without a mode of its own follows the mode of its tree."""
    top = PolicyBox(policy())
    fork = top.narrow(mode="bubble")
    call = [Writing("/r/a.py")]

    top.set_mode("acceptEdits")

    assert isinstance(fork.decide("Edit", call), Allow)
    assert isinstance(decide(policy("bubble"), "Edit", call), Ask)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.binary(max_size=200).map(lambda b: b.decode("latin-1"))))
def test_no_text_breaks_the_parser(command: str):
    """Any text at all gives a decision."""
    assert run(policy(), command) is not None


SCRAPS = st.lists(
    st.sampled_from(
        [
            *"$(){}[]<>|&;\"'`\\#\n \t!*?~=-",
            "rm",
            "ls",
            "EOF",
            "<<EOF",
            "$((",
            "))",
            "$'",
            "case a in",
            "esac",
            "done",
            "do",
            "\ud800",
            "\r",
            "é",
        ]
    ),
    max_size=40,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(SCRAPS, st.sampled_from(MODES))
def test_scraps_of_shell_never_raise(command: str, mode: Mode):
    """Broken shell syntax gives a decision too, in every mode."""
    assert run(policy(mode, rule("deny", "Bash(rm:*)")), command) is not None


def test_deep_nesting_is_opaque_not_fatal():
    """A command nested beyond reason is a question, not a crash."""
    for command in [
        "$(" * 3000 + "rm" + ")" * 3000,
        "(" * 3000 + "rm" + ")" * 3000,
        "sudo " * 500 + "rm",
    ]:
        assert parse_command(command, ROOT, HOME).opaque
        assert not isinstance(run(policy("auto"), command), Allow)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("(x)", 0),
        ("Bash(", 5),
        ("Bash(x", 6),
        ("Bash()", 5),
        ("Bash x", 4),
        ("Bash(x)y", 8),
        ("1x", 0),
    ],
)
def test_bad_rules_say_where(text: str, position: int):
    """A text that is no rule is a value that names the character."""
    parsed = parse_rule(text, effect="allow", source="user")

    assert isinstance(parsed, BadRule)
    assert parsed.position == position


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=40))
def test_any_rule_text_is_read_or_refused(text: str):
    """Parsing a rule never raises, and a rule that was read can be used."""
    for line in (text, f"Bash({text})", f"Read({text})", f"WebFetch({text})"):
        parsed = parse_rule(line, effect="deny", source="project")
        if isinstance(parsed, Rule):
            for tool, access in (
                ("Bash", Running("ls x", ROOT)),
                ("Read", Reading("/r/x")),
                ("WebFetch", Using("x")),
            ):
                decide(policy("default", parsed), tool, [access])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "path",
    [
        "/r/.git/hooks/pre-commit",
        "/r/.GIT/config",
        "/r/sub/.git",
        "/r/.prong/settings.json",
        "/r/.claude/settings.local.json",
        "/r/.mcp.json",
        "/r/.prong/agents/a.md",
        "/r/.prong/hooks/x",
        "/home/u/.bashrc",
        "/home/u/.zshrc",
        "/home/u/.profile",
        "/home/u/.ssh/config",
        "/home/u/.gnupg/x",
        "/home/u/.prong/settings.json",
        "/r/.vscode/settings.json",
        "/r/.idea/x",
        "/r/.Prong/Settings.json",
    ],
)
def test_protected_paths_are_never_written_unasked(path: str, mode: Mode):
    """No mode and no allow rule writes a protected path without a question."""
    value = policy(mode, rule("allow", "Edit"), rule("allow", "Bash"))
    assert is_protected(value, path)

    for verdict in (
        decide(value, "Write", [Writing(path)]),
        run(value, f"echo x > {path}"),
        run(value, f"cp x {path}"),
        run(value, f"tee -a {path}"),
        run(value, f"cd {path.rpartition('/')[0]} && touch {path.rpartition('/')[2]}"),
    ):
        assert isinstance(verdict, Deny if mode in {"plan", "dontAsk"} else Ask)
