"""A Python function as a hook: which event it is for, and what is refused when it is made one."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import prong
from prong.config.hook import EVENTS, NAMED
from prong.errors import BadInput
from prong.hook_call import INPUTS, HookInput, HookResult, PreToolUseInput, StopInput

pytestmark = pytest.mark.spec("B2")


@prong.hook(matcher="Bash|Write", timeout=5)
def guard(call: PreToolUseInput) -> HookResult | None:
    """Refuse what nobody may run."""
    return HookResult(decision="deny", reason=call.tool_name)


CALL = PreToolUseInput(
    session_id="s", transcript_path="", cwd="/", tool_name="Bash", tool_input={"command": "ls"}
)


def test_the_parameter_says_the_event() -> None:
    """A hook knows its event by the type of its parameter, and is called as it was."""
    assert (guard.event, guard.matcher, guard.seconds) == ("PreToolUse", "Bash|Write", 5)
    assert repr(guard) == "<PreToolUse hook guard>"
    assert guard.__doc__ == "Refuse what nobody may run."
    assert guard(CALL) == HookResult(decision="deny", reason="Bash")
    assert guard.matches("PreToolUse", "Write")
    assert not guard.matches("PreToolUse", "Writer")
    assert not guard.matches("PostToolUse", "Write")


@pytest.mark.parametrize("name", ["event", "matcher", "seconds"])
def test_a_hook_cannot_be_changed(name: str) -> None:
    """What it guards was looked over when it was made: a change is refused at once."""
    with pytest.raises(AttributeError, match="is as it was made"):
        setattr(guard, name, "")


def test_every_event_has_its_type() -> None:
    """There is one type for each event that happens, named after it."""
    assert set(INPUTS) == set(EVENTS)
    assert all(kind.__name__ == f"{event}Input" for event, kind in INPUTS.items())
    assert set(EVENTS) >= NAMED


class Counter:
    def __call__(self, told: StopInput) -> None:
        del told

    def method(self, told: StopInput, more: int = 1) -> None:
        del told, more


@pytest.mark.parametrize("made", [Counter(), Counter().method, partial(Counter.method, Counter())])
def test_whatever_can_be_called_can_be_a_hook(made: Any) -> None:
    """Objects, methods and functions with some of their arguments given are hooks too."""
    assert prong.hook(made).event == "Stop"


def bare(told) -> None:  # pyright: ignore[reportUnknownParameterType,reportMissingParameterType] # the mistake
    del told


def wide(told: HookInput) -> None:
    del told


def unread(told: Missing) -> None:  # pyright: ignore[reportUndefinedVariable,reportUnknownParameterType] # noqa: F821
    del told


def nothing() -> None: ...


def two(told: StopInput, more: int) -> None:
    del told, more


def keyed(*, told: StopInput) -> None:
    del told


def stop(told: StopInput) -> None:
    del told


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (bare, "does not say which event it is for: give 'told' one of the types"),
        (wide, "does not say which event it is for"),
        (unread, "a parameter whose type cannot be read"),
        (nothing, "must take one value"),
        (two, "must take one value"),
        (keyed, "must take one value"),
        (guard, "is a hook already"),
        (3, "is not a function"),
    ],
)
def test_what_could_never_be_asked_is_refused_at_once(made: Any, why: str) -> None:
    """The error comes when the function is made a hook, and says what to do."""
    with pytest.raises(BadInput) as caught:
        prong.hook(made)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"matcher": "Bash("}, "is not a regular expression"),
        ({"matcher": "Bash"}, "Stop has no name to match"),
        ({"timeout": 0}, "must be above 0"),
        ({"timeout": float("inf")}, "must be above 0"),
    ],
)
def test_what_would_never_match_or_wait_is_refused(given: dict[str, Any], why: str) -> None:
    """A guard that would never be asked, or could not be waited for, is none."""
    with pytest.raises(BadInput, match=why):
        prong.hook(**given)(stop)
