"""Watches pull requests through the user's own `gh`: each event becomes one notice, once.

An event has a key that never changes. Its notice is put into the outbox under that key, which takes
each only once, and only then is the key noted in the journal: whenever the process dies, nothing is
lost and nothing is told twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import anyio
import msgspec

from prong.event import Event, Warned
from prong.foreign_number import whole_number
from prong.host import Host
from prong.ids import AgentPath, TaskId
from prong.journal.note import PullsSeen
from prong.journal.recorder import Recorder
from prong.team.log import Log
from prong.team.outbox import Expected
from prong.team.task import TaskBoard, TaskNames
from prong.team.work import Ending
from prong.tools.tool import CallOutcome, Failed, done

SECONDS = 30.0
"""How long to wait after something has happened, before looking again."""

_SLOWER, _SLOWEST, _TRIES = 1.5, 10.0, 3
_WAIT = 60.0
_REFERENCE = (
    r"(?:(?:https?://)?(?P<host>[\w.-]+\.[\w-]+(?::\d+)?)/)?"
    r"(?P<owner>\w[\w.-]*)/(?P<repo>\w[\w.-]*?)(?:/pull/|#)(?P<number>\d{1,15})(?:[/?#].*)?"
)


class Pull(msgspec.Struct, frozen=True):
    """Which pull request."""

    owner: str
    repo: str
    number: int
    host: str = ""

    @property
    def name(self) -> str:
        """The pull request for people."""
        return f"{self.owner}/{self.repo}#{self.number}"

    @property
    def task_id(self) -> TaskId:
        """The task that watches it."""
        return TaskId(f"pr-{self.owner}-{self.repo}-{self.number}")


class Happening(msgspec.Struct, frozen=True):
    """One event of a pull request."""

    key: str
    summary: str
    text: str = ""


class PullError(Exception):
    """`gh` could not say; the text is its own."""


def read_reference(text: str) -> Pull | None:
    """Read `owner/repo#12` or an address; None if it is neither."""
    found = re.fullmatch(_REFERENCE, text.strip())
    if found is None:
        return None
    host = found["host"] or ""
    return Pull(
        found["owner"], found["repo"], int(found["number"]), "" if host == "github.com" else host
    )


class Pulls(msgspec.Struct, kw_only=True):
    """All pull requests that a session watches."""

    host: Host
    board: TaskBoard
    agent: AgentPath
    recorder: Recorder
    emit: Callable[[Event], None]
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    seconds: float = SECONDS
    seen: dict[str, list[str]] = msgspec.field(default_factory=dict[str, list[str]])
    """Keys of what was told or was there before, by pull request."""

    async def subscribe(self, pull_request: str) -> CallOutcome:
        """Watch a pull request from now on."""
        try:
            pull = await self._find(pull_request)
            if pull is None:
                return Failed(f"{pull_request!r} is no pull request; write owner/repo#12")
            if self.board.runs(pull.task_id):
                return done(f"{pull.name} is being watched already, by {pull.task_id}.")
            before = await self._look(pull)
        except (PullError, OSError) as error:
            return Failed(f"the pull request cannot be read: {error}")
        self.seen[pull.name] = [one.key for one in before]
        self._store()
        self._start(pull)
        return done(
            f"{pull.name} is being watched by {pull.task_id}; {len(before)} events that are there "
            f"already are not reported."
        )

    def restore(self, seen: Mapping[str, list[str]]) -> None:
        """Go on watching what a stored session watched."""
        for name, keys in seen.items():
            if (pull := read_reference(name)) is not None:
                self.seen[pull.name] = list(keys)
                self._start(pull)

    def _start(self, pull: Pull) -> None:
        watch = _Watch(self, pull)
        self.board.start(
            watch,
            title=f"watch {pull.name}",
            names=TaskNames(pull.task_id),
            agent=self.agent,
            emit=self.emit,
            notify=False,
        )

    def _store(self) -> None:
        self.recorder.note(self.agent, PullsSeen(self.seen))

    def forget(self, pull: Pull) -> None:
        """Watch a pull request no longer."""
        if self.seen.pop(pull.name, None) is not None:
            self._store()

    async def news(self, pull: Pull) -> tuple[int, bool]:
        """Tell what is new; gives how much that was, and whether the pull request is over."""
        found = await self._look(pull)
        seen = self.seen.setdefault(pull.name, [])
        fresh = [one for one in found if one.key not in seen]
        for one in fresh:
            ending = Ending(
                status="completed", summary=f"{pull.name}: {one.summary}", result=one.text
            )
            news = Expected(f"{pull.task_id}#{one.key}", self.agent, pull.task_id, "")
            self.board.delivery.send(news, ending)
            seen.append(one.key)
        if fresh:
            self._store()
        return len(fresh), any(one.key.startswith("state-") for one in found)

    async def _find(self, text: str) -> Pull | None:
        number = whole_number(text.strip().removeprefix("#"))
        if number is None:
            return read_reference(text)
        # `gh` itself fills in which repository this is.
        found = await self._api(f"repos/{{owner}}/{{repo}}/pulls/{number}", "")
        address = found[0].get("html_url", "") if found else ""
        return read_reference(str(address))

    async def _look(self, pull: Pull) -> list[Happening]:
        """Ask for everything that can be told of a pull request."""
        base = f"repos/{pull.owner}/{pull.repo}"
        one = f"{base}/pulls/{pull.number}"
        about = (await self._api(one, pull.host))[0]
        comments = await self._api(f"{base}/issues/{pull.number}/comments?per_page=100", pull.host)
        reviews = await self._api(f"{one}/reviews?per_page=100", pull.host)
        remarks = await self._api(f"{one}/comments?per_page=100", pull.host)
        sha = str(about.get("head", {}).get("sha", ""))
        checks: list[Any] = []
        if sha:
            pages = await self._api(f"{base}/commits/{sha}/check-runs?per_page=100", pull.host)
            checks = [run for page in pages for run in page.get("check_runs", [])]
        return [
            *map(_comment, comments),
            *(_review(review) for review in reviews if review.get("state") != "PENDING"),
            *map(_remark, remarks),
            *(_check(run) for run in checks if run.get("status") == "completed"),
            *_state(about),
        ]

    async def _api(self, path: str, hostname: str) -> list[dict[str, Any]]:
        """Ask `gh`; gives the objects of all pages."""
        where = ["--hostname", hostname] if hostname else []
        ended = await self.host.run(
            ["gh", "api", "--paginate", *where, path], env=self.env, seconds=_WAIT
        )
        if ended.code != 0 or ended.timed_out:
            said = (ended.errors or ended.output).decode(errors="replace").strip()
            raise PullError(said[:500] or f"gh ended with {ended.code}")
        try:
            return list(_objects(ended.output.decode(errors="replace")))
        except ValueError as error:
            raise PullError(f"gh gave no JSON ({error})") from error


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Read pages one after the other: `gh` prints each as a text of its own."""
    import json  # the one decoder that says where a text ends

    decoder, at = json.JSONDecoder(), 0
    while (at := _start_of(text, at)) < len(text):
        page, at = decoder.raw_decode(text, at)
        for item in cast("list[Any]", page) if isinstance(page, list) else [page]:
            if isinstance(item, dict):
                yield cast("dict[str, Any]", item)


