"""Words of a shell command line: what they will be when bash runs them, if that is certain.

The parser is a guide, not an authority: it reads some input otherwise than bash does. So a piece of
source counts as understood only if its characters also make sense on their own; whatever does not
is `Muddled`, and the command around it becomes opaque.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Node


class Word(Struct, frozen=True):
    """One argument of a command."""

    text: str
    """The value if it is sure, a pattern if it is a glob, the source text otherwise."""
    sure: bool = True
    """Whether the value is known before the command runs (it may still be a glob)."""
    glob: bool = False
    """Whether bash replaces it by the names of files that match."""

    @property
    def plain(self) -> bool:
        """Whether the word is exactly its text."""
        return self.sure and not self.glob

    @property
    def loose(self) -> bool:
        """Whether the word may turn out to be an option, or several words."""
        return not self.sure or (self.glob and self.text[:1] in {"*", "?", "[", "-"})


class Muddled(Exception):
    """The source is not certain to mean what the parser says."""


Piece = tuple[str, bool]
"""Text, and whether it was quoted."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LOOSE = re.compile(r"(?<!\\)(?:\\\\)*[;|&<>()\s`$\"']")
_ENDS = re.compile(r"[;|&<>()\s]")
_DOLLAR = re.compile(r"\$[\w({@*#?!$\[-]")
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_ASSIGNING = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=(?=(?:.*[:=])?~)", re.ASCII | re.DOTALL)
"""A name before values in which a tilde stands for the home folder."""
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b"} | {
    "f": "\f",
    "v": "\v",
}


def names(text: str) -> frozenset[str]:
    """Return the words of a text as a set: tables are easier to read that way."""
    return frozenset(text.split())


def source(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode()


def read_word(node: Node, home: str) -> Word:
    """Resolve a word as bash would, or return its source as an unsure word.

    Raises:
        Muddled: the parser's view of the word cannot be trusted.

    """
    pieces = _pieces(node)
    if pieces is None:
        return Word(source(node), sure=False)
    return join_pieces(pieces, home, source(node))


def join_pieces(pieces: list[Piece], home: str, raw: str) -> Word:
    """Put the pieces of a word together: tilde, braces and globs count only unquoted."""
    bare = "".join(text if not quoted else "\0" * len(text) for text, quoted in pieces)
    text = "".join(text for text, _ in pieces)
    if "{" in bare and "}" in bare and ("," in bare or ".." in bare):
        return Word(raw, sure=False)
    if bare.startswith("~"):
        if bare[1:2] not in {"", "/"}:
            return Word(raw, sure=False)
        text = home + text[1:]
    elif "~" in bare and (set_here := _ASSIGNING.match(bare)):
        # Bash does so also in an argument that looks like an assignment, as `dd if=~/f`.
        at = set_here.end()
        if not re.fullmatch(r"~(?:/[^~]*)?", bare[at:]):
            return Word(raw, sure=False)
        text = text[:at] + home + text[at + 1 :]
    return Word(text, glob=bool(re.search(r"[*?\[]", bare)))


def _pieces(node: Node) -> list[Piece] | None:
    """Return the static pieces of a word, or None if some of it is known only at run time."""
    match node.type:
        case "word" | "number" | "==" | "=~" | "=" | "!=" | "special_character" | "variable_name":
            return _word_pieces(node)
        case "command_name" | "concatenation":
            return _joined(node)
        case "raw_string":
            return [(source(node)[1:-1], True)]
        case "ansi_c_string":
            return [(unescape_ansi(source(node)[2:-1]), True)]
        case "string":
            return _string_pieces(node)
        case "regex" | "extglob_pattern" if _ENDS.search(source(node)):
            # The grammar takes a pattern to its closing bracket; bash ends the word before.
            raise Muddled
        case _:
            return None


def _joined(node: Node) -> list[Piece] | None:
    pieces: list[Piece] = []
    unsure = False
    at = node.start_byte
    for child in node.children:
        if child.start_byte != at:
            raise Muddled
        at = child.end_byte
        part = _pieces(child)
        unsure = unsure or part is None
        pieces += part or []
    return None if unsure else pieces


def _word_pieces(node: Node) -> list[Piece]:
    if any(child.is_named for child in node.children):
        raise Muddled
    text = source(node)
    if _LOOSE.search(_ESCAPE.sub("", text)) or text.endswith("\\"):
        raise Muddled
    pieces: list[Piece] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        pieces.append((text[at : found.start()], False))
        if found[1] != "\n":
            pieces.append((found[1], True))
        at = found.end()
    return [*pieces, (text[at:], False)]


def _string_pieces(node: Node) -> list[Piece] | None:
    text = source(node)
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        raise Muddled
    dynamic = [c for c in node.children if c.is_named and c.type != "string_content"]
    rest = _without(node, dynamic)
    inner = _ESCAPE.sub("", rest[1:-1])
    if "`" in inner or '"' in inner or _DOLLAR.search(inner):
        raise Muddled
    if dynamic:
        return None
    return [(re.sub(r'\\([\\$"`\n])', _kept, text[1:-1]), True)]


def _kept(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _without(node: Node, holes: list[Node]) -> str:
    """Return the node's source with the holes replaced by a space."""
    raw = node.text or b""
    out = bytearray()
    at = node.start_byte
    for hole in holes:
        out += raw[at - node.start_byte : hole.start_byte - node.start_byte] + b" "
        at = hole.end_byte
    return (bytes(out) + raw[at - node.start_byte :]).decode()


def unparsed(body: Node) -> str:
    """Return the text of a here-document outside the substitutions in it, without escapes."""
    dynamic = [c for c in body.children if c.is_named and c.type != "heredoc_content"]
    return _without(body, dynamic).replace("\\\\", "").replace("\\`", "").replace("\\$", "")


def unescape_ansi(text: str) -> str:
    """Decode the inside of `$'...'`."""

    def one(found: re.Match[str]) -> str:
        hexa, small, big, octal, control, other = found.groups()
        code = hexa or small or big
        if code:
            return _char(int(code, 16))
        if octal:
            return _char(int(octal, 8) & 0xFF)
        if control:
            return chr(ord(control) & 0x1F)
        return _NAMED.get(other, other if other in "\\'\"?" else "\\" + other)

    return _ANSI.sub(one, text)


def _char(code: int) -> str:
    # A NUL ends the string in bash; nothing good is written that way.
    if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise Muddled
    return chr(code)
