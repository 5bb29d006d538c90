"""The scripted model: what the loopback server answers, and in which order.

A `Step` is one answer. A script is a list of steps consumed in order of arrival, or a `Script` with
routes, or a function from the request to a step. A route has its own queue: a request belongs to it
if its last text contains the route's key, or if it extends a request that did.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from prong.testing.hostile import Flood
from prong.testing.request import Refused, Request


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A piece of the answer's text."""

    text: str


class Think(msgspec.Struct, frozen=True, tag_field="type", tag="think"):
    """A piece of thinking; the server signs it."""

    text: str


class Call(msgspec.Struct, frozen=True, tag_field="type", tag="call"):
    """A tool call; `arguments` is an object, or JSON text to be sent as it is."""

    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict[str, Any])
    id: str | None = None

    @property
    def json(self) -> str:
        """The arguments as JSON text."""
        if isinstance(self.arguments, str):
            return self.arguments
        return msgspec.json.encode(self.arguments).decode()


Part: TypeAlias = Text | Think | Call
Stop: TypeAlias = Literal["end", "calls", "length", "refusal", "pause"]


class Failure(msgspec.Struct, frozen=True):
    """An error answer."""

    status: int
    kind: str
    message: str
    retry_after: float | None = None
    mid_stream: bool = False
    """Send it as an event after the answer has begun, under status 200."""
    code: str | None = None
    """OpenAI's own word for it."""


class Step(msgspec.Struct, frozen=True):
    """One answer of the scripted model."""

    parts: tuple[Part, ...] = ()
    stop: Stop | None = None
    """None is told from the parts: calls, or the end."""
    failure: Failure | None = None
    first_byte: float = 0.0
    """Seconds before the first byte."""
    between: float = 0.0
    """Seconds between the events of a stream."""
    stall: float = 0.0
    """Seconds of silence in the middle of the answer."""
    cut_after: int | None = None
    """Close the connection after so many bytes of the answer's body."""
    malformed: bool = False
    """Spoil the JSON of the answer."""
    garbled: int | None = None
    """The seed by which the stream is spoilt, somewhere and somehow."""
    flood: Flood | None = None
    """What of the answer never ends."""
    output_tokens: int | None = None
    """What to bill for; None counts the answer."""

    @property
    def reason(self) -> Stop:
        """Why the answer ends."""
        if self.stop is not None:
            return self.stop
        return "calls" if any(isinstance(part, Call) for part in self.parts) else "end"


def say(text: str, *, then: Step | None = None) -> Step:
    """Answer with a text, and with what `then` holds after it."""
    return _before(Text(text), then)


def think(text: str, *, then: Step | None = None) -> Step:
    """Think first, then answer."""
    return _before(Think(text), then or say("Done."))


def call(name: str, arguments: dict[str, Any] | str | None = None, id: str | None = None) -> Step:  # noqa: A002 # the API's own word
    """Answer with one tool call; arguments given as text are sent as they are, even if broken."""
    return Step((Call(name, {} if arguments is None else arguments, id),))


def calls(*each: tuple[str, dict[str, Any]]) -> Step:
    """Answer with several tool calls at once."""
    return Step(tuple(Call(name, arguments) for name, arguments in each))


def forks(*directives: str, **more: Any) -> Step:
    """Answer with one call of the Agent tool per directive, all in one reply.

    The descriptions leave the directives out: notices quote them, and routes go by what is quoted.
    """
    return calls(
        *(
            ("Agent", {"description": f"part {number}", "prompt": text, **more})
            for number, text in enumerate(directives, 1)
        )
    )


def report(result: str = "done") -> Step:
    """Answer with a report as a fork is asked to write it."""
    text = f"Scope: my part\nResult: {result}\nKey files: none\nFiles changed: none\nIssues: none"
    return say(text)


def fail(status: int, kind: str, message: str, retry_after: float | None = None) -> Step:
    """Answer with an error status."""
    return Step(failure=Failure(status, kind, message, retry_after))


def break_off(kind: str, message: str, *, then: Step | None = None) -> Step:
    """Begin an answer under status 200, then send an error event in the stream."""
    failure = Failure(200, kind, message, mid_stream=True)
    return msgspec.structs.replace(then or say("I was about to"), failure=failure)


