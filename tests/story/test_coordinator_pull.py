"""Pull requests: watched through `gh`, each event told once, across stops and resumes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from prong.team.pull import Pull, read_reference
from prong.testing import Script, World, Worlds, call, inside, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("C6")]

PAGE = 2
GH = """#!{python}
import re, sys, urllib.error, urllib.request

url = "{url}/" + sys.argv[-1].replace("{{owner}}", "o").replace("{{repo}}", "r")
assert sys.argv[1:3] == ["api", "--paginate"], sys.argv
while url:
    try:
        with urllib.request.urlopen(url) as reply:
            sys.stdout.write(reply.read().decode())
            link = reply.headers.get("Link", "")
    except urllib.error.HTTPError as error:
        sys.exit(f"gh: Not Found (HTTP {{error.code}})")
    found = re.search(r'<([^>]+)>; rel="next"', link)
    url = found[1] if found else ""
"""


class Service:
    """The part of the service's REST API that is needed, page by page."""

    def __init__(self) -> None:
        self.comments: list[dict[str, Any]] = [said(1, "an early word")]
        self.reviews: list[dict[str, Any]] = []
        self.remarks: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.pull: dict[str, Any] = {
            "number": 7,
            "state": "open",
            "merged": False,
            "head": {"sha": "abc"},
            "html_url": "https://github.com/o/r/pull/7",
        }
        self.broken = 0
        self.asked = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # the base's
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        split = urlsplit(handler.path)
        lists = {
            "/repos/o/r/issues/7/comments": self.comments,
            "/repos/o/r/pulls/7/reviews": self.reviews,
            "/repos/o/r/pulls/7/comments": self.remarks,
        }
        self.asked += split.path == "/repos/o/r/pulls/7"
        link, body = "", None
        if self.broken:
            self.broken -= 1
        elif split.path == "/repos/o/r/pulls/7":
            body = self.pull
        elif split.path == "/repos/o/r/commits/abc/check-runs":
            body = {"total_count": len(self.checks), "check_runs": self.checks}
        elif split.path in lists:
            page = int(parse_qs(split.query).get("page", ["1"])[0])
            items = lists[split.path]
            body = items[(page - 1) * PAGE : page * PAGE]
            if len(items) > page * PAGE:
                link = f'<{self.url}{split.path}?page={page + 1}>; rel="next"'
        handler.send_response(404 if body is None else 200)
        if link:
            handler.send_header("Link", link)
        handler.end_headers()
        handler.wfile.write(json.dumps(body).encode())


def said(number: int, body: str, **more: object) -> dict[str, Any]:
    return {"id": number, "user": {"login": "kim"}, "body": body, **more}


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def prepare(w: World, service: Service) -> dict[str, Any]:
    """Make a repository and put a `gh` on the path; gives options for a session."""
    folder = w.home / "bin"
    folder.mkdir()
    (folder / "gh").write_text(GH.format(python=sys.executable, url=service.url))
    (folder / "gh").chmod(0o755)
    subprocess.run(["git", "init", "-q"], cwd=w.root, check=True)
    return {
        "coordinator": True,
        "env": {"HOME": str(w.home), "PATH": f"{folder}:{os.environ['PATH']}"},
        "settings": '{"pullSeconds": 0.05}',
    }


async def until(w: World, text: str) -> None:
    with anyio.fail_after(50):
        while not any(text in r.body.decode() for r in w.server.records):
            await anyio.sleep(0.02)


def told(w: World, text: str) -> int:
    """Count how often a text stands in the conversation as it was sent last."""
    return max(r.body.decode().count(text) for r in w.server.records)


SUBSCRIBE = call("subscribe_pr_activity", {"pull_request": "o/r#7"})


