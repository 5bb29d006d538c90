"""Holds a provider of anybody's making to what an agent relies on."""

from __future__ import annotations

from contextlib import aclosing

from prong.entry import Usage, user_text
from prong.prompt import Head, Prompt
from prong.provider import Backend, Noticed, Preparing, Provider, Resources, Retrying, Trait
from prong.provider.provider import Streamed
from prong.testing.transport import NoTransport
from prong.wire import Began, Ended, HeadSpec, Tail, dialect

_MOST = 64


async def check_backend(
    kind: type[Backend], model: str, resources: Resources | None = None
) -> None:
    """Open a back-end, ask a model of it two questions in one conversation, and close it again.

    Without resources it gets an empty environment, no folder and no network.

    Raises AssertionError that says what an agent could not live with.
    """
    backend = kind(resources or Resources(transport=NoTransport(), env={}, folder=None))
    try:
        provider = backend.connect(model)
        assert provider.dialect.name == kind.dialect, "its provider speaks another dialect"
        await check_provider(provider, model, marks=kind.marks)
    finally:
        await backend.aclose()


async def check_provider(provider: Provider, model: str, *, marks: bool = False) -> None:
    """Ask a provider two questions in one conversation, and give up a third.

    Raises AssertionError that says what an agent could not live with.
    """
    assert provider.name, "it has no name for people"
    assert isinstance(provider.trait, Trait), "its trait is none"
    spec = HeadSpec(model=model, system=("Be brief.",), explicit_marks=marks)
    head = Head(dialect(provider.dialect.name, explicit=marks), spec)
    prompt = Prompt(head).append(user_text("Say hello."))
    for words in ("And now?", "Goodbye."):
        ended = check_events(await _ask(provider, prompt))
        longer = prompt.append(ended.reply, user_text(words))
        assert longer.open().startswith(prompt.open()), "its reply does not extend the prompt"
        prompt = longer
    async with aclosing(provider.stream(prompt, (), Tail(max_tokens=_MOST))) as events:
        async for _ in events:
            break


def check_events(events: list[Streamed]) -> Ended:
    """Check the events of one reply, and give its end."""
    assert events, "it gives no events at all"
    begun = False
    for event in events[:-1]:
        match event:
            case Began():
                assert not begun, "a try begins twice"
                begun = True
            case Retrying():
                begun = False
            case Preparing() | Noticed():
                pass
            case Ended():
                raise AssertionError("something comes after the end")
            case _:
                assert begun, f"{type(event).__name__} comes before Began"
    ended = events[-1]
    assert isinstance(ended, Ended), f"the last event is {type(ended).__name__}, not Ended"
    assert begun, "a reply ends that has not begun"
    counts = [getattr(ended.usage, name) for name in Usage.__struct_fields__]
    assert min(counts) >= 0, "it counts less than nothing"
    assert ended.usage.input > 0, "it counts no input: receipts and budgets would be wrong"
    return ended


async def _ask(provider: Provider, prompt: Prompt) -> list[Streamed]:
    stream = provider.stream(prompt, (), Tail(max_tokens=_MOST), who="main", sidecar="")
    async with aclosing(stream) as events:
        found = [event async for event in events]
    ended = found[-1] if found else None
    if isinstance(ended, Ended):
        assert ended.reply.dialect == prompt.head.dialect.name, "its reply is of another dialect"
    return found
