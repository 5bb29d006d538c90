"""What keys mean: one table that faces look keys up in, and that help is made of.

Names of keys are those of `key`: modifiers first (`ctrl+a`, `alt+enter`, `shift+tab`). An action
that changes the buffer is in `EDITS`; what the others do is for the face to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from prong.face.edit.buffer import Buffer

EDITS: Mapping[str, Callable[[Buffer], Buffer]] = {
    "newline": Buffer.newline,
    "erase left": Buffer.erase_left,
    "erase right": Buffer.erase_right,
    "left": Buffer.left,
    "right": Buffer.right,
    "word left": Buffer.word_left,
    "word right": Buffer.word_right,
    "line start": Buffer.home,
    "line end": Buffer.end,
    "start": Buffer.start,
    "end": Buffer.finish,
    "kill to end": Buffer.kill_to_end,
    "kill to start": Buffer.kill_to_start,
    "kill word": Buffer.kill_blank_word_left,
    "kill word left": Buffer.kill_word_left,
    "kill word right": Buffer.kill_word_right,
    "yank": Buffer.yank,
    "yank other": Buffer.yank_other,
    "transpose": Buffer.transpose,
    "undo": Buffer.undo,
    "redo": Buffer.redo,
    "select left": lambda buffer: buffer.left(select=True),
    "select right": lambda buffer: buffer.right(select=True),
    "select up": lambda buffer: buffer.up(select=True),
    "select down": lambda buffer: buffer.down(select=True),
    "select line start": lambda buffer: buffer.home(select=True),
    "select line end": lambda buffer: buffer.end(select=True),
    "select word left": lambda buffer: buffer.word_left(select=True),
    "select word right": lambda buffer: buffer.word_right(select=True),
}
"""Actions that only change the buffer."""

TWICE = 0.8
"""Seconds within which two Esc belong together."""

KEYMAP: Mapping[str, str] = {
    "enter": "send",
    "alt+enter": "newline",
    "shift+enter": "newline",
    "ctrl+j": "newline",
    "backspace": "erase left",
    "ctrl+h": "erase left",
    "delete": "erase right",
    "ctrl+d": "leave",
    "left": "left",
    "ctrl+b": "background",
    "right": "right",
    "ctrl+f": "right",
    "alt+b": "word left",
    "ctrl+left": "word left",
    "alt+left": "word left",
    "alt+f": "word right",
    "ctrl+right": "word right",
    "alt+right": "word right",
    "home": "line start",
    "ctrl+a": "line start",
    "end": "line end",
    "ctrl+e": "line end",
    "ctrl+home": "start",
    "alt+<": "start",
    "ctrl+end": "end",
    "alt+>": "end",
    "ctrl+k": "kill to end",
    "ctrl+u": "kill to start",
    "ctrl+w": "kill word",
    "alt+backspace": "kill word left",
    "alt+d": "kill word right",
    "ctrl+y": "yank",
    "alt+y": "yank other",
    "ctrl+t": "transpose",
    "ctrl+underscore": "undo",
    "ctrl+z": "suspend",
    "alt+z": "undo",
    "alt+shift+z": "redo",
    "shift+left": "select left",
    "shift+right": "select right",
    "shift+up": "select up",
    "shift+down": "select down",
    "shift+home": "select line start",
    "shift+end": "select line end",
    "ctrl+shift+left": "select word left",
    "ctrl+shift+right": "select word right",
    "up": "up",
    "down": "down",
    "ctrl+p": "older",
    "ctrl+n": "newer",
    "ctrl+r": "search",
    "tab": "complete",
    "shift+tab": "mode",
    "ctrl+c": "interrupt",
    "escape": "escape",
    "ctrl+x": "editor",
    "ctrl+g": "editor",
    "ctrl+l": "redraw",
    "ctrl+o": "swap",
    "ctrl+v": "picture",
}
"""What each key does, as shells have it where they have it."""

TOLD: tuple[tuple[str, str], ...] = (
    ("Enter", "send; what is sent while a turn runs steers the agent at its next step"),
    ("Alt+Enter, Ctrl+J", "another line (also Shift+Enter, or a \\ at the end of a line)"),
    ("Up, Down", "take back what waits to be sent, then what was said earlier"),
    ("Ctrl+R", "search in what was said earlier"),
    ("Tab", "complete a /command, what belongs to it, or an @file"),
    ("Ctrl+C", "clear the line, interrupt the turn that runs; twice leaves"),
    ("Ctrl+B", "do not wait for the agent or command at work"),
    ("Shift+Tab", "the next permission mode"),
    ("Ctrl+V", "attach the picture that was copied to the clipboard"),
    ("Ctrl+G", "write the message in your own editor"),
    ("Ctrl+A/E/K/U/W/Y", "move and cut as in a shell; Ctrl+_ undoes"),
    ("Ctrl+O", "change between the full screen and line by line, in the same session"),
    ("Ctrl+D", "leave, on an empty line"),
)
"""The keys that help names, with what they do."""


def meaning(key: str) -> str:
    """Say what a key does; empty if nothing."""
    return KEYMAP.get(key, "")


def press(buffer: Buffer, action: str) -> Buffer | None:
    """Do what an action does to a buffer; None if it is the face's to do."""
    edit = EDITS.get(action)
    return None if edit is None else edit(buffer)
