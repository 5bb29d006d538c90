"""Bash: one command line at a time, in the folder where the last one ended.

The command stands behind an EXIT trap that tells the shell's last folder and its unfinished jobs
by a pipe of its own. A trap disturbs neither exit codes nor here-documents, runs after `exit`, and
is reset in subshells and jobs; a command that replaces it or `exec`s away merely leaves the folder
as it was.

A foreground call leaves nothing behind: when its shell has ended, or time is up, or the turn was
interrupted, or it prints without end, the whole process group is killed. Only if the user gives up
the wait for it the same process goes on, as a task like those that began in the background.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from typing import Annotated

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Meta

from prong.entry import CallId
from prong.event import Warned
from prong.host import Process
from prong.host.sandbox import NONE, Profile
from prong.ids import TaskId
from prong.system.path_form import from_shell
from prong.text import load_text, without
from prong.tools.access import Access, Running
from prong.tools.collector import Cleaner, Collector
from prong.tools.foreground import ForegroundWait
from prong.tools.gitenv import guard_git
from prong.tools.refusal import KernelRefusal, find_refusal, for_model, for_user
from prong.tools.tool import (
    CallOutcome,
    CommandSoFar,
    Context,
    Failed,
    SideEffect,
    TaskHandle,
    done,
)

PART = 20_000
"""Characters kept of each end of the output."""

FLOOD = 32 * 1024 * 1024
"""Bytes of output after which a foreground command is stopped."""

LIVE = 2_000
"""Characters of one live event at most; faces show the end of what is new."""

TICK = 0.1
GRACE = 0.5

_QUIET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
"""Nobody sits at the terminal, so nothing should wait for a key."""

_BACKGROUND_HINT = " Use run_in_background to keep something running."


class BashArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Bash is called with."""

    command: Annotated[str, Meta(min_length=1)]
    description: Annotated[str, Meta(description="What it does, in 5 to 10 words")] = ""
    timeout: Annotated[
        int, Meta(ge=1, le=600_000, description="Milliseconds; then it is stopped")
    ] = 120_000
    run_in_background: bool = False


class WaitedArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What Bash is called with where every command is waited for."""

    command: Annotated[str, Meta(min_length=1)]
    description: Annotated[str, Meta(description="What it does, in 5 to 10 words")] = ""
    timeout: Annotated[
        int, Meta(ge=1, le=600_000, description="Milliseconds; then it is stopped")
    ] = 120_000

    @property
    def run_in_background(self) -> bool:
        """Never."""
        return False


AnyBashArguments = BashArguments | WaitedArguments


class Bash:
    """Runs command lines."""

    name = "Bash"
    effect: SideEffect = "writes"
    budget = 2 * PART + 5_000

    def __init__(self, *, background: bool = True) -> None:
        """Say whether commands may run in the background: the schema depends on it."""
        text = load_text("tool/Bash")
        self._hint = _BACKGROUND_HINT if background else ""
        self.arguments: type[msgspec.Struct] = BashArguments if background else WaitedArguments
        self.description = text if background else without(text, "run_in_background")

    def title(self, args: AnyBashArguments) -> str:
        """Show the command itself: people should see what runs, not what the model calls it."""
        line = " ".join(args.command.split())
        return line if len(line) <= 120 else f"{line[:119]}…"

    def access(self, args: AnyBashArguments, context: Context) -> Sequence[Access]:
        """Name the command and the folder it starts in."""
        return (Running(args.command, context.cwd or context.host.root),)

    async def run(self, call_id: CallId, args: AnyBashArguments, context: Context) -> CallOutcome:
        """Run the command as freely as the user would."""
        return await self.run_in(call_id, args, context, NONE)

    async def run_in(
        self, call_id: CallId, args: AnyBashArguments, context: Context, profile: Profile
    ) -> CallOutcome:
        """Run the command to its end, or hand it to the task board."""
        if why := _unusable(args.command):
            return Failed(why)
        cwd, note = await _folder(context)
        if args.run_in_background:
            return await self._start_task(args, context, cwd, note, profile)
        try:
            process = await context.host.start(
                args.command,
                cwd=cwd,
                env=_surroundings(context),
                profile=profile,
                at_exit="builtin jobs -rp; builtin pwd -P",
            )
        except OSError as error:
            return Failed(f"The command could not be started: {error}")
        run = _Run(call_id, process, context)
        try:
            handle = await run.follow(args.timeout / 1000, self._task_title(args))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await process.kill()
            run.output.close()
            process.leave()
            raise
        run.output.close()
        if handle is not None:
            return run.handed_on(handle, note)
        left, folder = whereabouts(process.exit_output())
        undone = process.leave()
        moved = _moved(folder, context, cwd)
        notes = [note, *moved, *run.notes(args.timeout, left=left, hint=self._hint)]
        for text in undone:
            context.emit(Warned(text=text))
        notes += [f"[{text}.]" for text in undone]
        return run.outcome([n for n in notes if n], profile, cwd)

    def _task_title(self, args: AnyBashArguments) -> str:
        return args.description.strip() or self.title(args)

    async def _start_task(
        self, args: AnyBashArguments, context: Context, cwd: str, note: str, profile: Profile
    ) -> CallOutcome:
        try:
            # The trap makes the task last as long as its shell's jobs: `server &` is meant to.
            process = await context.host.start(
                f"trap 'builtin wait' EXIT; {args.command}",
                cwd=cwd,
                env=_surroundings(context),
                profile=profile,
            )
        except OSError as error:
            return Failed(f"The command could not be started: {error}")
        try:
            handle = await context.tasks.adopt(process, title=self._task_title(args))
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await process.kill()
            process.leave()
            if isinstance(error, OSError):
                return Failed(f"The output file could not be made: {error}")
            raise
        said = (
            f"Running in the background as {handle.task_id}; you will be notified when it ends. "
            # No tool is named here: an agent of a type has none to look after tasks with.
            f"Its output goes to {handle.output_file} as it comes."
        )
        return done(f"{said}\n{note}" if note else said)


def whereabouts(told: str) -> tuple[bool, str]:
    """Say whether a shell left jobs, and the folder it ended in; empty if it is not known."""
    # Job ids are digits and a folder begins with a slash; it may hold newlines itself.
    slash = told.find("/")
    if slash < 0:
        return False, ""
    return slash > 0, from_shell(told[slash:].removesuffix("\n"))


class _Run:
    """One foreground command and what is known of it so far."""

    def __init__(self, call_id: CallId, process: Process, context: Context) -> None:
        self._call_id = call_id
        self._process = process
        self._context = context
        self._fresh = ""
        self._cleaner = Cleaner()
        self._drained = anyio.Event()
        self._code: int | None = None
        self._began = anyio.current_time()
        self._held_open = False
        self._ticks = False
        self._flooded = False
        self.output = Collector(
            head=PART, tail=PART, storage=context.host.storage, name="output/bash-"
        )

    async def follow(self, seconds: float, title: str) -> TaskHandle | None:
        """Read until the command has ended or time is up, then end what is left of it.

        If the wait is given up, nothing is ended: gives the task as which it goes on.
        """
        handle = None
        try:
            while handle is None and (given_up := await self._attend(self._began + seconds)):
                handle = await self._hand_on(given_up, title)
        except BaseException:
            await self._catch_up()
            raise
        finally:
            # Also of a command that was interrupted: people see what it had come to.
            if handle is None:
                self._take(self._cleaner.finish())
            self._show()
        return handle

    async def _attend(self, deadline: float) -> TaskId:
        """Read until it has ended or time is up; gives as what it goes on if the user wishes."""
        wait = ForegroundWait(self._call_id, command=True)
        with wait.scope:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read)
                with anyio.CancelScope(deadline=deadline):
                    with self._context.tasks.waiting(wait):
                        self._code = await self._wait(group)
                    # What the shell left running may hold the pipe open for ever.
                    self._held_open = not await self._wait_drained()
                await self._process.kill()
                if not await self._wait_drained() or self._ticks:
                    group.cancel_scope.cancel()
        return wait.task_id

    async def _hand_on(self, task_id: TaskId, title: str) -> TaskHandle | None:
        """Let the command go on as a task; None if that cannot be, so that it is waited for."""
        with anyio.CancelScope(shield=True):
            so_far = CommandSoFar(
                task_id=task_id,
                began=self._began,
                text=await self._lines(),
                whole=not self.output.dropped,
                cleaner=self._cleaner,
            )
            try:
                return await self._context.tasks.adopt(self._process, title=title, so_far=so_far)
            except OSError as error:
                told = f"the command cannot go on in the background, so it is waited for: {error}"
                self._context.emit(Warned(text=told))
                return None

    async def _lines(self) -> str:
        """Give everything that was printed, as far as it is still there."""
        self.output.close()
        if self.output.path:
            with contextlib.suppress(OSError):
                return (await self._context.host.read(self.output.path)).decode()
        return self.output.text()

    def handed_on(self, handle: TaskHandle, note: str) -> CallOutcome:
        """Make the result of a call whose command goes on."""
        said = (
            f"Goes on in the background as {handle.task_id} (the user wished it); nothing was "
            "restarted, and it has no time limit any more. You will be notified when it ends. All "
            f"of its output, also what it prints from now on, goes to {handle.output_file}."
        )
        printed = (self.output.text() + self._cleaner.held).rstrip("\n") or "(no output)"
        return done("\n".join([*([note] if note else []), said, "Printed so far:", printed]))

    def notes(self, timeout: int, *, left: bool, hint: str) -> list[str]:
        """Say what the model should know beside the output; `left`, whether jobs were."""
        notes: list[str] = []
        if self._code is None:
            notes.append(
                f"Stopped after {timeout / 1000:g} s, the time limit. Set a longer timeout (up to "
                "600000 ms), or use run_in_background for what takes long or never ends."
            )
        elif self._flooded:
            notes.append(
                f"Stopped because it printed more than {FLOOD // 1024**2} MB. Send the output to a "
                "file, or filter it."
            )
        elif left or self._held_open:
            notes.append(f"The processes that the command left running were stopped.{hint}")
        return notes

    def outcome(self, notes: list[str], profile: Profile, cwd: str) -> CallOutcome:
        """Make the result of the call."""
        text = self.output.text().rstrip("\n")
        refusal = find_refusal(profile, text, cwd) if self._code else KernelRefusal()
        said = [for_model(profile, refusal)] if refusal.some else []
        body = "\n".join([*([text] if text else []), *notes, *said])
        if self._code is None or self._flooded:
            return Failed(body)
        if self._code:
            held = for_user(profile, refusal) if refusal.some and not refusal.guess else ""
            return Failed(f"{_ending(self._code)}\n{body}" if body else _ending(self._code), held)
        return done(body or "(no output)")

    async def _read(self) -> None:
        size = 0
        with contextlib.suppress(OSError):
            async for data in self._process.output():
                size += len(data)
                if size <= FLOOD:
                    self._take(self._cleaner.feed(data))
                elif not self._flooded:
                    self._flooded = True
                    await self._process.kill()
        self._drained.set()

    async def _catch_up(self) -> None:
        """Take what is printed already: an interrupt may be heard before somebody has read it."""
        if self._flooded or self._drained.is_set():
            return
        with anyio.CancelScope(shield=True) as scope, contextlib.suppress(OSError):
            # So that nothing more is waited for.
            scope.cancel()
            async for data in self._process.output():
                self._take(self._cleaner.feed(data))

    async def _wait_drained(self) -> bool:
        """Wait a moment until all that was printed is read; most often it is already."""
        if not self._drained.is_set():
            with anyio.move_on_after(GRACE):
                await self._drained.wait()
        return self._drained.is_set()

    async def _wait(self, group: TaskGroup) -> int:
        """Wait for the end; whoever takes longer than a moment is shown while it goes on."""
        with anyio.move_on_after(TICK):
            return await self._process.wait()
        self._ticks = True
        group.start_soon(self._tick)
        return await self._process.wait()

    async def _tick(self) -> None:
        while True:
            self._show()
            await anyio.sleep(TICK)

    def _take(self, text: str) -> None:
        if text:
            self.output.add(text)
            self._fresh = (self._fresh + text)[-LIVE - 1 :]

    def _show(self) -> None:
        text, self._fresh = self._fresh, ""
        if text:
            cut = f"…{text[-LIVE:]}" if len(text) > LIVE else text
            self._context.show(self._call_id, cut)


def _surroundings(context: Context) -> dict[str, str]:
    env = {**_QUIET, **context.env}
    return {**env, **guard_git(env, context.host.environment)}


def _ending(code: int) -> str:
    if code >= 0:
        return f"Exit code {code}"
    with contextlib.suppress(ValueError):
        return f"Ended by signal {signal.Signals(-code).name}"
    return f"Ended by signal {-code}"


def _unusable(command: str) -> str:
    if "\0" in command:
        return "The command holds a NUL character, which no command line can."
    try:
        command.encode()
    except UnicodeEncodeError:
        return "The command is not valid Unicode text."
    return "" if command.strip() else "The command is empty."


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


async def _folder(context: Context) -> tuple[str, str]:
    """Find where to start; the last folder may be gone by now."""
    root = context.host.root
    cwd = context.cwd or root
    with contextlib.suppress(OSError):
        found = await context.host.stat(cwd)
        if found is not None and found.kind == "folder":
            return cwd, ""
    context.enter(root)
    return root, f"{cwd} is gone, so the command was run in {root}."


def _moved(folder: str, context: Context, started: str) -> list[str]:
    """Follow `cd`, but only inside the root."""
    root = context.host.root
    if not folder or folder == started:
        return []
    # A host that takes a folder to mean another would start there, and not where the paths of the
    # next command were looked at.
    if context.host.resolve(folder) == folder and _inside(folder, root):
        context.enter(folder)
        return []
    context.enter(root)
    return [f"The shell ended in {folder}, outside the project; the next one starts in {root}."]
