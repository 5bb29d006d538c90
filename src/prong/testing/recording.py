"""Records or replays a run: in a test by a variable, on the command line for any program.

    python -m prong.testing.recording record review.run -- prong -p "Review the change"
    python -m prong.testing.recording replay review.run -- prong -p "Review the change"

The program finds the server by `ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL` and `PRONG_BASE_URL`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio

from prong.errors import BadInput, ProngError
from prong.testing.run_recorder import RecordingServer, record_run
from prong.testing.run_replay import ReplayServer, RunDiffers, replay_run

VARIABLE = "PRONG_RECORD"
"""Set to anything but nothing or 0, it makes `recorded_run` record."""


def recorded_run(
    path: str | Path,
    *,
    upstream: str | None = None,
    masks: Mapping[str, str] | None = None,
    places: Mapping[str, str] | None = None,
) -> AbstractAsyncContextManager[RecordingServer | ReplayServer]:
    """Replay a run, or record it if the variable `PRONG_RECORD` is set.

    See `record_run` and `replay_run`; what only one of them takes is nothing to the other.

    Raises UsageError if there is nothing to replay.
    """
    if os.environ.get(VARIABLE, "0") not in {"", "0"}:
        return record_run(path, upstream=upstream, masks=masks, places=places)
    if not Path(path).exists():
        raise BadInput(f"there is no {path}: record the run with {VARIABLE}=1")
    return replay_run(path, places=places)


async def _run(
    serving: AbstractAsyncContextManager[RecordingServer | ReplayServer], words: Sequence[str]
) -> int:
    async with serving as server:
        env = {
            **os.environ,
            "ANTHROPIC_BASE_URL": server.url,
            "OPENAI_BASE_URL": f"{server.url}/v1",
        }
        if env.get("PRONG_BASE_URL"):
            env["PRONG_BASE_URL"] = server.url
        process = await anyio.open_process(words, stdin=None, stdout=None, stderr=None, env=env)
        async with process:
            return await process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a program, and record or replay what it asks; gives its exit code, 1 if it differs."""
    import argparse

    parser = argparse.ArgumentParser(
        prog="python -m prong.testing.recording", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("action", choices=["record", "replay"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--upstream", help="the server to record at, instead of the vendor's")
    parser.add_argument(
        "--mask",
        action="append",
        default=[],
        metavar="REGEX=TEXT",
        help="what is another thing each time, with what to write instead; may be repeated",
    )
    parser.add_argument("words", nargs="+", metavar="COMMAND", help="the program, after --")
    given = parser.parse_args(arguments)
    masks = dict(one.rpartition("=")[::2] for one in given.mask)
    upstream = given.upstream or os.environ.get("PRONG_BASE_URL") or None
    if given.action == "record":
        serving = record_run(given.file, upstream=upstream, masks=masks)
    else:
        serving = replay_run(given.file)
    try:
        return anyio.run(_run, serving, given.words)
    except (RunDiffers, ProngError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