def _start_of(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _author(item: Mapping[str, Any]) -> str:
    user: dict[str, Any] = item.get("user") or {}
    return str(user.get("login", "somebody"))


def _comment(item: Mapping[str, Any]) -> Happening:
    said = str(item.get("body") or "")
    return Happening(f"comment-{item.get('id')}", f"comment by {_author(item)}", said)


def _review(item: Mapping[str, Any]) -> Happening:
    state = str(item.get("state", "")).lower().replace("_", " ")
    said = str(item.get("body") or "")
    return Happening(f"review-{item.get('id')}", f"review by {_author(item)}: {state}", said)


def _remark(item: Mapping[str, Any]) -> Happening:
    line = item.get("line") or item.get("original_line") or ""
    place = f"{item.get('path', '')}:{line}".rstrip(":")
    said = str(item.get("body") or "")
    return Happening(f"remark-{item.get('id')}", f"remark by {_author(item)} on {place}", said)


def _check(item: Mapping[str, Any]) -> Happening:
    ended = str(item.get("conclusion") or "completed")
    output: dict[str, Any] = item.get("output") or {}
    said = "\n".join(str(output.get(part) or "") for part in ("title", "summary")).strip()
    key = f"check-{item.get('id')}-{ended}"
    return Happening(key, f"check {item.get('name', '')!s}: {ended}", said)


def _state(item: Mapping[str, Any]) -> Iterator[Happening]:
    if item.get("state") == "closed":
        how = "merged" if item.get("merged") else "closed"
        yield Happening(f"state-{how}", f"it was {how}")


class _Watch(msgspec.Struct):
    """One pull request as a task that nobody waits for."""

    pulls: Pulls
    pull: Pull
    kind: str = "subscription"
    endless: bool = True

    async def run(self, log: Log) -> Ending:
        """Look again and again, less often the longer nothing happens."""
        wait, failures = self.pulls.seconds, 0
        while True:
            await anyio.sleep(wait)
            try:
                fresh, over = await self.pulls.news(self.pull)
            except (PullError, OSError) as error:
                failures += 1
                log.take(f"{error}\n".encode())
                if failures == _TRIES:
                    said = f"{self.pull.name} could not be read {failures} times: {error}"
                    self.pulls.emit(Warned(text=f"{said}; it is tried on"))
                wait = min(wait * 2, self.pulls.seconds * _SLOWEST * 2)
                continue
            failures = 0
            wait = (
                self.pulls.seconds if fresh else min(wait * _SLOWER, self.pulls.seconds * _SLOWEST)
            )
            log.take(f"{fresh} new\n".encode())
            if over:
                self.pulls.forget(self.pull)
                return Ending(status="completed", summary=f"{self.pull.name} is over")

    async def release(self) -> None:
        """Hold nothing."""

    def crashed(self, error: Exception) -> Ending:
        """Say that it failed."""
        return Ending(status="failed", summary=f"watching {self.pull.name} failed: {error!r}")

    def cut_short(self, *, stopped: bool, log: Log) -> Ending:
        """Forget it if somebody stopped it; one that ends with the session goes on with it."""
        del log
        if stopped and not self.pulls.board.closing:
            self.pulls.forget(self.pull)
        return Ending(status="killed", summary=f"{self.pull.name} is watched no longer")
