"""What a session and a worker say to each other about a workspace on the worker's machine.

A channel for this does one thing and ends: the worker makes a workspace of what it is sent, or
gives back what was done in one and lets go of it. Bundles travel in parts.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from prong.errors import WorkerFailed
from prong.foreign_json import NOT_JSON
from prong.host.bundle import Shipment
from prong.host.remote_workspace import Harvest, PlacedWorkspace
from prong.host.sandbox import Ability
from prong.team.message import Begin

TRIAL = "prong-check.txt"
"""The name of that file."""

PART = 1 << 20
"""Bytes of a bundle that are sent at once."""


class _Order(msgspec.Struct, frozen=True, kw_only=True, tag_field="m", tag=str.lower):
    """What every message has."""


class PrepareWorkspace(_Order, frozen=True):
    """Make a workspace; what is missing for it follows, once it is known."""

    folder: str
    shipment: Shipment
    lease: int
    offered: tuple[str, ...]
    """Commits that may be known there."""
    trial: bool = False
    """Whether nothing of it is wanted if it fails."""


class CollectWorkspace(_Order, frozen=True):
    """Give back what was done in a workspace since a commit."""

    folder: str
    shipment: Shipment
    lease: int
    since: str
    trial: str = ""
    """Text of a file that is written there first, to see whether it comes back."""


class BundlePart(_Order, frozen=True):
    """The next bytes of a bundle."""

    data: bytes


class BundleSent(_Order, frozen=True):
    """The bundle is whole; without any part before it there is none."""


class WorkArrived(_Order, frozen=True):
    """What was given back is safe: the workspace may go."""


FarOrder: TypeAlias = PrepareWorkspace | CollectWorkspace | BundlePart | BundleSent | WorkArrived
"""What a session says."""


class CommitsKnown(_Order, frozen=True):
    """Which of the commits that were offered are there."""

    commits: tuple[str, ...]


class WorkspaceReady(_Order, frozen=True):
    """The workspace is there."""

    placed: PlacedWorkspace
    home: str
    ability: Ability
    """What commands can be held to there."""
    node: str = ""
    """The machine of a cluster, as its worker has said."""


class WorkFound(_Order, frozen=True):
    """What there is to give back; its bundle follows."""

    harvest: Harvest


class WorkspaceLeft(_Order, frozen=True):
    """The worker has let go of the workspace."""

    gone: bool


FarReport: TypeAlias = (
    CommitsKnown | WorkspaceReady | WorkFound | BundlePart | BundleSent | WorkspaceLeft
)
"""What a worker says."""

ChannelFirst: TypeAlias = Begin | PrepareWorkspace | CollectWorkspace
"""The first word of a session on a channel."""

_decode_first = msgspec.json.Decoder(ChannelFirst).decode
_decode_order = msgspec.json.Decoder(FarOrder).decode
_decode_report = msgspec.json.Decoder(FarReport).decode


def read_first(data: bytes) -> ChannelFirst:
    """Read the first word on a channel.

    Raises WorkerFailed if it is none.
    """
    try:
        return _decode_first(data)
    except NOT_JSON as error:
        raise WorkerFailed(f"a channel did not begin as one does ({error})") from error


def read_order(data: bytes) -> FarOrder:
    """Read what a session says.

    Raises WorkerFailed if it is no such message.
    """
    try:
        return _decode_order(data)
    except NOT_JSON as error:
        raise WorkerFailed(f"it sent what is no order about a workspace ({error})") from error


def read_report(data: bytes) -> FarReport:
    """Read what a worker says.

    Raises WorkerFailed if it is no such message.
    """
    try:
        return _decode_report(data)
    except NOT_JSON as error:
        raise WorkerFailed(f"it sent what is no report of a workspace ({error})") from error
