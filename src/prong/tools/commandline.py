"""A bash command line as the list of everything it would run, read and write.

Two rules keep this honest. Nothing that bash would run may be missing from `Parsed.commands` unless
`Parsed.opaque` says that something is hidden; and where the parser's reading of the text may differ
from bash's own (odd continuations, comments, here-document ends), the whole line is opaque. Those
who decide treat an opaque part as if it could be anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from prong.tools.builtin import (
    enter,
    evaluates,
    evaluates_condition,
    plain_test,
    sets_shell,
)
from prong.tools.lexer import agree
from prong.tools.syntax import check_apart, leaves, parse_text, runs_together
from prong.tools.word import Muddled, Word, names, read_word, source, unparsed
from prong.tools.wrapper import Nested, Script, Unclear, find_inner

if TYPE_CHECKING:
    from tree_sitter import Node

Folders = tuple[str, ...] | None
"""The folders a command may run in; None if nobody knows."""


class Target(Struct, frozen=True):
    """A file named by a redirect."""

    word: Word
    folders: Folders
    place: int
    """How many commands were noted before it."""


class Simple(Struct, frozen=True):
    """One simple command."""

    words: tuple[Word, ...]
    """The first one, the command's name, is always plain; none if there are only assignments."""
    env: tuple[tuple[str, Word], ...]
    """The variables set before it."""
    folders: Folders
    source: str
    place: int
    """Where it stands in `Parsed.commands`."""
    within: int = -1
    """The place in `Parsed.commands` of the command whose arguments hold this one, if any."""
    inner_at: int = -1
    """Where in that command's words this one begins, if it stands there word for word."""
    nested: bool = False
    """Whether it stands in a loop, a branch or a function."""

    @property
    def name(self) -> str:
        """The command's name without its folder, in lower case."""
        return self.words[0].text.rpartition("/")[2].lower() if self.words else ""


class Parsed(Struct, frozen=True):
    """All that a command line would do, as far as it can be told beforehand."""

    commands: tuple[Simple, ...] = ()
    reads: tuple[Target, ...] = ()
    writes: tuple[Target, ...] = ()
    opaque: tuple[str, ...] = ()
    """Pieces whose effect shows only at run time."""
    code: tuple[str, ...] = ()
    """Programs in other languages, given on the line."""
    together: bool = False
    """Whether parts of it may run at the same time, or again."""


_BLOCKS = names("if_statement case_statement while_statement for_statement function_definition")
_DEPTH = 40
_FOLDERS = 8
_RESERVED = names(
    "if then else elif fi do done case esac while until for in function select { } [[ ]] !"
)
_INLINE = re.compile(
    r"python[\d.]*|pypy3?|perl|ruby|node|nodejs|deno|bun|php|lua|[gmn]?awk|osascript|tclsh|g?sed"
)
_ENDING = frozenset(["&&", "||", "|", "|&", ";", "&", "<", ">", "(", ")"])
_SEQUENCES = names(
    "program compound_statement do_group else_clause elif_clause case_item negated_command"
)
_WORDS = names(
    "word string raw_string ansi_c_string translated_string concatenation simple_expansion "
    "expansion number brace_expression variable_name special_variable_name extglob_pattern regex "
    "arithmetic_expansion command_substitution process_substitution array subscript"
)


@lru_cache(maxsize=256)
def parse_command(command: str, cwd: str, home: str) -> Parsed:
    """Take a command line apart; never fails, at worst everything is opaque."""
    walk = _Walk(home, (cwd,))
    walk.script(command)
    return walk.result()


