"""Understands how hooks ended and what they said, whether they are commands or functions."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast

import msgspec

from prong.agent.verdict import Permission, Verdict
from prong.config.function_hook import AnyFunctionHook
from prong.config.hook import ENDS, GATES, Hook
from prong.foreign_json import NOT_JSON
from prong.hook_call import HookResult
from prong.host import Finished

AnyHook: TypeAlias = Hook | AnyFunctionHook

SPEAKS = ("UserPromptSubmit", "SessionStart", "PostModelSwitch")
"""Events whose hooks may simply print what the model should know."""
_CHANGES = ("PreToolUse", "PermissionRequest")
"""Events whose hooks may change a call's input, or have somebody asked."""
_DEAF = frozenset({"SessionEnd", "Notification", "PreModelSwitch", "WorktreeRemove"})
"""Events after which there is nobody to be told anything."""
_NOT_STARTED = (126, 127)
"""What a shell answers for a program that is not there or cannot be run."""
_UNHEEDED = frozenset(
    {"terminalSequence", "sessionTitle", "initialUserMessage", "watchPaths", "reloadSkills"}
    | {"retry", "displayContent", "classifierContext", "worktreePath"}
)
"""What a hook may print for another program, and Prong does nothing about."""


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
    updated_tool_output: Any = None
    updated_m_c_p_tool_output: Any = msgspec.field(name="updatedMCPToolOutput", default=None)
    suppress_original_prompt: bool = False


class _Printed(msgspec.Struct, frozen=True, rename="camel"):
    """What a hook may print on standard output."""

    decision: Literal["block", "deny", "approve", "allow", "ask"] | None = None
    reason: str = ""
    go_on: bool = msgspec.field(name="continue", default=True)
    stop_reason: str = ""
    system_message: str = ""
    additional_context: str = ""
    hook_specific_output: _Specific = _Specific()


