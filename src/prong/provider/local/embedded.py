"""The embedded engine as a provider."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import msgspec

from prong.entry import Call, Reply, StopReason, Usage
from prong.errors import BadRequest, BrokenReply, ContextOverflow, NoSuchModel, ProviderError
from prong.prompt import Mark, Prompt
from prong.provider.local import grammar
from prong.provider.local.engine_process import Engine, EngineConnection, EngineLost, unreachable
from prong.provider.local.form import Form
from prong.provider.local.grammar import Forced, Framed
from prong.provider.local.speech import ReplyReader, turns
from prong.provider.provider import Noticed, Preparing, Provider, Retrying, Streamed, Trait
from prong.wire import Began, Dialect, Ended, Tail, dialect
from prong.wire.chat import reply_of
from prong.wire.raw import dump

_PLAIN = Tail()
_MAX_TOKENS: Final = 1_024
_STOPS: Final[dict[str, StopReason]] = {"stop": "end", "length": "length", "loop": "end"}
_TRIES: Final = 2

Plan = Callable[[Prompt], "Sequence[Forced] | Framed | None"]
"""Decides which calls or which frame a reply must have; for demonstrations and tests."""


class Notes:
    """What an engine had to say of itself in one session."""

    def __init__(self) -> None:
        """Begin with nothing told."""
        self._told = ""

    def news(self, note: str) -> str:
        """Give a note back, unless it is the one that was told last."""
        told, self._told = self._told, note
        return note if note != told else ""


class Local:
    """A model in a process of our own."""

    def __init__(
        self,
        engine: Engine,
        model: str,
        *,
        notes: Notes | None = None,
        plan: Plan | None = None,
        share: bool = True,
    ) -> None:
        """Share engine and notes with other agents; `share` off computes everything anew."""
        self.engine = engine
        self.notes = notes or Notes()
        # A prefix may end where another turn's opening differs from the one that was computed.
        self.trait = Trait(lasting=True, context=engine.window, slack=8)
        self._model = model
        self._dialect = dialect("chat", explicit=False)
        self._plan = plan
        self._share = share
        self.facts: Mapping[str, Any] = {}
        """What the engine said about its model when it was ready."""

    @property
    def name(self) -> str:
        """The model's file."""
        return f"local:{self.engine.model.name}"

    @property
    def dialect(self) -> Dialect:
        """Prompts are kept in the form that compatible servers read."""
        return self._dialect

    async def stream(
        self,
        prompt: Prompt,
        marks: Sequence[Mark] = (),
        tail: Tail = _PLAIN,
        *,
        who: str = "",
        sidecar: str = "",
    ) -> AsyncGenerator[Streamed, None]:
        """Ask for one reply; see `Provider.stream`."""
        del marks, who, sidecar
        assert prompt.head.dialect.name == self._dialect.name, "a prompt has one dialect for good"
        for attempt in range(1, _TRIES + 1):
            begun = False
            try:
                async with (
                    await self.engine.connect() as line,
                    aclosing(self._reply(line, prompt, tail)) as events,
                ):
                    async for event in events:
                        begun = begun or not isinstance(event, Preparing | Noticed)
                        yield event
                return
            except EngineLost as error:
                if attempt == _TRIES:
                    raise unreachable(error, self.engine.model) from error
                why = f"the embedded engine for {self.engine.model.name} is gone: {error}"
            yield Retrying(why, 0.0, attempt, begun)

    async def _reply(
        self, line: EngineConnection, prompt: Prompt, tail: Tail
    ) -> AsyncGenerator[Streamed, None]:
        async for event in self._wait_ready(line):
            yield event
        form = msgspec.convert(self.facts["form"], Form)
        ask = self._ask(prompt, tail, form)
        await line.send(ask)
        identity = f"local_{secrets.token_hex(8)}"
        reader = ReplyReader(f"call_{identity[6:]}", form if "grammar" in ask else None)
        while True:
            kind, content = await line.next()
            match kind:
                case "progress" if content["total"] > content["done"]:
                    yield Preparing(content["what"], content["done"], content["total"])
                case "began":
                    yield Began(identity, self._model, _usage(content))
                case "piece":
                    for event in reader.feed(content):
                        yield event
                case "done":
                    for event in self._last(identity, content, reader):
                        yield event
                    return
                case "error":
                    raise _failed(content, self._model)
                case _:
                    pass

    async def _wait_ready(self, line: EngineConnection) -> AsyncGenerator[Streamed, None]:
        while True:
            kind, content = await line.next()
            if kind == "ready":
                self.facts = content
                if note := self.notes.news(content["note"]):
                    yield Noticed(f"{self.engine.model.name}: {note}")
                return
            if kind == "error":
                raise _failed(content, self._model)
            yield Preparing(content["what"], content["done"], content["total"])

    def _ask(self, prompt: Prompt, tail: Tail, form: Form) -> dict[str, Any]:
        spec = prompt.head.spec
        wishes = {**spec.extra, **tail.extra}
        found = turns(prompt, int(self.facts["context"]), form)
        ask: dict[str, Any] = {
            "turns": [(turn.key, turn.role, turn.pieces) for turn in found],
            "max_tokens": 0 if tail.prewarm else tail.max_tokens or _MAX_TOKENS,
            "temperature": float(wishes.get("temperature", 0.0)),
            "seed": int(wishes.get("seed", 0)),
            "share": self._share,
        }
        planned = self._plan(prompt) if self._plan is not None else None
        if planned is not None:
            ask["opening"] = grammar.opening(planned, form)
            ask["grammar"] = (
                grammar.framed(planned)
                if isinstance(planned, Framed)
                else _forced(prompt, planned, form)
            )
        elif spec.tools and wishes.get("tool_choice") != "none":
            required = wishes.get("tool_choice") in {"required", "any"}
            ask["grammar"] = grammar.calls(spec.tools, form)
            if not required:
                ask["trigger"] = form.marks[0] if form.marks else ""
                ask["proper"] = form.opening()
                ask["first_only"] = not form.begin
        return ask

    def _last(
        self, identity: str, content: Mapping[str, Any], reader: ReplyReader
    ) -> Iterator[Streamed]:
        events, text, calls, stop = reader.close(_STOPS[content["reason"]])
        yield from events
        if content["reason"] == "loop":
            yield Noticed("The model only repeated itself, so its reply was ended.")
        yield Ended(
            reply=make_reply(text, calls, stop),
            usage=_usage(content),
            id=identity,
            model=self._model,
            stop_detail=content["reason"],
        )

    async def figures(self) -> Mapping[str, int]:
        """Ask how many cells of the cache are in use and how much memory the engine has."""
        async with await self.engine.connect() as line:
            async for _ in self._wait_ready(line):
                pass
            await line.send({"figures": True})
            kind, content = await line.next()
            assert kind == "figures"
            return content


