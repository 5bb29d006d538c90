"""Replies that are spoilt by chance, in the three dialects, over real HTTP, in whole sessions.

The first reply of a session wants to write two files, and its stream is spoilt. Whatever the client
makes of it: it ends in bounded time, with an answer or an error of its own; what was written stands
in full in a call of the conversation; every call there has a result; and what is sent next is a
request that the server accepts.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import msgspec

from prong.agent.answer import unanswered
from prong.entry import Reply
from prong.errors import ProngError
from prong.journal.verify import verify
from prong.prompt import Prompt
from prong.testing.request import Request
from prong.testing.scene import World, world
from prong.testing.script import Step, calls, garble, say, think
from prong.testing.torture import Trial

APIS = ("anthropic", "responses", "chat")
BOUND = 60.0
"""Seconds after which a session counts as hung."""

_ARGUMENTS = [{"file_path": name, "content": f"This is all of {name}."} for name in ("a", "b")]


class _Model:
    """Spoils its first reply; whatever comes of it, the next ones are honest."""

    def __init__(self, seed: int, *, thinks: bool) -> None:
        self._seed: int | None = seed
        self._thinks = thinks

    def __call__(self, _request: Request) -> Step:
        if self._seed is None:
            return say("Done.")
        seed, self._seed = self._seed, None
        wanted = say("I write.", then=calls(*(("Write", given) for given in _ARGUMENTS)))
        return garble(seed, then=think("Two files.", then=wanted) if self._thinks else wanted)


async def _session(rng: random.Random) -> str:
    api, seed = rng.choice(APIS), rng.randrange(1 << 32)
    thinks = rng.random() < 0.3
    model = _Model(seed, thinks=thinks)
    settings = '{"retry": {"first": 0.0, "tries": 2}}'
    async with world(model, api=api, mode="acceptEdits", settings=settings) as w:
        with anyio.move_on_after(BOUND) as scope:
            try:
                await w.session.run("Write two files.")
                await w.session.run("Go on.")
            except ProngError:
                # It may be told; the session must still be good for something.
                await w.session.run("Go on.")
        if scope.cancelled_caught:
            return f"{api}, stream {seed}: the session hangs"
        wrong = _judged(w, w.parts.agent.conversation.prompt)
        refused = [r.status for r in w.server.records if r.status not in {0, 200}]
        # A signature cannot be checked here: one that was changed is refused there, as it should.
        if refused and not thinks:
            wrong = wrong or f"a request was refused: {refused}"
        return f"{api}, stream {seed}: {wrong}" if wrong else ""


def _judged(w: World, prompt: Prompt) -> str:
    replies = [entry for _, entry in prompt.entries() if isinstance(entry, Reply)]
    asked = [call.arguments for reply in replies for call in reply.calls]
    for path in w.root.rglob("*"):
        if path.is_file() and not any(_fits(path, arguments) for arguments in asked):
            return f"{path.name!r} holds {path.read_text()!r}, which no call asks for: {asked}"
    if unanswered(prompt):
        return "a call has no result"
    if not all(verify(path).sound for path in w.store.glob("projects/*/*.jsonl")):
        return "the journal is damaged"
    return ""


def _fits(path: Path, arguments: str) -> bool:
    try:
        given = msgspec.json.decode(arguments, type=_Written)
    except msgspec.MsgspecError:
        return False
    return given.content == path.read_text() and Path(given.file_path).name == path.name


class _Written(msgspec.Struct):
    file_path: str
    content: str


@contextmanager
def trials() -> Generator[Trial]:
    """Spoil one reply of a session."""

    def trial(rng: random.Random) -> str:
        return anyio.run(_session, rng)

    yield trial
