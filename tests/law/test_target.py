"""What may be said of a remote target, and which one is taken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.errors import BadInput, NotPossibleNow, UnknownName
from prong.host.target import RemoteTarget, choose_target, read_target

pytestmark = pytest.mark.spec("R1", "R4")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "missing required field `launcher`"),
        ({"launcher": ""}, "launcher must be"),
        ({"launcher": "ssh"}, "needs 'host'"),
        ({"launcher": "ssh", "host": "-oProxyCommand=x"}, "does not begin with '-'"),
        ({"launcher": "ssh", "host": "a b"}, "one word"),
        ({"launcher": "ssh", "host": "h", "image": "i"}, "no use for 'image'"),
        ({"launcher": "ssh", "host": "h", "engine": "podman"}, "no use for 'engine'"),
        ({"launcher": "container"}, "needs 'image'"),
        ({"launcher": "container", "image": "--privileged"}, "does not begin with '-'"),
        ({"launcher": "container", "image": "i", "folder": "~/x"}, "absolute path"),
        ({"launcher": "container", "image": "i", "folder": "/x:/etc"}, "without ':'"),
        ({"launcher": "container", "image": "i", "options": ["--network", "host"]}, "'host' is"),
        ({"launcher": "container", "image": "i", "options": ["-v=/:/host"]}, "one word like"),
        ({"launcher": "container", "image": "i", "options": ["--user=1\n"]}, "one word like"),
        ({"launcher": "ssh", "host": "h", "options": ["--init"]}, "no use for 'options'"),
        ({"launcher": "process", "host": "h"}, "no use for 'host'"),
        ({"launcher": "ray"}, "needs 'address'"),
        ({"launcher": "ray", "address": "--x"}, "does not begin with '-'"),
        ({"launcher": "ray", "address": "a:1", "host": "h"}, "no use for 'host'"),
        ({"launcher": "ray", "address": "a:1", "workers": 0}, "workers"),
        ({"launcher": "ray", "address": "a:1", "resources": {"CPU": -1}}, "resources"),
        ({"launcher": "ray", "address": "a:1", "labels": {"zone": 1}}, "labels"),
        ({"launcher": "ssh", "host": "h", "workers": 2}, "no use for 'workers'"),
        ({"launcher": "ssh", "host": "h", "resources": {"CPU": 1}}, "no use for 'resources'"),
        ({"launcher": "ssh", "host": "h", "slots": -1}, "slots"),
        ({"launcher": "ssh", "host": "h", "patience": -1}, "patience"),
        ({"launcher": "process", "env": ["A=b"]}, "names of variables"),
        ({"launcher": "process", "env": "A"}, "array"),
        ({"launcher": "process", "folder": "here"}, "absolute path"),
        ({"launcher": "process", "python": "-c"}, "must be a program"),
        ({"launcher": "process", "hots": "x"}, "unknown field `hots`"),
    ],
)
def test_a_wrong_target_says_what_is_wrong(value: dict[str, Any], why: str) -> None:
    """Nothing that a program could take for an option gets into its line, and nothing is ignored."""
    with pytest.raises(BadInput, match="the remote target 'box' is wrong") as found:
        read_target("box", value)
    assert why in str(found.value)


@given(st.text())
def test_names_are_plain(name: str) -> None:
    """A target's name can be part of a volume's: what cannot be is refused."""
    plain = name.isascii() and name.replace("-", "").replace(".", "").replace("_", "").isalnum()
    try:
        read_target(name, {"launcher": "process"})
    except BadInput:
        assert not plain or name[0] in "-." or len(name) > 64
    else:
        assert name.isascii()
        assert name.replace("-", "_").replace(".", "_").isidentifier() or name[0].isdigit()


def test_the_default_is_taken() -> None:
    """One by name, else the default, else the only one; whatever is unclear is an error."""
    one, two = RemoteTarget(launcher="ssh", host="a"), RemoteTarget(launcher="ssh", host="b")

    assert choose_target({"one": one}, "") == ("one", one)
    assert choose_target({"one": one, "two": two}, "two") == ("two", two)
    assert choose_target({"one": one, "two": two}, "two", "one") == ("one", one)
    with pytest.raises(
        UnknownName, match=r"'remote:NAME', with one of: one, two; or set remote\.default"
    ):
        choose_target({"one": one, "two": two}, "")
    with pytest.raises(UnknownName, match=r"'six' \(the setting remote\.default\); there are: one"):
        choose_target({"one": one}, "six")
    with pytest.raises(NotPossibleNow, match="there are no remote workers"):
        choose_target({}, "")