def _usage(content: Mapping[str, Any]) -> Usage:
    """Count as all providers do: what was reused was read, the rest of the prompt was not."""
    processed, reused = int(content["processed"]), int(content["reused"])
    return Usage(uncached=processed, read=reused, output=int(content.get("output", 0)))


def make_reply(text: str, calls: Sequence[Call], stop: StopReason) -> Reply:
    """Make the entry of a reply, as a compatible server's would be."""
    if not text.strip() and not calls:
        return Reply(blocks=(), dialect="chat", stop=stop)
    fields: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    return reply_of(dump(fields), stop=stop)


def _forced(prompt: Prompt, calls: Sequence[Forced], form: Form) -> str:
    try:
        return grammar.forced(prompt.head.spec.tools, calls, form)
    except LookupError as error:
        raise BadRequest(f"there is no tool {error} to be called") from error


def _failed(content: Mapping[str, Any], model: str) -> ProviderError:
    kind, message = content.get("kind", ""), str(content.get("message", ""))
    match kind:
        case "overflow":
            return ContextOverflow(
                f"the conversation is too long for {model}: {message}; compact it or start a new "
                "one",
                kind=kind,
            )
        case "model":
            return NoSuchModel(message, kind=kind)
        case "memory":
            return BadRequest(message, kind=kind)
        case "request":
            return BadRequest(f"the embedded engine refused the request: {message}", kind=kind)
        case _:
            return BrokenReply(f"the embedded engine failed: {message}", kind=kind)


if TYPE_CHECKING:
    _provider: type[Provider] = Local
