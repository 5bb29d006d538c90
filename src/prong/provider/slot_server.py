"""What llama.cpp's server can be asked about its slots; whatever fails is an answer too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import anyio
import msgspec

from prong.errors import ProngError
from prong.foreign_json import NOT_JSON
from prong.provider.slot import SlotState
from prong.provider.transport import Transport, read

_PATIENCE_SECONDS = 120.0
"""How long the server may be in the middle of a step before an answer about slots."""
_T = TypeVar("_T")


class _GenerationSettings(msgspec.Struct):
    n_ctx: int = 0


class Props(msgspec.Struct):
    """What only llama.cpp's server says of itself."""

    total_slots: int
    default_generation_settings: _GenerationSettings
    model_path: str = ""
    build_info: str = ""
    endpoint_slots: bool = True
    """Whether it tells of its slots; older servers do not say."""

    @property
    def context(self) -> int | None:
        """Tokens of a slot."""
        return self.default_generation_settings.n_ctx or None


class _Moved(msgspec.Struct):
    """What a save or a restore has moved."""

    n_saved: int = 0
    n_restored: int = 0


class SlotServer:
    """A server at an address."""

    def __init__(self, transport: Transport, root: str, headers: Sequence[tuple[str, str]]) -> None:
        """Ask nothing yet; `root` is the address without the version."""
        self.root = root
        self._transport = transport
        self._headers = (*headers, ("content-type", "application/json"))

    async def props(self) -> Props | None:
        """Ask what it is; None if it is not llama.cpp's."""
        return _decoded(await self._call("GET", "/props"), Props)

    async def saves(self) -> bool:
        """Ask whether slots can be saved."""
        # No file has an empty name: the answer tells whether any other would be taken.
        status, _ = await self._call("POST", "/slots/0?action=save", b'{"filename":""}')
        return status == 400

    async def states(self) -> list[SlotState] | None:
        """Ask what each slot does and holds; None without an answer, empty if it does not tell."""
        answer = await self._call("GET", "/slots")
        return [] if answer[0] in {404, 501} else _decoded(answer, list[SlotState])

    async def save(self, slot: int, name: str) -> int | None:
        """Write a slot to a file; gives its tokens, or None if it could not be done."""
        moved = await self._act(slot, "save", name)
        return moved.n_saved if moved is not None else None

    async def restore(self, slot: int, name: str) -> int | None:
        """Read a file into a slot; gives its tokens, or None if it could not be done."""
        moved = await self._act(slot, "restore", name)
        return moved.n_restored if moved is not None else None

    async def erase(self, slot: int) -> None:
        """Empty a slot."""
        await self._call("POST", f"/slots/{slot}?action=erase", b"{}")

    async def _act(self, slot: int, action: str, name: str) -> _Moved | None:
        body = msgspec.json.encode({"filename": name})
        return _decoded(await self._call("POST", f"/slots/{slot}?action={action}", body), _Moved)

    async def _call(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        try:
            with anyio.fail_after(_PATIENCE_SECONDS):
                url = self.root + path
                async with self._transport.request(method, url, self._headers, body) as response:
                    data = await read(response)
                    response.settle()
                    return response.status, data
        except (ProngError, TimeoutError):
            return 0, b""


def _decoded(answer: tuple[int, bytes], kind: type[_T]) -> _T | None:
    status, data = answer
    try:
        return msgspec.json.decode(data, type=kind) if status == 200 else None
    except NOT_JSON:
        return None
