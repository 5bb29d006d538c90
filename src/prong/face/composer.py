"""Where the user types: keys become lines, each for whom its prompt named, and deeds.

There are two: `Composer` on a terminal that gives single keys, where one can type at any time, and
`LineReader` for pipes and terminals that understand nothing but text, where a line is read when one
is wanted.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from prong.entry import Image
from prong.errors import NotPossibleNow
from prong.face.draw.row import Row
from prong.face.edit.arrange import Rows, cut, lay_out
from prong.face.edit.attachment import CLIPBOARD, copied_picture, read_picture
from prong.face.edit.buffer import Buffer
from prong.face.edit.complete import Sources
from prong.face.edit.editor import Editor
from prong.face.edit.external import edit
from prong.face.edit.key import PASTE, KeyPress
from prong.face.edit.keymap import TWICE, meaning
from prong.face.edit.paste import picture_path
from prong.face.edit.recall import Recall
from prong.face.output import flat, printable
from prong.face.screen import InputLine, InputPrompt, Screen
from prong.face.terminal import Terminal
from prong.system.standard_stream import named

_SEVERAL = 4
"""Messages that are shown while they wait."""


class KeyAction(msgspec.Struct, frozen=True):
    """Something that a key asks for beyond what is typed."""

    name: str


Act: TypeAlias = InputLine | KeyAction


class Composer:
    """Reads keys, and keeps what is typed below the output."""

    def __init__(
        self, screen: Screen, terminal: Terminal, sources: Callable[[str], Awaitable[Sources]]
    ) -> None:
        """Type on a screen; `sources` says what a text can be completed with."""
        self._screen = screen
        self._terminal = terminal
        self._sources = sources
        self._prompt = InputPrompt()
        self._editor = Editor()
        self._status = ""
        self._waiting: tuple[str, ...] = ()
        self._below: tuple[Row, ...] = ()
        self._started = False
        self._escaped = 0.0
        """When Esc was last pressed."""

    @property
    def asking(self) -> InputPrompt | None:
        """The prompt of the line that is being typed."""
        return self._prompt

    def begin(self, said: tuple[str, ...], draft: Buffer) -> None:
        """Take the terminal; earlier messages can be gone back to, and a draft stands ready."""
        self._terminal.begin()
        self._editor = Editor(draft, Recall(said))

    def end(self) -> Buffer:
        """Give the terminal back: Ctrl+C is a signal again. Gives what was being typed."""
        self._terminal.restore()
        return self._editor.buffer

    def untouched(self) -> bool:
        """Whether nothing of the line has been typed yet."""
        # What was pressed before this moment belongs to the prompt that was there.
        return not self._terminal.pressed() and self._editor.is_empty

    def switch(self, prompt: InputPrompt) -> None:
        """Let the line that is being typed belong to another prompt."""
        self._prompt = prompt
        if prompt.key:
            # What was thought of as a message is no answer.
            self._editor = self._editor.hinted("")
        self.draw()

    def hint(self, text: str) -> None:
        """Show what may be said next, as long as nothing is typed."""
        if not self._prompt.key:
            self._editor = self._editor.hinted(text)
            self.draw()

    def tell(self, status: str, waiting: tuple[str, ...]) -> None:
        """Say in a row above the line what is being done, and which messages wait."""
        if (status, waiting) != (self._status, self._waiting):
            self._status, self._waiting = status, waiting
            if self._started:
                self.draw()

    def stand(self, rows: tuple[Row, ...]) -> None:
        """Keep rows of the user's own below the line."""
        if rows != self._below:
            self._below = rows
            if self._started:
                self.draw()

    def draw(self) -> None:
        """Draw the rows."""
        columns, lines = self._screen.size
        above: list[tuple[str, str]] = []
        if self._status:
            above.append((cut(printable(self._status), columns - 1), "dim"))
        waiting = self._waiting[-_SEVERAL:]
        above += [(cut(f"  waits: {flat(text)}", columns - 1), "dim") for text in waiting]
        height = max(1, min(lines - len(above) - 2, lines * 2 // 3))
        rows = lay_out(self._editor, printable(self._prompt.text), columns, height)
        shown = (*above, *rows.rows)[: max(1, lines - 1)]
        below = self._below[: max(0, lines - len(shown) - 1)]
        self._screen.show(Rows(shown, rows.row + len(above), rows.column, rows.tail, below))

    def restore(self, buffer: Buffer) -> None:
        """Put back what was sent and taken back."""
        held = replace(buffer, folded=self._editor.buffer.folded)
        self._editor = replace(self._editor, buffer=held, menu=None)
        self.draw()

    def older(self) -> None:
        """Show what was said before."""
        self._editor = self._editor.older()
        self.draw()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been typed."""
        return self._editor.is_empty

    async def acts(self) -> AsyncGenerator[Act, None]:
        """Give lines and deeds as they come, to the end of the input."""
        self._started = True
        self.draw()
        async for key in self._terminal.keys():
            act = await self._press(key)
            self.draw()
            if act is not None:
                yield act

    async def _press(self, key: KeyPress) -> Act | None:
        if key.name == PASTE and (path := picture_path(key.text)) and await self._attach(path):
            return None
        completing = meaning(key.name) == "complete"
        sources = await self._sources(self._editor.buffer.text) if completing else Sources()
        self._editor, deed = self._editor.press(key, sources)
        match deed:
            case "":
                return None
            case "send":
                return self._send()
            case "redraw":
                self._screen.clear()
            case "suspend":
                with self._screen.away():
                    self._terminal.suspend()
            case "editor":
                await self._edit()
            case "picture":
                self._take_in(await copied_picture(), CLIPBOARD)
            case "escape":
                return KeyAction("escape twice" if self._is_second() else "escape")
            case _:
                return KeyAction(deed)
        return None

    def _is_second(self) -> bool:
        """Whether Esc was pressed a moment ago too, both times with nothing typed."""
        now = anyio.current_time()
        second = self.is_empty and now - self._escaped < TWICE
        self._escaped = now if self.is_empty and not second else 0.0
        return second

    def _send(self) -> InputLine | None:
        buffer = self._editor.buffer
        if not buffer.text.strip():
            return None
        prompt = self._prompt
        self._editor = self._editor.sent("" if prompt.key else buffer.message().text)
        # The next line is a message until somebody asks something.
        self._prompt = InputPrompt()
        self._screen.hide()
        if missing := buffer.missing:
            self._screen.line(missing, style="bad")
        return InputLine(buffer.message().text, prompt.key, buffer, f"{prompt.text}")

    async def _edit(self) -> None:
        """Let the user write the message in their own editor."""
        try:
            with self.lend():
                text = await edit(self._editor.buffer.message().text, "message.md")
        except NotPossibleNow as error:
            self._screen.line(f"the message is as it was: {error}", style="bad")
        else:
            self._editor = self._editor.typed(text)

    @contextmanager
    def lend(self) -> Generator[None]:
        """Give the terminal to another program for a while."""
        with self._screen.away(), self._terminal.lend():
            yield
        self.draw()

    async def _attach(self, path: str) -> bool:
        """Attach a picture, if the path leads to one."""
        found = await anyio.to_thread.run_sync(read_picture, path)
        return self._take_in(found, path.rpartition("/")[2])

    def _take_in(self, found: Image | str, name: str) -> bool:
        """Put a picture into the line, or say why there is none; gives whether it is there."""
        if isinstance(found, str):
            if found:
                self._screen.line(found, style="bad")
            return False
        self._editor = replace(self._editor, buffer=self._editor.buffer.attach(name, found))
        return True


class LineReader:
    """Reads whole lines, one when one is wanted."""

    def __init__(self, screen: Screen) -> None:
        """Read standard input."""
        self._screen = screen
        self._prompt: InputPrompt | None = None

    @property
    def asking(self) -> InputPrompt | None:
        """The prompt of the line that is being read, if one is."""
        return self._prompt

    def untouched(self) -> bool:
        """Whether the prompt may change: never, for nobody can see what is being typed."""
        return False

    def switch(self, prompt: InputPrompt) -> None:
        """Let the line that is being read belong to another prompt."""
        self._prompt = prompt

    def tell(self, status: str, waiting: tuple[str, ...]) -> None:
        """Say nothing: a row that changes would be a new line every time."""

    def remind(self, *, asked: bool) -> None:
        """Say again what a line is wanted for, if that is far above by now; and what is `asked`."""
        prompt = self._prompt
        if prompt is None or not sys.stdout.isatty():
            return
        told = "(a question waits; Enter shows it) " if asked and not prompt.key else ""
        self._screen.ask_again(f"{told}{prompt.text}")

    @contextmanager
    def lend(self) -> Generator[None]:
        """Give the terminal to another program for a while."""
        yield

    async def read(self, prompt: InputPrompt) -> InputLine:
        """Read a line.

        Raises EOFError.
        """
        self._prompt = prompt
        self._screen.ask(prompt.text)
        try:
            # What is abandoned here waits until the process ends.
            with named("standard input"):
                text = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        finally:
            now, self._prompt = self._prompt, None
            self._screen.entered()
        if not text:
            raise EOFError
        return InputLine(text.rstrip("\r\n"), now.key)


Input: TypeAlias = Composer | LineReader
