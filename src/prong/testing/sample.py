"""A small project and a script for it: what the demos play.

The project is a till with a wrong rounding, and tests that show it. The script has the model read
the project, plan, and split itself into four. The words are fixed; what they claim comes true only
if the tools really do it. `python -m prong.testing.sample FOLDER` writes the project.
"""

from __future__ import annotations

import sys
from pathlib import Path

from prong.testing.script import Call, Script, Step, Text, call, calls, delay, say

_PRICE = '''\
"""Prices in cents; rates in per cent."""

from fractions import Fraction


def share(cents: int, per_cent: Fraction) -> int:
    """Give a part of an amount, rounded to a cent."""
    return int(cents * per_cent / 100)


def with_tax(cents: int, per_cent: Fraction) -> int:
    """Add tax to an amount."""
    return cents + share(cents, per_cent)


def discounted(cents: int, per_cent: Fraction) -> int:
    """Take a discount from an amount."""
    return cents - share(cents, per_cent)
'''

_PARSE = '''\
"""Reads the lines of a bill: `2 x coffee @ 3.20`."""

import re
from typing import NamedTuple

_LINE = re.compile(r"(?P<count>\\d+) x (?P<name>[\\w ]+?) @ (?P<euros>\\d+)\\.(?P<cents>\\d\\d)")


class Item(NamedTuple):
    """One line of a bill."""

    count: int
    name: str
    cents: int


def parse(text: str) -> list[Item]:
    """Read a bill; a line that is none is an error that names it."""
    items = []
    for number, line in enumerate(text.splitlines(), 1):
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"line {number} is no item: {line!r}")
        cents = int(found["euros"]) * 100 + int(found["cents"])
        items.append(Item(int(found["count"]), found["name"], cents))
    return items
'''

_BILL = '''\
"""Adds a bill up."""

from fractions import Fraction

from till.parse import parse
from till.price import discounted, with_tax

TAX = Fraction(19)


def total(text: str, *, discount: Fraction = Fraction(0)) -> int:
    """Give what a bill comes to in cents, discount taken and tax added."""
    net = sum(item.count * item.cents for item in parse(text))
    return with_tax(discounted(net, discount), TAX)
'''

_TEST_PRICE = """\
import unittest
from fractions import Fraction

from till.price import with_tax


class Price(unittest.TestCase):
    def test_half_a_cent_goes_up(self):
        self.assertEqual(with_tax(50, Fraction(19)), 60)

    def test_whole_cents_stay(self):
        self.assertEqual(with_tax(100, Fraction(19)), 119)
"""

_TEST_PARSE = """\
import unittest

from till.parse import Item, parse


class Parse(unittest.TestCase):
    def test_reads_an_item(self):
        self.assertEqual(parse("2 x coffee @ 3.20"), [Item(2, "coffee", 320)])

    def test_names_the_line_that_is_wrong(self):
        with self.assertRaisesRegex(ValueError, "line 2"):
            parse("1 x tea @ 2.00\\nrubbish")
"""

FILES = {
    "README.md": "# Till\n\nAdds up bills. Amounts are whole cents.\n",
    "AGENTS.md": "Run the tests with `python3 -m unittest`. Amounts are cents, never floats.\n",
    "till/__init__.py": "",
    "till/price.py": _PRICE,
    "till/parse.py": _PARSE,
    "till/bill.py": _BILL,
    "tests/__init__.py": "",
    "tests/test_price.py": _TEST_PRICE,
    "tests/test_parse.py": _TEST_PARSE,
}
"""The project, by path."""

QUESTION = "A customer paid a cent too little. Find out why, fix it, check the rest."

ALLOWED = "Bash(python3 -m unittest:*)"
"""The one kind of command that the scripted session allows."""

