"""The examples of docs/library.md and docs/testing.md are run."""

import ast
import asyncio
import os
import re
from collections.abc import Iterator
from inspect import CO_COROUTINE
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import prong
from prong.testing import Script, Server, call, say

pytestmark = [pytest.mark.anyio, pytest.mark.door]

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<output>.*?)```)?", re.DOTALL)


def blocks(name: str) -> Iterator[tuple[int, str, str]]:
    """Give the examples of a file, each with its line and the output it promises."""
    text = (ROOT / name).read_text("utf-8")
    for found in _BLOCK.finditer(text):
        yield text[: found.start()].count("\n") + 2, found["code"], found["output"] or ""


def report(result: str) -> str:
    return (
        f"Scope: as told\nResult: {result}\nKey files: todo.txt\nFiles changed: none\nIssues: none"
    )


def answers() -> Script:
    """Make a model that knows the questions of the examples."""
    question = {"question": "Which colour?", "header": "Colour", "options": [{"label": "red"}]}
    return Script(
        routes={
            "How many lines has todo.txt?": [
                call("Read", {"file_path": "todo.txt"}),
                say("Three lines."),
            ],
            "Should I take an umbrella in Oslo?": [
                call("weather", {"city": "Oslo", "days": 1}),
                say("Yes, it rains."),
            ],
            "Which line of todo.txt is the longest?": [
                say('{"line": 2, "text": "water all the plants"}')
            ],
            "Which of them take": [say('{"line": 2, "text": "water all the plants"}')],
            "Which could wait": [say("None."), say("None!"), say("Sorry.")],
            "How many words are in line 1?": [say('{"line": 1, "words": 2}')],
            "How many words are in line 2?": [say('{"line": 2, "words": 4}')],
            "How many words are in line 3?": [say('{"line": 3, "words": 1}')],
            "Whose is todo.txt?": [call("owner", {"file": "todo.txt"}), say("Ada's")],
            "Where is sleep mentioned?": [say("In todo.txt, line 3.")],
            "Ask me for a colour": [
                call("AskUserQuestion", {"questions": [question]}),
                call("Write", {"file_path": "colour.txt", "content": "red"}),
                say("Written."),
            ],
            "Count the words.": [say(report("seven words"))],
            "Find the longest line.": [say(report("the second line"))],
            "And the letters?": [say(report("thirty letters"))],
            "a title of three words": [say("Lines of todo")],
            "Later sessions of this project": [
                say("ADD: Lines of todo.txt are counted without the empty ones.")
            ],
        },
        forever=say(report("done")),
    )


def project(folder: Path) -> None:
    (folder / "todo.txt").write_text("buy milk\nwater all the plants\nsleep\n")


@pytest.mark.parametrize(
    ("code", "output"),
    [pytest.param(code, out, id=f"library.md:{n}") for n, code, out in blocks("docs/library.md")],
)
@pytest.mark.spec("X4")
async def test_examples_of_the_library_run(code, output, tmp_path, monkeypatch, capsys):
    """An example of docs/library.md runs as it stands and prints what stands below it.

    Cells of a notebook, which `# %%` parts, are tasks of their own there, and so they are here.
    """
    project(tmp_path)
    async with Server(answers()) as server:
        for name in [name for name in os.environ if name.startswith(("PRONG_", "ANTHROPIC_"))]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.chdir(tmp_path)
        names: dict[str, Any] = {"__name__": "example"}
        for cell in re.split(r"^# %%.*$", code, flags=re.MULTILINE):
            compiled = compile(cell, "library.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if compiled.co_flags & CO_COROUTINE:
                await asyncio.get_running_loop().create_task(eval(compiled, names))
            else:
                # Plain code waits, and the server works in this loop.
                await anyio.to_thread.run_sync(eval, compiled, names)

    assert capsys.readouterr().out == output


def test_every_public_name_has_an_example():
    """Whatever `prong` exports is used in an example of docs/library.md."""
    used = {
        node.attr
        for _, code, _ in blocks("docs/library.md")
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "prong"
    }

    assert set(prong.__all__) <= used


def test_every_public_name_is_listed():
    """The table of docs/library.md names what `prong` exports, and nothing else."""
    text = (ROOT / "docs/library.md").read_text("utf-8")
    table = text.partition("| name | what it is |")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(listed) == sorted(prong.__all__)


def test_every_public_name_is_there():
    """`prong.__all__` holds only names that exist, in order and each once."""
    assert all(getattr(prong, name) is not None for name in prong.__all__)
    assert sorted(set(prong.__all__)) == prong.__all__


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=f"testing.md:{n}")
        for n, code, _ in blocks("docs/testing.md")
        if "async def test_" in code
    ],
)
async def test_tests_of_the_guide_pass(code, tmp_path, monkeypatch):
    """A test that docs/testing.md shows passes as it stands; one of a recorded run, once it is recorded."""
    monkeypatch.setenv("PRONG_HOME", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    found: dict[str, Any] = {}
    exec(compile(code, "testing.md", "exec"), found)
    [shown] = [value for name, value in found.items() if name.startswith("test_")]
    if "recorded_run" in code:
        async with Server([say("Fine.")]) as server:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
            monkeypatch.setenv("PRONG_RECORD", "1")
            await shown(tmp_path)
        monkeypatch.delenv("PRONG_RECORD")

    await shown(tmp_path)
