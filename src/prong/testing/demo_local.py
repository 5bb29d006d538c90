"""A session on the embedded model, with forks that share what is computed.

`python -m prong.testing.demo_local`. Needs no key and no network. Which tools are called is a plan
of ours, and so are the labels of the reports and the first word of each sentence, held to by a
grammar: a model of 135 million parameters cannot decide that. How the sentences go on, every count
and every second is the engine's.
"""

from __future__ import annotations

import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import anyio

from prong.entry import plain
from prong.errors import ProngError
from prong.event import (
    Envelope,
    Event,
    Progressed,
    ReplyFinished,
    TaskFinished,
    TaskStarted,
    ToolStarted,
)
from prong.prompt import Prompt
from prong.provider.local import Forced, Framed, Local
from prong.session import Options, Session, open_session
from prong.team.child import Child
from prong.testing.sample import FILES
from prong.wire import Ended, Tail

WIDTH = 80
QUESTION = "Read this project, then let four forks describe one part of it each."
PARTS = {
    "price": "till/price.py",
    "parse": "till/parse.py",
    "bill": "till/bill.py",
    "tests": "tests/test_price.py",
}
"""What each fork looks into, by its name."""
_READ_FIRST = ("README.md", "till/price.py", "till/parse.py", "till/bill.py")
_SENTENCE = 140
_TOOLS = ("Read", "Agent")


class Plan:
    """Decides which tools are called; the words are the model's."""

    def __call__(self, prompt: Prompt) -> Sequence[Forced] | Framed | None:
        """Say what the next reply of a prompt must be."""
        kinds = [node.kind for node in prompt.nodes()]
        if "directive" in kinds:
            at = kinds.index("directive")
            return self._fork(prompt, at, kinds[at:].count("reply"))
        return self._parent(kinds.count("reply"))

    def _parent(self, replies: int) -> Sequence[Forced] | Framed:
        if replies == 0:
            return [_read(path) for path in _READ_FIRST]
        if replies == 1:
            return [
                Forced(
                    "Agent",
                    {
                        "description": f"Describe {name}",
                        "prompt": f"Say what {path} is for.",
                        "name": name,
                    },
                )
                for name, path in PARTS.items()
            ]
        if replies == 2:
            return Framed(("Four forks are at work.",))
        return Framed(("The project", _SENTENCE))

    def _fork(self, prompt: Prompt, at: int, replies: int) -> Sequence[Forced] | Framed:
        node = prompt.nodes()[at]
        entry = prompt.head.dialect.read(node.role, node.data)
        said = plain(getattr(entry, "parts", ())).rpartition("Directive:")[2]
        path = next(path for path in PARTS.values() if path in said)
        if replies == 0:
            return [_read(path)]
        return Framed(
            (
                f"Result: The file {path} contains functions that",
                _SENTENCE,
                f"\nScope: {path}\nKey files: {path}\nFiles changed: none\nIssues: none",
            )
        )


def _read(path: str) -> Forced:
    return Forced("Read", {"file_path": path})


class _Story:
    """Tells what happens as lines, and keeps the tree of agents as it stands."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._doing: dict[str, str] = {}
        self._told = 0

    def tell(self, envelope: Envelope) -> None:
        agent, event = envelope.agent.rpartition("/")[2], envelope.event
        if (said := _said(event)) is None:
            return
        if self._doing.get(agent) != said:
            self._doing[agent] = said
            _print(f"{time.monotonic() - self._start:6.1f} s  {agent:<6} {said}")

    def tree(self) -> None:
        _print("          - - the tree now - -")
        for agent, doing in self._doing.items():
            branch = "" if agent == "main" else "+- "
            _print(f"          {branch}{agent:<{9 - len(branch)}} {doing}")


def _said(event: Event) -> str | None:
    """Say an event in a line; None for those that would only be noise here."""
    match event:
        case Progressed(what="prompt", done=done, total=total):
            return f"reads the prompt: {done:,} of {total:,} tokens"
        case Progressed(done=done) if done in {0, 100}:
            return "loads the model"
        case ToolStarted(title=title):
            return title
        case TaskStarted(title=title):
            return f"fork started: {title}"
        case TaskFinished(status=status):
            return status
        case ReplyFinished(text=text, usage=usage):
            counted = f"[{usage.read:,} reused, {usage.uncached:,} computed]"
            return f'{counted} "{text.partition("Result: ")[2] or text}"' if text else counted
        case _:
            return None


def _print(line: str = "") -> None:
    shown = " ".join(line.split("\n"))
    shown = shown if len(shown) <= WIDTH else shown[: WIDTH - 1] + "…"
    sys.stdout.write(shown + "\n")
    sys.stdout.flush()


def _wrap(text: str, indent: str = "") -> None:
    for line in textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent):
        _print(line)


def _title(text: str) -> None:
    _print()
    _print(f"== {text}")


async def _watch(session: Session, story: _Story) -> None:
    """Tell events as they come; draw the tree when all forks have begun, and at each end."""
    running: set[str] = set()
    async for envelope in session.events():
        story.tell(envelope)
        match envelope.event:
            case TaskStarted(task_id=task_id):
                running.add(task_id)
                if len(running) == len(PARTS):
                    story.tree()
            case TaskFinished():
                story.tree()
            case _:
                pass


def _reports(session: Session) -> None:
    for child in session.supervisor.children:
        _print(f"{child.spec.task_id}: {child.report.scope}")
        _wrap(child.report.result, "    ")


def _receipts(session: Session) -> bool:
    """Show what each fork reused; gives whether it was nearly everything."""
    well = True
    _print(f"{'fork':<8}{'prompt':>8}{'reused':>8}{'computed':>10}{'first token':>13}")
    for child in session.supervisor.children:
        first = child.rows[0]
        usage = first.usage
        _print(
            f"{child.spec.task_id:<8}{usage.input:>8,}{usage.read:>8,}{usage.uncached:>10,}"
            f"{first.first_event:>11.1f} s"
        )
        well = well and usage.read > 0.7 * usage.input and not child.miss
    return well


def _first_prompt(child: Child) -> Prompt:
    """Give the prompt of a child's first request."""
    prompt = child.agent.prompt
    node = prompt.tip
    while node is not None and node.kind != "directive":
        node = node.parent
    return Prompt(prompt.head, node)


