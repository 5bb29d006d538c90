"""Small tasks in Prong and in what people use beside it: run, and their lines counted.

    python bench/why/run.py              # the table of docs/why.md
    python bench/why/run.py prong        # only these

Every program runs as a user would start it, against the scripted server; the others' in the
interpreter that BENCH_RIVALS names, `.venv-rivals` by default. A program that does not print or
write what it should ends the run with an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from prong.testing import Script, ServerProcess, Step, call, say

HERE = Path(__file__).parent
LIBRARIES = ("prong", "pydantic_ai", "openai_agents", "claude_agent_sdk")
TASKS = {
    "question": "one question",
    "tool": "a tool",
    "typed": "a typed answer",
    "fan_out": "five sub-agents that know what their parent knows",
    "guard": "a guard before a tool: files are written in one folder alone",
    "own_test": "a test of one's own agent, without a network",
}
EXPECTED = {
    "question": "42",
    "tool": "Yes.",
    "typed": "717710",
    "fan_out": "\n".join(f"Chapter {n}." for n in range(1, 6)),
    "guard": "Done.\nout/notes.txt",
    "own_test": "",
}
"""What each program prints, and then which notes it has written."""
_CITY = {"name": "Oslo", "people": 717710}
_TEXT = say('{"name": "Oslo", "people": 717710}')
_TYPED: dict[str, list[Step]] = {
    "prong": [_TEXT],
    "openai_agents": [say('{"response": {"name": "Oslo", "people": 717710}}')],
    "pydantic_ai": [call("final_result", _CITY)],
    "claude_agent_sdk": [call("StructuredOutput", _CITY), say("Done.")],
}


def script(library: str, task: str) -> Script:
    """Give what the model says."""
    weather = "mcp__own__weather" if library == "claude_agent_sdk" else "weather"
    match task:
        case "tool":
            steps = [call(weather, {"city": "Oslo"}), say("Yes.")]
            return Script(steps, forever=say("Yes."))
        case "typed":
            return Script(_TYPED[library], forever=_TEXT)
        case "fan_out":
            routes = {f"Sum up chapter {n}.": [say(f"Chapter {n}.")] for n in range(1, 6)}
            return Script(routes=routes, forever=say("I have read it."))
        case "guard":
            # By its text the first path is in the folder. Only a model that is told of the
            # objection goes on to the second.
            tries = [_write(library, "out/../notes.txt"), _write(library, "out/notes.txt")]
            objected = {"Only files in out are written.": [tries[1], say("Done.")]}
            return Script(tries[:1], routes=objected, forever=say("Nobody objected."))
        case _:
            return Script(forever=say("42"))


def _write(library: str, path: str) -> Step:
    """Give the call that writes a file, by a library's own tool or the program's."""
    if library in {"prong", "claude_agent_sdk"}:
        return call("Write", {"file_path": path, "content": "Notes."})
    return call("write", {"path": path, "content": "Notes."})


def program(library: str, task: str) -> Path:
    """Say where a program is, or would be."""
    return HERE / library / f"{task}.py"


def lines(path: Path) -> int | None:
    """Count the lines of a program that are not empty; None if there is no such program."""
    if not path.exists():
        return None
    return sum(bool(line.strip()) for line in path.read_text("utf-8").splitlines())


def interpreter(library: str) -> str:
    """Say which Python runs the programs of a library."""
    if library == "prong":
        return sys.executable
    return os.environ.get("BENCH_RIVALS", str(HERE.parents[1] / ".venv-rivals/bin/python"))


def run(library: str, task: str, path: Path | None = None) -> str:
    """Run a program, or another in its place; gives what came of it, or how it failed."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    with ServerProcess(script(library, task)) as server, tempfile.TemporaryDirectory() as folder:
        env = {
            **kept,
            "HOME": folder,
            "ANTHROPIC_API_KEY": "k",
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": f"{server.url}/v1",
            # Nobody is told of the run.
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        Path(folder, "out").mkdir()
        done = subprocess.run(
            [interpreter(library), str(path or program(library, task))],
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        notes = sorted(Path(folder).rglob("notes.txt"))
        written = [str(path.relative_to(folder)) for path in notes]
    if done.returncode != 0:
        return f"failed: {done.stderr[-2000:]}"
    return "\n".join([done.stdout.strip(), *written])


def table() -> list[str]:
    """Give the lines of every program, as a table."""
    rows = [f"| lines | {' | '.join(LIBRARIES)} |", f"|---{'|---' * len(LIBRARIES)}|"]
    for task, told in TASKS.items():
        counts = [lines(program(library, task)) for library in LIBRARIES]
        rows.append(f"| {told} | {' | '.join('-' if n is None else str(n) for n in counts)} |")
    return rows


def main(wanted: Sequence[str]) -> int:
    """Run the programs of the libraries that are named, or of all; print the table."""
    wrong = 0
    for library in wanted or LIBRARIES:
        for task in TASKS:
            if not program(library, task).exists():
                continue
            given = run(library, task)
            if given != EXPECTED[task]:
                wrong += 1
                print(f"{library}/{task}.py gave {given!r}", file=sys.stderr)
    print("\n".join(table()))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
