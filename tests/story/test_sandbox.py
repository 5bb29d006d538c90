"""Sessions whose commands are held by the system: what runs unasked, what is told, what is let out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prong.config.option import Options
from prong.config.place import look_around, make_policy
from prong.errors import UsageError
from prong.event import PermissionAsked, QuestionAsked, ToolFinished, Warned
from prong.host.private import socket_folders
from prong.host.sandbox import Ability
from prong.host.sandbox.ability import detect
from prong.question import Answer
from prong.testing import MemoryHost, Script, Worlds, call, forks, report, say
from prong.testing.repository import Repo
from prong.tools.ground import Sandboxing
from prong.tools.policy_box import PolicyBox
from shared.typed import agent

ABLE = detect()
kernel = pytest.mark.skipif(not ABLE.writes, reason=f"needs Landlock and seccomp: {ABLE.why}")
views = pytest.mark.skipif(not (ABLE.writes and ABLE.views), reason=f"needs namespaces: {ABLE.why}")
pytestmark = [pytest.mark.anyio, pytest.mark.spec("L13")]

LINE = {"command": "for f in *.txt; do awk '{print $1}' $f; done"}
WHOLE = Ability(kind="landlock", abi=7, filters=True, views=True, why="")


def settings(backend: str = "inline", **sandbox: Any) -> str:
    given = {"agents": {"backend": backend}, "retry": {"tries": 1}, "sandbox": sandbox}
    return msgspec.json.encode(given).decode()


def bash(command: str, **more: Any) -> Any:
    return call("Bash", {"command": command, **more})


async def yes(path: str, asked: PermissionAsked | QuestionAsked) -> Answer:
    """Allow whatever is to run in the sandbox."""
    again = isinstance(asked, PermissionAsked) and asked.title.startswith("again, outside")
    return Answer(asked.request_id, allow=not again)


@kernel
@pytest.mark.spec("P2")
async def test_plan_mode_runs_what_cannot_be_proven(world: Worlds) -> None:
    """A loop with awk runs unasked in plan mode, and what it writes is refused by the kernel."""
    script = [call("Bash", LINE), bash("awk 'BEGIN { print 1 > \"made\" }'"), say("Done.")]
    async with world(script, files={"a.txt": "one two\n"}, mode="plan") as w:
        await w.session.run("Look")
        read, wrote = w.told(ToolFinished)

        assert (read.failed, read.text) == (False, "one")
        assert wrote.failed
        assert not wrote.refused
        assert f"does not let the command touch {w.root}/made" in wrote.text
        assert "'reading'" in wrote.text
        assert not (w.root / "made").exists()
        assert not w.told(PermissionAsked)


@kernel
@pytest.mark.spec("S2")
async def test_readers_do_so_in_any_mode(world: Worlds) -> None:
    """An agent that only reads by its type is held to reading while its parent is not."""
    steps = [call("Bash", LINE), bash("make"), say("Found.")]
    script = Script(
        [agent("Look.", subagent_type="Explore"), say("Done.")], routes={"Look.": steps}
    )
    files = {"a.txt": "one two\n", "Makefile": "all:\n\ttouch made\n"}
    async with world(script, files=files, mode="default") as w:
        await w.session.run("Go")
        found = [one for one in w.told(ToolFinished) if one.name == "Bash"]

        assert found[0].text == "one"
        assert found[1].failed
        assert not (w.root / "made").exists()
        assert not w.told(PermissionAsked)


@pytest.mark.spec("P2")
async def test_without_a_sandbox_the_gate_alone_decides(world: Worlds) -> None:
    """Where nothing is held, plan mode runs only what is proven to read, and it is said once."""
    async with world(
        [call("Bash", LINE), say("Done.")], mode="plan", settings=settings(mode="off")
    ) as w:
        await w.session.run("Look")
        (refused,) = w.told(ToolFinished)

        assert refused.refused
        assert "plan mode only reads" in refused.text
        assert len([one for one in w.told(Warned) if "sandbox" in one.text]) == 1


async def test_a_required_sandbox_that_cannot_be_had_is_no_start(world: Worlds) -> None:
    """With `required`, a host that holds nothing is refused, with the remedy."""
    with pytest.raises(UsageError, match=r"required.*prong doctor"):
        async with world([], host=MemoryHost({}), settings=settings(mode="required")):
            pass


async def test_a_host_is_given_the_profile_with_the_command(world: Worlds) -> None:
    """Whoever runs commands elsewhere gets the profile as a value, one for each command."""
    host = MemoryHost({"a": "x"}, lambda _: "said", ability=WHOLE)
    script = [bash("cat a"), bash("make"), bash("docker ps"), say("Done.")]
    given = settings(outside=["docker:*"])
    async with world(script, host=host, mode="bypassPermissions", settings=given) as w:
        await w.session.run("Go")

    assert [one.profile.name for one in host.commands] == ["reading", "working", "none"]
    assert "/project" in host.commands[1].profile.writable


@kernel
async def test_a_refusal_is_told_to_both(world: Worlds, tmp_path: Path) -> None:
    """The model hears the path, the user the setting that would allow it."""
    there = tmp_path / "elsewhere"
    there.mkdir()
    script = [bash(f"touch {there}/x"), say("I see.")]
    # Everything here lies below /tmp, so that it is not to be open.
    async with world(script, mode="bypassPermissions") as w:
        box = w.parts.agent.policy
        assert isinstance(box, PolicyBox)
        closed = msgspec.structs.replace(box.policy.sandbox, temp=())
        box.revise(msgspec.structs.replace(box.policy, sandbox=closed))
        await w.session.run("Go")
        (failed,) = w.told(ToolFinished)

        assert f"does not let the command touch {there}/x" in failed.text
        (warned,) = [one for one in w.told(Warned) if "writable" in one.text]
        assert f'"writable": ["{there}"]' in warned.text


@kernel
@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_again_outside(world: Worlds, tmp_path: Path, backend: str) -> None:
    """A command that failed for the sandbox runs again without it if the user says yes to that."""
    there = tmp_path / "elsewhere"
    there.mkdir()
    asked: list[PermissionAsked] = []

    async def respond(path: str, one: PermissionAsked | QuestionAsked) -> Answer:
        assert isinstance(one, PermissionAsked)
        asked.append(one)
        return Answer(one.request_id, allow=True)

    steps = [bash(f"touch {there}/x"), report("one")]
    script = Script([forks("ONE."), say("waiting"), say("done")], routes={"ONE.": steps})
    async with world(
        script, mode="bypassPermissions", respond=respond, settings=settings(backend)
    ) as w:
        box = w.parts.agent.policy
        assert isinstance(box, PolicyBox)
        closed = msgspec.structs.replace(box.policy.sandbox, temp=())
        box.revise(msgspec.structs.replace(box.policy, sandbox=closed))
        await w.session.run("Go")

        assert (there / "x").exists()
        assert [one.title for one in asked] == [f"again, outside the sandbox: touch {there}/x"]
        (ran,) = [one for one in w.told(ToolFinished) if one.name == "Bash"]
        assert not ran.failed
        assert "let it run again outside" in ran.text


@views
async def test_a_yes_to_a_protected_path_opens_it(world: Worlds) -> None:
    """What the user was asked for by name can be done; the same without a question cannot."""
    script = [
        bash("echo x > .git/hooks/a"),
        bash("python3 -c \"open('.git/hooks/b', 'w')\""),
        say("Done."),
    ]
    allowed = ("Bash(python3:*)",)
    async with world(script, opens=False, mode="acceptEdits", respond=yes, allow=allowed) as w:
        Repo(w.root).git("init", "-q")
        async with w.open() as session:
            await session.run("Go")
        first, second = w.told(ToolFinished)

    assert not first.failed, first.text
    assert second.failed, second.text
    assert {path.name for path in (w.root / ".git/hooks").iterdir()} >= {"a"}
    assert not (w.root / ".git/hooks/b").exists()


@views
@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_denied_files_are_out_of_reach_everywhere(world: Worlds, backend: str) -> None:
    """No program of main or of a fork reads a file under a Read rule, in any process."""
    peek = bash("python3 -c \"print(open('.env').read())\"; cat <(cat .e*v)")
    script = Script(
        [peek, forks("ONE."), say("waiting"), say("done")], routes={"ONE.": [peek, report("one")]}
    )
    given: dict[str, Any] = {"mode": "bypassPermissions", "deny": ("Read(.env)",)}
    async with world(
        script, files={".env": "SECRET"}, respond=yes, settings=settings(backend), **given
    ) as w:
        await w.session.run("Go")
        ran = [one for one in w.told(ToolFinished) if one.name == "Bash"]

        assert len(ran) == 2
        assert not any("SECRET" in one.text for one in ran)


@views
@pytest.mark.spec("W3")
@pytest.mark.parametrize("backend", ["inline", "process"])
async def test_a_child_in_a_worktree_is_held_there(world: Worlds, backend: str) -> None:
    """It commits, and a script of its own that writes into its parent's folder is refused."""
    escape = bash(
        "p=$(git rev-parse --git-common-dir)/../a.txt; python3 - \"$p\" <<'E'\nimport sys\nopen(sys.argv[1], 'w')\nE"
    )
    commit = bash("echo mine > a.txt && git commit -qam mine && git log --format=%s -1")
    script = Script(
        [forks("ONE.", isolation="worktree"), say("waiting"), say("done")],
        routes={"ONE.": [escape, commit, report("one")]},
    )
    async with world(
        script, opens=False, mode="bypassPermissions", respond=None, settings=settings(backend)
    ) as w:
        repo = Repo(w.root)
        repo.git("init", "-q", "-b", "main")
        repo.git("config", "user.name", "Tester")
        repo.git("config", "user.email", "tester@example.invalid")
        repo.write("a.txt", "one\n")
        repo.commit("first")
        async with w.open() as session:
            await session.run("Go")
        ran = [one for one in w.told(ToolFinished) if one.name == "Bash"]

    assert (w.root / "a.txt").read_text() == "one\n"
    assert ran[0].failed, ran[0].text
    assert ran[1].text == "mine"


