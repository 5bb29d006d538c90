"""A key that a command prints, asked for when it is needed and again when it has grown old."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream

from prong.errors import Unauthorised
from prong.foreign_number import whole_number
from prong.provider.signing import OutboundRequest, SigningTransport
from prong.provider.transport import Transport
from prong.system.process_tree import ProcessTree, apart

TTL_VARIABLE = "CLAUDE_CODE_API_KEY_HELPER_TTL_MS"
_TTL = 300.0
_SECONDS = 30.0
_LONGEST = 16_384
"""Bytes that are read of what the command prints."""


class KeyHelper(SigningTransport):
    """Sends requests with the key that the setting `apiKeyHelper` brings."""

    def __init__(
        self, inner: Transport, command: str, env: Mapping[str, str], *, seconds: float = _SECONDS
    ) -> None:
        """Run nothing yet."""
        super().__init__(inner)
        self._command = command
        self._env = env
        self._seconds = seconds
        self._lives = _lifetime(env)
        self._key = ""
        self._at = 0.0
        self._lock = anyio.Lock()

    async def sign(self, request: OutboundRequest) -> OutboundRequest:
        """Add the key in both forms: as vendors take it, and as gateways do."""
        # One run for all agents that wait for it.
        async with self._lock:
            if not self._key or time.monotonic() - self._at >= self._lives:
                self._key = await self._run()
                self._at = time.monotonic()
        return request.with_headers(x_api_key=self._key, authorization=f"Bearer {self._key}")

    def renew(self) -> bool:
        """Ask the command again."""
        self._key = ""
        return True

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key."""
        return (self._key,)

    async def _run(self) -> str:
        """Give the one line that the command prints.

        Raises Unauthorised if it prints anything else, fails, or does not end.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        process = None
        # A start that is cancelled in its midst leaves a process that nobody waits for.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                self._command,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=dict(self._env),
                **apart(),
            )
        assert process is not None, "a shield hides nothing"
        tree = ProcessTree(process.pid)
        try:
            with anyio.fail_after(self._seconds):
                assert process.stdout is not None
                printed = await _read(process.stdout)
                code = await process.wait()
        except TimeoutError:
            raise _wrong(f"did not end within {self._seconds:g} seconds") from None
        finally:
            # With what it started, whatever has become of it.
            tree.force()
            tree.close()
            with anyio.CancelScope(shield=True):
                await process.aclose()
        if code != 0:
            raise _wrong(f"ended with exit code {code}")
        return _one_line(printed)


def _lifetime(env: Mapping[str, str]) -> float:
    given = whole_number(env.get(TTL_VARIABLE, "").strip())
    return _TTL if given is None else given / 1000


async def _read(stream: ByteReceiveStream) -> bytes:
    data = bytearray()
    async for piece in stream:
        data += piece
        if len(data) > _LONGEST:
            raise _wrong(f"printed more than {_LONGEST} bytes")
    return bytes(data)


def _one_line(printed: bytes) -> str:
    lines = printed.decode("utf-8", "replace").split("\n")
    found = [line.strip() for line in lines if line.strip()]
    if len(found) != 1:
        raise _wrong(f"printed {len(found)} lines")
    if not found[0].isascii() or not found[0].isprintable():
        raise _wrong("printed what no header can hold")
    return found[0]


def _wrong(why: str) -> Unauthorised:
    # What it printed may be a key, so it is not shown.
    return Unauthorised(
        f"the command of the setting apiKeyHelper {why}; it must print the key alone, in one line "
        "on its standard output: run it by hand to see what it does"
    )
