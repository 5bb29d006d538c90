"""How much two prompts have in common."""

from __future__ import annotations

from prong.prompt.rope import Node, Prompt


def shared_bytes(one: Prompt | None, other: Prompt) -> int:
    """Give the bytes of the longest beginning that two prompts have in common."""
    if one is None or one.head.digest != other.head.digest:
        return 0
    ours, theirs = _up(other.tip, one.depth), _up(one.tip, other.depth)
    while ours is not None and theirs is not None and ours.digest != theirs.digest:
        ours, theirs = ours.parent, theirs.parent
    return len(other.head.data) if ours is None else ours.length


def _up(node: Node | None, depth: int) -> Node | None:
    while node is not None and node.depth > depth:
        node = node.parent
    return node
