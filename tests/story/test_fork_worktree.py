"""Children in worktrees of their own: what they are told, where they write, what is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from prong.errors import ConfigError, UsageError
from prong.event import CacheMissed, TaskFinished, Warned, WorkKept
from prong.host import LocalHost
from prong.host.worktree import create
from prong.testing import Script, Step, World, Worlds, call, calls, delay, fail, forks, report, say
from prong.testing.repository import Repo

pytestmark = pytest.mark.anyio

COMMIT = call("Bash", {"command": "git add -A && git commit -qm 'change it'"})


def write(name: str, text: str = "theirs\n") -> Step:
    return call("Write", {"file_path": name, "content": text})


@asynccontextmanager
async def repository(
    world: Worlds, script: Any, *, opens: bool = True, **given: Any
) -> AsyncGenerator[tuple[World, Repo], None]:
    """Open a session in a repository with a commit and a change that is not committed."""
    given = {"mode": "bypassPermissions", **given}
    async with world(script, opens=False, **given) as w:
        repo = Repo(w.root)
        repo.git("init", "-q", "-b", "main")
        repo.git("config", "user.name", "Tester")
        repo.git("config", "user.email", "tester@example.invalid")
        repo.write("a.txt", "one\n")
        repo.write("b.txt", "two\n")
        repo.commit("first")
        repo.write("b.txt", "two, and more\n")
        async with AsyncExitStack() as stack:
            if opens:
                await stack.enter_async_context(w.open())
            yield w, repo


def told(w: World, key: str) -> list[Any]:
    """Give the messages of the requests that the child of a directive has made."""
    found = [r.json["messages"] for r in w.server.records]
    return [m for m in found if any(f"Directive:\n{key}" in _text(one) for one in m)]


def _text(message: Any) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(b.get("text", "") for b in content)


def notices(w: World) -> str:
    """Give all that the main agent was told by notices."""
    return "\n".join(_text(m) for m in w.bodies()[-1]["messages"] if "notification" in _text(m))


def summaries(w: World) -> list[str]:
    return [e.summary for e in w.told(TaskFinished)]


@pytest.mark.spec("F14", "W2", "W3", "W4", "F4", "F6")
async def test_forks_change_their_own_files_and_no_others(world: Worlds, tmp_path: Path) -> None:
    """Each fork edits in its worktree, by the parent's paths too; what the user has is as it was.

    The base stays shared: nothing is missed in the cache, and the server sees every prefix kept.
    """
    inherited = f"{tmp_path}/project/b.txt"
    script = Script(
        [
            call("Read", {"file_path": "b.txt"}),
            forks("P1", "P2", isolation="worktree"),
            say("waiting"),
            say("done"),
        ],
        {
            "P1": [
                write(inherited),
                call("Read", {"file_path": inherited}),
                write(inherited),
                COMMIT,
                report(),
            ],
            "P2": [report()],
        },
    )
    async with repository(world, script) as (w, repo):
        before = repo.fingerprint()
        await w.session.run("Go")
        first, second = w.parts.supervisor.children
        place = w.root / ".prong/worktrees/part-1"

        assert repo.fingerprint() == before
        assert (place / "b.txt").read_text() == "theirs\n"
        assert (place / "a.txt").read_text() == "one\n"
        assert repo.git("show", "prong/part-1:b.txt") == "theirs"
        assert not (w.root / ".prong/worktrees/part-2").exists()
        assert not repo.git("branch", "--list", "prong/part-2")
        assert first.account.fan is second.account.fan
        assert not w.told(CacheMissed)
        directive = _text(told(w, "P1")[0][-1])
        assert f"Your root is {place}; its branch is prong/part-1." in directive
        assert f"refers to {w.root}," in directive
        assert directive.index("P1") < directive.index("Your root is")
        unread, seen = told(w, "P1")[1:3]
        assert "ead" in str(unread[-1]["content"][0]["content"])
        assert unread[-1]["content"][0]["is_error"]
        assert "two, and more" in str(seen[-1])
        said = notices(w)
        assert f"[Its worktree is kept: {place}\nBranch: prong/part-1\nCommits: " in said
        assert "Files changed: b.txt]" in said
        assert "[Nothing was changed in its worktree, so that is gone again.]" in said


@pytest.mark.spec("W3")
async def test_nothing_outside_is_written(world: Worlds, tmp_path: Path) -> None:
    """A path outside is refused in the freest mode, and a command that names it needs an answer."""
    outside = tmp_path / "outside.txt"
    script = Script(
        [forks("P1", isolation="worktree"), say("waiting"), say("done")],
        {
            "P1": [
                write(str(outside)),
                call("Bash", {"command": f"echo x > {tmp_path}/project/a.txt"}),
                call("Bash", {"command": "pwd"}),
                report(),
            ]
        },
    )
    async with repository(world, script) as (w, repo):
        before = repo.fingerprint()
        await w.session.run("Go")
        _, wrote, ran, stood = told(w, "P1")

        assert "is outside your worktree; write below" in str(wrote[-1])
        assert "is outside the agent's worktree" in str(ran[-1])
        assert str(w.root / ".prong/worktrees/part-1") in str(stood[-1])
        assert not outside.exists()
        assert repo.fingerprint() == before


@pytest.mark.spec("W3")
@pytest.mark.spec("W3", "L5")
async def test_rules_hold_in_the_worktree_as_in_the_project(world: Worlds) -> None:
    """What is denied below the project's folder is denied below the child's, to searches too."""
    search = call("Grep", {"pattern": "token", "output_mode": "content"})
    script = Script(
        [forks("P1", isolation="worktree"), say("waiting"), say("done")],
        {"P1": [search, call("Read", {"file_path": "keys/a.txt"}), report()]},
    )
    async with repository(world, script, opens=False, deny=("Read(/keys/**)",)) as (w, repo):
        repo.write("keys/a.txt", "token\n")
        repo.commit("keys")
        async with w.open():
            await w.session.run("Go")
        _, searched, read = told(w, "P1")

        assert "[no matches for token]" in str(searched[-1])
        assert "is forbidden by" in str(read[-1])


async def test_a_shell_that_wandered_off_is_back_for_the_next_command(world: Worlds) -> None:
    """Where a command begins is where its paths are looked at, also after one that left."""
    leave = 'cd "$(git rev-parse --git-common-dir)/.."'
    script = Script(
        [forks("P1", isolation="worktree"), say("waiting"), say("done")],
        {
            "P1": [
                call("Bash", {"command": leave}),
                call("Bash", {"command": "echo x > ../../../a.txt"}),
                call("Bash", {"command": "touch here"}),
                report(),
            ]
        },
    )
    async with repository(world, script) as (w, repo):
        before = repo.fingerprint()
        await w.session.run("Go")
        _, left, ran, touched = told(w, "P1")

        assert f"outside the project; the next one starts in {w.root}/.prong" in str(left[-1])
        assert "is outside the agent's worktree" in str(ran[-1])
        assert "(no output)" in str(touched[-1])
        assert (w.root / ".prong/worktrees/part-1/here").exists()
        assert repo.fingerprint() == before


@pytest.mark.spec("W4")
async def test_two_of_one_name_and_a_slug_from_words(world: Worlds) -> None:
    """Worktrees of one name get numbers; one that is uncommitted is kept as well."""
    one = {"description": "Fix: the parser/lexer!", "prompt": "P1", "isolation": "worktree"}
    script = Script(
        [calls(("Agent", one), ("Agent", {**one, "prompt": "P2"})), say("w"), say("done")],
        {"P1": [write("new.txt"), report()], "P2": [write("new.txt"), report()]},
    )
    async with repository(world, script) as (w, _):
        await w.session.run("Go")
        kept = sorted(p.name for p in (w.root / ".prong/worktrees").iterdir() if p.is_dir())

        assert kept == ["fix-the-parser-lexer", "fix-the-parser-lexer-2"]
        assert notices(w).count("Commits: none\nFiles changed: new.txt") == 2
        assert notices(w).count("Not all of this is committed]") == 2


@pytest.mark.spec("W4", "T4")
async def test_names_that_are_no_text_keep_no_notice_away(world: Worlds) -> None:
    """A file that git ignores and whose name is not Unicode is work, and is told of."""
    odd = call("Bash", {"command": "echo x > $'ign\\xff.bin'"})
    script = Script(
        [forks("P1", isolation="worktree"), say("waiting"), say("done")], {"P1": [odd, report()]}
    )
    async with repository(world, script) as (w, repo):
        repo.write(".gitignore", "ign*\n")
        with anyio.fail_after(50):
            await w.session.run("Go")

        assert "it has ignored files of its own, such as ign\ufffd.bin" in notices(w)


@pytest.mark.spec("W4")
async def test_faces_are_told_where_work_was_left(world: Worlds) -> None:
    """Path, branch, commits and files of a kept worktree are an event; a removed one is none."""
    script = Script(
        [forks("P1", "P2", isolation="worktree"), say("waiting"), say("done"), say("done")],
        {"P1": [write("new.txt"), COMMIT, write("more.txt"), report()], "P2": [report()]},
    )
    async with repository(world, script) as (w, _):
        await w.session.run("Go")
        (kept,) = w.told(WorkKept)

        assert kept.path == str(w.root / ".prong/worktrees/part-1")
        assert (kept.branch, len(kept.commits)) == ("prong/part-1", 1)
        assert (kept.files, kept.uncommitted) == (("more.txt", "new.txt"), True)


@pytest.mark.spec("W4", "S1")
async def test_without_a_repository_the_child_fails_and_says_why(world: Worlds) -> None:
    """Where git has nothing to offer, the notice says so, and what to do; remote is refused."""
    remote = {"description": "far", "prompt": "P2", "isolation": "remote"}
    script = Script(
        [forks("P1", isolation="worktree"), call("Agent", remote), say("w"), say("done")], {}
    )
    async with world(script, mode="bypassPermissions") as w:
        await w.session.run("Go")

        (summary,) = summaries(w)
        assert f"{w.root} is not in a git repository: run 'git init' there" in summary
        assert "there are no remote workers" in str(w.bodies())
        assert not told(w, "P1")


@pytest.mark.spec("W4")
async def test_failed_and_stopped_children_keep_their_work(world: Worlds) -> None:
    """Neither a failure nor a stop costs anything that was written."""
    script = Script(
        [forks("P1", "P2", isolation="worktree"), say("w"), say("done"), say("done")],
        {
            "P1": [write("x.txt"), delay(60, then=report())],
            "P2": [write("y.txt"), fail(400, "invalid_request_error", "no")],
        },
    )
    async with repository(world, script, attended=True) as (w, _):
        await w.session.say("Go")
        place = w.root / ".prong/worktrees"
        with anyio.fail_after(50):
            while len(told(w, "P1")) < 2:
                await anyio.sleep(0.01)
        first, _second = w.parts.supervisor.children
        await w.parts.tasks.stop(first.spec.task_id)
        await w.session.wait_settled()

        assert (place / "part-1/x.txt").exists()
        assert (place / "part-2/y.txt").exists()
        results = [w.parts.supervisor.result(c) for c in w.parts.supervisor.children]
        assert [r.status for r in results] == ["killed", "failed"]
        assert [r.branch for r in results] == ["prong/part-1", "prong/part-2"]
        assert [r.files for r in results] == [("x.txt",), ("y.txt",)]


@pytest.mark.spec("F22", "W4")
async def test_a_message_brings_a_child_back_to_its_worktree(world: Worlds) -> None:
    """A child that is woken finds its files; one whose worktree is gone is given another."""
    script = Script(
        [say("Hi."), say("ok"), say("ok"), say("ok")],
        {"P1": [write("x.txt"), report(), call("Bash", {"command": "ls"}), report()]},
    )
    script.routes["P2"] = [report(), write("z.txt"), report()]
    async with repository(world, script) as (w, _):
        await w.session.run("Hello")
        kept, gone = await w.session.fork(["P1", "P2"], isolation="worktree")
        assert (kept.worktree, gone.worktree) == (f"{w.root}/.prong/worktrees/fork-1", "")
        for name in (kept.task_id, gone.task_id):
            await w.session.say("Look again.", to=name)
        await w.session.wait_settled()
        again = w.parts.supervisor.child(gone.task_id)
        assert again is not None

        assert "x.txt" in str(told(w, "P1")[-1][-1])
        assert "Your root is" in str(told(w, "P2")[1][-1])
        assert w.parts.supervisor.result(again).files == ("z.txt",)


@pytest.mark.spec("W4")
async def test_a_resumed_session_knows_its_worktrees(world: Worlds) -> None:
    """After a resume a child goes on in the worktree it had."""
    script = Script(
        [say("Hi."), say("ok"), say("ok")],
        {"P1": [write("x.txt"), report(), call("Bash", {"command": "ls"}), report()]},
    )
    async with repository(world, script, opens=False) as (w, _):
        async with w.open() as session:
            await session.run("Hello")
            (kept,) = await session.fork(["P1"], isolation="worktree")
        async with w.open(resume=session.id):
            await w.session.say("Look again.", to=kept.task_id)
            await w.session.wait_settled()
            child = w.parts.supervisor.child(kept.task_id)
            assert child is not None

            assert "a.txt\\nb.txt\\nx.txt" in str(told(w, "P1")[3][-1])
            assert w.parts.supervisor.result(child).worktree == kept.worktree


TYPE = """{"fixer": {"description": "d", "prompt": "p", "isolation": "worktree",
    "permissionMode": "bypassPermissions"}}"""


@pytest.mark.spec("W2", "W5", "S1")
async def test_a_typed_child_whose_type_asks_for_it(world: Worlds) -> None:
    """Its brief is followed by where it works; the parent that waited learns of the branch."""
    start = {"description": "fix", "prompt": "BRIEF", "subagent_type": "fixer", "name": "fixer-1"}
    script = Script(
        [
            call("Agent", start),
            say("waiting"),
            call("MergeWorktrees", {"action": "preview"}),
            call("MergeWorktrees", {"action": "merge", "slugs": ["fixer-1"]}),
            say("done"),
        ],
        {"BRIEF": [write("new.txt"), COMMIT, say("Fixed.")]},
    )
    async with repository(world, script, agents=TYPE) as (w, repo):
        await w.session.run("Go")
        bodies = w.bodies()
        brief = next(b for b in bodies if "BRIEF" in _text(b["messages"][0]))
        first = _text(brief["messages"][0])

        assert first.startswith("BRIEF\n\nYou work in a git worktree of your own. Your root is ")
        assert "MergeWorktrees" not in {tool["name"] for tool in brief["tools"]}
        assert "Branch: prong/fixer-1" in notices(w)
        assert "prong/fixer-1: would merge (new.txt)" in str(bodies[-2]["messages"][-1])
        assert "prong/fixer-1: merged (new.txt)" in str(bodies[-1]["messages"][-1])
        assert (w.root / "new.txt").read_text() == "theirs\n"
        assert (w.root / "b.txt").read_text() == "two, and more\n"
        assert repo.git("show", "HEAD:new.txt") == "theirs"
        assert repo.git("show", "HEAD:b.txt") == "two"


@pytest.mark.spec("W5", "S1")
async def test_what_a_typed_child_left_uncommitted_is_merged_too(world: Worlds) -> None:
    """The tool previews it and commits it on the child's branch; told not to, it stops."""
    start = {"description": "fix", "prompt": "BRIEF", "subagent_type": "fixer", "name": "fixer-1"}
    script = Script(
        [
            call("Agent", start),
            say("waiting"),
            call("MergeWorktrees", {"action": "merge", "commit": False}),
            call("MergeWorktrees", {"action": "preview"}),
            call("MergeWorktrees", {"action": "merge"}),
            say("done"),
        ],
        {"BRIEF": [write("new.txt"), say("Fixed.")]},
    )
    async with repository(world, script, agents=TYPE) as (w, repo):
        await w.session.run("Go")
        refused, previewed, merged = (str(b["messages"][-1]) for b in w.bodies()[-3:])

        assert "prong/fixer-1: uncommitted (new.txt)" in refused
        assert "--no-commit" not in refused
        told = "(new.txt; it left uncommitted: new.txt)"
        assert f"prong/fixer-1: would merge {told}" in previewed
        assert "Nothing was changed." in previewed
        assert f"prong/fixer-1: merged {told}" in merged
        assert repo.git("show", "HEAD:new.txt") == "theirs"
        assert repo.git("show", "HEAD:b.txt") == "two"
        assert repo.git("log", "-1", "--format=%s", "prong/fixer-1") == (
            "Work of prong/fixer-1, as it was left"
        )


