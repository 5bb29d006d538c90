"""Laws of the gate: any text is decided or refused, none breaks it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.tools.access import Reading, Running, Using
from prong.tools.commandline import parse_command
from prong.tools.policy import Allow, Ask, Mode, decide
from prong.tools.rule import BadRule, Rule, parse_rule
from shared.gate import HOME, MODES, ROOT, policy, rule, run

pytestmark = pytest.mark.spec("L5")


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


@pytest.mark.parametrize(
    "before", ["{", "echo {1", "echo {1..", "echo {1..2", "echo {→", "[ -", "[ -n", "$"]
)
def test_what_crashes_the_parser_never_reaches_it(before: str):
    """The parser reads behind a table at rare characters in these places, so they are opaque."""
    for number in range(0x10000, 0x110000, 0x703):
        command = before + chr(number)
        assert parse_command(command, ROOT, HOME).opaque
        assert isinstance(run(policy(), command), Ask)


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
