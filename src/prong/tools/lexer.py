"""A second reading of a command line, by a scanner that knows little and says so.

The grammar gives some text as one leaf that bash goes on to expand: inside `${...}`, after `=~`, in
glued backticks. A list of such places would never be complete. So this scanner reads the text on
its own, by bash's rules for quotes, substitutions, comments and here-documents, and understands a
closed set of forms only. A line counts as understood if both readings find the same quotes,
substitutions, comments and descriptors at the same places; whatever one of them sees alone makes it
opaque.

Two mistakes would have to agree for a hole: what this scanner takes for text must be text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from prong.tools.word import Muddled

if TYPE_CHECKING:
    from tree_sitter import Node

Span = tuple[str, int, int]
"""What stands there, where it begins, and where it ends (in bytes)."""

_DEPTH = 40
_NAME = r"[A-Za-z_]\w*(?:\[(?:\d+|[@*])\])?"
_TEXT = r"[\w./:@,+*?%=^ -]*"
_PART = r"[\w.:@,+*?%=^ -]*"
_BRACED = re.compile(
    rf"\$\{{(?:#?(?:{_NAME}|\d+|[@*#?$!-])"
    rf"|(?:{_NAME}|\d+)(?::?[-+?]{_TEXT}|(?:##?|%%?){_TEXT}|\^\^?|,,?|:\d+(?::\d+)?"
    rf"|//?{_PART}(?:/{_PART})?))\}}",
    re.ASCII,
)
"""The forms of `${...}` in which bash expands nothing but the variable itself."""
_SIMPLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?!$-])", re.ASCII)
_SUM = re.compile(r"\$\(\([0-9+*/% -]*\)\)")
"""Arithmetic on digits: a name's value would be evaluated, and a subscript in it would run."""
_ANSI = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
_HEREDOC = re.compile(
    r"<<(-?)[ \t]*(?:'([\w.-]+)'|\"([\w.-]+)\"|([\w.-]+))(?=[\s;&|()<>]|\Z)", re.ASCII
)
_DESCRIPTOR = re.compile(r"(?:\A|(?<!\\)[\s;&|()<>])([0-9]+)\Z", re.ASCII)
"""Digits before a redirection that are a word by themselves. In `kill -9> f`, `sort -o2> f` and
`"a"2> f` they are part of a word for bash, whatever the grammar takes them for."""
_LONG = 12
"""No descriptor has as many digits."""
_PATTERNS = 100
"""More patterns than that on one line are not looked at."""
_KINDS = {
    "command_substitution": "substitution",
    "process_substitution": "substitution",
    "expansion": "parameter",
    "simple_expansion": "parameter",
    "arithmetic_expansion": "arithmetic",
    "raw_string": "quote",
    "ansi_c_string": "quote",
    "string": "quote",
    "comment": "comment",
    "heredoc_end": "heredoc",
    "file_descriptor": "descriptor",
}


def agree(root: Node, raw: bytes) -> bool:
    """Whether the scanner reads a text, and finds in it just what the grammar found."""
    try:
        # One character for each byte, so that places are the grammar's.
        scanned = scan(raw.decode("latin-1"))
    except Muddled:
        return False
    parsed: set[Span] = set()
    patterns: list[tuple[int, int]] = []
    _collect(root, parsed, patterns)
    if len(patterns) > _PATTERNS:
        return False
    # The grammar does not look for quotes in a pattern; a substitution in them is a span by itself.
    loose = {
        (kind, start, end)
        for kind, start, end in scanned
        if kind == "quote" and any(first <= start and end <= last for first, last in patterns)
    }
    return scanned - loose == parsed - loose


def _collect(root: Node, spans: set[Span], patterns: list[tuple[int, int]]) -> None:
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node is not None
        if node.type in _KINDS:
            # In a string the grammar counts the blanks before a variable as part of it.
            text = node.text or b""
            start = node.end_byte - len(text.lstrip(b" \t\n"))
            spans.add((_KINDS[node.type], start, node.end_byte))
        elif node.type in {"regex", "extglob_pattern"}:
            patterns.append((node.start_byte, node.end_byte))
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def scan(text: str) -> set[Span]:
    """Find all quotes, substitutions, comments and here-documents.

    Raises:
        Muddled: the text has something else than the forms that are understood.

    """
    scanner = _Scanner(text)
    scanner.commands("")
    return scanner.spans


class _HereDocument:
    """A here-document whose lines are still to come."""

    def __init__(self, found: re.Match[str]) -> None:
        tabs, single, double, bare = found.groups()
        self.tabs = bool(tabs)
        self.mark: str = single or double or bare
        self.quoted = bare is None

    def ends(self, line: str) -> bool:
        return (line.lstrip("\t") if self.tabs else line) == self.mark