def read_result(hook: AnyFunctionHook, said: object) -> Verdict:
    """Understand what a function gave, as if a command had printed it."""
    if said is None:
        return Verdict()
    if isinstance(said, str) and hook.event in SPEAKS:
        return Verdict(context=(said,) if said.strip() else ())
    if not isinstance(said, HookResult):
        return unheard(hook, f"gave {type(said).__name__} in place of a HookResult")
    try:
        result = msgspec.convert(msgspec.structs.asdict(said), HookResult)
        specific = _Specific(
            permission_decision=result.decision,
            permission_decision_reason=result.reason,
            additional_context=result.context,
            updated_input=None if result.updated_input is None else {**result.updated_input},
            updated_tool_output=result.updated_output,
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
    except (TypeError, ValueError, RecursionError) as error:
        return unheard(hook, f"gave a HookResult that was not understood ({error})")


def read_verdict(hook: Hook, finished: Finished) -> Verdict:
    """Understand how a command ended and what it printed."""
    errors = finished.errors.decode(errors="replace").strip()
    output = finished.output.decode(errors="replace").strip()
    if finished.timed_out:
        return unheard(hook, f"was stopped after {hook.seconds:g} s")
    if finished.code == 2:
        return _read_refusal(hook, output, errors)
    if finished.code in _NOT_STARTED:
        tail = f": {errors[-500:]}" if errors else ""
        return unheard(hook, f"could not be started (code {finished.code}){tail}")
    if finished.code != 0:
        tail = f": {errors[-500:]}" if errors else ""
        warned = _warning(hook, f"ended with code {finished.code}{tail}")
        return join([read_printed(hook, output), warned]) if output.startswith("{") else warned
    if finished.cut and output.startswith("{"):
        return unheard(hook, "printed more than is read")
    if not output.startswith("{"):
        return Verdict(context=(output,) if output and hook.event in SPEAKS else ())
    return read_printed(hook, output)


def _read_refusal(hook: Hook, output: str, errors: str) -> Verdict:
    """Read what was printed by a hook that blocks whatever it printed."""
    said = read_printed(hook, output) if output.startswith("{") else Verdict()
    why = errors or f"a {hook.event} hook blocked this without giving a reason"
    return msgspec.structs.replace(said, block=said.reason or why, permission=None, updated=None)


def read_printed(hook: Hook, output: str) -> Verdict:
    """Understand an object, printed by a command or answered by an address."""
    try:
        verdict = _read_printed(hook, msgspec.json.decode(output, type=_Printed))
    except NOT_JSON as error:
        return unheard(hook, f"printed JSON that was not understood ({error})")
    printed: dict[str, Any] = msgspec.json.decode(output)
    specific = printed.get("hookSpecificOutput")
    inner = cast("dict[str, Any]", specific) if isinstance(specific, dict) else {}
    if extra := sorted(_UNHEEDED & {*printed, *inner}):
        said = f"printed {', '.join(extra)}; nothing is done about that here"
        verdict = join([verdict, _warning(hook, said)])
    return verdict


def _read_printed(hook: AnyHook, printed: _Printed) -> Verdict:
    if (answered := printed.hook_specific_output.decision) is not None:
        return _read_answer(hook, printed, answered)
    specific = printed.hook_specific_output
    if specific.suppress_original_prompt:
        return unheard(hook, "wants a message hidden from the conversation; that is not possible")
    reason = specific.permission_decision_reason or printed.reason
    permission = _permission(printed)
    if permission == "ask" and hook.event not in _CHANGES:
        return unheard(hook, "wants somebody to be asked; there is nothing to ask here")
    stop = None if printed.go_on else printed.stop_reason or f"a {hook.event} hook stopped the work"
    context = tuple(filter(None, (specific.additional_context, printed.additional_context)))
    block = None
    if printed.decision == "block" or permission == "deny":
        block = reason or f"a {hook.event} hook blocked this without giving a reason"
    elif stop is not None and hook.event not in ENDS:
        block = stop
    elif stop is None and context and hook.event in ENDS:
        # Whoever has something to say at the end wants it heard, so it is not the end.
        block, context = "\n\n".join(context), ()
    warnings = (printed.system_message,) if printed.system_message else ()
    if context and hook.event in _DEAF:
        warnings += _warning(hook, "has something for the model, which nobody tells it").warnings
        context = ()
    updated = None if specific.updated_input is None else _encoded(specific.updated_input)
    if updated is not None and hook.event not in _CHANGES:
        warnings += _warning(hook, "asked to change an input; there is none to change").warnings
        updated = None
    if permission == "ask" and reason:
        warnings += _warning(hook, f"wants you to be asked: {reason}").warnings
    verdict = Verdict(
        block=block,
        permission=permission,
        reason=reason,
        context=context,
        warnings=warnings,
        updated=updated,
        stop=stop,
    )
    return _with_output(hook, specific, verdict)


def _permission(printed: _Printed) -> Permission | None:
    if (permission := printed.hook_specific_output.permission_decision) is not None:
        return permission
    if printed.decision in ("approve", "allow"):
        return "allow"
    return printed.decision if printed.decision in ("deny", "ask") else None


def _with_output(hook: AnyHook, specific: _Specific, verdict: Verdict) -> Verdict:
    """Add what the model is to read in place of what a call gave: all of that, or nothing of it."""
    changed = specific.updated_tool_output
    changed = specific.updated_m_c_p_tool_output if changed is None else changed
    if changed is None:
        return verdict
    if hook.event != "PostToolUse":
        return join([verdict, _warning(hook, "asked to change an output; there is none")])
    text = _output_text(changed)
    if text is None:
        warned = _warning(hook, "asked to change an output in a way that is not understood")
        text = "[What this call gave is withheld: a hook wanted it changed, and said not how.]"
        verdict = join([verdict, warned])
    return msgspec.structs.replace(verdict, output=text)


def _output_text(changed: object) -> str | None:
    """Find the text in what a hook gives in place of a call's output; None if there is none."""
    match changed:
        case str():
            return changed
        case {"stdout": str(printed), "stderr": str(errors)} if printed and errors:
            return f"{printed}\n{errors}"
        case {"stdout": str(printed), "stderr": str(errors)}:
            return printed or errors
        case {"stdout": str(printed)}:
            return printed
        case {"file": {"content": str(text)}} | {"content": str(text)} | {"text": str(text)}:
            return text
        case dict() if "content" in changed:
            return _output_text(cast("dict[str, object]", changed)["content"])
        case list():
            texts = [_output_text(part) for part in cast("list[object]", changed)]
            return None if None in texts else "\n".join(text for text in texts if text is not None)
        case _:
            return None


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
    return join([verdict, _warning(hook, "asked to change rules; that is not done")])


def _encoded(value: dict[str, Any]) -> str:
    """Write an object so that equal ones are equal texts."""
    return msgspec.json.encode(value, order="deterministic").decode()


def join(said: list[Verdict]) -> Verdict:
    """Join verdicts: the strictest answer counts, texts stay in order.

    Two that would change a call in different ways cannot both be heeded, so it is blocked; two
    that would change what it gave, so that is withheld.
    """
    blocks = [verdict.block for verdict in said if verdict.block is not None]
    given = [verdict.permission for verdict in said]
    ranked: tuple[Permission, ...] = ("deny", "ask", "allow")
    updates = list(dict.fromkeys(v.updated for v in said if v.updated is not None))
    if len(updates) > 1:
        blocks.append(f"hooks want to change the input in different ways: {' or '.join(updates)}")
    outputs = list(dict.fromkeys(v.output for v in said if v.output is not None))
    if len(outputs) > 1:
        outputs = ["[What this call gave is withheld: hooks want it changed in different ways.]"]
    stops = [verdict.stop for verdict in said if verdict.stop is not None]
    return Verdict(
        block="\n".join(blocks) if blocks else None,
        permission=next((answer for answer in ranked if answer in given), None),
        reason="\n".join(verdict.reason for verdict in said if verdict.reason),
        context=tuple(text for verdict in said for text in verdict.context),
        warnings=tuple(text for verdict in said for text in verdict.warnings),
        updated=updates[0] if len(updates) == 1 else None,
        stop="\n".join(stops) if stops else None,
        output=outputs[0] if outputs else None,
    )


def without_a_say(hook: AnyHook, verdict: Verdict) -> Verdict:
    """Leave of a verdict what can still be heeded when nothing waited for it."""
    decides = verdict.block, verdict.permission, verdict.updated, verdict.stop, verdict.output
    kept = Verdict(context=verdict.context, warnings=verdict.warnings)
    if all(part is None for part in decides):
        return kept
    why = f" ({verdict.block or verdict.stop})" if verdict.block or verdict.stop else ""
    late = f"wanted to decide{why}, and nothing waited for it: it runs beside the work"
    return join([kept, _warning(hook, late)])


def unheard(hook: AnyHook, what: str) -> Verdict:
    """Say that a hook gave no answer; what waits for one does not happen."""
    verdict = _warning(hook, what)
    if hook.event not in GATES:
        return verdict
    why = f"{verdict.warnings[0]}; what it guards is blocked until that is mended"
    return Verdict(block=why, warnings=verdict.warnings)


def _warning(hook: AnyHook, what: str) -> Verdict:
    line = hook.line if len(hook.line) <= 80 else f"{hook.line[:77]}..."
    return Verdict(warnings=(f"{hook.event} hook '{line}' of {hook.path} {what}",))
