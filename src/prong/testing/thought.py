"""Signatures of thinking: a changed thought is told, and so is one that was moved elsewhere."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from prong.testing.cache import chain_of
from prong.testing.request import Block, Param, Request, invalid

_OURS = "cHJvbmc"
_KINDS = ("thinking", "redacted_thinking")


class _Thought(msgspec.Struct):
    thinking: str = ""
    signature: str = ""


def sign(text: str, prefix: bytes) -> str:
    """Sign a piece of thinking for its place: the prompt that it answers."""
    return _OURS + blake2b(text.encode(), digest_size=16).hexdigest() + prefix.hex()


def prefix_of(request: Request) -> bytes:
    """Give what a thought that answers a request is bound to."""
    return _bindings(request, request.blocks)[-1]


def check_thoughts(request: Request, *, bound: bool) -> None:
    """Refuse thinking that was changed or, if the model binds it, is no longer in its place.

    Signatures that are not ours are let through.

    Raises:
        Refused: naming the block.

    """
    ours = _OURS.encode()
    if not any(block.kind == "thinking" and ours in block.raw for block in request.blocks):
        return
    bindings = _bindings(request, request.blocks)
    for index, block in enumerate(request.blocks):
        if block.kind != "thinking":
            continue
        try:
            thought = msgspec.json.decode(block.raw, type=_Thought)
        except msgspec.ValidationError as error:
            raise invalid(f"{block.where}: {error}") from error
        given = thought.signature
        if not given.startswith(_OURS):
            continue
        expected = sign(thought.thinking, bindings[index])
        if given == expected:
            continue
        if given[: len(_OURS) + 32] != expected[: len(_OURS) + 32]:
            raise invalid(f"{block.where}: Invalid `signature` in `thinking` block")
        if bound:
            raise invalid(
                f"{block.where}: this `thinking` block belongs to another model or conversation "
                f"(prefix_binding_mismatch). Send the messages before it unchanged, or remove it."
            )


def _bindings(request: Request, blocks: tuple[Block, ...]) -> list[bytes]:
    """For each block, and for one that would come next: the prompt up to its turn.

    Thinking itself is left out, since a leading run of thoughts may be removed.
    """
    model = Param("tools", "model", request.model.encode())
    plain = [block for block in blocks if block.kind not in _KINDS]
    chain = iter(chain_of(plain, (model,)))
    found: list[bytes] = []
    last = b""
    for block in blocks:
        found.append(last)
        if block.kind not in _KINDS:
            digest = next(chain)
            if block.role != "assistant":
                last = digest
    return [*found, last]