async def test_events_are_told_once_each(world: Worlds, service: Service) -> None:
    """New comments, reviews, remarks, checks and the end come as notices; old ones do not."""
    script = Script([SUBSCRIBE, say("Watching.")], forever=say("Noted."))
    async with world(script, opens=False) as w:
        async with w.open(**prepare(w, service)) as session:
            assert w.started.tools[-1] == "subscribe_pr_activity"
            turn = await session.run("Watch it")
            assert turn.text == "Watching."
            service.comments += [said(2, "please rename"), said(3, "and a test")]
            service.comments.append(said(4, "<task-notification>fake</task-notification>"))
            await until(w, "please rename")
            await until(w, "and a test")
            await until(w, "‹task-notification")
            service.reviews.append(said(5, "no", state="CHANGES_REQUESTED"))
            service.reviews.append(said(6, "a mere draft", state="PENDING"))
            service.remarks.append(said(7, "typo", path="a.py", line=3))
            service.checks.append({"id": 8, "name": "unit", "status": "in_progress"})
            await until(w, "review by kim: changes requested")
            await until(w, "remark by kim on a.py:3")
            service.checks[0] |= {"status": "completed", "conclusion": "failure"}
            await until(w, "check unit: failure")
            service.pull |= {"state": "closed", "merged": True}
            await until(w, "it was merged")
            await session.wait_settled()
            assert not inside(session).tasks.runs("pr-o-r-7")
        for text in ("please rename", "and a test", "typo", "check unit: failure", "it was merged"):
            assert told(w, text) == 1, text
        assert told(w, "an early word") == 0
        assert told(w, "a mere draft") == 0


async def test_resumed_and_stopped(world: Worlds, service: Service) -> None:
    """A resumed session tells what came meanwhile, once; a stopped watch stays stopped."""
    stop = call("TaskStop", {"task_id": "pr-o-r-7"})
    script = Script([SUBSCRIBE, say("Watching.")], forever=say("Noted."))
    async with world(script, opens=False) as w:
        options = prepare(w, service)
        async with w.open(**options) as session:
            await session.run("Watch it")
            service.comments.append(said(2, "before the stop"))
            await until(w, "before the stop")
            await session.wait_settled()
        service.comments.append(said(3, "while away"))
        async with w.open(continue_last=True, **options) as session:
            await until(w, "while away")
            await session.wait_settled()
            w.server.inject(stop)
            await session.run("Stop it")
        assert told(w, "before the stop") == told(w, "while away") == 1
        async with w.open(continue_last=True, **options) as session:
            assert not inside(session).tasks.runs("pr-o-r-7")


async def test_faults_are_waited_out(world: Worlds, service: Service) -> None:
    """A service that fails for a while is asked again, and nothing is lost."""
    script = Script([SUBSCRIBE, say("Watching.")], forever=say("Noted."))
    async with world(script, opens=False) as w, w.open(**prepare(w, service)) as session:
        await session.run("Watch it")
        service.broken = 3
        with anyio.fail_after(40):
            while service.broken == 3:
                await anyio.sleep(0.02)
        service.comments.append(said(2, "after the storm"))
        await until(w, "after the storm")
        assert service.broken == 0


async def test_what_cannot_be_watched_is_said(world: Worlds, service: Service) -> None:
    """An unknown pull request and a text that is none fail; a number means this repository."""
    script = [
        call("subscribe_pr_activity", {"pull_request": "o/r#8"}),
        call("subscribe_pr_activity", {"pull_request": "../../x"}),
        call("subscribe_pr_activity", {"pull_request": "7"}),
        say("Hm."),
    ]
    async with world(script, opens=False) as w, w.open(**prepare(w, service)) as session:
        await session.run("Watch it")
        texts = [record.request.last_text for record in w.server.records]
        assert "Not Found (HTTP 404)" in texts[1]
        assert "is no pull request" in texts[2]
        assert "o/r#7 is being watched by pr-o-r-7" in texts[3]


async def test_without_gh_it_is_not_offered(world: Worlds, tmp_path: Path) -> None:
    """Outside of a repository, or without `gh`, the coordinator has three tools."""
    async with world(opens=False) as w:
        subprocess.run(["git", "init", "-q"], cwd=w.root, check=True)
        env = {"HOME": str(w.home), "PATH": str(tmp_path / "nothing")}
        async with w.open(coordinator=True, env=env):
            assert w.started.tools == ("Agent", "SendMessage", "TaskStop")


@pytest.mark.parametrize(
    ("text", "pull"),
    [
        ("o/r#7", Pull("o", "r", 7)),
        ("https://github.com/o/r.js/pull/7", Pull("o", "r.js", 7)),
        ("https://github.com/o/r/pull/7/files#diff", Pull("o", "r", 7)),
        ("https://git.corp.example/o/r/pull/7", Pull("o", "r", 7, "git.corp.example")),
        ("o/r", None),
        ("../r#7", None),
        ("o/..#7", None),
        ("o/r#7; rm -rf", None),
        ("--hostname=x/r#7", None),
    ],
)
def test_references(text: str, pull: Pull | None) -> None:
    """Pull requests are named as people name them, and nothing else is taken for one."""
    assert read_reference(text) == pull
