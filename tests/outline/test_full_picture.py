"""What the full screen looks like: rows for people who read tests, pictures for the documentation."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from inline_snapshot import snapshot

from prong.face.draw.theme import ThemeName
from prong.testing import Script, World, Worlds, call, forks, report, say
from shared.fullscreen import Hands, opened

pytestmark = [pytest.mark.anyio, pytest.mark.spec("X2")]

DOCS = Path(__file__).parents[2] / "docs"
PARTS = ("Write the test.", "List the callers.", "Look for other retries.")
REPLY = """\
The wait grows without bound. I'll split this in **three**:

1. a test that fails
2. the callers, who may rely on it
3. other places like it

```python
wait = min(60, 2 ** attempt)  # seconds
```
"""


def story() -> Script:
    """Play a session with an edit, a fan-out, and a fork that asks."""
    slow = call("Bash", {"command": "sleep 600"})
    edit = {"file_path": "retry.py", "old_string": "2 ** n", "new_string": "min(60, 2 ** n)"}
    return Script(
        [
            call("Read", {"file_path": "retry.py"}),
            call("Edit", edit),
            say(REPLY),
            forks(*PARTS),
            say("While they work I read on."),
        ],
        {
            PARTS[0]: [slow],
            PARTS[1]: [call("Bash", {"command": "git push --force origin main"}), report()],
            PARTS[2]: [report("two more places")],
        },
        forever=say("I see."),
    )


@asynccontextmanager
async def playing(
    world: Worlds, size: tuple[int, int], theme: ThemeName = "none"
) -> AsyncGenerator[tuple[World, Hands]]:
    """Play it up to the question."""
    files = {"retry.py": "def wait(n):\n    return 2 ** n\n"}
    rules = ("Edit", "Bash(sleep:*)")
    async with (
        world(story(), files=files, attended=True, allow=rules) as w,
        opened(w.session, size, quiet=600.0, theme=theme) as hands,
    ):
        await hands.type("fix the scheduler")
        await hands.see("other places like it")
        await hands.type("go on")
        await hands.see("may it? git push --force", "done")
        await hands.see("I see.", "● main", "sleep 600", "A title" if size[0] > 100 else "")
        yield w, hands


def still(text: str) -> str:
    """Take out of a screen what differs from run to run."""
    text = re.sub(r"warm \d:\d\d", "warm 4:58", text)
    # The folder's path is in the prompt, and differs in length.
    text = re.sub(r"shared [\d,]+ B", "shared 16,000 B", text)
    text = re.sub(r"base [\d,]+ tok", "base 4,000 tok", text)
    text = re.sub(r"\$0\.00\d\d", "$0.0010", text)
    text = re.sub(r"\b9\d%", "96%", text)
    text = re.sub(r"\(\d\d%\)", "(90%)", text)
    text = re.sub(r"█{7}.", "███████▋", text)
    return re.sub(r"\b\d+ s\b", "1 s", text)


async def test_80_by_24(world: Worlds) -> None:
    """At the least size there is room for all: agents below, the question whole, the keys named."""
    async with playing(world, (80, 24)) as (_, hands):
        assert still(hands.text) == snapshot("""\
prong  claude-sonnet-5-5 · default      $0.02  saved $0.07  cache 96%  warm 4:58
▸ Agent fork: part 3  fork-3  completed  1 s

While they work I read on.
▸ fan-out of 3, 1 ended: shared 16,000 B, paid $0.0010, saved $0.0010 (90%)

▸ notice: fork "part 3" completed

I see.
── agents ──────────────────────────────────────────────────────────────────────
● main    96%  $0.02
◐ fork-1  96% $0.0010 sleep 600
? fork-2  96% $0.0010 asks: git push --force origin main
○ fork-3  96% $0.0010 done
──  fork-2  may it? git push --force origin main ───────────────────────────────
    git push --force origin main
  `git push --force origin main` would be run
  [y] once
  [s] for this session: Bash(git push:*)
  [a] always, by .prong/settings.local.json: Bash(git push:*)
  [n] no, and say why
────────────────────────────────────────────────────────────────────────────────
>
1 question, 2 in the background                 Enter send  Tab agents and calls\
""")


async def test_a_wide_one(world: Worlds) -> None:
    """From 120 columns on the agents stand beside the conversation."""
    async with playing(world, (140, 30)) as (_, hands):
        assert still(hands.text) == snapshot("""\
prong  claude-sonnet-5-5 · default · main · A title                                                 $0.02  saved $0.07  cache 96%  warm 4:58
The wait grows without bound. I'll split this in three:                     │● main     6t ███████▋  96%  $0.02
                                                                            │├◐ fork-1  1t ███████▋  96% $0.0010 sleep 600
1. a test that fails                                                        │├? fork-2  1t ███████▋  96% $0.0010 asks: git push --force ori…
2. the callers, who may rely on it                                          │└○ fork-3  1t ███████▋  96% $0.0010 done
3. other places like it                                                     │fan-out 1: base 4,000 tok · read 100 %
                                                                            │
  wait = min(60, 2 ** attempt)  # seconds                                   │
                                                                            │
> go on                                                                     │
◐ Agent fork: part 1  fork-1  running  1 s                                  │
? Agent fork: part 2  fork-2  waits for you  1 s                            │
▸ Agent fork: part 3  fork-3  completed  1 s                                │
                                                                            │
While they work I read on.                                                  │
▸ fan-out of 3, 1 ended: shared 16,000 B, paid $0.0010, saved $0.0010 (90%) │
                                                                            │
▸ notice: fork "part 3" completed                                           │
                                                                            │
I see.                                                                      │
──  fork-2  may it? git push --force origin main ───────────────────────────────────────────────────────────────────────────────────────────
    git push --force origin main
  `git push --force origin main` would be run
  [y] once
  [s] for this session: Bash(git push:*)
  [a] always, by .prong/settings.local.json: Bash(git push:*)
  [n] no, and say why
────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
>
1 question, 2 in the background                                Enter send  Tab agents and calls  Shift+Tab mode  Ctrl+O line by line  /help\
""")


@pytest.mark.skipif("PRONG_PICTURES" not in os.environ, reason="draws the pictures of docs/ anew")
@pytest.mark.parametrize(("name", "size"), [("full", (140, 32)), ("full-80x24", (80, 24))])
async def test_pictures(world: Worlds, name: str, size: tuple[int, int]) -> None:
    """The pictures of the documentation are drawn by the program itself."""
    async with playing(world, size, "dark") as (_, hands):
        await anyio.sleep(0.3)
        picture = hands.app.export_screenshot(title="prong")
    ids = {
        found: f"t{n}" for n, found in enumerate(sorted(set(re.findall(r"terminal-\d+", picture))))
    }
    for found, plain in ids.items():
        picture = picture.replace(found, plain)
    # No picture fetches anything.
    picture = re.sub(r"\s*@font-face \{.*?\}|\s*<!--.*?-->", "", picture, flags=re.DOTALL)
    (DOCS / f"{name}.svg").write_text(still(picture), encoding="utf-8")
