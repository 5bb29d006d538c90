"""A Python function as a hook: it is told of an event, and may object, as a command may.

Which event, says the type of its parameter. What cannot be honoured is refused when the function is
made a hook: a guard that would never be asked guards nothing.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast, overload

from prong.config.hook import NAMED, name_matches
from prong.config.option import Options
from prong.errors import BadInput
from prong.hook_call import INPUTS, HookInput, HookResult

_In = TypeVar("_In", bound=HookInput)
_HookSays: TypeAlias = HookResult | str | None
_Out = TypeVar("_Out", bound=_HookSays | Awaitable[_HookSays])

SECONDS = 60.0
"""How long a hook may take, unless it says otherwise."""


class FunctionHook(Generic[_In, _Out]):
    """A function that is told of one kind of event; made by `prong.hook`, called as it was."""

    def __init__(self, function: Callable[[_In], _Out], *, matcher: str, seconds: float) -> None:
        """Use `prong.hook`."""
        self._function = function
        self.line: str = getattr(function, "__qualname__", type(function).__qualname__)
        """What is called, as it is shown to people."""
        self.path: str = getattr(function, "__module__", None) or "this program"
        """Where it was written."""
        self.event, self.told = _event(function, self.line)
        self.matcher = matcher
        self.terms = ""
        """Nothing more decides when it is run."""
        self.seconds = seconds
        _check_matcher(self.line, self.event, matcher)
        if not (math.isfinite(seconds) and seconds > 0):
            raise BadInput(f"the hook {self.line} has {seconds:g} s; that must be above 0")
        self.__doc__, self.__wrapped__ = function.__doc__, function
        self._fixed = True

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse every change: what it guards was looked over when it was made."""
        if "_fixed" in self.__dict__:
            raise AttributeError(f"{self!r} is as it was made; make another with prong.hook(...)")
        super().__setattr__(name, value)

    def __call__(self, told: _In, /) -> _Out:
        """Call the function as it is."""
        return self._function(told)

    def __repr__(self) -> str:
        return f"<{self.event} hook {self.line}>"

    def matches(self, event: str, name: str) -> bool:
        """Say whether this hook is for the event."""
        return event == self.event and name_matches(event, self.matcher, name)


AnyFunctionHook: TypeAlias = FunctionHook[Any, Any]


@overload
def hook(function: Callable[[_In], _Out], /) -> FunctionHook[_In, _Out]: ...


@overload
def hook(
    *, matcher: str = "", timeout: float = SECONDS
) -> Callable[[Callable[[_In], _Out]], FunctionHook[_In, _Out]]: ...


def hook(
    function: Callable[[Any], Any] | None = None,
    /,
    *,
    matcher: str = "",
    timeout: float = SECONDS,
) -> Any:
    """Make a function a hook, to be given to `open_session(hooks=[...])`.

    It has one parameter, whose type says of which event it is told: `PreToolUseInput`, or another
    of `prong.hook_call`. It gives a `HookResult` from there, or None if it has nothing to say. The
    `matcher` chooses by the name of a tool, a type of agent or a model, as in files. One that
    raises, takes longer than `timeout` seconds or gives anything else has given no answer: what
    waits for it does not happen.

    Raises BadInput if the parameter says no event, or the matcher could never match.
    """

    def make(given: Callable[[Any], Any]) -> AnyFunctionHook:
        if isinstance(given, FunctionHook):
            raise BadInput(f"{given!r} is a hook already")
        if not callable(given):
            raise BadInput(f"{given!r} is not a function; only those can be hooks")
        return FunctionHook(given, matcher=matcher, seconds=timeout)

    return make if function is None else make(function)


def read_hooks(given: object, *, of: str = "the option hooks") -> tuple[AnyFunctionHook, ...]:
    """Read a list of hooks, with functions made such.

    Raises BadInput if it holds anything else.
    """
    if isinstance(given, (str, dict)) or not isinstance(given, Sequence):
        raise BadInput(f"{of} must be a list of functions; write hooks=[...]")
    return tuple(_read(one, of) for one in cast("Sequence[object]", given))


def given_hooks(options: Options) -> tuple[AnyFunctionHook, ...]:
    """Give the hooks of options that have been looked over."""
    return cast("tuple[AnyFunctionHook, ...]", tuple(options.hooks))


def _read(one: object, of: str) -> AnyFunctionHook:
    if isinstance(one, FunctionHook):
        return cast("AnyFunctionHook", one)
    if not callable(one):
        raise BadInput(f"each item of {of} must be a function")
    return hook(cast("Callable[[Any], Any]", one))


def _event(function: Callable[..., Any], line: str) -> tuple[str, type[HookInput]]:
    """Find the event that a function is for."""
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, TypeError, ValueError, AttributeError, SyntaxError) as error:
        raise BadInput(
            f"the hook {line} has a parameter whose type cannot be read ({error}); what it names "
            f"must be known where the function's module is"
        ) from error
    needed = [one for one in parameters if one.default is one.empty]
    first = parameters[0] if parameters else None
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if first is None or first.kind not in by_place or needed not in ([], [first]):
        raise BadInput(f"the hook {line} must take one value, that of its event")
    for event, kind in INPUTS.items():
        if first.annotation is kind:
            return event, kind
    kinds = ", ".join(kind.__name__ for kind in INPUTS.values())
    raise BadInput(
        f"the hook {line} does not say which event it is for: give {first.name!r} one of the types "
        f"of prong.hook_call: {kinds}"
    )


def _check_matcher(line: str, event: str, matcher: str) -> None:
    try:
        re.compile("" if matcher == "*" else matcher)
    except re.error as error:
        raise BadInput(
            f"the hook {line}: matcher {matcher!r} is not a regular expression: {error}"
        ) from error
    if matcher not in ("", "*") and event not in NAMED:
        raise BadInput(f"the hook {line} has a matcher, and {event} has no name to match")
