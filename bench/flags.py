"""Which flags, keys of JSON and words of other programs' scripts Prong understands.

    python bench/flags.py [CHECKOUT ...]

Each flag is read by the parser of each checkout as a script would give it; each key is looked for
in what `--output-format json` prints, against a scripted server. What is not understood is named,
with what the program answers.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FLAGS = (
    "--add-dir .", "--agent Explore", "--agents {}", "--allow-dangerously-skip-permissions",
    "--allowedTools Read,Grep", "--allowed-tools Read", "--append-system-prompt x",
    "--append-system-prompt-file /dev/null", "--betas a", "--chrome", "-c",
    "--dangerously-skip-permissions", "--debug", "--disable-slash-commands",
    "--disallowedTools Bash", "--effort high", "--fallback-model m", "-r x --fork-session",
    "--ide", "--include-partial-messages --output-format stream-json",
    "--input-format stream-json", "--json-schema {}", "--max-budget-usd 1", "--max-turns 3",
    "--mcp-config {}", "-m x", "-n x", "--no-session-persistence", "--output-format json",
    "--permission-mode manual", "--permission-prompt-tool mcp__a__b", "--plugin-dir .",
    "--replay-user-messages", "-r x", "--session-id a", "--setting-sources user,project",
    "--strict-mcp-config", "--system-prompt x", "--system-prompt-file /dev/null", "--verbose",
    "-w name",
)  # fmt: skip
NEWLINE = "\n"
KEYS = (
    "type", "subtype", "is_error", "result", "session_id", "num_turns", "duration_ms",
    "total_cost_usd", "usage.input_tokens", "usage.output_tokens",
    "usage.cache_read_input_tokens", "usage.cache_creation_input_tokens", "modelUsage",
    "permission_denials", "duration_api_ms", "uuid",
)  # fmt: skip

_READ = """
import sys
from prong.face.flag import check, options_of, parse
args = parse(sys.argv[1:], {})
options_of(args)
check(args)
"""
_PRINT = """
import anyio, sys
from prong.testing import say, world
from prong.testing.program import Program
async def main():
    async with world([say("Hello.")], opens=False) as w:
        done = await Program().run(w, "-p", "Hi", "--output-format", "json")
        sys.stdout.buffer.write(done.stdout)
anyio.run(main)
"""


def run(checkout: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the package of a checkout."""
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        env={"PYTHONPATH": str(checkout / "src"), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )


def measure(checkout: Path) -> tuple[list[str], list[str]]:
    """Give the answers to flags, and the keys, that a checkout does not understand."""
    unread: list[str] = []
    for flag in FLAGS:
        prompt = [] if "--input-format" in flag else ["prompt"]
        done = run(checkout, _READ, "-p", *flag.split(), *prompt)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            unread.append(f"{flag.split()[0]}: {said}")
    told = json.loads(run(checkout, _PRINT).stdout or "{}")
    missing: list[str] = []
    for key in KEYS:
        value = told
        for part in key.split("."):
            value = value.get(part, ...) if isinstance(value, dict) else ...
        missing += [key] if value is ... else []
    return unread, missing


def main() -> int:
    """Print a line for each checkout."""
    for name in sys.argv[1:] or ["."]:
        unread, missing = measure(Path(name).resolve())
        sys.stdout.write(
            f"{name}: {len(FLAGS) - len(unread)} of {len(FLAGS)} flags, "
            f"{len(KEYS) - len(missing)} of {len(KEYS)} keys\n"
            f"  not understood: {''.join(f'{NEWLINE}    {one}' for one in unread) or 'none'}\n"
            f"  not there: {', '.join(missing) or 'none'}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
