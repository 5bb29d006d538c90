"""Runs hooks, commands and functions, when something happens that they want to be told of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Any, TypeAlias

import anyio
import msgspec

from prong.agent.call_match import CallMatch
from prong.agent.hook_payload import tool_response
from prong.agent.verdict import UNASKED, Verdict
from prong.config.function_hook import AnyFunctionHook
from prong.config.hook import Hook
from prong.config.hook_output import (
    AnyHook,
    join,
    read_result,
    read_verdict,
    unheard,
    without_a_say,
)
from prong.config.hook_post import HookPoster
from prong.config.hook_way import HookPost, HookQuestion, HookTool
from prong.config.late_hook import LateHooks
from prong.host import Host
from prong.journal.jsonl_form import JsonlFiles
from prong.tools.python_call import FunctionRaised, LoopHold, call_python

__all__ = ["AnyHook", "HookAsker", "UserHooks"]

HookAsker: TypeAlias = Callable[[Hook, bytes], Awaitable[Verdict]]
"""Asks a model or a server about an event."""

_OUTPUT_LIMIT = 1_000_000
_LONGEST = 10_000
"""Characters of what a hook says that stand in a conversation; the rest is in a file."""
_UNAWAITED = frozenset({"Notification"})
"""Events that go on at once, whatever hooks make of them."""
_HEARD = frozenset({"UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure"})
"""Events with which a model can be told what hooks have said meanwhile."""


class UserHooks(msgspec.Struct, frozen=True, kw_only=True):
    """Runs the hooks of a session."""

    hooks: tuple[AnyHook, ...]
    host: Host
    session_id: str
    transcript: JsonlFiles | None = None
    """The session in the form that scripts read; None if it is not stored."""
    env: dict[str, str] = {}
    late: LateHooks | None = None
    """Runs those that nobody waits for; None to wait for them too."""
    poster: HookPoster = HookPoster()
    """Tells addresses."""
    asker: HookAsker | None = None
    """Asks models and servers; None where there are none."""

    def listens(self, event: str) -> bool:
        """Whether there are any hooks."""
        del event
        return bool(self.hooks)

    async def fire(
        self,
        event: str,
        payload: Mapping[str, Any],
        matcher: str = "",
        call: CallMatch | None = None,
    ) -> Verdict:
        """Run the hooks of an event together and join what they say, in the order of settings."""
        agent = str(payload.get("agent_id", ""))
        # Who interrupts a call wants it to end now.
        passing = event in _UNAWAITED or payload.get("is_interrupt") is True
        heard = event in _HEARD and not passing
        late = self.late.take(agent) if self.late is not None and heard else None
        chosen = list(dict.fromkeys(h for h in self.hooks if _is_for(h, event, matcher, call)))
        if not chosen:
            return late or UNASKED
        told = await self._told(event, payload)
        problem = self.transcript.problem if self.transcript is not None else ""
        said: list[Verdict] = [Verdict()] * len(chosen)

        async def run(position: int, *, waits: bool) -> None:
            said[position] = await self._run(chosen[position], told, agent, waits=waits)

        async with anyio.create_task_group() as group:
            for position, hook in enumerate(chosen):
                waits = not passing and not (isinstance(hook, Hook) and not hook.waits)
                if not waits and self.late is not None:
                    self.late.start(agent, partial(self._run, hook, told, agent, waits=False))
                else:
                    group.start_soon(partial(run, position, waits=waits))
        said += [late] if late is not None else []
        said += [Verdict(warnings=(problem,))] if problem else []
        return self._bounded(join(said))

    async def close(self) -> Verdict:
        """Wait a moment for the hooks that nobody waited for; gives what they still say."""
        return UNASKED if self.late is None else await self.late.end()

    async def _told(self, event: str, payload: Mapping[str, Any]) -> bytes:
        """Write down what hooks read, and have the conversation so far written for them."""
        common: dict[str, Any] = {"session_id": self.session_id, "transcript_path": ""}
        if self.transcript is not None:
            common["transcript_path"] = str(await self.transcript.refresh())
            if event == "SubagentStop":
                own = self.transcript.of(str(payload.get("agent_path", "")))
                common["agent_transcript_path"] = str(own)
        if event == "PostToolUse":
            common["tool_response"] = tool_response(payload)
        told = {**common, "cwd": self.host.root, **payload, "hook_event_name": event}
        return msgspec.json.encode(told)

    async def _run(self, hook: AnyHook, told: bytes, agent: str, *, waits: bool) -> Verdict:
        verdict = await (self._do(hook, told) if isinstance(hook, Hook) else _call(hook, told))
        if isinstance(hook, Hook) and hook.wakes and self.late is not None and verdict.block:
            lead = f"A {hook.event} hook that ran beside the work objects"
            self.late.object(agent, self._cut(f"{lead}: {verdict.block}"))
            verdict = msgspec.structs.replace(verdict, block=None)
        return verdict if waits else without_a_say(hook, verdict)

    async def _do(self, hook: Hook, told: bytes) -> Verdict:
        """Run a command, tell an address, or ask a model."""
        match hook.way:
            case None:
                return await self._run_command(hook, told)
            case HookPost():
                return await self.poster.post(hook, told, {**self.host.environment, **self.env})
            case HookQuestion() | HookTool():
                if self.asker is None:
                    return unheard(hook, "could not be asked: nobody is there")
                return await self.asker(hook, told)

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
            return unheard(hook, f"could not be started: {error}")
        return read_verdict(hook, finished)

    def _bounded(self, verdict: Verdict) -> Verdict:
        """Keep what floods a conversation in files, with its beginning in their place."""
        return msgspec.structs.replace(
            verdict,
            block=None if verdict.block is None else self._cut(verdict.block),
            reason=self._cut(verdict.reason),
            context=tuple(self._cut(text) for text in verdict.context),
            warnings=tuple(text[:_LONGEST] for text in verdict.warnings),
        )

    def _cut(self, text: str) -> str:
        if len(text) <= _LONGEST:
            return text
        data = text.encode(errors="replace")
        try:
            name = f"hooks/{blake2b(data, digest_size=8).hexdigest()}.txt"
            where = f"the whole is in {self.host.storage.write(name, data)}"
        except OSError as error:
            where = f"the rest could not be stored ({error})"
        return f"{text[:_LONGEST]}\n[{len(text) - _LONGEST} characters left out here; {where}]"


def _is_for(hook: AnyHook, event: str, matcher: str, call: CallMatch | None) -> bool:
    if not hook.matches(event, matcher):
        return False
    rule = hook.rule if isinstance(hook, Hook) else None
    # A call of which nothing is known may do what the rule names.
    return rule is None or call is None or call.falls_under(rule)


async def _call(hook: AnyFunctionHook, told: bytes) -> Verdict:
    """Call a function with the same that a command reads."""
    given, hold = msgspec.json.decode(told, type=hook.told), LoopHold()
    said: object = None
    try:
        with anyio.move_on_after(hook.seconds) as scope:
            said = await call_python(partial(hook.__wrapped__, given), hold, kind="hook")
    except FunctionRaised as raised:
        verdict = unheard(hook, f"raised {type(raised.error).__name__}: {raised.error}")
    else:
        late = f"took longer than {hook.seconds:g} s"
        verdict = unheard(hook, late) if scope.cancelled_caught else read_result(hook, said)
    if (held := hold.complaint(f"the hook {hook.line}")) is not None:
        verdict = msgspec.structs.replace(verdict, warnings=(*verdict.warnings, held))
    return verdict
