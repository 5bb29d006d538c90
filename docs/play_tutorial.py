"""Types the commands of docs/tutorial.md and writes what they print: part of `make docs`.

A fenced block of the kind `console` has commands, each after a `$`. They are run one after the
other in one folder that is new, with a model that is scripted; a block of the kind `python` is put
into the file that its first line names. `--check` compares instead, less figures: those move
whenever a prompt does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from prong.testing import Script, ServerProcess, Step, call, report, say
from prong.testing.sample import QUESTION, script

PAGE = Path(__file__).with_name("tutorial.md")
_BLOCK = re.compile(r"^```(?P<kind>console|python)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_FIGURES = re.compile(r"\b[0-9a-f]{12,40}\b|[-+]?[$]?[0-9][0-9,.:]*%?")


def model() -> Script:
    """Make a model that knows the questions of the page."""
    sample = script(pace=0)
    assert isinstance(sample.steps, list)
    tests = call("Bash", {"command": "python -m unittest 2>&1 | grep FAIL"})
    routes: dict[str, list[Step]] = {
        **sample.routes,
        "what does this project do?": [
            call("Read", {"file_path": "README.md"}),
            say("It adds up bills: it reads lines such as `2 x coffee @ 3.20`, takes a discount, "
                "and adds tax."),
        ],
        "Which tests fail?": [
            tests,
            say("I cannot tell: I may not run the tests here."),
            tests,
            say("tests/test_price.py: test_half_a_cent_goes_up."),
        ],
        QUESTION: sample.steps,
        "Read till/parse.py.": [call("Read", {"file_path": "till/parse.py"}), say("Read.")],
        "a price has no cents": [report("parse() refuses the line and names it")],
        "the bill is empty": [report("parse() gives no items, and the total is 0")],
        "in five words": [say("Half a cent goes up.")],
    }  # fmt: skip
    return Script(routes=routes)


class Terminal:
    """Runs commands one after the other, in the folder that the one before went to."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        names = ("AUTHOR_NAME", "COMMITTER_NAME", "AUTHOR_EMAIL", "COMMITTER_EMAIL")
        self._env = {
            **{f"GIT_{name}": "you@prong.example" for name in names},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(folder.parent / "home"),
            "ANTHROPIC_BASE_URL": url,
            "PRONG_MODEL": "claude-sonnet-5-5",
            "COLUMNS": "80",
            "NO_COLOR": "1",
        }

    def type(self, line: str) -> str:
        """Run a command; gives what it prints."""
        if line.startswith("cd "):
            self._folder /= line[3:]
            return ""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    def save(self, text: str) -> None:
        """Keep a program under the name that its first line says."""
        name = text.partition("\n")[0].removeprefix("# ")
        (self._folder / name).write_text(text)


def played(page: str) -> str:
    """Give a page with what its commands print."""
    with tempfile.TemporaryDirectory() as folder, ServerProcess(model()) as server:
        for name in ("work", "home"):
            Path(folder, name).mkdir()
        terminal = Terminal(Path(folder, "work"), server.url)

        def fresh(found: re.Match[str]) -> str:
            if found["kind"] == "python":
                terminal.save(found["text"])
                return found[0]
            lines = [line for line in found["text"].splitlines() if line.startswith("$ ")]
            shown = [f"{line}\n{terminal.type(line[2:])}" for line in lines]
            return f"```console\n{''.join(shown)}```"

        return _BLOCK.sub(fresh, page)


def main() -> int:
    """Write the page, or with --check say where it is not what would be written."""
    page = PAGE.read_text("utf-8")
    fresh = played(page)
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(fresh, "utf-8")
        return 0
    then, now = (_FIGURES.sub("#", text).split("\n") for text in (page, fresh))
    pairs = zip(then, now, strict=False)
    wrong = [(old, new) for old, new in pairs if old.split() != new.split()][:3]
    for old, new in wrong:
        print(f"the page has   {old}\nit would be    {new}")
    if wrong or len(then) != len(now):
        print("docs/tutorial.md is not what the commands print; run 'make docs'")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
