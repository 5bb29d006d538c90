"""Runs hooks, commands and functions, and understands how they ended and what they said."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio
import msgspec

from prong.agent.verdict import UNASKED, Permission, Verdict
from prong.config.function_hook import AnyFunctionHook
from prong.config.hook import ENDS, GATES, Hook
from prong.hook_call import HookResult
from prong.host import Finished, Host
from prong.tools.python_call import FunctionRaised, LoopHold, call_python

AnyHook: TypeAlias = Hook | AnyFunctionHook

_OUTPUT_LIMIT = 1_000_000
_SPEAKS = ("UserPromptSubmit", "SessionStart")
"""Events whose hooks may simply print what the model should know."""
_NOT_STARTED = (126, 127)
"""What a shell answers for a program that is not there or cannot be run."""


class _Answered(msgspec.Struct, frozen=True, rename="camel"):
    """What a hook answers to a question of permission."""

    behavior: Literal["allow", "deny"]
    message: str = ""
    interrupt: bool = False
    updated_input: dict[str, Any] | None = None
    updated_permissions: Any = None


class _Specific(msgspec.Struct, frozen=True, rename="camel"):
    permission_decision: Permission | None = None
    permission_decision_reason: str = ""
    additional_context: str = ""
    decision: _Answered | None = None
    updated_input: dict[str, Any] | None = None


class _Printed(msgspec.Struct, frozen=True, rename="camel"):
    """What a hook may print on standard output."""

    decision: Literal["block", "deny", "approve", "allow", "ask"] | None = None
    reason: str = ""
    go_on: bool = msgspec.field(name="continue", default=True)
    stop_reason: str = ""
    system_message: str = ""
    additional_context: str = ""
    hook_specific_output: _Specific = _Specific()


class UserHooks(msgspec.Struct, frozen=True, kw_only=True):
    """Runs the hooks of a session."""

    hooks: tuple[AnyHook, ...]
    host: Host
    session_id: str
    transcript: str = ""
    """The journal's path, for hooks that want to read it."""
    env: dict[str, str] = {}

    async def fire(self, event: str, payload: Mapping[str, Any], matcher: str = "") -> Verdict:
        """Run the hooks of an event together and join what they say, in the order of settings."""
        chosen = list(dict.fromkeys(h for h in self.hooks if h.matches(event, matcher)))
        if not chosen:
            return UNASKED
        said: list[Verdict] = [Verdict()] * len(chosen)
        told = msgspec.json.encode(
            {
                "session_id": self.session_id,
                "transcript_path": self.transcript,
                "cwd": self.host.root,
                **payload,
                "hook_event_name": event,
            }
        )

        async def run(position: int) -> None:
            said[position] = await self._run(chosen[position], told)

        async with anyio.create_task_group() as group:
            for position in range(len(chosen)):
                group.start_soon(run, position)
        return join(said)

    async def _run(self, hook: AnyHook, told: bytes) -> Verdict:
        if isinstance(hook, Hook):
            return await self._run_command(hook, told)
        return await _call(hook, told)

    async def _run_command(self, hook: Hook, stdin: bytes) -> Verdict:
        root = self.host.root
        env = {**self.env, "PRONG_PROJECT_DIR": root, "CLAUDE_PROJECT_DIR": root}
        try:
            finished = await self.host.run(
                hook.argv(root),
                cwd=root,
                env=env,
                stdin=stdin,
                seconds=hook.seconds,
                limit=_OUTPUT_LIMIT,
            )
        except OSError as error:
            return _unheard(hook, f"could not be started: {error}")
        return read_verdict(hook, finished)


async def _call(hook: AnyFunctionHook, told: bytes) -> Verdict:
    """Call a function with the same that a command reads."""
    given, hold = msgspec.json.decode(told, type=hook.told), LoopHold()
    said: object = None
    try:
        with anyio.move_on_after(hook.seconds) as scope:
            said = await call_python(partial(hook.__wrapped__, given), hold, kind="hook")
    except FunctionRaised as raised:
        verdict = _unheard(hook, f"raised {type(raised.error).__name__}: {raised.error}")
    else:
        late = f"took longer than {hook.seconds:g} s"
        verdict = _unheard(hook, late) if scope.cancelled_caught else _read_result(hook, said)
    if (held := hold.complaint(f"the hook {hook.line}")) is not None:
        verdict = msgspec.structs.replace(verdict, warnings=(*verdict.warnings, held))
    return verdict


def _read_result(hook: AnyFunctionHook, said: object) -> Verdict:
    """Understand what a function gave, as if a command had printed it."""
    if said is None:
        return Verdict()
    if isinstance(said, str) and hook.event in _SPEAKS:
        return Verdict(context=(said,) if said.strip() else ())
    if not isinstance(said, HookResult):
        return _unheard(hook, f"gave {type(said).__name__} in place of a HookResult")
    try:
        result = msgspec.convert(msgspec.structs.asdict(said), HookResult)
        specific = _Specific(
            permission_decision=result.decision,
            permission_decision_reason=result.reason,
            additional_context=result.context,
            updated_input=None if result.updated_input is None else {**result.updated_input},
        )
        return _read_printed(
            hook,
            _Printed(
                go_on=result.stop is None,
                stop_reason=result.stop or "",
                system_message=result.message,
                hook_specific_output=specific,
            ),
        )
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        return _unheard(hook, f"gave a HookResult that was not understood ({error})")


