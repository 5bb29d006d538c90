"""What happens in the embedded model's demo, and what is left to the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from prong.entry import plain
from prong.prompt import Prompt
from prong.provider.local import Forced, Framed
from prong.testing.sample import FILES

_SENTENCE = 140
_SAID_OF_A_FILE = "It contains functions that"
_SAID_OF_ALL = "The project contains functions that"
_WAITING = "My forks are at work."


class Plot(msgspec.Struct, frozen=True, kw_only=True):
    """What happens: which files there are, which the parent reads, and who looks into which."""

    question: str
    files: Mapping[str, str]
    read: Sequence[str]
    parts: Mapping[str, str]
    """The file of each fork, by the fork's name."""


PLOT = Plot(
    question="Read this project, then let four forks describe a file each.",
    files=FILES,
    read=("README.md", "till/price.py", "till/parse.py", "till/bill.py"),
    parts={
        "price": "till/price.py",
        "parse": "till/parse.py",
        "bill": "till/bill.py",
        "tests": "tests/test_price.py",
    },
)


class Plan:
    """Decides which tools are called and how sentences begin; the model ends them."""

    def __init__(self, plot: Plot) -> None:
        """Follow a plot."""
        self._plot = plot

    def __call__(self, prompt: Prompt) -> Sequence[Forced] | Framed | None:
        """Say what the next reply of a prompt must be."""
        kinds = [node.kind for node in prompt.nodes()]
        if "directive" in kinds:
            at = kinds.index("directive")
            return self._fork(prompt, at, kinds[at:].count("reply"))
        return self._parent(kinds.count("reply"))

    def _parent(self, replies: int) -> Sequence[Forced] | Framed:
        match replies:
            case 0:
                return [_read(path) for path in self._plot.read]
            case 1:
                return [_fork(name, path) for name, path in self._plot.parts.items()]
            case 2:
                return Framed((_WAITING,))
            case _:
                return Framed((_SAID_OF_ALL, _SENTENCE))

    def _fork(self, prompt: Prompt, at: int, replies: int) -> Sequence[Forced] | Framed:
        node = prompt.nodes()[at]
        entry = prompt.head.dialect.read(node.role, node.data)
        said = plain(getattr(entry, "parts", ())).rpartition("Directive:")[2]
        path = next(path for path in self._plot.parts.values() if path in said)
        if replies == 0:
            return [_read(path)]
        return Framed((f"Result: {_SAID_OF_A_FILE}", _SENTENCE, f"\nScope: {path}"))


def _read(path: str) -> Forced:
    return Forced("Read", {"file_path": path})


def _fork(name: str, path: str) -> Forced:
    told = {"description": f"Describe {path}", "prompt": f"Say what {path} is for.", "name": name}
    return Forced("Agent", told)


def marked(text: str) -> str:
    """Put what the plan gave into brackets."""
    for given in (_SAID_OF_A_FILE, _SAID_OF_ALL, _WAITING):
        if text.startswith(given):
            return f"[{given}]{text.removeprefix(given)}"
    return text
