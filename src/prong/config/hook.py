"""Hooks: commands from the settings that are told of events and may block them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast, get_args

import anyio
import msgspec

from prong.agent.hook import Permission, Verdict
from prong.config.document import Document
from prong.errors import ConfigError
from prong.host import Finished, Host

EventName: TypeAlias = Literal[
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "SessionStart",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "WorktreeCreate",
    "WorktreeRemove",
    "Notification",
]
EVENTS: tuple[str, ...] = get_args(EventName)

_OUTPUT_LIMIT = 1_000_000
_SPEAKS = ("UserPromptSubmit", "SessionStart")
"""Events whose hooks may simply print what the model should know."""


class Hook(msgspec.Struct, frozen=True):
    """One command that is run on one event."""

    event: str
    matcher: str
    """A regular expression that must match the whole of a name; empty for all."""
    command: str
    seconds: float
    path: str
    """The file it was written in."""

    def matches(self, event: str, name: str) -> bool:
        """Say whether this hook is for the event."""
        if event != self.event:
            return False
        return self.matcher in ("", "*") or re.fullmatch(self.matcher, name) is not None


def parse_hooks(document: Document, *, foreign: bool) -> tuple[list[Hook], list[ConfigError]]:
    """Read the `hooks` of a settings file; what is wrong is named and the rest is kept.

    A foreign file may use events that only its own program has.
    """
    hooks: list[Hook] = []
    problems: list[ConfigError] = []
    value = document.value.get("hooks")
    if not isinstance(value, dict):
        return [], [document.problem("'hooks' must be an object of events", "hooks")]
    for event, groups in cast("dict[str, object]", value).items():
        if event not in EVENTS:
            if not foreign:
                known = ", ".join(EVENTS)
                why = f"unknown hook event {event!r}; known are {known}"
                problems.append(document.problem(why, "hooks", event))
        elif not isinstance(groups, list):
            why = f"hooks of {event} must be a list"
            problems.append(document.problem(why, "hooks", event))
        else:
            for number, group in enumerate(cast("list[object]", groups)):
                _parse_group(document, event, number, group, hooks, problems)
    return hooks, problems


def _parse_group(
    document: Document,
    event: str,
    number: int,
    group: object,
    hooks: list[Hook],
    problems: list[ConfigError],
) -> None:
    steps = ("hooks", event, number)
    parts = cast("dict[str, object]", group) if isinstance(group, dict) else {}
    matcher, commands = parts.get("matcher", ""), parts.get("hooks")
    if not isinstance(commands, list) or not isinstance(matcher, str):
        why = 'a hook entry must be {"matcher": "...", "hooks": [...]}'
        problems.append(document.problem(why, *steps))
        return
    try:
        re.compile("" if matcher == "*" else matcher)
    except re.error as error:
        why = f"matcher {matcher!r} is not a regular expression: {error}"
        problems.append(document.problem(why, *steps, "matcher"))
        return
    for position, item in enumerate(cast("list[object]", commands)):
        parts = cast("dict[str, object]", item) if isinstance(item, dict) else {}
        command, seconds = parts.get("command"), parts.get("timeout", 60)
        place = (*steps, "hooks", position)
        if parts.get("type", "command") != "command":
            why = f"hooks of type {parts.get('type')!r} are not supported; use 'command'"
            problems.append(document.problem(why, *place))
        elif not isinstance(command, str) or not command.strip():
            problems.append(document.problem("a hook must have a 'command'", *place))
        elif isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
            why = "'timeout' must be a number of seconds above 0"
            problems.append(document.problem(why, *place, "timeout"))
        else:
            hooks.append(Hook(event, matcher, command, float(seconds), document.path))


class _Specific(msgspec.Struct, frozen=True, rename="camel"):
    permission_decision: Permission | None = None
    permission_decision_reason: str = ""
    additional_context: str = ""
    updated_input: Any = None


class _Printed(msgspec.Struct, frozen=True, rename="camel"):
    """What a hook may print on standard output."""

    decision: Literal["block", "deny", "approve", "allow", "ask"] | None = None
    reason: str = ""
    go_on: bool = msgspec.field(name="continue", default=True)
    stop_reason: str = ""
    system_message: str = ""
    additional_context: str = ""
    hook_specific_output: _Specific = _Specific()


class CommandHooks(msgspec.Struct, frozen=True, kw_only=True):
    """Runs the hooks of a session."""

    hooks: tuple[Hook, ...]
    host: Host
    session_id: str
    transcript: str = ""
    """The journal's path, for hooks that want to read it."""
    env: dict[str, str] = {}

    async def fire(self, event: str, payload: Mapping[str, Any], matcher: str = "") -> Verdict:
        """Run the hooks of an event together and join what they say, in the order of settings."""
        chosen = list(dict.fromkeys(h for h in self.hooks if h.matches(event, matcher)))
        if not chosen:
            return Verdict()
        said: list[Verdict] = [Verdict()] * len(chosen)
        stdin = msgspec.json.encode(
            {
                "session_id": self.session_id,
                "transcript_path": self.transcript,
                "cwd": self.host.root,
                **payload,
                "hook_event_name": event,
            }
        )

        async def run(position: int) -> None:
            said[position] = await self._run(chosen[position], stdin)

        async with anyio.create_task_group() as group:
            for position in range(len(chosen)):
                group.start_soon(run, position)
        return join(said)

    async def _run(self, hook: Hook, stdin: bytes) -> Verdict:
        root = self.host.root
        env = {**self.env, "PRONG_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root}
        try:
            finished = await self.host.run(
                ["bash", "-c", hook.command],
                cwd=root,
                env=env,
                stdin=stdin,
                seconds=hook.seconds,
                limit=_OUTPUT_LIMIT,
            )
        except OSError as error:
            return _warning(hook, f"could not be started: {error}")
        return read_verdict(hook, finished)


def read_verdict(hook: Hook, finished: Finished) -> Verdict:
    """Understand how a hook ended and what it printed."""
    errors = finished.errors.decode(errors="replace").strip()
    if finished.timed_out:
        return _warning(hook, f"was stopped after {hook.seconds:g} s")
    if finished.code == 2:
        return Verdict(block=errors or f"a {hook.event} hook blocked this without giving a reason")
    if finished.code != 0:
        tail = f": {errors[-500:]}" if errors else ""
        return _warning(hook, f"ended with code {finished.code}{tail}")
    output = finished.output.decode(errors="replace").strip()
    if not output.startswith("{"):
        return Verdict(context=(output,) if output and hook.event in _SPEAKS else ())
    try:
        return _read_printed(hook, msgspec.json.decode(output, type=_Printed))
    except msgspec.MsgspecError as error:
        return _warning(hook, f"printed JSON that was not understood ({error})")


def _read_printed(hook: Hook, printed: _Printed) -> Verdict:
    specific = printed.hook_specific_output
    reason = specific.permission_decision_reason or printed.reason
    permission = specific.permission_decision
    if permission is None and printed.decision in ("approve", "allow"):
        permission = "allow"
    elif permission is None and printed.decision in ("deny", "ask"):
        permission = printed.decision
    block = None
    if printed.decision == "block" or permission == "deny":
        block = reason or f"a {hook.event} hook blocked this without giving a reason"
    elif not printed.go_on:
        block = printed.stop_reason or f"a {hook.event} hook stopped the work"
    warnings = (printed.system_message,) if printed.system_message else ()
    if specific.updated_input is not None:
        warnings += _warning(hook, "asked to change the tool's input; that is not done").warnings
    if permission == "ask" and reason:
        warnings += _warning(hook, f"wants you to be asked: {reason}").warnings
    contexts = (specific.additional_context, printed.additional_context)
    return Verdict(
        block=block,
        permission=permission,
        reason=reason,
        context=tuple(text for text in contexts if text),
        warnings=warnings,
    )


def join(said: list[Verdict]) -> Verdict:
    """Join verdicts: the strictest answer counts, texts stay in order."""
    blocks = [verdict.block for verdict in said if verdict.block is not None]
    given = [verdict.permission for verdict in said]
    ranked: tuple[Permission, ...] = ("deny", "ask", "allow")
    return Verdict(
        block="\n".join(blocks) if blocks else None,
        permission=next((answer for answer in ranked if answer in given), None),
        reason="\n".join(verdict.reason for verdict in said if verdict.reason),
        context=tuple(text for verdict in said for text in verdict.context),
        warnings=tuple(text for verdict in said for text in verdict.warnings),
    )


def _warning(hook: Hook, what: str) -> Verdict:
    command = hook.command if len(hook.command) <= 80 else f"{hook.command[:77]}..."
    return Verdict(warnings=(f"{hook.event} hook '{command}' of {hook.path} {what}",))