def cut(after_bytes: int = 400, *, then: Step | None = None) -> Step:
    """Close the connection in the middle of an answer."""
    return msgspec.structs.replace(then or say("This will be cut off."), cut_after=after_bytes)


def malformed(*, then: Step | None = None) -> Step:
    """Send an answer whose JSON is broken."""
    return msgspec.structs.replace(then or say("This is broken."), malformed=True)


def garble(seed: int, *, then: Step | None = None) -> Step:
    """Send an answer whose stream is spoilt by chance; see `prong.testing.hostile`."""
    return msgspec.structs.replace(then or say("This may be anything."), garbled=seed)


def flood(what: Flood, *, between: float = 0.0) -> Step:
    """Answer without end, with a pause between the pieces; see `prong.testing.hostile`."""
    return msgspec.structs.replace(say("more " * 400), flood=what, between=between)


def stall(seconds: float, *, then: Step | None = None) -> Step:
    """Fall silent in the middle of an answer."""
    return msgspec.structs.replace(then or say("This takes a while."), stall=seconds)


def refuse(text: str = "") -> Step:
    """Answer with a refusal."""
    return Step((Text(text),) if text else (), stop="refusal")


def truncate(text: str = "This answer is too", *, then: Step | None = None) -> Step:
    """Answer, but stop at the limit of output tokens."""
    return msgspec.structs.replace(then or say(text), stop="length")


def delay(first_byte: float = 0.0, *, between: float = 0.0, then: Step | None = None) -> Step:
    """Wait before the first byte of an answer, and between the events of its stream."""
    step = then or say("Done.")
    return msgspec.structs.replace(step, first_byte=first_byte, between=between)


def _before(part: Part, then: Step | None) -> Step:
    if then is None:
        return Step((part,))
    return msgspec.structs.replace(then, parts=(part, *then.parts))


class Script(msgspec.Struct):
    """Steps by order of arrival, and queues of their own for routes."""

    steps: list[Step] = msgspec.field(default_factory=list[Step])
    routes: dict[str, list[Step]] = msgspec.field(default_factory=dict[str, list[Step]])
    """Steps for requests whose last text contains the key, and for those that extend them."""
    forever: Step | None = None
    """What to answer when a queue is empty; None is an error."""


AnyScript: TypeAlias = Script | Sequence[Step] | Callable[[Request], Step]


class Player:
    """Plays a script."""

    def __init__(self, script: AnyScript) -> None:
        self._choose: Callable[[Request], Step] | None = None
        self._queue: deque[Step] = deque()
        self._routes: dict[str, deque[Step]] = {}
        self._forever: Step | None = None
        if isinstance(script, Script):
            self.push(script.steps, script.routes, script.forever)
        elif callable(script):
            self._choose = script
        else:
            self.push(script)

    def push(
        self,
        steps: Sequence[Step] = (),
        routes: Mapping[str, Sequence[Step]] | None = None,
        forever: Step | None = None,
    ) -> None:
        """Add steps to the ends of the queues."""
        self._queue.extend(steps)
        for key, more in (routes or {}).items():
            self._routes.setdefault(key, deque()).extend(more)
        self._forever = forever or self._forever

    @property
    def left(self) -> int:
        """Count the steps not yet played."""
        return len(self._queue) + sum(map(len, self._routes.values()))

    def route(self, request: Request, inherited: str | None) -> str | None:
        """Name the route of a request, given that of the request it extends."""
        text = request.last_text if self._routes else ""
        found = [key for key in self._routes if key in text]
        return max(found, key=len) if found else inherited

    def step(self, request: Request, route: str | None) -> Step:
        """Take the next step for a request.

        Raises:
            Refused: the queue is empty.

        """
        if self._choose is not None:
            return self._choose(request)
        queue = self._queue if route is None else self._routes[route]
        if queue:
            return queue.popleft()
        if self._forever is not None:
            return self._forever
        which = "the script" if route is None else f"the route {route!r} of the script"
        raise Refused(
            # Not to be tried again: another try finds no more steps either.
            400,
            "invalid_request_error",
            f"script exhausted: {which} has no step for: {request.last_text[:300]}",
        )
