"""A session for code without `async`: scripts, and notebooks in which a loop runs already."""

from __future__ import annotations

import atexit
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from prong.agent import Respond, Turn
from prong.config.option import OptionKeywords, Options
from prong.cost.receipt import Receipt
from prong.entry import Usage
from prong.errors import ProngError
from prong.event import Envelope
from prong.host import Host
from prong.question import Answer
from prong.session.answer_type import ValueTurn
from prong.session.bus import LIMIT, Subscription
from prong.session.loop_thread import LoopThread
from prong.session.opening import open_session
from prong.session.session import RunInput, Session
from prong.tools.policy import Mode
from prong.view import View

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


def _plain(
    method: Callable[Concatenate[Session, _P], Awaitable[_R]],
) -> Callable[Concatenate[Client, _P], _R]:
    """Make a method of a session one that waits."""

    @wraps(method)
    def call(self: Client, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.loop.call(method, self.session, *args, **kwargs)

    return call


class Client(AbstractContextManager["Client"]):
    """A session in a thread of its own, whose methods wait: no `async`, and no loop is needed.

    It is opened when it is made, and closed by `close`, at the end of a `with` block, or at the
    program's end. Ctrl-C interrupts the turn that runs, and is raised. Any thread may use it.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        respond: Respond | None = None,
        host: Host | None = None,
        **given: Unpack[OptionKeywords],
    ) -> None:
        """Open a session as `prong.open_session` does; a plain `respond` runs where one waits.

        Raises UsageError if an option makes no sense, ProngError if it cannot be opened, and why.
        """
        self.loop = LoopThread()
        """Where the session lives."""
        answer = None if respond is None else _answering(self.loop, respond)

        async def opened() -> Session:
            return await open_session(options, respond=answer, host=host, **given)

        try:
            self.session = self.loop.call(opened)
            """The session; its own methods are for its own loop."""
        except BaseException:
            self.loop.stop()
            raise
        atexit.register(self.close)

    def __repr__(self) -> str:
        return f"<Client of {self.session!r}>"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except (ProngError, OSError) as closing:
            if error is None:
                raise
            error.add_note(f"Closing the session failed too: {closing}")

    def close(self) -> None:
        """End the session and whatever it started, and wait for that; twice does no harm."""
        atexit.unregister(self.close)
        try:
            if self.loop.alive:
                self.loop.call(self.session.close)
        finally:
            self.loop.stop()

    run = _plain(Session.run)
    say = _plain(Session.say)
    send = _plain(Session.send)
    fork = _plain(Session.fork)
    start_forks = _plain(Session.start_forks)
    agent = _plain(Session.agent)
    map = _plain(Session.map)
    aside = _plain(Session.aside)
    wait_settled = _plain(Session.wait_settled)

    def ask(self, question: Callable[[Session], _R]) -> _R:
        """Let a function see what a client has no method for; it must not wait.

        It is called in the session's loop, or here once the session has ended.
        """

        async def work() -> _R:
            return question(self.session)

        return self.loop.call(work) if self.loop.alive else question(self.session)

    def events(self, since: int | None = 0, *, limit: int = LIMIT) -> PlainEvents:
        """Listen, as `Session.events` does; the iterator waits for each event."""
        return PlainEvents(self, self.ask(lambda session: session.events(since, limit=limit)))

    def view(self) -> View:
        """Give the session as it is to be seen now; see `prong.view`."""
        return self.ask(Session.view)

    def receipts(self) -> list[Receipt]:
        """Give the receipts of all children so far."""
        return self.ask(Session.receipts)

    @property
    def id(self) -> str:
        """The session's id, by which it can be resumed."""
        return self.session.id

    @property
    def model(self) -> str:
        """The model that answers."""
        return self.session.model

    @property
    def mode(self) -> Mode:
        """The permission mode."""
        return self.session.mode

    @property
    def usage(self) -> Usage:
        """All tokens so far."""
        return self.session.usage

    @property
    def cost(self) -> float | None:
        """Dollars so far; None when a price is unknown."""
        return self.session.cost

    @property
    def last(self) -> Turn | None:
        """The last turn that ended."""
        return self.session.last


class PlainEvents(AbstractContextManager["PlainEvents"], Iterator[Envelope]):
    """The events of a session, each waited for; made by `Client.events`."""

    def __init__(self, client: Client, subscription: Subscription) -> None:
        """Use `Client.events`."""
        self._client = client
        self._subscription = subscription
        self._left: deque[Envelope] = deque()
        """What a session that has ended left to be read."""

    def __next__(self) -> Envelope:
        async def one() -> Envelope | None:
            return await anext(self._subscription, None)

        if self._client.loop.alive:
            envelope = self._client.loop.call(one)
        else:
            self._left.extend(self._subscription.drain())
            envelope = self._left.popleft() if self._left else None
        if envelope is None:
            raise StopIteration
        return envelope

    def drain(self) -> list[Envelope]:
        """Take what has come so far, without waiting."""
        return self._client.ask(lambda _: self._subscription.drain())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.ask(lambda _: self._subscription.close())


@overload
def run(
    message: RunInput,
    *,
    returns: None = None,
    respond: Respond | None = None,
    **given: Unpack[OptionKeywords],
) -> Turn: ...


@overload
def run(
    message: RunInput,
    *,
    returns: type[_T],
    respond: Respond | None = None,
    **given: Unpack[OptionKeywords],
) -> ValueTurn[_T]: ...


def run(
    message: RunInput,
    *,
    returns: type[_T] | None = None,
    respond: Respond | None = None,
    **given: Unpack[OptionKeywords],
) -> Turn | ValueTurn[_T]:
    """Open a session, say something, wait for the end of the work on it, and close the session.

    It takes the options of `prong.open_session`, and `returns` as `Session.run` does. Forks and
    commands that work in the background are waited for.

    Raises UsageError if an option makes no sense, ProngError if it cannot be opened, and why.
    """
    with Client(respond=respond, **given) as client:
        if returns is None:
            return client.run(message)
        return client.run(message, returns=returns)


def _answering(loop: LoopThread, respond: Respond) -> Respond:
    """Have questions answered where the caller waits; an async function needs no thread."""
    if inspect.iscoroutinefunction(respond):
        return respond

    async def answer(path: str, asked: Any) -> Answer | None:
        found = await loop.in_caller(partial(respond, path, asked))
        return await found if inspect.isawaitable(found) else found

    return answer
