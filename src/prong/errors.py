"""What the user can fix, as exceptions with the remedy in the sentence.

ProngError
├── ConfigError          a settings, agent, skill or server file is wrong (path and line named)
├── UsageError           the caller asked for something that cannot be
│   ├── BadInput             an option, flag, setting, answer or text is wrong, or two contradict
│   ├── UnknownName          a name means nothing here, or more than one thing
│   ├── NotInstalled         a program or package that it needs is missing or does not fit
│   └── NotPossibleNow       it would be possible, but not as things stand
│       └── SessionEnded         the session has been closed, or is about to be
├── ProviderError        the model's API did not give a reply
│   ├── Unreachable          no connection, or it broke
│   ├── Unauthorised         the key is missing or was refused
│   ├── BadRequest           the request was refused as it stands
│   ├── NoSuchModel          the model does not exist there
│   ├── ContextOverflow      the conversation is longer than the model can read
│   ├── RateLimited          too many requests; carries retry_after
│   ├── Overloaded           the server is overloaded or failing
│   └── BrokenReply          the reply ended early or was not understood
├── JournalError         the conversation on disk
│   ├── JournalDamaged       a record does not check out (position named)
│   ├── JournalBusy          another process has the session open
│   ├── JournalFull          a record could not be written
│   └── NoSuchSession        no session of that name
├── OutcomeUnknown       a session went away before it said what came of a command
├── NoAnswer             the model gave no answer of the type that was asked for
├── GitFailed            git did not do what was asked; carries its own words
├── PaneFailed           a terminal program did not do what was asked; carries its own words
├── WorkerFailed         a process that ran an agent ended, or did what it may not
├── BudgetSpent          a bound on tokens, money or time was reached before a single request
└── Contained            a fork kept asking for what is closed to it

What the model can fix is a value (`prong.tools.Failed`); what only we can fix is an assert.
"""

from __future__ import annotations

from collections.abc import Iterable


class ProngError(Exception):
    """Anything that Prong itself reports; its text says what to do."""


class ConfigError(ProngError):
    """A file the user wrote is wrong; the message names the file and, where known, the line."""

    def __init__(self, path: object, why: str, *, line: int | None = None) -> None:
        """Name the file, the line and the reason."""
        self.path = str(path)
        self.line = line
        self.why = why
        place = f"{path}:{line}" if line is not None else f"{path}"
        super().__init__(f"{place}: {why}")


class UsageError(ProngError):
    """The caller asked for something that cannot be; the message says what to do instead."""


class BadInput(UsageError):
    """What was given is not of the form it must have, out of range, or contradicts the rest."""


class UnknownName(UsageError):
    """A name of a tool, mode, type, task, session or model means nothing here, or too much."""


class NotInstalled(UsageError):
    """A program or package that is needed for this is missing, or cannot be used as it is."""


class NotPossibleNow(UsageError):
    """The state of the session, of its folder or of its repository does not allow it at present."""


class SessionEnded(NotPossibleNow):
    """The session has been closed, or is being closed; it can be resumed."""


class ProviderError(ProngError):
    """The model's API did not give a reply."""

    retryable = False
    """Whether the same request may succeed if it is sent again."""
    waited = False
    """Whether there was nothing but waiting: to wait as long again seldom helps."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        kind: str = "",
        retry_after: float | None = None,
    ) -> None:
        """Keep the HTTP status, the provider's request id and its own name for the error."""
        self.status = status
        self.request_id = request_id
        self.kind = kind
        self.retry_after = retry_after
        tail = f" (request {request_id})" if request_id else ""
        super().__init__(f"{message}{tail}")


class Unreachable(ProviderError):
    """No connection could be made, or it broke before a reply began."""

    retryable = True
    absent = False
    """Nothing is there at all: the name is unknown, or nothing listens."""


class Unauthorised(ProviderError):
    """The key is missing or was refused."""


class BadRequest(ProviderError):
    """The provider refused the request as it stands."""


class NoSuchModel(ProviderError):
    """The provider does not know the model."""


class ContextOverflow(ProviderError):
    """The conversation is longer than the model can read."""


class RateLimited(ProviderError):
    """Too many requests."""

    retryable = True


class Overloaded(ProviderError):
    """The server is overloaded or failing."""

    retryable = True


class BrokenReply(ProviderError):
    """The reply ended early or was not understood; nothing of it was run or stored."""

    retryable = True


class JournalError(ProngError):
    """Something about the conversation on disk."""


class JournalDamaged(JournalError):
    """A record does not check out."""

    def __init__(self, path: object, *, line: int, offset: int, why: str) -> None:
        """Name the record by line and byte offset."""
        self.line = line
        self.offset = offset
        self.why = why
        remedy = (
            "the records before it are good: 'prong verify' shows them, '--fork-session' continues "
            "from the last good one"
        )
        if line == 1:
            remedy = "nothing stands before it to go on from; begin a new session"
        super().__init__(f"{path}:{line} (byte {offset}): {why}; {remedy}")


class JournalBusy(JournalError):
    """Another process has the session open."""


class JournalFull(JournalError):
    """A record could not be written; everything before it is safe."""


class NoSuchSession(JournalError):
    """There is no session of that name."""


class OutcomeUnknown(ProngError):
    """A session went away before it said what came of a command; it may have been carried out."""


class NoAnswer(ProngError):
    """The model gave no answer of the type that was asked for; the message says why."""


class GitFailed(ProngError):
    """Git did not do what was asked; the message holds its own words."""


class PaneFailed(ProngError):
    """A terminal program did not open, list or close a pane; the message holds its own words."""

    def __init__(self, message: str, *, detail: str = "") -> None:
        """Keep what the program itself said beside the sentence."""
        self.detail = detail
        super().__init__(message)


class WorkerFailed(ProngError):
    """A process that ran an agent ended, or did what it may not; what was stored before is safe."""


class BudgetSpent(ProngError):
    """A bound on tokens, money or time was reached, so a single request was not sent.

    A turn that reaches one ends with `why` `limit` or `budget` instead, and keeps its work.
    """


class Contained(ProngError):
    """A fork kept asking for what is closed to it, and was stopped."""


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Give the known name that a mistyped one was meant to be; empty if none is like it.

    Letters that have only changed places are the likeliest slip of all.
    """
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=3, cutoff=cutoff)
    swapped = [one for one in close if sorted(one) == sorted(word)]
    return next(iter(swapped or close), "")
