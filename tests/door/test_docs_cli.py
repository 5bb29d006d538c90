import re
import subprocess
import sys
from pathlib import Path

import pytest

from prong.face.cli import COMMANDS
from prong.face.flag import make_parser

pytestmark = pytest.mark.door

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/cli.md").read_text("utf-8")


@pytest.mark.timeout(240)
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse lays help out in another way")
def test_the_page_shows_what_the_program_prints():
    """docs/cli.md is what `make docs` would write."""
    ran = subprocess.run(
        [sys.executable, "docs/regenerate.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_every_flag_stands_on_the_page():
    """No flag is without documentation, whatever the layout of the help."""
    flags = {flag for action in make_parser(COMMANDS)._actions for flag in action.option_strings}

    assert {flag for flag in flags if not re.search(rf"{flag}(?![\w-])", PAGE)} == set()


def test_every_command_has_a_section():
    """The help of every command is shown."""
    shown = set(re.findall(r"^\$ prong ([a-z-]+) --help$", PAGE, re.MULTILINE))

    epilog = make_parser(COMMANDS).epilog or ""
    commands = re.findall(r"^  ([a-z-]+) ", epilog.partition("exit codes:")[0], re.MULTILINE)

    assert len(commands) >= 8
    assert shown == set(commands)