@pytest.mark.spec("W2", "W3")
async def test_a_childs_child_starts_from_its_parents_worktree(world: Worlds) -> None:
    """Worktrees lie side by side; the inner one writes to neither the outer one nor the user's."""
    start = {"description": "d", "subagent_type": "fixer"}
    outer = {**start, "prompt": "OUTER", "name": "outer"}
    inner = {**start, "prompt": "INNER", "name": "inner"}
    script = Script(
        [call("Agent", outer), say("done")],
        {
            "OUTER": [write("x.txt", "outer\n"), call("Agent", inner), say("Done.")],
            "INNER": [
                call("Read", {"file_path": "x.txt"}),
                write("x.txt", "inner\n"),
                call("Bash", {"command": "touch ../outer/y.txt"}),
                say("Done."),
            ],
        },
    )
    settings = '{"fork": {"enabled": false}}'
    async with repository(world, script, agents=TYPE, settings=settings) as (w, _):
        await w.session.run("Go")
        place = w.root / ".prong/worktrees"

        assert (place / "inner/x.txt").read_text() == "inner\n"
        assert (place / "outer/x.txt").read_text() == "outer\n"
        assert not (place / "outer/y.txt").exists()
        assert not (w.root / "x.txt").exists()
        assert "Branch: prong/outer" in str(w.bodies()[-1]["messages"][-1])


