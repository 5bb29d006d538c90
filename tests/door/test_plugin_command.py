"""`prong plugin`: folders, repositories and marketplaces, asked about once, refused where unsafe."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prong.command import Accepted, ManagePlugins, Refused
from prong.config.plugin_source import copy_plugin, parse_source
from prong.config.plugin_store import PluginRequest, PluginStore
from prong.errors import BadInput, GitFailed, NotPossibleNow, UsageError
from prong.testing import Worlds, say
from prong.testing.repository import make_repo

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.door,
    pytest.mark.spec("L11"),
    # Several programs are run one after the other.
    pytest.mark.timeout(180),
]

HOOK = {"Stop": [{"hooks": [{"type": "command", "command": "echo stopped"}]}]}


def prong(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "home").mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "prong", "plugin", *words],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path / "home")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def put(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def kit(folder: Path, name: str = "kit", **more: Any) -> Path:
    files = {
        ".claude-plugin/plugin.json": {"name": name, "version": "1.0"},
        "skills/tidy/SKILL.md": "Tidy.",
        "hooks/hooks.json": {"hooks": HOOK},
        **more,
    }
    return put(folder, files)


def market(folder: Path, *sources: Any) -> Path:
    plugins = [{"name": f"p{n}", "source": source} for n, source in enumerate(sources)]
    return put(folder, {".claude-plugin/marketplace.json": {"name": "market", "plugins": plugins}})


def yes(request: PluginRequest) -> bool:
    del request
    return True


def test_a_plugin_is_added_once_it_is_approved(tmp_path: Path) -> None:
    """All that it wants is shown; without a yes nothing is kept; then it is listed, and removed."""
    folder = str(kit(tmp_path / "kit"))
    asked = prong(tmp_path, "add", folder)
    added = prong(tmp_path, "add", folder, "--yes")
    listed = prong(tmp_path, "list", "--json")
    removed = prong(tmp_path, "remove", "kit")

    assert (asked.returncode, added.returncode, removed.returncode) == (1, 0, 0)
    assert "hook Stop runs echo stopped" in asked.stdout
    assert "kit was not added" in asked.stdout
    assert "kit added: 1 skill or command, 1 hook" in added.stdout
    (row,) = json.loads(listed.stdout)
    assert (row["name"], row["version"], row["approved"]) == (
        "kit",
        "1.0",
        ["hook Stop runs echo stopped"],
    )
    assert json.loads(prong(tmp_path, "list", "--json").stdout) == []
    assert not (tmp_path / "home/.prong/plugins/installed/kit").exists()


def test_a_repository_is_fetched_and_updated(tmp_path: Path) -> None:
    """A plug-in of git comes at a commit; an update that wants no more is not asked about."""
    repo = make_repo(tmp_path / "repo")
    kit(tmp_path / "repo")
    repo.commit("kit")
    url = f"file://{tmp_path / 'repo'}"
    assert prong(tmp_path, "add", url, "--yes").returncode == 0
    put(tmp_path / "repo", {"skills/more/SKILL.md": "More."})
    repo.commit("more")
    quiet = prong(tmp_path, "update")
    put(tmp_path / "repo", {"hooks/hooks.json": {"hooks": {**HOOK, "SessionStart": HOOK["Stop"]}}})
    repo.commit("wants more")
    loud = prong(tmp_path, "update", "kit")
    (row,) = json.loads(prong(tmp_path, "list", "--json").stdout)

    assert quiet.returncode == 0, quiet.stderr
    assert "2 skills or commands" in quiet.stdout
    assert (loud.returncode, "hook SessionStart runs" in loud.stdout) == (1, True)
    assert "hook Stop runs" not in loud.stdout
    assert len(row["commit"]) == 40
    assert row["approved"] == ["hook Stop runs echo stopped"]


def test_a_marketplace_offers_plugins_by_name(tmp_path: Path) -> None:
    """Its list is shown, one or several are added by name, entries may stand for a manifest."""
    folder = market(tmp_path / "market", "./a", "b")
    kit(folder / "a", "p0")
    listing = json.loads((folder / ".claude-plugin/marketplace.json").read_text())
    listing["metadata"] = {"pluginRoot": "./plugins"}
    listing["plugins"][1] |= {"strict": False, "skills": ["./x"], "description": "The second"}
    put(folder, {".claude-plugin/marketplace.json": listing, "plugins/b/x/SKILL.md": "X."})
    which = prong(tmp_path, "add", str(folder))
    offered = prong(tmp_path, "list", str(folder))
    added = prong(tmp_path, "add", str(folder), "p0", "p1", "--yes")
    wrong = prong(tmp_path, "add", str(folder), "p9", "--yes")

    assert (which.returncode, "name what to add of it: p0, p1" in which.stderr) == (2, True)
    assert "p1: The second" in offered.stdout
    assert added.stdout.count("added") == 2, added.stderr
    assert (wrong.returncode, "no plug-in 'p9'" in wrong.stderr) == (2, True)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("../out", "outside of the marketplace"),
        ("/etc", "outside of the marketplace"),
        ("./link", "outside of the marketplace"),
        ("./gone", "which is not there"),
        ({"source": "npm", "package": "x"}, "not supported"),
        ({"source": "url", "url": "ext::sh -c 'touch pwned'"}, "neither a folder nor"),
        ({"source": "url", "url": "--upload-pack=x"}, "neither a folder nor"),
        ({"source": "url", "url": "file:///nowhere", "ref": "-x"}, "no repository"),
        ({"source": "git-subdir", "url": "OTHER", "path": "../.."}, "has no folder"),
        ({"source": "url", "url": "OTHER"}, "leads to another marketplace"),
    ],
)
def test_a_marketplace_leads_nowhere_else(tmp_path: Path, source: Any, why: str) -> None:
    """Paths stay in it, addresses are of git, and no list is followed to the next."""
    repo = make_repo(tmp_path / "other")
    market(tmp_path / "other", "./x")
    repo.commit("other")
    if isinstance(source, dict) and source.get("url") == "OTHER":
        source = {**source, "url": f"file://{tmp_path / 'other'}"}
    folder = market(tmp_path / "market", source)
    (folder / "link").symlink_to("/")
    store = PluginStore(str(tmp_path / "home"))

    with pytest.raises((UsageError, GitFailed), match=why):
        store.add(str(folder), ["p0"], yes)
    assert store.record.installed() == {}
    assert not (tmp_path / "pwned").exists()


class _Moved(http.server.BaseHTTPRequestHandler):
    """Sends whoever comes to another address."""

    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.path)
        port = int(str(self.headers["Host"]).rpartition(":")[2])
        self.send_response(301)
        self.send_header("Location", f"http://127.0.0.1:{port}/elsewhere{self.path}")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        del format, args


@pytest.fixture
def moved() -> Iterator[tuple[str, list[str]]]:
    seen: list[str] = []
    handler = type("Moved", (_Moved,), {"seen": seen})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/market.git", seen
        server.shutdown()
        thread.join()


def test_a_marketplace_that_redirects_is_refused(
    tmp_path: Path, moved: tuple[str, list[str]]
) -> None:
    """Nobody is asked at the address that another one leads to, and the user is told."""
    url, seen = moved
    with pytest.raises(GitFailed, match="leads to another address"):
        PluginStore(str(tmp_path)).add(url, [], yes)
    assert seen
    assert not any("elsewhere" in path for path in seen)


@pytest.mark.parametrize(
    "text", ["http://example.org/x.git", "nothing", "https://x.org/y#-z", "a b/c", "-x/y", "ext::x"]
)
def test_what_is_no_source_is_refused(text: str) -> None:
    """Only folders and addresses of git that nobody can change on the way are sources."""
    with pytest.raises(BadInput):
        parse_source(text)


def test_a_copy_is_bounded_and_leads_nowhere(tmp_path: Path) -> None:
    """Links out of a plug-in are left out and named; very many files are no plug-in."""
    folder = kit(tmp_path / "kit")
    (folder / "root").symlink_to("/")
    (folder / "near").symlink_to("skills")
    os.mkfifo(folder / "fifo")
    left = copy_plugin(folder, tmp_path / "copy")
    for number in range(10_001):
        os.mknod(folder / f"skills/{number}")

    assert left == ["root leads out of the plug-in; left out"]
    assert (tmp_path / "copy/near/tidy/SKILL.md").read_text() == "Tidy."
    assert not (tmp_path / "copy/fifo").exists()
    with pytest.raises(NotPossibleNow, match="no plug-in"):
        copy_plugin(folder, tmp_path / "other")


async def test_a_copy_that_wants_more_than_was_approved_is_left_out(
    world: Worlds, tmp_path: Path
) -> None:
    """Whoever changes an added plug-in gains nothing: it counts again once it is approved."""
    async with world([say("x")], opens=False, folder=tmp_path) as w:
        PluginStore(str(w.home)).add(str(kit(tmp_path / "kit")), [], yes)
        async with w.open() as session:
            assert "kit:tidy" in session.records.skills
            assert len(session.records.hooks) == 1
        more = {"hooks": {**HOOK, "SessionStart": HOOK["Stop"]}}
        put(w.home / ".prong/plugins/installed/kit", {"hooks/hooks.json": more})
        async with w.open() as session:
            assert "kit:tidy" not in session.records.skills
            assert any("wants more than was approved" in text for text in w.warnings)


async def test_plugins_are_looked_after_in_a_session(world: Worlds, tmp_path: Path) -> None:
    """The command says what a plug-in wants, adds it once approved, and the session stays as it is."""
    async with world([say("x"), say("y")], folder=tmp_path) as w:
        await w.session.run("Hi")
        source = str(kit(tmp_path / "kit"))
        asked = await w.session.send(ManagePlugins("add", (source,)))
        added = await w.session.send(ManagePlugins("add", (source,), approved=True))
        listed = await w.session.send(ManagePlugins())
        await w.session.run("On")

        assert isinstance(asked, Refused)
        assert "hook Stop runs echo stopped" in asked.why
        assert "--yes" in asked.why
        assert isinstance(added, Accepted)
        assert "sessions that begin from now on" in added.text
        assert isinstance(listed, Accepted)
        assert listed.text.startswith("kit 1.0: 1 skill or command, 1 hook")
        assert w.bodies()[0]["tools"] == w.bodies()[-1]["tools"]
        removed = await w.session.send(ManagePlugins("remove", ("kit",)))
        assert isinstance(removed, Accepted)


async def test_the_program_takes_a_plugin_of_a_folder(
    world: Worlds, program: Any, tmp_path: Path
) -> None:
    """`--plugin-dir` brings a plug-in for one run: its skill is a command, its hook runs."""
    hooks = {
        "Stop": [{"hooks": [{"type": "command", "command": 'touch "$CLAUDE_PLUGIN_ROOT/ran"'}]}]
    }
    more: dict[str, Any] = {
        "hooks/hooks.json": {"hooks": hooks},
        "skills/tidy/SKILL.md": "Tidy $0 up.",
    }
    folder = kit(tmp_path / "kit", **more)
    async with world([say("Tidied.")], opens=False) as w:
        done = await program.run(w, "-p", "/kit:tidy this", "--plugin-dir", str(folder))
        wrong = await program.run(w, "-p", "hi", "--plugin-dir", "nowhere")

        assert (done.returncode, done.stdout, done.stderr) == (0, b"Tidied.\n", b"")
        assert "Tidy this up." in str(w.bodies()[0]["messages"])
        assert (folder / "ran").exists()
        assert (wrong.returncode, b"is no plug-in" in wrong.stderr) == (2, True)


async def test_the_terminal_looks_after_plugins(
    world: Worlds, program: Any, tmp_path: Path
) -> None:
    """`/plugin add` says what one wants, and adds it with `--yes`; `/plugin` lists it."""
    source = kit(tmp_path / "kit")
    lines = (
        f"/plugin\n/plugin add {source}\n/plugin add {source} --yes\n/plugin\n/plugin x\n/quit\n"
    )
    async with world([], opens=False) as w:
        done = await program.run(w, "--plain", stdin=lines.encode())
        said = done.stdout.decode() + done.stderr.decode()

        assert "no plug-ins were added" in said
        assert f"/plugin add {source} --yes" in said
        assert "kit added: 1 skill or command, 1 hook" in said
        assert f"from {source}" in said
        assert "say /plugin, /plugin add SOURCE" in said
