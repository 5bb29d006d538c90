"""Where the cache marks of a request go.

Anthropic writes an entry only where a mark stands and looks back a limited number of positions from
it, so a mark stands where the next reader will look: at the end of the head, where this lineage
last sent, at the fork base, and at the tip. OpenAI's newer models mark the tip themselves and take
explicit marks for the rest. Four marks are the most either allows.
"""

from __future__ import annotations

from prong.prompt import Head, Mark, Node, Prompt
from prong.wire import NO_MARK, Ttl


def takes_marks(head: Head) -> bool:
    """Say whether marks can be set; a provider that takes them also counts what it writes."""
    return _only_marked(head) or head.spec.explicit_marks


def _only_marked(head: Head) -> bool:
    """Whether nothing is kept but where a mark stands: the cache is Anthropic's."""
    return head.dialect.name in {"anthropic", "claude-chat"}


LIFETIME: dict[Ttl, float] = {"5m": 300.0, "1h": 3600.0, "30m": 1800.0, "12h": 43200.0}
"""Seconds for which a provider keeps a cache entry after its last use."""


def ttl_of(head: Head, wanted: Ttl | None) -> Ttl:
    """Say how long the provider keeps what is sent to it."""
    if wanted is not None:
        return wanted
    return "30m" if head.spec.explicit_marks and not _only_marked(head) else "5m"


def lifetime(head: Head, wanted: Ttl | None) -> float:
    """Give the same in seconds; 0 where the provider promises nothing."""
    return LIFETIME[ttl_of(head, wanted)] if takes_marks(head) else 0.0


def markable(node: Node | None) -> Node | None:
    """Find the last node at or before this one that may carry a mark."""
    while node is not None and node.mark_at == NO_MARK:
        node = node.parent
    return node


def plan(
    prompt: Prompt, *, sent: Node | None = None, base: Node | None = None, ttl: Ttl | None = None
) -> tuple[Mark, ...]:
    """Choose the marks of a request.

    `sent` is where the lineage's last request ended, `base` the fork base; both must lie on this
    prompt. All marks have one time to live, so the rule "longer first" holds by itself.
    """
    if _only_marked(prompt.head):
        places = [base, sent, prompt.tip]
        head = [Mark(None, ttl)] if prompt.head.mark_at != NO_MARK else []
    elif prompt.head.spec.explicit_marks:
        places, head = [base, sent], []
    else:
        return ()
    nodes = {id(node): node for place in places if (node := markable(place)) is not None}
    return (*head, *(Mark(node, ttl) for node in nodes.values()))