@pytest.mark.spec("W5", "F10")
async def test_branches_that_conflict_stop_the_merge(world: Worlds) -> None:
    """The tool merges what fits and names the rest; `prong merge` then says the same."""
    script = Script(
        [
            say("Hi."),
            call("MergeWorktrees", {"action": "merge", "slugs": ["fork-1", "fork-2"]}),
            say("done"),
        ],
        {
            "P1": [write("new.txt", "one\n"), COMMIT, report()],
            "P2": [
                write("new.txt", "two\n"),
                COMMIT,
                call("MergeWorktrees", {"action": "preview"}),
                report(),
            ],
        },
    )
    async with repository(world, script) as (w, _):
        await w.session.run("Hello")
        await w.session.fork(["P1", "P2"], isolation="worktree")
        await w.session.run("Merge")
        said = str(w.bodies()[-1]["messages"][-1])
        words = ["-m", "prong", "merge", "--dry-run", "fork-2", "--cwd", str(w.root)]
        ended = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, check=False
        )

        assert "a fork never uses MergeWorktrees" in str(told(w, "P2")[3][-1])
        assert "prong/fork-1: merged (new.txt)" in said
        assert "prong/fork-2: conflict with" in said
        assert "It stopped at the first branch" in said
        assert (w.root / "new.txt").read_text() == "one\n"
        assert (ended.returncode, "prong/fork-2: conflict" in ended.stdout) == (1, True)


