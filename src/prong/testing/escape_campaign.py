"""The gate and the kernel against lines that try to get out, run for real.

Each trial draws a deed, a disguise, the place that it is aimed at and the policy of an agent: plan
mode, an agent that only reads, a child in a worktree, or one that works where everything is
allowed. The gate is asked, the profile is derived as it is for an agent, and the line is run in it,
also if the gate would have asked: a person may say yes, and the profile must hold all the same. Any
change of the world that the profile does not open, a byte of a secret in what is printed, a
connection or a killed process is a failure.

    python -m prong.testing.torture escapes --count 4000 --seed 1
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec
from anyio.from_thread import start_blocking_portal

from prong.host.sandbox import NONE, Profile
from prong.testing.escape import DEEDS, DISGUISES, Aim, Deed, Places, disguise
from prong.testing.escape_world import SECONDS, Seen, World
from prong.testing.torture import Trial
from prong.tools.access import Running
from prong.tools.agent_policy import AgentPolicy
from prong.tools.ground import Allow, Mode, Policy, Sandboxing, is_inside
from prong.tools.policy_box import PolicyBox
from prong.tools.rule import Rule, parse_rule
from prong.tools.seal import sealed_in

Kind: TypeAlias = Literal["reading", "worktree", "working"]


class Scene(msgspec.Struct, frozen=True):
    """Who runs a line."""

    name: str
    kind: Kind
    mode: Mode = "default"
    allowed: str = ""
    reader: bool = False
    """Whether it is of a type that only reads."""


SCENES = (
    Scene("plan mode", "reading", "plan"),
    Scene("an agent that reads", "reading", reader=True),
    Scene("an agent that reads, bypassing", "reading", "bypassPermissions", reader=True),
    Scene("a worktree, allowed", "worktree", allowed="Bash"),
    Scene("a worktree, edits accepted", "worktree", "acceptEdits"),
    Scene("a worktree, auto", "worktree", "auto"),
    Scene("a worktree, bypassing", "worktree", "bypassPermissions"),
    Scene("working, allowed", "working", allowed="Bash"),
    Scene("working, edits accepted", "working", "acceptEdits"),
    Scene("working, auto", "working", "auto"),
    Scene("working, bypassing", "working", "bypassPermissions"),
)
DENIED = ("Read(.env)", "Read(~/.ssh/**)", "Bash(rm:*)")
AIMS: dict[Kind, tuple[Aim, ...]] = {
    "reading": ("write", "write", "write", "ref", "read", "network", "signal"),
    "worktree": ("write", "write", "write", "ref", "ref", "read", "signal"),
    "working": ("write", "write", "read"),
}
"""What a profile holds, as often as it is tried."""


class Tried(msgspec.Struct, frozen=True):
    """A line that was run."""

    scene: Scene
    line: str
    free: bool
    """Whether the gate let it pass unasked."""
    seen: Seen

    @property
    def wrong(self) -> str:
        """What got out; empty if nothing did."""
        seen = self.seen
        found = [f"changed {', '.join(seen.changed)}"] if seen.changed else []
        found += ["printed a secret"] if seen.leaked else []
        found += ["killed a process"] if seen.killed else []
        # Where the network is open, so are servers.
        found += [f"reached {seen.reached}"] * (self.scene.kind == "reading" and bool(seen.reached))
        return "; ".join(found)


class Escape:
    """A world, and policies for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        ability = world.host.ability
        holdable = {"reading": ability.writes, "worktree": ability.views, "working": ability.views}
        self.scenes = [one for one in SCENES if ability.writes and holdable[one.kind]]
        """Those that this system holds in full; nothing else is run."""

    def policy(self, scene: Scene, *, around: bool = False) -> Policy:
        """Make the policy of a scene; `around` if the temporary folder holds the project."""
        rules = [parse_rule(text, effect="deny", source="user") for text in DENIED]
        if scene.allowed:
            rules.append(parse_rule(scene.allowed, effect="allow", source="user"))
        world = self.world
        temp = str(world.base if around else world.temp)
        return Policy(
            root=str(world.root),
            home=str(world.home),
            mode=scene.mode,
            rules=tuple(rule for rule in rules if isinstance(rule, Rule)),
            sealed=sealed_in((f"{world.home}/.prong",)),
            sandbox=Sandboxing(on=True, ability=world.host.ability, temp=(temp,)),
        )

    def box(self, scene: Scene, policy: Policy) -> tuple[AgentPolicy, str]:
        """Give what decides for an agent, and the folder it works in."""
        box = PolicyBox(policy)
        if scene.kind == "worktree":
            ground = self.world.ground
            return box.narrow(ground=ground), ground.root
        return (box.narrow(mode="plan") if scene.reader else box), str(self.world.root)

    def ours(self, scene: Scene) -> Callable[[str], bool]:
        """Tell what a profile leaves open in a world."""
        world, ground = self.world, self.world.ground
        if scene.kind == "reading":
            return lambda _: False
        if scene.kind == "working":
            root = str(world.root)
            names = (".git/hooks", ".git/config", ".git/info", ".claude", ".mcp.json", ".envrc")
            shut = tuple(f"{root}/{name}" for name in names)
            return lambda path: is_inside(path, root) and not any(is_inside(path, s) for s in shut)
        slug = ground.branch.removeprefix("prong/")
        open_ = (ground.bounds, ground.git, f"{ground.common}/objects")
        shut = (f"{ground.bounds}/.git", *(f"{ground.git}/{n}" for n in ("commondir", "gitdir")))
        heads = [f"{ground.common}/{part}refs/heads/prong" for part in ("", "logs/")]
        siblings = [f"{one}/sibling" for one in heads]

        def is_ours(path: str) -> bool:
            if path in heads or any(path == f"{one}/{slug}" for one in heads):
                return True
            if any(is_inside(path, one) for one in heads):
                return path not in siblings
            return any(is_inside(path, o) for o in open_) and path not in shut

        return is_ours

    def places(self, rng: random.Random, scene: Scene) -> Places:
        """Draw what a deed is aimed at."""
        world, ground = self.world, self.world.ground
        root, home = str(world.root), str(world.home)
        git = f"{root}/.git"
        triples = [
            (f"{git}/hooks/post-commit", f"{git}/hooks/pre-commit", f"{git}/hooks"),
            (f"{git}/info/made", f"{git}/config", f"{git}/info"),
            (f"{home}/.zshrc", f"{home}/.bashrc", f"{home}/.config"),
            (f"{home}/.ssh/authorized_keys", f"{home}/.ssh/id", f"{home}/.ssh"),
            (f"{world.outside}/made", f"{world.outside}/f", f"{world.outside}/sub"),
            (f"{root}/.claude/made", f"{root}/.claude/settings.json", f"{root}/.claude"),
            (f"{root}/.mcp.json", f"{git}/hooks/pre-commit", f"{git}/info"),
            (f"{root}/.envrc", f"{git}/config", f"{root}/.claude"),
        ]
        theirs = [
            (f"{root}/made", f"{root}/a", f"{root}/sub"),
            (f"{git}/refs/heads/made", f"{git}/refs/heads/main", f"{git}/refs/heads"),
            (
                f"{git}/logs/made",
                f"{git}/refs/heads/prong/sibling",
                f"{root}/.prong/worktrees/sibling",
            ),
            (f"{git}/worktrees/sibling/made", f"{git}/HEAD", f"{git}/worktrees/sibling"),
        ]
        secrets = [f"{root}/.env", f"{root}/sub/.env", f"{home}/.ssh/id"]
        secrets += [f"{home}/.prong/teams/red/{name}" for name in ("keys/ann", "start/ann.json")]
        if scene.kind != "working":
            triples += theirs
            secrets.append(f"{ground.bounds}/.env")
        secret = rng.choice(secrets)
        new, old, folder = rng.choice(triples)
        return Places(new, old, folder, secret, world.port, world.socket, world.pid)

    def draw(self, rng: random.Random) -> tuple[Scene, str]:
        """Draw who runs a line, and the line; its program is made ready."""
        scene = rng.choice(self.scenes)
        aim = rng.choice(AIMS[scene.kind])
        deed = rng.choice([one for one in DEEDS if one.aim == aim])
        return scene, self.line(rng.choice(DISGUISES), deed, self.places(rng, scene))

    def line(self, template: str, deed: Deed, places: Places) -> str:
        """Put a line together."""
        if deed.aim == "read":
            places = msgspec.structs.replace(places, folder=places.secret.rpartition("/")[0])
        command = places.fill(deed.command)
        self.world.arm(command)
        return disguise(template, command, str(self.world.program))

    def decide(self, scene: Scene, line: str, *, around: bool = False) -> tuple[bool, Profile, str]:
        """Ask the gate; gives whether it lets a line pass, its profile and folder."""
        box, cwd = self.box(scene, self.policy(scene, around=around))
        access, follow = Running(line, cwd), self.world.host.follow
        free = isinstance(box.decide("Bash", [access], resolve=follow), Allow)
        return free, box.profile(access, resolve=follow), cwd


