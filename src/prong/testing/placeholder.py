"""What of a request belongs to the machine and the day, and not to the prompt.

A recorded run has to be the same prompt in another folder, for another user, on another day. So
each body is put into a normal form: the project's folder, the folder of the session's files, the
session's id and whatever the caller names stand as `⟨project⟩`, `⟨session⟩` and so on; the date and
the platform that an agent is told, durations, and what the caller masks, are constants. Notices of
one message stand in one order, since who ends first is a matter of the machine, and so do files
that were listed by the times of their changes. What is said of git at the beginning is left out.

All of it is read from the one body, so the same prompt has the same form in whatever order
requests come. A reply can only know what its request has told, so it is put into the form, and
back, by the values of its request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from prong.testing.result_order import in_order

OPEN, CLOSE = "⟨", "⟩"

_FACTS = re.compile(
    r"(- Working folder: )(?P<folder>.*?)(\\n- Project folder: )(?P<project>.*?)"
    r"(\\n- Platform: ).*?(\\n- Date: )\d{4}-\d\d-\d\d"
)
"""What every agent is told of where it is, as JSON has it."""
_TOLD = r'"\[Git when the session began\.(?:[^"\\]|\\.)*"(?:,"\w+":\{[^{}]*\})?'
_MESSAGE = r'\{(?:"type":"message",)?"role":"user","content":'
_GIT = re.compile(
    rf'{_MESSAGE}{_TOLD}\}},|{_MESSAGE}\[\{{"type":"(?:input_)?text","text":{_TOLD}\}}\]\}},'
    rf'|\{{"type":"text","text":{_TOLD}\}},'
)
"""What the model is told of git, with the comma behind it: a branch is the machine's, too."""
_STORAGE = re.compile(r'/[^"\\<>|]*?/projects/[^/"\\<>|]+-[0-9a-f]{10}/[A-Za-z0-9][\w.-]*(?=/)')
"""Where a session keeps its files."""
_ID = re.compile(r"(?<![\w-])\d{8}-\d{6}-[a-z2-9]{6}(?![\w-])")
"""Of a session; one that was chosen is the same in all runs."""
_NOTICE = re.compile(r"<task-notification>.*?</task-notification>")
_NOTICES = re.compile(rf"{_NOTICE.pattern}(?:\\n\\n{_NOTICE.pattern})+")
"""What children that ended have given back, as one message tells it: they race."""
_ALWAYS = (
    (r"<duration-ms>\d+</duration-ms>", "<duration-ms>0</duration-ms>"),
    (r"\bin \d+\.\d+ ?s(?:ec|econds)?\b", "in 0 s"),
)
"""What is another thing each time: how long agents took, and what runners of tests say of that."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How bodies are put into their normal form."""

    masks: Mapping[str, str] = {}
    """Regular expressions, with what stands in the place of whatever they match."""
    places: Mapping[str, str] = {}
    """Values of this machine by name, such as folders, beside those that a request tells."""

    def normal(self, body: bytes) -> Normal:
        """Put the body of a request into its normal form.

        Raises ValueError if it holds what stands for something else in that form.
        """
        text = body.decode(errors="surrogateescape")
        if found := re.search(f"{OPEN}[a-z][a-z0-9 -]*{CLOSE}", text):
            raise ValueError(f"the request itself holds {found[0]}, which recordings use")
        names = dict(self._names(text))
        text = _replaced(text, names)
        text = _FACTS.sub(_told, text)
        text = _GIT.sub("", _NOTICES.sub(_sorted, text))
        body = self._masked(text).encode(errors="surrogateescape")
        return Normal(in_order(body), names)

    def _masked(self, text: str) -> str:
        for pattern, instead in (*_ALWAYS, *self.masks.items()):
            text = re.sub(pattern, instead, text)
        return text

    def _names(self, text: str) -> Iterator[tuple[str, str]]:
        """Give values with the names that stand for them."""
        for name, value in self.places.items():
            if _is_telling(value):
                yield value, name
        for number, value in enumerate(_distinct(_STORAGE, text), 1):
            yield value, _numbered("session", number)
        for number, value in enumerate(_distinct(_ID, text), 1):
            yield value, _numbered("session-id", number)
        if (told := _FACTS.search(text)) is not None:
            for name in ("folder", "project"):
                if _is_telling(told[name]):
                    yield told[name], name


class Normal(msgspec.Struct, frozen=True):
    """The body of a request in its normal form, and what its names stand for."""

    body: bytes
    names: Mapping[str, str]
    """Names by value."""


def pattern_of(value: str) -> str:
    """Give what matches a value where it is one, and not a part of a longer name."""
    before = r"(?:(?<![\w.-])|(?<=\\n)|(?<=\\t)|(?<=\\r))"
    return rf"{before}{re.escape(value)}(?![\w-]|\.\w)"


def _replaced(text: str, names: Mapping[str, str]) -> str:
    if not names:
        return text
    # The longest first, since a folder lies in another.
    values = sorted(names, key=lambda value: (-len(value), value))
    either = re.compile("|".join(f"({pattern_of(value)})" for value in values))
    return either.sub(lambda found: f"{OPEN}{names[found[0]]}{CLOSE}", text)


def _told(found: re.Match[str]) -> str:
    return (
        f"{found[1]}{found['folder']}{found[3]}{found['project']}"
        f"{found[5]}{OPEN}platform{CLOSE}{found[6]}{OPEN}date{CLOSE}"
    )


def _sorted(found: re.Match[str]) -> str:
    return r"\n\n".join(sorted(_NOTICE.findall(found[0])))


def _distinct(pattern: re.Pattern[str], text: str) -> list[str]:
    return list(dict.fromkeys(found[0] for found in pattern.finditer(text)))


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name} {number}"


def _is_telling(value: str) -> bool:
    """Whether a value is long enough to mean something wherever it stands."""
    return len(value) > 1
