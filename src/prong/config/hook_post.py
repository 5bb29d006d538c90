"""Tells an address of an event, and reads what it answers as what a command would print."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import msgspec

from prong.about import __version__
from prong.agent.verdict import Verdict
from prong.config.hook import Hook
from prong.config.hook_output import read_printed, unheard
from prong.config.hook_way import HookPost
from prong.errors import ProngError
from prong.provider import AddressGuard, Http, HttpLimits, Response

_LIMIT = 1_000_000
"""Bytes of an answer that are read."""


class HookPoster(msgspec.Struct, frozen=True, kw_only=True):
    """Sends events to the addresses of hooks."""

    guard: AddressGuard = AddressGuard()
    """Which addresses may be reached."""
    env: Mapping[str, str] = {}
    """Where proxies and certificates are named."""

    async def post(self, hook: Hook, told: bytes, variables: dict[str, str]) -> Verdict:
        """Send an event; without an answer, what waits for one does not happen."""
        assert isinstance(hook.way, HookPost)
        headers = (
            ("user-agent", f"prong/{__version__}"),
            *hook.way.filled(variables),
            ("content-type", "application/json"),
        )
        limits = HttpLimits(connect=15.0, idle=hook.seconds, progress=hook.seconds, connections=1)
        try:
            with anyio.fail_after(hook.seconds):
                async with (
                    Http(limits=limits, env=self.env, guard=self.guard) as http,
                    http.request("POST", hook.way.url, headers, told) as response,
                ):
                    return await _answer(hook, response)
        except TimeoutError:
            return unheard(hook, f"did not answer within {hook.seconds:g} s")
        except ProngError as error:
            return unheard(hook, f"could not be asked: {error}")


async def _answer(hook: Hook, response: Response) -> Verdict:
    """Read an answer: nothing, or an object; anything else is none."""
    if not 200 <= response.status < 300:
        return unheard(hook, f"answered {response.status}")
    data = bytearray()
    async for piece in response:
        data += piece
        if len(data) > _LIMIT:
            return unheard(hook, "answered more than is read")
    said = data.decode(errors="replace").strip()
    if not said:
        return Verdict()
    if not said.startswith("{"):
        return unheard(hook, "answered with something else than a JSON object")
    return read_printed(hook, said)
