"""`prong trace`: a session's timeline as a file for Chrome's and Perfetto's viewers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from prong.face.command_grammar import parser_of
from prong.face.inspect import say
from prong.face.line import counted
from prong.face.output import flat, show, show_json
from prong.face.owned_file import write_numbered, write_owned
from prong.session import recorded_events, replay_telemetry
from prong.timeline import chrome_trace, timeline


def run_trace(words: list[str]) -> int:
    """Write a trace; gives the exit code."""
    args = parser_of("trace").parse_args(words)
    if args.otlp is not None:
        show(replay_telemetry(args.session, say, args.otlp))
        return 0
    found = timeline(recorded_events(args.session, say))
    data = msgspec.json.encode(chrome_trace(found))
    if args.output == "-":
        show_json(data)
        return 0
    if args.output:
        path = Path(args.output)
        write_owned(path, data)
    else:
        path = write_numbered(Path(f"trace-{found.session_id}.json"), data)
    kinds = [span.opened.kind for span in found.spans]
    size = f"{counted(len(found.agents), 'agent')}, {counted(kinds.count('request'), 'request')}"
    show(f"{flat(str(path))}: {size}; open it in chrome://tracing or in Perfetto's viewer")
    return 0
