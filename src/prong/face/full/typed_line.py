"""The line of the full screen: what is being typed in it, and for whom.

It alone changes its editor. Whoever has the screen hands keys in, and does what is left to do.
"""

from __future__ import annotations

import anyio.to_thread
import msgspec
from msgspec.structs import replace

from prong.command import Say
from prong.entry import Image
from prong.face.edit.attachment import CLIPBOARD, copied_picture, read_picture
from prong.face.edit.complete import Sources
from prong.face.edit.editor import Editor
from prong.face.edit.key import KeyPress
from prong.face.edit.keymap import meaning
from prong.face.full.asking import Wording
from prong.face.status import find_sources
from prong.session import Session


class Addressee(msgspec.Struct, frozen=True):
    """For whom the line is."""

    prompt: str = "> "
    agent: str = ""
    """The child that a message goes to; empty for the main agent."""
    answers: Wording | None = None


MAIN_AGENT = Addressee()
"""For whom it is unless something else was said."""
_TO_MAIN = Addressee("to main> ")
"""Likewise, and somebody has said that a message comes."""


class TypedLine:
    """What is being typed, and for whom."""

    def __init__(self, session: Session, editor: Editor) -> None:
        """Type in an editor, for the main agent of a session."""
        self._session = session
        self.editor = editor
        self.target = MAIN_AGENT

    @property
    def can_wait(self) -> bool:
        """Whether nothing is being typed, so that keys may be for something else."""
        return self.editor.is_empty and self.editor.menu is None

    @property
    def is_free(self) -> bool:
        """Whether nothing was begun here, so that a key may answer a question."""
        return self.editor.is_empty and self.target == MAIN_AGENT

    @property
    def way_out(self) -> str:
        """How to be done with what was begun before a question; empty if it is the answer."""
        if self.is_free or self.target.answers is not None:
            return ""
        return "leave it with Esc" if self.editor.is_empty else "clear it with Ctrl+C"

    async def press(self, key: KeyPress) -> str:
        """Take a key in; gives what is left to do, empty if nothing."""
        sources = Sources()
        if meaning(key.name) == "complete":
            text = self.editor.buffer.text
            sources = await find_sources(self._session.view(), self._session.records, text)
        self.editor, deed = self.editor.press(key, sources)
        return deed

    def address(self, target: Addressee) -> None:
        """Type for somebody else from now on; what was thought of for one is not for another."""
        self.target, self.editor = target, self.editor.hinted("")

    def write_to(self, task_id: str) -> None:
        """Begin a message to a child, or with no name to the main agent."""
        self.address(Addressee(f"to {task_id}> ", task_id) if task_id else _TO_MAIN)

    def let_go(self) -> bool:
        """Type for the main agent again; says whether it was for somebody else."""
        changed, self.target = self.target != MAIN_AGENT, MAIN_AGENT
        return changed

    def word(self, answer: Wording) -> None:
        """Type the words of an answer, of which some may be there."""
        self.address(Addressee(answer.prompt, answers=answer))
        self.retype(answer.text)

    def retype(self, text: str) -> None:
        """Put a text in the place of what was typed."""
        self.editor = self.editor.typed(text)

    def recall(self) -> None:
        """Show what was said before."""
        self.editor = self.editor.older()

    def suggest(self, text: str) -> bool:
        """Show what may be said next, as long as nothing is typed; says whether that is for now."""
        if self.target != MAIN_AGENT:
            return False
        self.editor = self.editor.hinted(text)
        return True

    def take(self) -> tuple[Say, Addressee] | None:
        """Take what was typed out of the line, and for whom it is; None if there is nothing.

        Answers are not remembered as something that was said.
        """
        message, target = self.editor.buffer.message(), self.target
        if not message.text.strip() and (target.answers is None or not target.answers.refuses):
            return None
        self.target = MAIN_AGENT
        self.editor = self.editor.sent("" if target.answers is not None else message.text)
        return message, target

    async def attach(self, path: str) -> str | None:
        """Put a picture into the line; gives why not, None if it is there now."""
        found = await anyio.to_thread.run_sync(read_picture, path)
        return self._take_in(found, path.rpartition("/")[2])

    async def attach_copied(self) -> str | None:
        """Put the picture in the clipboard into the line; gives why not, None if it is there."""
        return self._take_in(await copied_picture(), CLIPBOARD)

    def _take_in(self, found: Image | str, name: str) -> str | None:
        if not isinstance(found, Image):
            return found
        self.editor = replace(self.editor, buffer=self.editor.buffer.attach(name, found))
        return None
