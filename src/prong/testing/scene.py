r"""A whole small world for stories: a scripted server, a project, a home, and sessions on them.

async with world(script=[say("Hello.")], files={"a.py": "x = 1"}) as w:
    turn = await w.session.run("Hi")
    assert turn.text == "Hello."
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, Unpack

from prong.agent import Respond
from prong.config.option import OptionKeywords
from prong.config.trust import Trust
from prong.event import Envelope, Event, SessionStarted, Warned
from prong.session import Session, Subscription, open_session
from prong.session.parts import Parts
from prong.testing.clock import AnyClock
from prong.testing.host import MemoryHost
from prong.testing.script import AnyScript
from prong.testing.server import Server
from prong.testing.service import Options
from prong.testing.span import check_events, check_view

MODELS: Mapping[str, str] = {
    "anthropic": "claude-sonnet-5-5",
    "responses": "gpt-6.1-sol",
    "chat": "gpt-4.1",
    "gemini": "gemini-3.8-flash",
}
"""The model that a world asks for when the test names none."""

Worlds: TypeAlias = Callable[..., AbstractAsyncContextManager["World"]]
"""What makes worlds; for the type of a fixture."""

_ALL = 1_000_000
"""Events that wait until the story looks at them."""

_Kind = TypeVar("_Kind", bound=Event)


@dataclass(slots=True)
class World:
    """A server, a project, a home, and the session that was opened on them."""

    server: Server
    folder: Path
    given: OptionKeywords
    respond: Respond | None = None
    attended: bool = False
    host: MemoryHost | None = None
    """What agents work on, if it is not this machine."""
    ahead: float = 0.0
    """Seconds by which the sessions' clock is ahead."""
    _session: Session | None = None
    _subscriptions: list[Subscription] = field(default_factory=list[Subscription])
    _envelopes: list[Envelope] = field(default_factory=list[Envelope])

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.folder / "project" if self.host is None else Path(self.host.root)

    @property
    def home(self) -> Path:
        """The user's home, so that no real settings leak in."""
        return self.folder / "home"

    @property
    def store(self) -> Path:
        """Where sessions are kept."""
        return self.home / ".prong"

    @property
    def session(self) -> Session:
        """The session that was opened last."""
        assert self._session is not None, "no session has been opened in this world"
        return self._session

    @property
    def parts(self) -> Parts:
        """What the session that was opened last is made of."""
        return inside(self.session)

    @property
    def envelopes(self) -> list[Envelope]:
        """Everything that was told so far, by all sessions of this world."""
        for subscription in self._subscriptions:
            self._envelopes += subscription.drain()
        return self._envelopes

    @property
    def events(self) -> list[Event]:
        """The events of `envelopes`."""
        return [envelope.event for envelope in self.envelopes]

    def told(self, kind: type[_Kind]) -> list[_Kind]:
        """Give the events of one kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def warnings(self) -> list[str]:
        """What the user was warned of so far."""
        return [event.text for event in self.told(Warned)]

    @property
    def started(self) -> SessionStarted:
        """How the session that was opened last began."""
        return self.told(SessionStarted)[-1]

    def write(self, name: str, content: str | bytes) -> Path:
        """Put a file into the project; a name that begins with `~/` goes into the home."""
        if self.host is not None and not name.startswith("~/"):
            self.host.put(name, content)
            return self.root / name
        path = self.home / name[2:] if name.startswith("~/") else self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_relative_to(self.store):
            self.store.chmod(0o700)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def advance(self, seconds: float) -> None:
        """Let time pass for the server and for all sessions."""
        self.server.clock.advance(seconds)
        self.ahead += seconds

    def bodies(self) -> list[Any]:
        """Give the decoded bodies of all requests, in order of arrival."""
        return [record.json for record in self.server.records]

    @asynccontextmanager
    async def open(self, **given: Unpack[OptionKeywords]) -> AsyncGenerator[Session, None]:
        """Open a further session; options go before those of the world."""
        options: OptionKeywords = {**self.given, **given}
        async with open_session(
            respond=self.respond,
            attended=self.attended,
            clock=lambda: time.time() + self.ahead,
            host=self.host,
            **options,
        ) as session:
            self._session = session
            began = session.records.began
            self._subscriptions.append(session.events(began, limit=_ALL))
            witness = session.events(began, limit=_ALL)
            yield session
        told = witness.drain()
        check_events(told, since=began)
        check_view(session, told)


def inside(session: Session) -> Parts:
    """Look inside a session: its agents, tasks, ledger and journal.

    For tests of what no event and no command tells; a program has the session's own methods.
    """
    return session._parts  # noqa: SLF001 - the one way in, so that there need be no public one


@asynccontextmanager
async def world(  # noqa: PLR0913 - one keyword for each thing a story may need
    script: AnyScript = (),
    *,
    files: Mapping[str, str | bytes] | None = None,
    folder: Path | None = None,
    trusted: bool = False,
    moves_prefix: str | None = None,
    serving: Options | None = None,
    clock: AnyClock | None = None,
    respond: Respond | None = None,
    attended: bool = False,
    opens: bool = True,
    host: MemoryHost | None = None,
    **given: Unpack[OptionKeywords],
) -> AsyncGenerator[World, None]:
    """Make a world and, unless `opens` is false, a session in it.

    The API is `anthropic` unless `api` is given, with a model to match unless `model` is.

    With a `host` the project is in memory, and so is all that agents read, write and run.

    `files` are put into the project, or into the home if their names begin with `~/`; `serving`
    and `clock` are the server's. On leaving, the server checks that every request extended the one
    before, unless `moves_prefix` says why one need not; and of every session's events it is checked
    that they are numbered without a gap and that whatever started has ended.
    """
    async with AsyncExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = Server(script, options=serving, clock=clock, moves_prefix=moves_prefix)
        made = World(await stack.enter_async_context(server), folder, {}, respond, attended, host)
        if host is None:
            made.root.mkdir(parents=True)
        made.home.mkdir(parents=True)
        for name, content in (files or {}).items():
            made.write(name, content)
        if trusted:
            Trust(str(made.home)).trust(str(made.root))
        made.given = {
            "model": MODELS[given.get("api") or "anthropic"],
            "api": "anthropic",
            "base_url": server.url,
            "cwd": str(made.root),
            "store": str(made.store),
            "env": {"HOME": str(made.home), "PATH": os.environ.get("PATH", "")},
            **given,
        }
        if opens:
            await stack.enter_async_context(made.open())
        yield made
