"""`prong trace`: a session's timeline as a file for Chrome's and Perfetto's viewers."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from prong.errors import BadInput
from prong.face.inspect import say
from prong.face.line import counted
from prong.face.output import flat, show, show_json
from prong.session import recorded_events, replay_telemetry
from prong.timeline import chrome_trace, timeline


def run_trace(words: list[str]) -> int:
    """Write a trace; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="prong trace",
        allow_abbrev=False,
        description="Write when a session's agents did what, for Chrome's or Perfetto's viewer.",
    )
    parser.add_argument("session", nargs="?", help="id, name or journal file; default: the last")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="default: trace-SESSION.json here; - for standard output",
    )
    parser.add_argument(
        "--otlp",
        nargs="?",
        const="",
        metavar="URL",
        help="send it to a collector of OpenTelemetry instead; default: where "
        "OTEL_EXPORTER_OTLP_ENDPOINT says, or this machine",
    )
    args = parser.parse_args(words)
    if args.otlp is not None:
        show(replay_telemetry(args.session, say, args.otlp))
        return 0
    found = timeline(recorded_events(args.session, say))
    data = msgspec.json.encode(chrome_trace(found))
    if args.output == "-":
        show_json(data)
        return 0
    path = Path(args.output or f"trace-{found.session_id}.json")
    try:
        path.write_bytes(data)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written ({error.strerror}); name another file with --output"
        ) from error
    kinds = [span.opened.kind for span in found.spans]
    size = f"{counted(len(found.agents), 'agent')}, {counted(kinds.count('request'), 'request')}"
    show(f"{flat(str(path))}: {size}; open it in chrome://tracing or in Perfetto's viewer")
    return 0
