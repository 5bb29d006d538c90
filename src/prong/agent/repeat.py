"""A guard against loops: the same call with the same result, again and again.

A model that repeats itself is told, then refused, then its turn ends. A repetition is the same
tool with the same arguments and, since anything was changed, the same result; a call that changed
something begins the count anew, and so do a message, a notice and a new prompt. Calls that wait for
something (they took a while, or read a task's output) may be repeated: that is how one waits.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from prong.entry import Call, Text
from prong.foreign_json import NOT_JSON
from prong.tools.background import TaskOutput
from prong.tools.delegate import AgentTool, SendMessage
from prong.tools.tool import CallOutcome, Done, Failed

TELL_AT = 3
"""From which identical call on the model is told."""
REFUSE_AT = 5
"""From which identical call on it is not run."""
END_AFTER = 3
"""In how many replies a call may be refused before the turn ends."""
WAITED = 5.0
"""Seconds from which on a call counts as waiting."""
_EXEMPT = frozenset({AgentTool.name, SendMessage.name, TaskOutput.name})
"""What these give does not say what they did: equal forks are a fan-out, not a loop."""


class _Seen(msgspec.Struct):
    """One call, as often as it came since anything was changed."""

    count: int = 0
    result: int | None = None
    """The hash of what it gave."""
    refused: int = 0
    """Replies in which it was refused."""
    reply: int = 0
    """The last of them."""


class Repeats(msgspec.Struct):
    """What an agent has called since anything was changed."""

    stuck: str = ""
    """Why the turn should end, if it should."""
    _seen: dict[tuple[str, str], _Seen] = msgspec.field(
        default_factory=dict[tuple[str, str], _Seen]
    )
    _known: set[tuple[str, str, int]] = msgspec.field(default_factory=set[tuple[str, str, int]])
    _reply: int = 0
    _closed: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter[tuple[str, str]])

    def forget(self) -> None:
        """Begin anew: something was said or changed."""
        self._seen.clear()
        self._known.clear()
        self.stuck = ""

    def begin_reply(self) -> None:
        """Note that another reply's calls are about to run."""
        self._reply += 1

    def refuse_for_good(self, call: Call) -> int:
        """Count a call that is closed to the agent, whatever changes; gives how often it came."""
        self._closed[call.name, call.arguments] += 1
        return self._closed[call.name, call.arguments]

    def refuse(self, call: Call) -> str | None:
        """Count a call; say why it is not run, if it came too often."""
        if call.name in _EXEMPT:
            return None
        seen = self._seen.setdefault(_key(call), _Seen())
        seen.count += 1
        if seen.count < REFUSE_AT:
            return None
        if seen.reply != self._reply:
            seen.reply = self._reply
            seen.refused += 1
        if seen.refused >= END_AFTER:
            self.stuck = (
                f"{call.name} was called {seen.count} times with the same arguments and the same "
                "result"
            )
        return (
            f"not run: {call.name} was called with the same arguments {seen.count - 1} times "
            "already and gave the same result, which stands above; you have changed nothing since. "
            "Do something else, or say what is missing."
        )

    def told(
        self, call: Call, outcome: CallOutcome, *, seconds: float, writes: bool
    ) -> CallOutcome:
        """Note what a call gave; a repetition is told to the model."""
        key = _key(call)
        seen = self._seen.get(key)
        if seen is None:
            return outcome
        result = hash(outcome.why if isinstance(outcome, Failed) else outcome.parts)
        if seconds >= WAITED or seen.result not in {None, result}:
            seen.count = 1
        seen.result = result
        if writes and isinstance(outcome, Done) and (*key, result) not in self._known:
            known = self._known | {(*key, result)}
            self.forget()
            self._known = known
            return outcome
        self._known.add((*key, result))
        return _noted(outcome, seen.count) if seen.count >= TELL_AT else outcome


def _key(call: Call) -> tuple[str, str]:
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except NOT_JSON:
        return call.name, call.arguments
    return call.name, msgspec.json.encode(arguments, order="deterministic").decode()


def _noted(outcome: CallOutcome, count: int) -> CallOutcome:
    note = (
        f"[This is call number {count} with the same arguments and the same result; you have "
        "changed nothing in between. Soon it will not be run any more.]"
    )
    if isinstance(outcome, Failed):
        return msgspec.structs.replace(outcome, why=f"{outcome.why}\n\n{note}")
    return Done((*outcome.parts, Text(note)), outcome.shown)