@pytest.mark.spec("W5", "P1")
async def test_plan_mode_makes_no_worktree_and_merges_nothing(world: Worlds) -> None:
    """Both would change the repository, so both are refused."""
    fan = {"description": "d", "prompt": "P1", "isolation": "worktree"}
    merging = call("MergeWorktrees", {"action": "merge"})
    async with repository(
        world, [call("Agent", fan), merging, say("done")], mode="plan", attended=True
    ) as (w, _):
        await w.session.run("Go")

        with pytest.raises(UsageError, match="a worktree would be made"):
            await w.session.fork(["P1"], isolation="worktree")

        assert "plan mode only reads, and a worktree would be made" in str(w.bodies()[1])
        assert "plan mode only reads, and MergeWorktrees(merge)" in str(w.bodies()[2])
        assert not (w.root / ".prong/worktrees").exists()


@pytest.mark.spec("W2")
async def test_settings_say_what_a_worktree_starts_from(world: Worlds) -> None:
    """With `head` it holds what was committed; ignored folders that are named are shared."""
    script = Script(
        [forks("P1", isolation="worktree"), say("w"), say("done")],
        {"P1": [call("Bash", {"command": "cat b.txt; ls -l big"}), write("x.txt"), report()]},
    )
    settings = '{"worktree": {"base": "head", "symlinkDirectories": ["big"]}}'
    async with repository(world, script, settings=settings) as (w, repo):
        repo.write(".git/info/exclude", "big\n")
        repo.write("big/one", "1")
        await w.session.run("Go")
        first, ran = told(w, "P1")[:2]

        assert "without changes that were not committed" in _text(first[-1])
        assert "two, and more" not in str(ran[-1])
        assert f"-> {w.root}/big" in str(ran[-1])