def read_verdict(hook: Hook, finished: Finished) -> Verdict:
    """Understand how a hook ended and what it printed."""
    errors = finished.errors.decode(errors="replace").strip()
    if finished.timed_out:
        return _unheard(hook, f"was stopped after {hook.seconds:g} s")
    if finished.code == 2:
        return Verdict(block=errors or f"a {hook.event} hook blocked this without giving a reason")
    if finished.code != 0:
        tail = f": {errors[-500:]}" if errors else ""
        if finished.code in _NOT_STARTED:
            return _unheard(hook, f"could not be started (code {finished.code}){tail}")
        return _warning(hook, f"ended with code {finished.code}{tail}")
    output = finished.output.decode(errors="replace").strip()
    if not output.startswith("{"):
        return Verdict(context=(output,) if output and hook.event in _SPEAKS else ())
    try:
        return _read_printed(hook, msgspec.json.decode(output, type=_Printed))
    except msgspec.MsgspecError as error:
        return _unheard(hook, f"printed JSON that was not understood ({error})")


def _read_printed(hook: AnyHook, printed: _Printed) -> Verdict:
    if (answered := printed.hook_specific_output.decision) is not None:
        return _read_answer(hook, printed, answered)
    specific = printed.hook_specific_output
    reason = specific.permission_decision_reason or printed.reason
    permission = specific.permission_decision
    if permission is None and printed.decision in ("approve", "allow"):
        permission = "allow"
    elif permission is None and printed.decision in ("deny", "ask"):
        permission = printed.decision
    stop = None if printed.go_on else printed.stop_reason or f"a {hook.event} hook stopped the work"
    block = None
    if printed.decision == "block" or permission == "deny":
        block = reason or f"a {hook.event} hook blocked this without giving a reason"
    elif stop is not None and hook.event not in ENDS:
        block = stop
    warnings = (printed.system_message,) if printed.system_message else ()
    updated = None if specific.updated_input is None else _encoded(specific.updated_input)
    if updated is not None and hook.event not in ("PreToolUse", "PermissionRequest"):
        warnings += _warning(hook, "asked to change an input; there is none to change").warnings
        updated = None
    if permission == "ask" and hook.event not in ("PreToolUse", "PermissionRequest"):
        return _unheard(hook, "wants somebody to be asked; there is nothing to ask here")
    if permission == "ask" and reason:
        warnings += _warning(hook, f"wants you to be asked: {reason}").warnings
    contexts = (specific.additional_context, printed.additional_context)
    return Verdict(
        block=block,
        permission=permission,
        reason=reason,
        context=tuple(text for text in contexts if text),
        warnings=warnings,
        updated=updated,
        stop=stop,
    )


def _read_answer(hook: AnyHook, printed: _Printed, answered: _Answered) -> Verdict:
    """Read an answer in the form of PermissionRequest as one in that of PreToolUse."""
    specific = _Specific(
        permission_decision=answered.behavior,
        permission_decision_reason=answered.message,
        additional_context=printed.hook_specific_output.additional_context,
        updated_input=answered.updated_input,
    )
    stops = answered.behavior == "deny" and answered.interrupt
    verdict = _read_printed(
        hook,
        msgspec.structs.replace(
            printed,
            hook_specific_output=specific,
            go_on=printed.go_on and not stops,
            stop_reason=printed.stop_reason or answered.message,
        ),
    )
    if answered.updated_permissions is None:
        return verdict
    warned = _warning(hook, "asked to change rules; that is not done").warnings
    return msgspec.structs.replace(verdict, warnings=(*verdict.warnings, *warned))


def _encoded(value: dict[str, Any]) -> str:
    """Write an object so that equal ones are equal texts."""
    return msgspec.json.encode(value, order="deterministic").decode()


def join(said: list[Verdict]) -> Verdict:
    """Join verdicts: the strictest answer counts, texts stay in order.

    Two that would change a call in different ways cannot both be heeded, so it is blocked.
    """
    blocks = [verdict.block for verdict in said if verdict.block is not None]
    given = [verdict.permission for verdict in said]
    ranked: tuple[Permission, ...] = ("deny", "ask", "allow")
    updates = list(dict.fromkeys(v.updated for v in said if v.updated is not None))
    if len(updates) > 1:
        blocks.append(f"hooks want to change the input in different ways: {' or '.join(updates)}")
    stops = [verdict.stop for verdict in said if verdict.stop is not None]
    return Verdict(
        block="\n".join(blocks) if blocks else None,
        permission=next((answer for answer in ranked if answer in given), None),
        reason="\n".join(verdict.reason for verdict in said if verdict.reason),
        context=tuple(text for verdict in said for text in verdict.context),
        warnings=tuple(text for verdict in said for text in verdict.warnings),
        updated=updates[0] if len(updates) == 1 else None,
        stop="\n".join(stops) if stops else None,
    )


def _unheard(hook: AnyHook, what: str) -> Verdict:
    """Say that a hook gave no answer; what waits for one does not happen."""
    verdict = _warning(hook, what)
    if hook.event not in GATES:
        return verdict
    why = f"{verdict.warnings[0]}; what it guards is blocked until that is mended"
    return Verdict(block=why, warnings=verdict.warnings)


def _warning(hook: AnyHook, what: str) -> Verdict:
    line = hook.line if len(hook.line) <= 80 else f"{hook.line[:77]}..."
    return Verdict(warnings=(f"{hook.event} hook '{line}' of {hook.path} {what}",))