class _Walk:
    """One pass over a command line, and over the command lines inside it."""

    def __init__(self, home: str, folders: Folders) -> None:
        self._home = home
        self._folders = folders
        self._depth = 0
        self._commands: list[Simple] = []
        self._reads: list[Target] = []
        self._writes: list[Target] = []
        self._opaque: list[str] = []
        self._code: list[str] = []
        self._functions: set[str] = set()
        self._together = False
        self._nested = False

    def result(self) -> Parsed:
        """Return what was found; a call of a function made on the line is opaque."""
        shadowed = [
            c.source for c in self._commands if c.words and c.words[0].text in self._functions
        ]
        return Parsed(
            tuple(self._commands),
            tuple(self._reads),
            tuple(self._writes),
            tuple(dict.fromkeys([*self._opaque, *shadowed])),
            tuple(self._code),
            self._together,
        )

    def script(self, text: str, within: int = -1) -> None:
        """Walk a text that a shell reads."""
        before = len(self._commands)
        try:
            root = parse_text(text)
            if not agree(root, text.encode()):
                self._opaque.append(text)
            self._together = self._together or runs_together(root)
            self._visit(root)
        except (Muddled, RecursionError):
            self._opaque.append(text)
        for at in range(before, len(self._commands)):
            if self._commands[at].within < 0:
                self._commands[at] = replace(self._commands[at], within=within)

    def _hide(self, node: Node) -> None:
        self._opaque.append(source(node))

    def _visit(self, node: Node) -> Folders:
        """Walk a statement; return the folders it leaves behind if it succeeds."""
        self._depth += 1
        if self._depth > _DEPTH:
            self._depth -= 1
            raise Muddled
        try:
            return self._statement(node)
        finally:
            self._depth -= 1

    def _statement(self, node: Node) -> Folders:
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                return self._command(node, ())
            case "redirected_statement":
                return self._redirected(node)
            case "list":
                return self._list(node)
            case "pipeline" | "subshell" | "command_substitution" | "process_substitution":
                self._apart(node)
            case kind if kind in _BLOCKS:
                outer, self._nested = self._nested, True
                (self._function if kind == "function_definition" else self._branches)(node)
                self._nested = outer
            case _:
                self._other(node)
        return self._folders

    def _other(self, node: Node) -> None:
        match node.type:
            case "test_command":
                self._test(node)
            case "variable_assignment" | "variable_assignments":
                nodes = [node] if node.type == "variable_assignment" else node.named_children
                self._add((), [self._assignment(n) for n in nodes], source(node))
            case "file_redirect" | "heredoc_redirect" | "herestring_redirect":
                if self._redirect(node):
                    self._hide(node)
            case "comment":
                pass
            case kind if kind in _WORDS:
                self._inside(node)
            case kind:
                # Arithmetic is no list of commands, but its variables may hold some.
                if kind not in _SEQUENCES or source(node).startswith("(("):
                    self._hide(node)
                self._children(node)

    def _children(self, node: Node) -> None:
        for child in node.named_children:
            self._visit(child)

    def _list(self, node: Node) -> Folders:
        first, *rest = node.named_children
        success = self._visit(first)
        operators = [child.type for child in node.children if not child.is_named]
        for operator, child in zip(operators, rest, strict=False):
            reached = self._folders
            if operator == "&&":
                self._folders = success
                success = self._visit(child)
            else:
                success = _union(success, self._visit(child))
            self._folders = _union(reached, self._folders)
        if len(operators) != len(rest):
            self._hide(node)
        return success

    def _apart(self, node: Node) -> None:
        """Walk parts that run in processes of their own."""
        if source(node).startswith("`") and "\\" in source(node):
            raise Muddled
        folders = self._folders
        for child in node.named_children:
            self._visit(child)
            if node.type == "pipeline":
                self._folders = folders
        self._folders = folders

    def _branches(self, node: Node) -> None:
        variable = node.child_by_field_name("variable")
        if variable is not None:
            self._add((), [(source(variable), Word("", sure=False))], f"for {source(variable)}")
        before = self._folders
        self._children(node)
        if node.type in {"while_statement", "for_statement"} and self._folders != before:
            # Later rounds start where earlier ones ended.
            self._folders = None
            self._children(node)
        self._folders = _union(before, self._folders)

    def _function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        self._functions.add(source(name) if name else "")
        folders, self._folders = self._folders, None
        for child in node.named_children:
            if child != name:
                self._visit(child)
        self._folders = folders

    def _test(self, node: Node) -> None:
        if source(node).startswith("[["):
            if evaluates_condition(source(node)):
                self._hide(node)
        else:
            outer = {leaf.type for leaf in leaves(node, whole="command_substitution")}
            if "\n" in source(node) or outer & _ENDING:
                # A single bracket is a command like any other, and ends where they end.
                raise Muddled
            parts = list(_operands(node))
            for one, other in pairwise(parts):
                check_apart(node, one.end_byte, other.start_byte)
            read = (
                read_word(p, self._home) if p.type in _WORDS else Word(source(p)) for p in parts
            )
            if not plain_test(list(read)):
                self._hide(node)
        self._inside(node)

    def _inside(self, node: Node) -> None:
        """Walk the substitutions anywhere inside a word or an expression."""
        self._depth += 1
        if self._depth > _DEPTH * 2:
            raise Muddled
        match node.type:
            case "command_substitution" | "process_substitution":
                self._visit(node)
            case "arithmetic_expansion":
                self._arithmetic(node)
            case "simple_expansion":
                pass
            case "expansion":
                if "@" in [child.type for child in node.children]:
                    self._hide(node)
                self._each_inside(node)
            case "subscript":
                index = node.child_by_field_name("index")
                if index is None or not re.fullmatch(r"\d+|[@*]", source(index)):
                    self._hide(node)
                self._each_inside(node)
            case _:
                self._each_inside(node)
        self._depth -= 1

    def _each_inside(self, node: Node) -> None:
        for child in node.children:
            self._inside(child)

    def _arithmetic(self, node: Node) -> None:
        # Bash evaluates the values here, and a subscript in a value may run commands.
        if any(leaf.is_named and leaf.type != "number" for leaf in leaves(node)):
            self._hide(node)
        self._each_inside(node)

    def _assignment(self, node: Node) -> tuple[str, Word]:
        self._inside(node)
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        word = Word("") if value is None else read_word(value, self._home)
        if value is not None and value.type == "array" and "[" in source(value):
            # A subscript among the elements is evaluated.
            self._hide(node)
        return (source(name) if name else "", word)

    def _redirected(self, node: Node) -> Folders:
        body = node.child_by_field_name("body")
        simple = body is None or body.type in {"command", "declaration_command", "unset_command"}
        before = success = after = self._folders
        if body is not None and not simple:
            # Of a list it is the last command's alone, wherever that one runs.
            success, after = self._visit(body), self._folders
            self._folders = _union(before, _union(success, after))
        extra: list[Word] = []
        for child in node.children_by_field_name("redirect"):
            extra += self._redirect(child)
        self._folders = after
        if body is None:
            # The parser takes the words after a leading redirect for more targets of it.
            return self._add(extra, (), source(node)) if extra else self._folders
        if simple:
            return self._command(body, extra)
        if extra:
            self._hide(node)
        return success

    def _redirect(self, node: Node) -> list[Word]:
        """Note what a redirect touches; return words that belong to the command after all."""
        if node.type == "heredoc_redirect":
            return self._heredoc(node)
        self._inside(node)
        if node.type == "herestring_redirect":
            return []
        places = node.children_by_field_name("destination")
        for one, other in pairwise(places):
            check_apart(node, one.end_byte, other.start_byte)
        words = [read_word(word, self._home) for word in places]
        operators = [c.type for c in node.children if not c.is_named and c.type not in {"", "$"}]
        operator = operators[0] if operators else ""
        if operator in {">&-", "<&-"}:
            return words
        if not words:
            raise Muddled
        first = words[0]
        duplicate = operator in {">&", "<&"} and re.fullmatch(r"\d+-?|-", first.text)
        if operator in {">&", "<&"} and not (duplicate or re.fullmatch(r"[\w./-]+", first.text)):
            # Bash expands this word once more after its quotes are gone.
            self._hide(node)
        if not (first.plain and duplicate):
            reading = operator == "<" and not first.text.startswith(("/dev/tcp", "/dev/udp"))
            target = Target(first, self._folders, len(self._commands))
            (self._reads if reading else self._writes).append(target)
        return words[1:]

    def _heredoc(self, node: Node) -> list[Word]:
        parts = {child.type: child for child in node.children}
        start, body, end = (parts.get(f"heredoc_{part}") for part in ("start", "body", "end"))
        found = re.fullmatch(r"(['\"]?)([\w.-]+)\1", source(start)) if start else None
        if found is None or body is None or (end is not None and source(end) != found[2]):
            raise Muddled
        lines = [line.lstrip("\t") for line in source(body).split("\n")]
        rest = unparsed(body)
        if found[2] in lines or (not found[1] and re.search(r"\\\n|`|\$[({\[]", rest)):
            raise Muddled
        extra: list[Word] = []
        for child in node.named_children:
            if child.type in {"file_redirect", "herestring_redirect"}:
                extra += self._redirect(child)
            elif child == body:
                self._inside(body)
            elif child.type in _WORDS:
                self._inside(child)
                extra.append(read_word(child, self._home))
            elif not child.type.startswith(("heredoc", "file_descriptor")):
                self._visit(child)
        return extra

    def _command(self, node: Node, extra: Sequence[Word]) -> Folders:
        words: list[Word] = []
        env: list[tuple[str, Word]] = []
        late: list[Word] = []
        ended = -1
        if node.type != "command":
            words.append(Word(source(node).split(None, 1)[0]))
        for child in node.children:
            match child.type:
                case "variable_assignment":
                    env.append(self._assignment(child))
                case "file_redirect" | "herestring_redirect" | "heredoc_redirect":
                    late += self._redirect(child)
                case "subshell":
                    self._visit(child)
                    self._hide(node)
                case "export" | "declare" | "local" | "readonly" | "typeset" | "unset" | "unsetenv":
                    pass
                case _:
                    check_apart(node, ended, child.start_byte)
                    self._inside(child)
                    words.append(read_word(child, self._home))
            ended = child.end_byte
        return self._add((*words, *late, *extra), env, source(node))

    def _add(
        self,
        words: Sequence[Word],
        env: Sequence[tuple[str, Word]],
        text: str,
        within: int = -1,
        inner_at: int = -1,
    ) -> Folders:
        """Note a simple command, and those inside it."""
        if words and (not words[0].plain or words[0].text in {*_RESERVED, ""}):
            self._opaque.append(text)
            return self._folders
        place = len(self._commands)
        where = (place, within, inner_at, self._nested)
        simple = Simple(tuple(words), tuple(env), self._folders, text, *where)
        self._commands.append(simple)
        if not words:
            if any(sets_shell(variable) for variable, _ in env):
                self._opaque.append(text)
            return self._folders
        if _INLINE.fullmatch(simple.name):
            self._code.append(" ".join(word.text for word in words[1:]))
        if evaluates(simple.name, words) or any(sets_shell(variable) for variable, _ in env):
            self._opaque.append(text)
        success = self._unwrap(simple, place)
        if simple.name in {"cd", "pushd", "popd", "source", "."}:
            success = enter(words, [name for name, _ in env], self._folders, self._home)
            self._folders = _union(self._folders, success)
        return success

    def _unwrap(self, simple: Simple, place: int) -> Folders:
        success = self._folders
        self._depth += 1
        if self._depth > _DEPTH:
            raise Muddled
        for inner in find_inner(simple.name, simple.words):
            folders = self._folders
            match inner:
                case Unclear(why):
                    self._opaque.append(f"{simple.source} ({why})")
                case Script(text, moved):
                    self._folders = None if moved else folders
                    self.script(text, place)
                case Nested(words, at, moved):
                    self._folders = None if moved else folders
                    outer = simple.words[1:at]
                    named = [w.text.partition("=") for w in outer if "=" in w.text]
                    env = [(n, Word(v)) for n, _, v in named if not n.startswith("-")]
                    text = " ".join(word.text for word in words)
                    success = self._add(words, env, text, place, at)
            self._folders = _union(folders, self._folders)
        self._depth -= 1
        return success


def _operands(node: Node) -> Iterator[Node]:
    """Yield the words and operators between single brackets."""
    for child in node.children:
        if child.type.endswith("_expression") and child.type != "brace_expression":
            yield from _operands(child)
        elif child.type not in {"[", "]"}:
            yield child


def _union(one: Folders, other: Folders) -> Folders:
    if one is None or other is None:
        return None
    both = tuple(dict.fromkeys((*one, *other)))
    return both if len(both) <= _FOLDERS else None