@pytest.mark.spec("W2")
@pytest.mark.parametrize("given", ["{}", '{"worktree": {"symlinkDirectories": []}}'])
async def test_heavy_folders_are_shared_unless_told_otherwise(world: Worlds, given: str) -> None:
    """node_modules and .venv are linked if git ignores them; a setting changes which, or none."""
    listing = "ls -l . .venv node_modules; git status --porcelain"
    script = Script(
        [forks("P1", isolation="worktree"), say("w"), say("done")],
        {"P1": [call("Bash", {"command": listing}), write("x.txt"), report()]},
    )
    async with repository(world, script, settings=given) as (w, repo):
        repo.write(".git/info/exclude", "node_modules/\n")
        repo.write("node_modules/one/index.js", "1")
        repo.write(".venv/pyvenv.cfg", "tracked, or at least not ignored")
        await w.session.run("Go")
        ran = str(told(w, "P1")[1][-1])

        assert (f"node_modules -> {w.root}/node_modules" in ran) == (given == "{}")
        assert f"-> {w.root}/.venv" not in ran
        assert "?? node_modules" not in ran


async def test_wrong_settings_are_named(world: Worlds) -> None:
    """A base that does not exist is an error of the user's, not a guess of ours."""
    settings = '{"worktree": {"base": "moon"}}'
    with pytest.raises(ConfigError, match=r"'worktree.base' must be one of snapshot, head"):
        async with repository(world, [], settings=settings):
            pass