DIRECTIVES = {
    "rounding": "Make share() round half a cent up, and prove it with tests.test_price.",
    "callers": "List every place that depends on the rounding in share(), with line numbers.",
    "parser": "Run tests.test_parse and say whether any amount can be lost in parse().",
    "readme": "Say in README.md how amounts are rounded and how to run the tests.",
}
"""What each fork is to do, by its name."""

_TITLES = {
    "rounding": "Fix the rounding",
    "callers": "Find what depends on it",
    "parser": "Check the parser",
    "readme": "Write it down",
}


def _report(scope: str, result: str, *, files: str, changed: str = "none") -> Step:
    return say(
        f"Scope: {scope}\nResult: {result}\nKey files: {files}\n"
        f"Files changed: {changed}\nIssues: none"
    )


def _tests(module: str) -> Step:
    return call("Bash", {"command": f"python3 -m unittest {module}"})


_ROUTES: dict[str, list[Step]] = {
    "rounding": [
        _tests("tests.test_price"),
        call(
            "Edit",
            {
                "file_path": "till/price.py",
                "old_string": "    return int(cents * per_cent / 100)",
                "new_string": "    return int(cents * per_cent / 100 + Fraction(1, 2))",
            },
        ),
        _tests("tests.test_price"),
        _report(
            "the rounding in share()",
            "int() cut half cents off; a half is added before it now. The test that failed passes.",
            files="till/price.py, tests/test_price.py",
            changed="till/price.py",
        ),
    ],
    "callers": [
        call("Grep", {"pattern": r"share\(|with_tax|discounted", "output_mode": "content"}),
        _report(
            "who depends on the rounding",
            "with_tax() and discounted() in till/price.py, and through them total() in "
            "till/bill.py. Nothing else.",
            files="till/price.py, till/bill.py",
        ),
    ],
    "parser": [
        _tests("tests.test_parse"),
        call("Read", {"file_path": "till/parse.py"}),
        _report(
            "the parser",
            "both tests pass. Cents are read as whole numbers; no amount can be lost.",
            files="till/parse.py",
        ),
    ],
    "readme": [
        call("Read", {"file_path": "README.md"}),
        call(
            "Write",
            {
                "file_path": "README.md",
                "content": "# Till\n\nAdds up bills. Amounts are whole cents; half a cent goes up."
                "\n\nTests: `python3 -m unittest`\n",
            },
        ),
        _report(
            "the README",
            "it says how amounts are rounded and how to run the tests.",
            files="README.md",
            changed="README.md",
        ),
    ],
}


def script(*, pace: float = 0.3) -> Script:
    """Make the script; `pace` is how long the model takes to begin an answer, in seconds."""
    todos = [{"content": title, "status": "pending"} for title in _TITLES.values()]
    parent = [
        calls(
            ("Glob", {"pattern": "**/*.py"}),
            *(("Read", {"file_path": path}) for path in FILES if path.startswith("till/p")),
            ("Read", {"file_path": "till/bill.py"}),
            ("Read", {"file_path": "tests/test_price.py"}),
        ),
        say(
            "share() cuts fractions off. There are four things to do.",
            then=call("TodoWrite", {"todos": todos}),
        ),
        Step(
            (
                Text("Four parts that do not depend on each other: I split."),
                *(
                    Call("Agent", {"description": title, "prompt": DIRECTIVES[name], "name": name})
                    for name, title in _TITLES.items()
                ),
            )
        ),
        say("All four are at work."),
        say("Fixed: half a cent goes up. The parser is fine."),
    ]
    paced = [delay(pace, then=step) for step in parent]
    routes = {
        DIRECTIVES[name]: [delay(pace, then=step) for step in steps]
        for name, steps in _ROUTES.items()
    }
    return Script(paced, routes)


def write(folder: Path) -> None:
    """Put the project into a folder; what is there already stays as it is.

    Raises FileExistsError if a file of the project is there.
    """
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(content)


if __name__ == "__main__":
    write(Path((sys.argv[1:] or ["till"])[0]))