class _Scanner:
    def __init__(self, text: str) -> None:
        self.spans: set[Span] = set()
        self._text = text
        self._at = 0
        self._limit = len(text)
        self._depth = 0
        self._marked = -1
        """Where the last span ended."""

    def commands(self, closing: str) -> None:
        """Read commands up to a bracket that closes them, or to the end."""
        self._depth += 1
        if self._depth > _DEPTH:
            raise Muddled
        opened = 0
        fresh = True
        waiting: list[_HereDocument] = []
        while self._at < self._limit:
            start, char = self._at, self._text[self._at]
            if char == closing and not opened:
                break
            opened += (char == "(") - (char == ")" and opened > 0)
            fresh = self._token(char, waiting, fresh=fresh)
            if waiting and char != "\n" and "\n" in self._text[start : self._at]:
                # Bash would look for the document's lines in the middle of this.
                raise Muddled
            if char == "\n":
                for document in waiting:
                    self._document(document)
                waiting.clear()
        if waiting or (closing and self._at >= self._limit):
            raise Muddled
        self._depth -= 1

    def _token(self, char: str, waiting: list[_HereDocument], *, fresh: bool) -> bool:
        """Read what begins here; return whether a word, or a comment, could begin after it."""
        text = self._text
        if char == "\\":
            self._skip(2)
            return fresh and text[self._at - 1] == "\n"
        if char in "'\"`$":
            self._quoting(char)
            return False
        if char == "#" and fresh:
            end = text.find("\n", self._at, self._limit)
            self._mark("comment", self._limit if end < 0 else end)
            return True
        if char in "<>":
            return self._redirect(waiting)
        if text.startswith("((", self._at):
            raise Muddled
        self._skip(1)
        return char in " \t\n;&|()"

    def _quoting(self, char: str) -> None:
        start = self._at
        if char == "'":
            end = self._text.find("'", start + 1, self._limit)
            if end < 0:
                raise Muddled
            self._mark("quote", end + 1)
        elif char == '"':
            self._skip(1)
            self._expanded('"')
            self._skip(1)
            self.spans.add(("quote", start, self._at))
        elif char == "`":
            self._backtick()
        elif found := _ANSI.match(self._text, start, self._limit):
            self._mark("quote", found.end())
        else:
            self._dollar()

    def _expanded(self, closing: str) -> None:
        """Read text in which only substitutions and backslashes count."""
        while self._at < self._limit:
            char = self._text[self._at]
            if char == closing:
                return
            if char == "`":
                self._backtick()
            elif char == "$":
                self._dollar()
            else:
                self._skip(2 if char == "\\" else 1)
        if closing:
            raise Muddled

    def _dollar(self) -> None:
        text, start = self._text, self._at
        if text.startswith(("$((", "$["), start):
            self._match("arithmetic", _SUM)
        elif text.startswith("$(", start):
            self._nested()
        elif text.startswith("${", start):
            self._match("parameter", _BRACED)
        elif found := _SIMPLE.match(text, start, self._limit):
            self._mark("parameter", found.end())
        else:
            self._skip(1)

    def _nested(self) -> None:
        start = self._at
        self._skip(2)
        self.commands(")")
        self._skip(1)
        self.spans.add(("substitution", start, self._at))

    def _backtick(self) -> None:
        start = self._at
        end = self._text.find("`", start + 1, self._limit)
        if end < 0 or "\\" in self._text[start:end]:
            raise Muddled
        self._within(start + 1, end, lambda: self.commands(""))
        self._mark("substitution", end + 1, start)

    def _redirect(self, waiting: list[_HereDocument]) -> bool:
        text, start = self._text, self._at
        if text[start + 1 : start + 2] == "(":
            self._nested()
            return False
        before = text[max(0, start - 2) : start]
        if before.endswith("}") and before[:1] not in " \t\n;&)}" and self._marked != start:
            # `{name}>` puts the descriptor's number into a variable.
            raise Muddled
        if number := _DESCRIPTOR.search(text, max(0, start - _LONG), start):
            self.spans.add(("descriptor", number.start(1), start))
        elif text[start - 1 : start] == "-":
            # In `cat -<<E` the grammar swallows the word and finds no descriptor either.
            raise Muddled
        if text.startswith("<<", start) and not text.startswith("<<<", start):
            found = _HEREDOC.match(text, start, self._limit)
            if found is None:
                raise Muddled
            waiting.append(_HereDocument(found))
            self._at = found.end()
            return False
        self._skip(3 if text.startswith("<<<", start) else 1)
        return True

    def _document(self, document: _HereDocument) -> None:
        start = at = self._at
        while True:
            end = self._text.find("\n", at, self._limit)
            end = self._limit if end < 0 else end
            line = self._text[at:end]
            if document.ends(line):
                break
            if end == self._limit or (not document.quoted and line.endswith("\\")):
                raise Muddled
            at = end + 1
        if not document.quoted:
            self._within(start, at, lambda: self._expanded(""))
        self._at = end - len(document.mark)
        self._mark("heredoc", end)

    def _within(self, start: int, end: int, read: Callable[[], None]) -> None:
        limit, self._at, self._limit = self._limit, start, end
        read()
        self._limit = limit

    def _match(self, kind: str, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._at, self._limit)
        if found is None:
            raise Muddled
        self._mark(kind, found.end())

    def _mark(self, kind: str, end: int, start: int = -1) -> None:
        self.spans.add((kind, self._at if start < 0 else start, end))
        self._at = self._marked = end

    def _skip(self, count: int) -> None:
        self._at += count
        if self._at > self._limit:
            raise Muddled