def hooks(tmp_path: Path, **commands: str) -> str:
    """Make settings whose hooks log what they are told, then run a command."""
    events = ("SubagentStart", "SubagentStop", "WorktreeCreate", "WorktreeRemove", "Stop")
    # One write a line: hooks of several agents run at the same time.
    log = f'printf "%s\\n" "$(cat)" >> {tmp_path}/log'
    entries = {
        event: [{"hooks": [{"type": "command", "command": f"{log}; {commands.get(event, ':')}"}]}]
        for event in events
    }
    return msgspec.json.encode({"hooks": entries}).decode()


def logged(tmp_path: Path) -> list[dict[str, Any]]:
    lines = (tmp_path / "log").read_text().splitlines()
    return [msgspec.json.decode(line) for line in lines if line]


@pytest.mark.spec("L11")
async def test_hooks_hear_of_children_and_worktrees(world: Worlds, tmp_path: Path) -> None:
    """Each event comes once and in order, with who and where."""
    script = Script(
        [forks("P1", isolation="worktree", name="one"), say("w"), say("done")], {"P1": [report()]}
    )
    async with repository(world, script, settings=hooks(tmp_path)) as (w, _):
        await w.session.run("Go")
        heard = [e for e in logged(tmp_path) if e["hook_event_name"] != "Stop"]

        names = [event["hook_event_name"] for event in heard]
        assert names == ["SubagentStart", "WorktreeCreate", "SubagentStop", "WorktreeRemove"]
        assert {e["agent_path"] for e in heard} == {"main/one"}
        assert {(e["agent_type"], e["task_id"]) for e in heard} == {("fork", "one")}
        assert [e["worktree_branch"] for e in heard] == ["", *["prong/one"] * 3]
        assert heard[2]["status"] == "completed"
        stops = [e for e in logged(tmp_path) if e["hook_event_name"] == "Stop"]
        assert len(stops) == 2  # the main agent's turns, and not the fork's


