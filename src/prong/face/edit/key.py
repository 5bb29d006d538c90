"""Bytes of a terminal as keys: names as faces look them up, and pastes as one key each.

Understands what xterm, tmux, the Linux console and those alike send, the form of `CSI u` and
xterm's `modifyOtherKeys`, and bracketed paste. A lone escape is only known by that nothing follows
it: `feed` keeps it back, and `flush` gives it after a moment.
"""

from __future__ import annotations

import codecs
import re

import msgspec

from prong.foreign_number import whole_number

PASTE = "paste"
"""The name of what was pasted; its text is beside it."""
TEXT = "text"
"""The name of what is typed as it is."""
CLICK = "click"
"""The name of a click on an answer; the letter that stands for it is beside it."""

_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_LONGEST_PASTE = 8 * 1024 * 1024
_CSI = re.compile(r"\x1b\[([0-9;:?<>=]*)([ -/]*)([@-~])")
_SS3 = re.compile(r"\x1bO([0-9;]*)([A-Za-z])")
_STRING = re.compile(r"\x1b[\]PX^_].*?(?:\x07|\x1b\\)", re.DOTALL)
_FINALS = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "Z": "shift+tab",
    "M": "enter",
    "P": "f1",
    "Q": "f2",
    "R": "f3",
    "S": "f4",
}
_TILDES = {
    1: "home",
    2: "insert",
    3: "delete",
    4: "end",
    5: "pageup",
    6: "pagedown",
    7: "home",
    8: "end",
}
_CODES = {9: "tab", 13: "enter", 27: "escape", 32: "space", 127: "backspace"}
_CONTROLS = {
    "\r": "enter",
    "\n": "ctrl+j",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "ctrl+h",
    "\x00": "ctrl+space",
    "\x1c": "ctrl+backslash",
    "\x1d": "ctrl+]",
    "\x1e": "ctrl+^",
    "\x1f": "ctrl+underscore",
}

_WITH_ALT = "\r\n\t\x7f\x08"
"""Controls that are pressed together with Alt; before others an escape is a key of its own."""


class KeyPress(msgspec.Struct, frozen=True):
    """A key that was pressed, or a piece of text."""

    name: str
    text: str = ""


class KeyDecoder:
    """Turns bytes into keys, whatever pieces they come in."""

    def __init__(self) -> None:
        """Begin with nothing kept back."""
        self._text: codecs.IncrementalDecoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: str = ""

    @property
    def waiting(self) -> bool:
        """Whether something is kept back that may be a key by itself."""
        return bool(self._held) and not self._held.startswith(_PASTE_BEGINS)

    def feed(self, data: bytes) -> list[KeyPress]:
        """Take bytes in; gives the keys that are complete."""
        self._held += self._text.decode(data)
        return self._read(last=False)

    def flush(self) -> list[KeyPress]:
        """Give what is kept back: nothing has followed it."""
        return self._read(last=True) if self.waiting else []

    def _read(self, *, last: bool) -> list[KeyPress]:
        keys: list[KeyPress] = []
        while self._held:
            taken = self._escape(last=last) if self._held[0] == "\x1b" else self._plain()
            if taken is None:
                break
            length, key = taken
            self._held = self._held[length:]
            if key is not None:
                keys.append(key)
        return keys

    def _plain(self) -> tuple[int, KeyPress]:
        """Read typed characters, as many as there are, or one control character."""
        first = self._held[0]
        if _is_control(first):
            return 1, KeyPress(_control(first))
        end = next((at for at, c in enumerate(self._held) if _is_control(c)), len(self._held))
        return end, KeyPress(TEXT, self._held[:end])

    def _escape(self, *, last: bool) -> tuple[int, KeyPress | None] | None:
        """Read what begins with an escape; None if more has to come first."""
        held = self._held
        if held.startswith(_PASTE_BEGINS):
            return self._paste()
        for pattern, read in ((_CSI, _of_csi), (_SS3, _of_ss3)):
            if found := pattern.match(held):
                return found.end(), read(found)
        if found := _STRING.match(held):
            # An answer of the terminal to something that nobody has asked here.
            return found.end(), None
        if not last and re.fullmatch(
            r"\x1b(?:\x1b?|[\[O][0-9;:?<>= -/]*|[\]PX^_].*)", held, re.DOTALL
        ):
            return None
        if len(held) > 1 and held[1] in _WITH_ALT:
            return 2, KeyPress(f"alt+{_control(held[1])}")
        if len(held) > 1 and held[1] not in "[O" and not _is_control(held[1]):
            return 2, KeyPress(f"alt+{_letter(held[1])}")
        if last and len(held) > 1 and held[1] in "[O":
            return 2, KeyPress(f"alt+{held[1]}")
        return 1, KeyPress("escape")

    def _paste(self) -> tuple[int, KeyPress] | None:
        begin, end = len(_PASTE_BEGINS), self._held.find(_PASTE_ENDS)
        if end >= 0:
            return end + len(_PASTE_ENDS), KeyPress(PASTE, self._held[begin:end])
        if len(self._held) > _LONGEST_PASTE:
            return len(self._held), KeyPress(PASTE, self._held[begin:])
        return None


def _is_control(char: str) -> bool:
    return char < " " or char == "\x7f"


def _control(char: str) -> str:
    return _CONTROLS.get(char) or f"ctrl+{chr(ord(char) + 96)}"


def _letter(char: str) -> str:
    return f"shift+{char.lower()}" if char.isupper() else char


def _of_csi(found: re.Match[str]) -> KeyPress | None:
    parts = [part.partition(":")[0] for part in found[1].lstrip("?<>=").split(";") if part]
    numbers = [whole_number(part) or 0 for part in parts]
    final = found[3]
    if found[1][:1] in {"?", "<", ">", "="}:
        return None
    if final == "~" and numbers[:1] == [27] and len(numbers) > 2:
        return _coded(numbers[2], numbers[1])
    if final == "u" and numbers:
        return _coded(numbers[0], numbers[1] if len(numbers) > 1 else 1)
    modifier = numbers[1] if len(numbers) > 1 else 1
    name = _TILDES.get(numbers[0] if numbers else 0) if final == "~" else _FINALS.get(final)
    return None if name is None else KeyPress(_modified(name, modifier))


def _of_ss3(found: re.Match[str]) -> KeyPress | None:
    name = _FINALS.get(found[2])
    return None if name is None else KeyPress(name)


def _coded(code: int, modifier: int) -> KeyPress | None:
    name = _CODES.get(code)
    if name is None:
        if not 32 < code < 0x110000 or 0xD800 <= code < 0xF900:
            return None
        char = chr(code)
        if modifier <= 2:
            return KeyPress(TEXT, char.upper() if modifier == 2 else char)
        name = char.lower()
    if name == "space" and modifier <= 2:
        return KeyPress(TEXT, " ")
    return KeyPress(_modified(name, modifier))


def _modified(name: str, modifier: int) -> str:
    held = max(0, modifier - 1)
    words = [word for bit, word in ((4, "ctrl"), (2, "alt"), (1, "shift")) if held & bit]
    return "+".join([*words, name])
