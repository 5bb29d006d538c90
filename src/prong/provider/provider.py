"""What an agent needs of a model's API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

from prong.prompt import Mark, Prompt
from prong.provider.secret import Secrets, gather, in_headers
from prong.wire import Dialect, Tail, WireEvent


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model is reached, and how."""

    base_url: str
    """Ends before the dialect's path; a version such as /v1 is part of it."""
    dialect: str
    """`anthropic`, `responses` or `chat`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request; may hold the key, so they are never shown."""
    key_source: str = ""
    """Where the key came from, for error texts; empty if there is none."""
    explicit: bool = True
    """Whether the model understands cache marks."""
    images: bool = True
    """Whether the model can be shown pictures."""
    key_helper: str = ""
    """A command that prints the key; empty if there is none."""
    backend: str = ""
    """The prefix of the back-end that makes the provider; empty if the base URL is an address."""

    @property
    def secrets(self) -> Secrets:
        """What of the headers nobody should see."""
        return gather(in_headers(self.headers))

    def __repr__(self) -> str:
        """Show everything but the headers, which hold the key."""
        names = ", ".join(name for name, _ in self.headers)
        return f"Endpoint({self.base_url!r}, {self.dialect!r}, headers: {names})"


class Retrying(msgspec.Struct, frozen=True):
    """A request failed and will be sent again, whole."""

    why: str
    seconds: float
    """How long the wait before the next try is."""
    attempt: int
    """Which try failed, counted from 1."""
    discarded: bool
    """Whether events of this reply were given out; they are void."""


class Preparing(msgspec.Struct, frozen=True):
    """A model of our own is being loaded, or reads a long prompt."""

    what: Literal["load", "prompt"]
    done: int
    total: int
    """Per cent of a load, tokens of a prompt."""


class Noticed(msgspec.Struct, frozen=True):
    """Something about the server that its user can change, said once."""

    text: str


class Trait(msgspec.Struct, frozen=True, kw_only=True):
    """How a provider's cache differs from those of the large vendors."""

    lasting: bool = False
    """Whether it keeps what it read until it needs the room, and not for a time."""
    context: int | None = None
    """Tokens the model can read, where the provider knows."""
    slack: int | None = None
    """Tokens that a reader of a prefix may miss at its end; None leaves it to the dialect."""


Streamed: TypeAlias = WireEvent | Retrying | Preparing | Noticed
"""What a provider gives out; never a `Fault`, which becomes `Retrying` or an exception."""


class Provider(Protocol):
    """A model's API."""

    @property
    def name(self) -> str:
        """Name it for people: the address, without secrets."""
        ...

    @property
    def dialect(self) -> Dialect:
        """The wire format it speaks; prompts must be made for it."""
        ...

    @property
    def trait(self) -> Trait:
        """How its cache works; `Trait()` says that there is nothing special about it."""
        ...

    def stream(
        self,
        prompt: Prompt,
        marks: Sequence[Mark] = (),
        tail: Tail = ...,
        *,
        who: str = ...,
        sidecar: str = ...,
    ) -> AsyncGenerator[Streamed, None]:
        """Ask for one reply; close the generator with `contextlib.aclosing`.

        `who` names the agent that asks, by which a provider may know its forks; `sidecar` is what a
        request beside the agent's conversation is for. Neither is part of the prompt, and neither
        leaves this machine.

        The events of a try begin with `Began`; the last event of all is `Ended`, exactly once.

        Raises:
            ProviderError: there is no reply, and to ask again now would not help.

        """
        ...