@pytest.mark.spec("L11")
@pytest.mark.parametrize("event", ["SubagentStart", "WorktreeCreate"])
async def test_a_hook_refuses_a_child(world: Worlds, tmp_path: Path, event: str) -> None:
    """Exit code 2 keeps it from beginning; the reason is in the notice, and nothing is left."""
    given = hooks(tmp_path, **{event: "echo not today >&2; exit 2"})
    script = Script([forks("P1", isolation="worktree"), say("w"), say("done")])
    async with repository(world, script, settings=given) as (w, repo):
        await w.session.run("Go")

        (summary,) = summaries(w)
        assert f"a {event} hook refused it: not today" in summary
        assert not told(w, "P1")
        assert not repo.git("branch", "--list", "prong/*")


@pytest.mark.spec("L11")
async def test_a_hook_keeps_a_child_at_work_once(world: Worlds, tmp_path: Path) -> None:
    """SubagentStop with exit code 2 lets the child go on, with the reason before it."""
    once = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; echo test it >&2; exit 2; }}"
    script = Script([forks("P1"), say("w"), say("done")], {"P1": [report(), report("tested")]})
    async with repository(world, script, settings=hooks(tmp_path, SubagentStop=once)) as (w, _):
        await w.session.run("Go")

        assert "test it" in _text(told(w, "P1")[-1][-1])
        assert "Result: tested" in notices(w)


@pytest.mark.spec("W4")
async def test_what_a_crash_left_is_named_and_only_swept_when_unchanged(world: Worlds) -> None:
    """At the next start the unchanged worktree is gone, and the other one is in a warning."""
    gone = "prong: in use by process 4000000 (started 1) on " + os.uname().nodename
    async with repository(world, [say("Hi.")], opens=False) as (w, repo):
        host = LocalHost(str(w.root))
        for name in ("empty", "full"):
            made = await create(host, name)
            repo.git("worktree", "unlock", made.path)
            repo.git("worktree", "lock", "--reason", gone, made.path)
        (w.root / ".prong/worktrees/full/x.txt").write_text("work")
        async with w.open():
            with anyio.fail_after(50):
                while not any("with work in them" in e.text for e in w.told(Warned)):
                    await anyio.sleep(0.01)
            (named,) = [e.text for e in w.told(Warned) if "with work in them" in e.text]

            assert f"{w.root}/.prong/worktrees/full (branch prong/full)" in named
            assert not (w.root / ".prong/worktrees/empty").exists()
            assert (w.root / ".prong/worktrees/full/x.txt").exists()


@pytest.mark.spec("W4")
async def test_a_session_that_ends_early_complains_of_no_git(
    world: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leaves while worktrees of earlier sessions are looked through is told of no failure."""
    slow, begun = tmp_path / "bin/git", tmp_path / "begun"
    slow.parent.mkdir()
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *worktree*) : > {begun}; exec sleep 60;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    slow.chmod(0o755)
    async with repository(world, [say("Hi.")], opens=False) as (w, _):
        await create(LocalHost(str(w.root)), "earlier")
        monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
        async with w.open():
            with anyio.fail_after(50):
                while not begun.exists():
                    await anyio.sleep(0.01)

        assert not [e.text for e in w.told(Warned) if "could not be looked" in e.text]