@kernel
async def test_background_commands_are_held_too(world: Worlds) -> None:
    """A command in the background is held to the same profile."""
    script = [
        bash("awk 'BEGIN { print 1 > \"made\" }'", run_in_background=True),
        say("a"),
        say("b"),
    ]
    async with world(script, mode="plan") as w:
        await w.session.run("Go")

    assert not (w.root / "made").exists()


@pytest.mark.parametrize(("passed", "seen"), [((), "[]"), (("TRACKER_TOKEN",), "[tok-123456789]")])
async def test_commands_have_no_keys_of_servers(
    world: Worlds, monkeypatch: pytest.MonkeyPatch, passed: tuple[str, ...], seen: str
) -> None:
    """A token that an MCP server is given is kept from commands, unless a setting names it."""
    monkeypatch.setenv("TRACKER_TOKEN", "tok-123456789")
    server = {"url": "http://127.0.0.1:1/", "headers": {"Authorization": "Bearer ${TRACKER_TOKEN}"}}
    config = msgspec.json.encode({"mcpServers": {"tracker": server}}).decode()
    text = msgspec.json.encode({"passEnv": passed}).decode()
    script = [bash("echo [$TRACKER_TOKEN]"), say("Done.")]
    async with world(script, opens=False, mode="bypassPermissions") as w:
        env = {**os.environ, "HOME": str(w.home)}
        async with w.open(mcp_config=(config,), settings=text, env=env) as session:
            await session.run("Go")
        assert [one.text for one in w.told(ToolFinished)] == [seen]


