"""Runs Prong's sandbox where calls to the kernel are refused, as containers do, and tells what held.

As a program: `python forbidden.py ERRNO NUMBER,... FOLDER` prints what was announced and what was done.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

import anyio
import msgspec

from prong.host import LocalHost
from prong.host.sandbox import Ability, Profile, seccomp
from prong.host.sandbox.bind import install
from prong.tools.derive import reading, working
from prong.tools.ground import Policy, Sandboxing
from prong.tools.rule import Rule, parse_rule

DEEDS = {
    "inside": "echo x > {root}/made",
    "outside": "echo x > {outside}/made",
    "protected": "echo x > {root}/.mcp.json",
    "hook": "echo x > {root}/.git/hooks/made",
    "moved": "mv {root}/.git/hooks {root}/.git/h",
    "denied": "grep x {root}/.env",
    "modes": "chmod 777 {outside}/f",
    "socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX); print(1)'",
}
"""What a command may try, by what it would harm."""


class Told(msgspec.Struct, frozen=True):
    """What was announced, and how each deed ended in each profile: done, refused, or no start."""

    ability: Ability
    warned: str
    reading: dict[str, str]
    working: dict[str, str]


def refuse(numbers: Iterable[int], error: int) -> None:
    """Refuse calls from now on, for this process and all that it starts."""
    kind = seccomp.machine()
    assert kind is not None
    listed = sorted(numbers)
    lines = [(0x20, 0, 0, 0)]
    lines += [(0x15, len(listed) - at, 0, number) for at, number in enumerate(listed)]
    lines += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | error)]
    install(kind.seccomp, b"".join(struct.pack("=HBBI", *line) for line in lines))


async def run(host: LocalHost, line: str, profile: Profile) -> str:
    try:
        process = await host.start(line, env={}, profile=profile)
    except OSError:
        return "no start"
    with anyio.fail_after(50):
        async for _ in process.output():
            pass
        code = await process.wait()
    await process.kill()
    undone = process.leave()
    return "done" if code == 0 and not undone else "refused"


async def look(folder: Path) -> Told:
    root, outside = folder / "project", folder / "outside"
    found: dict[str, dict[str, str]] = {"reading": {}, "working": {}}
    for name, ends in found.items():
        for deed, line in DEEDS.items():
            place = folder / f"{name}-{deed}"
            root, outside = place / "project", place / "outside"
            (root / ".git/hooks").mkdir(parents=True)
            outside.mkdir()
            (outside / "f").write_text("x")
            (root / ".env").write_text("x")
            host = LocalHost(root, str(place / "home"), storage=str(place / "store"))
            box = Sandboxing(on=True, ability=host.ability)
            denied = parse_rule("Read(.env)", effect="deny", source="user")
            assert isinstance(denied, Rule)
            policy = Policy(root=str(root), home=str(place / "home"), rules=(denied,), sandbox=box)
            made = reading(policy) if name == "reading" else working(policy)
            ends[deed] = await run(host, line.format(root=root, outside=outside), made)
            await host.close()
    ability = LocalHost(folder).ability
    warned = Sandboxing(on=True, ability=ability).unheld
    return Told(ability, warned, found["reading"], found["working"])


if __name__ == "__main__":
    words = sys.argv[2].split(",")
    refuse([int(word) for word in words if word], int(sys.argv[1]))
    sys.stdout.buffer.write(msgspec.json.encode(anyio.run(look, Path(sys.argv[3]))))
    sys.stdout.flush()
    os._exit(0)