class Attempt(Protocol):
    """Runs a line as somebody, for so long; `free` if nothing is to hold it."""

    def __call__(
        self,
        scene: Scene,
        line: str,
        *,
        around: bool = False,
        free: bool = False,
        seconds: float = SECONDS,
    ) -> Tried:
        """Tell what it did."""
        ...


@contextmanager
def escapes() -> Generator[tuple[Escape, Attempt]]:
    """Make a world, and give what runs a line in it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_blocking_portal() as portal,
    ):
        world = World(Path(folder).resolve())
        escape = Escape(world)

        def attempt(
            scene: Scene,
            line: str,
            *,
            around: bool = False,
            free: bool = False,
            seconds: float = SECONDS,
        ) -> Tried:
            unasked, profile, cwd = escape.decide(scene, line, around=around)
            profile, ours = NONE if free else profile, escape.ours(scene)
            seen = portal.call(world.run, line, cwd, profile, ours, seconds)
            return Tried(scene, line, unasked, seen)

        try:
            yield escape, attempt
        finally:
            portal.call(world.host.close)
            world.close()


@contextmanager
def trials() -> Generator[Trial]:
    """Try lines in a world that is put back after each that changed it."""
    with escapes() as (escape, attempt):

        def trial(rng: random.Random) -> str:
            if not escape.scenes:
                return ""
            scene, line = escape.draw(rng)
            around = scene.kind == "worktree" and rng.random() < 0.3
            tried = attempt(scene, line, around=around)
            if not tried.wrong:
                return ""
            asked = "unasked" if tried.free else "after a yes"
            program = escape.world.program.read_text()
            return f"{scene.name}, {asked}: {tried.wrong}\n{line}\n{program}"

        yield trial


def power(number: int, seed: int) -> int:
    """Count how many of the lines do their deed if nobody holds them."""
    rng = random.Random(seed)  # noqa: S311 - the same lines for the same seed
    done = 0
    with escapes() as (escape, attempt):
        for _ in range(number):
            scene, line = escape.draw(rng)
            # What is mounted stays, if nobody forbids it.
            if "mount" not in line:
                done += bool(attempt(scene, line, free=True).wrong)
    return done