async def _alone(provider: Local, prompts: Sequence[Prompt]) -> float:
    """Send prompts at once; gives the seconds until all of them are answered."""

    async def ask(prompt: Prompt) -> None:
        async with aclosing(provider.stream(prompt, (), Tail())) as events:
            async for event in events:
                if isinstance(event, Ended):
                    return

    start = time.monotonic()
    async with anyio.create_task_group() as group:
        for prompt in prompts:
            group.start_soon(ask, prompt)
    return time.monotonic() - start


async def _compare(session: Session, provider: Local, plan: Plan) -> bool:
    """Run the forks' first requests again without sharing; gives whether that took longer."""
    children = session.supervisor.children
    shared = max(child.rows[0].latency for child in children)
    cells = (await provider.figures())["cells"]
    bare = Local(provider.engine, "local", plan=plan, share=False)
    alone = await _alone(bare, [_first_prompt(child) for child in children])
    figures = await provider.figures()
    size = int(provider.facts["cell_bytes"])
    apart = sum(child.rows[0].usage.input for child in children)
    _print(f"first requests of all four forks, shared:      {shared:6.1f} s")
    _print(f"the same four requests, nothing shared:        {alone:6.1f} s")
    _print(f"that is {alone / shared:.1f} times as long, measured a moment ago on this machine")
    _print(f"cache held by the parent and its four forks:   {cells * size / 1e6:6.1f} MB")
    _print(f"the forks' prompts held four times over:       {apart * size / 1e6:6.1f} MB")
    _print(f"the engine's whole process:                    {figures['resident'] / 1e6:6.1f} MB")
    return alone > shared


async def _play(root: Path, files: Mapping[str, str]) -> bool:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    plan = Plan()
    options = Options(
        model="local",
        cwd=str(root),
        store=str(root / ".store"),
        env={**os.environ, "HOME": str(root)},
        bare=True,
        tools=_TOOLS,
        allow=("Read",),
        system="You help with a small Python project. Be brief.",
    )
    async with open_session(options) as session:
        provider = session.agent.provider
        assert isinstance(provider, Local)
        session.agent.provider = planned = Local(provider.engine, "local", plan=plan)
        _title("The parent reads the project and forks; the forks work at the same time")
        _print(f"> {QUESTION}")
        async with anyio.create_task_group() as group:
            group.start_soon(_watch, session, _Story())
            await session.run(QUESTION)
            group.cancel_scope.cancel()
        _title("What the forks reported (the words are the model's, for what they are worth)")
        _reports(session)
        _title("Their first requests, by the engine's own count of tokens")
        well = _receipts(session)
        _title("With sharing and without")
        quicker = await _compare(session, planned, plan)
        return well and quicker and len(session.supervisor.children) == len(PARTS)


def main(files: Mapping[str, str] = FILES) -> int:
    """Play the demo; gives the exit code, which is 0 only if every claim came true."""
    _wrap(
        "Prong on a real model, with no key and no network: SmolLM2, 135 million parameters, in a "
        "process of its own on this machine. It is far too small to code, so which tools are "
        "called, the labels of the reports and the first word of each sentence are a plan of ours. "
        "What is real: how the sentences go on, every token count, every second, and the sharing "
        "of the model's cache between forks."
    )
    try:
        with tempfile.TemporaryDirectory(prefix="prong-demo-") as folder:
            well = anyio.run(_play, Path(folder).resolve(), files)
    except ProngError as error:
        _print(f"prong: {error}")
        return 2
    _print()
    _print("everything came out as claimed" if well else "something did not come out as it should")
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
