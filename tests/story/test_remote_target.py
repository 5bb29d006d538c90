"""Which of several machines an agent works on: by the call, its type, the user or a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from prong.agent.spec import AgentType
from prong.command import Accepted, Fork, Refused
from prong.errors import BadInput, NotPossibleNow
from prong.event import AgentStarted, PromptMoved, WorktreeEntered
from prong.face.slash import read_slash
from prong.host.target import ChosenIsolation, read_isolation
from prong.testing import Script, World, Worlds, call, calls, forks, report, say
from prong.tools.delegate import AgentTool
from prong.tools.kit import Kit
from prong.view import View
from shared.remote import prepare_repository, remote_world, several_targets
from shared.typed import agent, result

pytestmark = [pytest.mark.anyio, pytest.mark.spec("R1")]


def started(w: World) -> list[tuple[str, str]]:
    told = [one for one in w.told(AgentStarted) if one.kind != "main"]
    return [(one.isolation, one.target) for one in told]


def choices(tool: AgentTool) -> str:
    (spec,) = Kit([tool]).specs()
    text = bytes(spec.schema).decode()
    return text.partition('"isolation":')[2].partition("}")[0] + "}"


async def test_a_call_names_the_machine(world: Worlds, tmp_path: Path) -> None:
    """Forks of one reply go to the machines that it names, and one without a name to the default."""
    places = ["remote:hut", "remote:box", "remote"]
    asked = [
        ("Agent", {"description": f"p{n}", "prompt": f"P{n}.", "isolation": place})
        for n, place in enumerate(places)
    ]
    script = Script(
        [calls(*asked), say("waiting")],
        {f"P{n}.": [call("Bash", {"command": "pwd"}), report()] for n in range(3)},
        forever=say("ok"),
    )
    far = tmp_path / "far"
    settings = several_targets(far, "box", "hut", default="box")
    async with remote_world(world, script, far, settings=settings) as (w, _):
        await w.session.run("Go")
        await w.session.wait_settled()

        assert [one.status for one in w.parts.supervisor.children] == ["completed"] * 3
        assert started(w) == [("remote", "hut"), ("remote", "box"), ("remote", "box")]
        where = sorted(Path(one.path).relative_to(far).parts[0] for one in w.told(WorktreeEntered))
        assert where == ["box", "box", "hut"]
        about = str(w.bodies()[0]["tools"])
        assert "`remote:NAME` names the machine: box, hut." in about
        assert "['remote', 'remote:box', 'remote:hut', 'worktree']" in about


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("remote:shed", "there is no remote target 'shed'; there are: box, hut"),
        ("remote:", "isolation 'remote:' must be 'worktree', 'remote', or 'remote:NAME'"),
        ("container", "isolation 'container' must be 'worktree', 'remote', or 'remote:NAME'"),
        ("remote", "which machine is meant? Name it, as 'remote:NAME', with one of: box, hut"),
    ],
)
@pytest.mark.parametrize("kind", [None, "general-purpose"])
async def test_an_unknown_machine_is_refused(
    world: Worlds, tmp_path: Path, place: str, why: str, kind: str | None
) -> None:
    """Nothing starts, and the model hears which machines there are."""
    script = Script([agent("P1", kind, isolation=place)], forever=say("ok"))
    settings = several_targets(tmp_path / "far", "box", "hut")
    async with remote_world(world, script, tmp_path / "far", settings=settings) as (w, _):
        await w.session.run("Go")

        assert why in result(w)
        assert not w.parts.supervisor.children
        assert not (tmp_path / "far").exists()


async def test_a_type_names_the_machine(world: Worlds, tmp_path: Path) -> None:
    """What a type's front matter or value says holds, unless the call says something else."""
    kind = AgentType(name="builder", description="Builds.", prompt="B.", isolation="remote:hut")
    script = Script(
        [agent("ONE", "builder"), agent("TWO", "builder", isolation="remote:box")],
        {"ONE": [say("one")], "TWO": [say("two")]},
        forever=say("ok"),
    )
    far = tmp_path / "far"
    given = {"settings": several_targets(far, "box", "hut"), "agents": [kind]}
    async with remote_world(world, script, far, **given) as (w, _):
        await w.session.run("Go")
        await w.session.wait_settled()

        assert started(w) == [("remote", "hut"), ("remote", "box")]


@pytest.mark.parametrize("there", [(), ("box",)])
async def test_a_machine_that_there_is_not_is_named_at_the_start(
    world: Worlds, tmp_path: Path, there: tuple[str, ...]
) -> None:
    """The default, or what a type names, may be a slip: it is said before any agent needs it."""
    kind = AgentType(name="builder", description="Builds.", prompt="B.", isolation="remote:hut")
    near = AgentType(name="near", description="Builds.", prompt="B.", isolation="remote")
    settings = several_targets(tmp_path / "far", *there, default="boxx")
    async with world([say("ok")], settings=settings, agents=[kind, near]) as w:
        await w.session.run("Go")

        known = ", ".join(there) or "none"
        assert [text for text in w.warnings if "target" in text] == [
            f"{who} names the remote target {name!r}, which remote.targets has not; "
            f"there are: {known}"
            for who, name in (
                ("the setting remote.default", "boxx"),
                ("the agent type builder", "hut"),
            )
        ]