@pytest.mark.parametrize("mode", ["bypassPermissions", "default"])
async def test_keys_of_teams_are_for_nobody(world: Worlds, tmp_path: Path, mode: Any) -> None:
    """No tool and no command of an agent shows a key, however much it is allowed."""
    store = tmp_path / "home/.prong"
    key = f"{store}/teams/red/keys/ann"
    script = [
        call("Read", {"file_path": key}),
        call("Grep", {"pattern": "KEY", "path": str(store), "output_mode": "content"}),
        call("Glob", {"pattern": "**/ann", "path": str(store)}),
        bash(f"cat {key}"),
        bash(
            "python3 -c \"import glob; print(open(glob.glob(r'../home/.p*/t*/red/k*/ann')[0]).read())\""
        ),
        say("Done."),
    ]
    files = {"~/.prong/teams/red/keys/ann": "the-KEY\n"}
    async with world(script, files=files, mode=mode, respond=yes) as w:
        await w.session.run("Look")
        read, grep, glob, named, hidden = w.told(ToolFinished)

        assert "keys of a team" in read.text
        assert "keys of a team" in named.text
        assert "keys/ann" not in glob.text
        held = [read, grep, glob, named, *([hidden] if ABLE.writes and ABLE.views else [])]
        assert not [one for one in held if "the-KEY" in one.text]


def test_keys_are_sealed_wherever_the_state_folder_is(tmp_path: Path) -> None:
    """PRONG_HOME moves the folder, and a program may: each place is sealed, by all its names."""
    (tmp_path / "project").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "moved").symlink_to("real")
    env = {"HOME": str(tmp_path / "home"), "PRONG_HOME": str(tmp_path / "moved")}
    env |= {"XDG_RUNTIME_DIR": str(tmp_path / "moved"), "TMPDIR": str(tmp_path / "temp")}
    chosen = Options(cwd=str(tmp_path / "project"), env=env, store=str(tmp_path / "chosen"))
    place = look_around(chosen)
    policy = make_policy(
        place, home=env["HOME"], storage=f"{tmp_path}/chosen/s", sandbox=Sandboxing()
    )

    for name in ("home/.prong", "moved", "real", "chosen"):
        assert f"{tmp_path}/{name}/teams/*/keys" in policy.sealed
        assert f"{tmp_path}/{name}/teams/*/start" in policy.sealed
    sockets = {*socket_folders(env), f"{tmp_path}/real/prong"}
    assert sockets <= set(policy.sealed)
