"""Where on a Ray cluster a worker is to be, as a value: the one argument of what leads there."""

from __future__ import annotations

import msgspec

NAMESPACE = "prong"
"""The namespace of all our actors."""


CUT = 75
"""The code with which what leads to a worker ends when nothing has got through for too long."""


class RayPlacement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked of a cluster for one worker."""

    address: str
    """As `ray.init` takes it."""
    actor: str
    """What the names begin with by which actors are found again: of the session and the target."""
    owner: str
    """The process of the session: what it holds already is not taken again."""
    node: str = ""
    """The machine that it must be on; empty if Ray may choose."""
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    python: str = ""