async def test_a_launcher_that_there_is_not_is_named_at_the_start(world: Worlds) -> None:
    """A slip in how a machine is reached is said before any agent is to work there."""
    targets = {"box": {"launcher": "shh"}, "hut": {"launcher": "process"}}
    async with world([say("ok")], settings={"remote": {"targets": targets}}) as w:
        await w.session.run("Go")

        told = "the remote target 'box' cannot be used: there is no launcher 'shh', and no package"
        found = [text for text in w.warnings if "launcher" in text]
        assert [text.partition(" brings one")[0] for text in found] == [told]


async def test_a_file_of_a_type_names_the_machine(world: Worlds, tmp_path: Path) -> None:
    """Front matter takes the same word; one that means nothing is told of, with its line."""
    head = "---\nname: {}\ndescription: Builds.\nisolation: {}\n---\nYou build.\n"
    files = {
        "~/.prong/agents/builder.md": head.format("builder", "remote:hut"),
        "~/.prong/agents/wrong.md": head.format("wrong", "remote:no way"),
    }
    script = Script([agent("ONE", "builder")], {"ONE": [say("one")]}, forever=say("ok"))
    far = tmp_path / "far"
    given = {"settings": several_targets(far, "box", "hut"), "files": files}
    async with remote_world(world, script, far, **given) as (w, _):
        await w.session.run("Go")
        await w.session.wait_settled()

        assert started(w) == [("remote", "hut")]
        assert any(
            "wrong.md:4: isolation 'remote:no way' must be 'worktree', 'remote', or 'remote:NAME'"
            in text
            for text in w.warnings
        )


async def test_a_program_and_a_user_name_the_machine(world: Worlds, tmp_path: Path) -> None:
    """`session.fork`, `session.agent`, the command and `/fork --remote:NAME` all take the same word."""
    script = Script([say("hello")], {f"P{n}": [report()] for n in range(4)}, forever=say("ok"))
    far = tmp_path / "far"
    async with remote_world(world, script, far, settings=several_targets(far, "box", "hut")) as (
        w,
        _,
    ):
        await w.session.run("Hi")
        (one,) = await w.session.fork(["P0"], isolation="remote:hut")
        two = await w.session.agent("general-purpose", "P1", isolation="remote:box")
        (command,) = read_slash("/fork --remote:hut P2 / P3", View())
        assert isinstance(command, Fork)
        assert command == Fork(("P2", "P3"), "remote:hut")
        assert isinstance(await w.session.send(command), Accepted)
        await w.session.wait_settled()

        assert (one.status, two.status) == ("completed", "completed")
        assert [target for _, target in started(w)] == ["hut", "box", "hut", "hut"]
        with pytest.raises(NotPossibleNow, match="no remote target 'shed'; there are: box, hut"):
            await w.session.fork(["P0"], isolation="remote:shed")
        assert isinstance(await w.session.send(Fork(("P0",), "remote:shed")), Refused)


@pytest.mark.spec("L5")
async def test_a_resumed_session_keeps_its_prefix_with_other_machines(
    world: Worlds, tmp_path: Path
) -> None:
    """Machines are named in the head once: with others the recorded head goes on, and holds them."""
    script = Script(
        [say("one"), forks("P1", isolation="remote:hut"), say("waiting")],
        {"P1": [report()]},
        forever=say("ok"),
    )
    far = tmp_path / "far"
    async with world(script, opens=False, mode="bypassPermissions") as w:
        prepare_repository(w.root)
        async with w.open(settings=several_targets(far, "box", "den")) as session:
            await session.run("Hi")
        async with w.open(settings=several_targets(far, "box", "hut"), resume=session.id) as again:
            await again.run("Go")
            await again.wait_settled()

            assert not w.told(PromptMoved)
            assert w.bodies()[0]["tools"] == w.bodies()[-1]["tools"]
            assert [one.spec.target for one in w.parts.supervisor.children] == ["hut"]


def test_the_schema_is_the_same_where_there_is_no_choice() -> None:
    """With one machine or none the tool is told of as ever: no session's prefix moves for that."""
    plain = '{"type":"string","enum":["remote","worktree"]}'
    assert choices(AgentTool(forks=True)) == plain
    assert choices(AgentTool(forks=True, targets=["box"])) == plain
    assert choices(AgentTool(forks=False, targets=["hut", "box"])) == (
        '{"type":"string","enum":["remote","remote:box","remote:hut","worktree"]}'
    )


def test_what_an_isolation_says() -> None:
    """Four words are known; whatever else is refused as a whole."""
    assert read_isolation("") == ChosenIsolation()
    assert read_isolation("worktree") == ChosenIsolation("worktree")
    assert read_isolation("remote") == ChosenIsolation("remote")
    assert read_isolation("remote:a.b-c_1") == ChosenIsolation("remote", "a.b-c_1")
    for wrong in ("remote:", "remote:-x", "remote:a b", "worktree:x", "Remote", ":", "remote:a:b"):
        with pytest.raises(BadInput, match="must be 'worktree'"):
            read_isolation(wrong)
