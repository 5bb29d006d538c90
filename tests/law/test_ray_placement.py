"""By names it is known which actors of a cluster a line may take over, and on which machine."""

from __future__ import annotations

import pytest

from prong.host.ray_placement import RayPlacement, find_node, name_node

pytestmark = pytest.mark.spec("R3")

WANTED = RayPlacement(
    address="auto", actor="20261116-a:box", owner="now", line=5, open_lines=(2, 4)
)


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("20261116-a:box:before:1", True),
        ("20261116-a:box:before:9", True),
        ("20261116-a:box:now:1", True),
        ("20261116-a:box:now:2", False),
        ("20261116-a:box:now:4", False),
        ("20261116-a:box:now:5", False),
        ("20261116-a:box:now:6", False),
        ("20261116-a:boxes:before:1", False),
        ("20261116-b:box:before:1", False),
        ("20261116-a:box:before", False),
        ("20261116-a:box:before:x", False),
        ("serve:proxy", False),
        ("", False),
    ],
)
def test_what_is_left(name: str, *, left: bool) -> None:
    """What an earlier process left, or a line that is gone; never a later line's, or another's."""
    assert WANTED.is_left(name) is left


def test_a_name_is_one_lines_alone() -> None:
    """The name of its own actor says whose it is, and it is not taken for one that was left."""
    assert WANTED.name == "20261116-a:box:now:5"
    assert not WANTED.is_left(WANTED.name)


def node(number: str, address: str, *, alive: bool = True, **labels: str) -> dict[str, object]:
    return {"NodeID": number, "Alive": alive, "NodeManagerAddress": address, "Labels": labels}


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([node("1", "10.0.0.7", zone="b"), node("2", "10.0.0.8", zone="b")], "1"),
        ([node("1", "10.0.0.9", zone="c"), node("2", "10.0.0.7", zone="b")], "1"),
        ([node("3", "10.0.0.8", zone="b"), node("4", "10.0.0.7", zone="b")], "4"),
        ([node("1", "10.0.0.7", alive=False), node("4", "10.0.0.7", zone="b", cpu="x")], "4"),
        ([node("1", "10.0.0.7", alive=False, zone="b")], ""),
        ([node("4", "10.0.0.7", zone="a"), node("5", "10.0.0.7")], ""),
        ([], ""),
    ],
)
def test_a_machine_is_found_again(nodes: list[dict[str, object]], found: str) -> None:
    """By its number, and by its address and labels once Ray was started anew and has others."""
    assert find_node(name_node("1", "10.0.0.7"), nodes, {"zone": "b"}) == found


def test_a_machine_without_an_address() -> None:
    """What was stored before addresses were is found by its number alone."""
    assert name_node("1", "") == "1"
    assert find_node("1", [node("1", "")], {}) == "1"
    assert find_node("1", [node("2", "")], {}) == ""
