"""The recipes of docs/cookbook.md are run."""

import ast
import os
import re
import subprocess
from inspect import CO_COROUTINE
from pathlib import Path
from typing import Any

import pytest

from prong.testing import Script, Server, Step, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X4")]

PAGE = (Path(__file__).parents[2] / "docs/cookbook.md").read_text("utf-8")
RECIPES = re.findall(
    r"^## (.*?)\n.*?```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.MULTILINE | re.DOTALL
)


def report(result: str) -> Step:
    return say(
        f"Scope: as told\nResult: {result}\nKey files: none\nFiles changed: none\nIssues: none"
    )


def written(name: str) -> list[Step]:
    return [call("Write", {"file_path": name, "content": "Words.\n"}), report("written")]


def answers() -> Script:
    """Make a model that knows the recipes."""
    return Script(
        routes={
            "worst line of queue.py": [say('{"line": 2, "what": "the error is swallowed"}')],
            "worst line of retry.py": [say('{"line": 1, "what": "it never waits"}')],
            "security engineer": [report("Check the input.")],
            "in a hurry": [report("Print less.")],
            "must maintain it": [report("Write a test.")],
            "Write NOTES.md.": written("NOTES.md"),
            "Write USAGE.md.": written("USAGE.md"),
            "Read queue.py": [call("Read", {"file_path": "queue.py"}), say("It queues.")],
            "Delete the old": [call("Bash", {"command": "rm *.py"}), say("I was not allowed to.")],
            "the shorter one": [say("queue.py.")],
        },
        forever=say("I have read them."),
    )


def project(folder: Path) -> None:
    (folder / "queue.py").write_text("def put(task): ...\n")
    (folder / "retry.py").write_text("def retry(task):\n    return task()\n")
    (folder / ".gitignore").write_text("home\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.invalid"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "begin"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


@pytest.mark.parametrize(("code", "output"), [pytest.param(c, o, id=t) for t, c, o in RECIPES])
async def test_a_recipe_runs(code, output, tmp_path, monkeypatch, capsys):
    """A recipe runs as it stands and prints what stands below it."""
    project(tmp_path)
    for name in [name for name in os.environ if name.startswith(("PRONG_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    monkeypatch.chdir(tmp_path)
    async with Server(answers()) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        names: dict[str, Any] = {"__name__": "recipe"}
        compiled = compile(code, "cookbook.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = eval(compiled, names)
        if compiled.co_flags & CO_COROUTINE:
            await running

    assert capsys.readouterr().out == output


def test_every_recipe_is_found():
    """No recipe of the page is left out for its form."""
    assert len(RECIPES) == PAGE.count("```python") == PAGE.count("\n## ")
