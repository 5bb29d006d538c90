"""What the model will see, as a short text for people and for snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prong.entry import Entry, Image, Part, Reply, Result, Results, User
from prong.prompt.rope import Prompt
from prong.wire import HeadSpec


def outline(prompt: Prompt) -> str:
    """Draw a prompt as one line per entry: number, kind, what it holds and how long that is."""
    head = prompt.head
    system = sum(len(text) for text in head.spec.system)
    sizes = f"tools {len(head.tools)}, system {system}"
    lines = [", ".join((f"head  {head.model}", sizes, *_parameters(head.spec)))]
    for number, (kind, entry) in enumerate(prompt.entries(), 1):
        lines.append(f"{number:02} {kind:<10} {_describe(entry)}".rstrip())
    return "\n".join(lines)


def _parameters(spec: HeadSpec) -> Iterator[str]:
    """Say how the model is asked to answer, as far as it was told."""
    said: dict[str, object] = {"effort": spec.effort, "thinking": spec.thinking, **spec.extra}
    for name, value in said.items():
        if isinstance(value, bool):
            yield f"{name} {'on' if value else 'off'}"
        elif value is not None:
            yield f"{name} {_short(str(value))}"


def _describe(entry: Entry) -> str:
    match entry:
        case User(parts=parts):
            return ", ".join(_part(part) for part in parts)
        case Results(results=results):
            return ", ".join(_result(result) for result in results)
        case Reply():
            return ", ".join(_reply(entry))


def _part(part: Part) -> str:
    if isinstance(part, Image):
        return f"image {part.media_type}"
    return f'text {len(part.text)} "{_short(part.text)}"'


def _result(result: Result) -> str:
    length = sum(len(part.data if isinstance(part, Image) else part.text) for part in result.parts)
    return f"{'failure' if result.failed else 'result'} {length}"


def _reply(reply: Reply) -> list[str]:
    found = [f"thinking {len(reply.thinking)}"] if reply.thinking else []
    if reply.text:
        found.append(f'text {len(reply.text)} "{_short(reply.text)}"')
    counts = Counter(call.name for call in reply.calls)
    found += [f"call {name}" + (f" x{n}" if n > 1 else "") for name, n in counts.items()]
    return found


def _short(text: str, limit: int = 40) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
