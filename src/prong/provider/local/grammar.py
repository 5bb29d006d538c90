"""From JSON schemas to a grammar in the engine's notation, so that every call can be parsed.

What a grammar cannot say in a word (lengths, patterns, ranges) is left to the tool's own check, but
for numbers from 0 or 1 on and texts that must not be empty; what a schema
leaves open becomes any JSON value. Spaces are fixed, so the text of a call is the same however it
came about, and properties keep the order of the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from prong.entry import ToolSpec
from prong.provider.local.form import NAME, TAGGED, Form

_DEEPEST = 12
_BASE = r"""
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F] [0-9a-fA-F])
string ::= "\"" char* "\""
filled ::= "\"" char+ "\""
positive ::= [1-9] [0-9]*
natural ::= "0" | positive
integer ::= "-"? natural
number ::= integer ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
boolean ::= "true" | "false"
null ::= "null"
array ::= "[" (value (", " value)*)? "]"
member ::= string ": " value
object ::= "{" (member (", " member)*)? "}"
value ::= object | array | string | number | boolean | null
"""
_PLAIN = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "object",
    "array": "array",
}


class Forced(msgspec.Struct, frozen=True):
    """A call that must come next."""

    name: str
    arguments: Mapping[str, Any] | None = None
    """Given in full, or None if the model is to choose them."""


class Framed(msgspec.Struct, frozen=True):
    """A reply that must come next, in part given and in part the model's own words."""

    parts: tuple[str | int, ...]
    """A text stands for itself, a number for a sentence of at most so many letters."""


def calls(tools: Sequence[ToolSpec], form: Form = TAGGED) -> str:
    """Make the grammar of one call of any of the tools, or of several where the form has them."""
    made = _Rules(form)
    made.choose("call", [made.tool(tool) for tool in tools])
    rest = f" ({_literal(form.between)} call)*" if form.several else ""
    return made.text(f"call{rest}")


def forced(tools: Sequence[ToolSpec], wanted: Sequence[Forced], form: Form = TAGGED) -> str:
    """Make the grammar of exactly these calls.

    Raises LookupError if there is no such tool.
    """
    made = _Rules(form)
    known = {tool.name: tool for tool in tools}
    names: list[str] = []
    for number, call in enumerate(wanted):
        if call.name not in known:
            raise LookupError(call.name)
        if call.arguments is None:
            body = made.tool(known[call.name])
        else:
            body = made.add("tool", _literal(_call(call.name, call.arguments, form)))
        names.append(made.choose(f"one-{number}", [body], number))
    return made.text(f" {_literal(form.between)} ".join(names))


def framed(frame: Framed) -> str:
    """Make the grammar of a reply in a given frame."""
    pieces = (
        _literal(part) if isinstance(part, str) else f'[^\\n,;:.!?<]{{8,{part}}} "."'
        for part in frame.parts
    )
    return f"root ::= {' '.join(pieces)}\n"


def opening(planned: Sequence[Forced] | Framed, form: Form = TAGGED) -> str:
    """Give the text with which a planned reply begins, as far as it is settled.

    A grammar alone would have the model spell it: any split into tokens satisfies it, and a text
    in odd splits is one that the model cannot go on from.
    """
    if isinstance(planned, Framed):
        first = planned.parts[0] if planned.parts else ""
        return first if isinstance(first, str) else ""
    settled: list[str] = []
    for number, call in enumerate(planned):
        if call.arguments is None:
            break
        settled.append(f"{NAME}{_call(call.name, call.arguments, form)}{form.tail(number)}")
    end = form.end if len(settled) == len(planned) else ""
    return f"{form.begin}{form.between.join(settled)}{end}" if settled else ""


def _call(name: str, arguments: Mapping[str, Any], form: Form) -> str:
    return f"{json.dumps(name)}{form.middle}{json.dumps(dict(arguments))}"


class _Rules:
    """Rules under construction."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._rules: dict[str, str] = {}
        self._known: dict[str, str] = {}
        self._definitions: Mapping[str, Any] = {}

    def text(self, body: str) -> str:
        root = f"root ::= {_literal(self._form.begin)} {body} {_literal(self._form.end)}"
        rules = [f"{name} ::= {rule}" for name, rule in self._rules.items()]
        return "\n".join([root, *rules]) + _BASE

    def choose(self, name: str, tools: Sequence[str], number: int = 0) -> str:
        start, end = _literal(NAME), _literal(self._form.tail(number))
        self._rules[name] = f"{start} ({' | '.join(tools)}) {end}"
        return name

    def tool(self, tool: ToolSpec) -> str:
        schema: Any = json.loads(bytes(tool.schema) or b"{}")
        self._definitions = _mapping(schema.get("$defs") or schema.get("definitions"))
        self._known = {}
        opening = _literal(f"{json.dumps(tool.name)}{self._form.middle}")
        arguments = self._object(_mapping(schema), 0)
        return self.add("tool", f"{opening} {arguments}")

    def add(self, stem: str, rule: str) -> str:
        name = f"{stem}-{len(self._rules)}"
        self._rules[name] = rule
        return name

    def _value(self, schema: Any, depth: int) -> str:
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return "value"
        schema = _mapping(schema)
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]), depth)
        if "const" in schema:
            return _literal(json.dumps(schema["const"]))
        if isinstance(schema.get("enum"), list):
            return f"({' | '.join(_literal(json.dumps(one)) for one in schema['enum'])})"
        choices = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(choices, list):
            found = [self._value(one, depth + 1) for one in cast("list[Any]", choices)]
            return f"({' | '.join(dict.fromkeys(found))})"
        return self._typed(schema, depth)

    def _typed(self, schema: Mapping[str, Any], depth: int) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = cast("list[Any]", kind)
            found = [self._value({**schema, "type": one}, depth + 1) for one in kinds]
            return f"({' | '.join(dict.fromkeys(found))})"
        if kind == "object" and schema.get("properties"):
            return self._object(schema, depth)
        if kind == "array" and "items" in schema:
            item = self._value(schema["items"], depth + 1)
            least = "" if int(schema.get("minItems") or 0) > 0 else "?"
            return self.add("list", f'"[" ({item} (", " {item})*){least} "]"')
        return _bounded(schema, _PLAIN.get(str(kind), "value"))

    def _reference(self, target: str, depth: int) -> str:
        name = target.rpartition("/")[2]
        if name not in self._definitions:
            return "value"
        if name not in self._known:
            # The name stands before the rule, so that a definition may speak of itself.
            self._known[name] = rule = self.add("ref", "")
            self._rules[rule] = self._value(self._definitions[name], depth + 1)
        return self._known[name]

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        """Write each property's rule twice: as the first that stands there, and as a later one."""
        properties = _mapping(schema.get("properties"))
        needed = set(cast("list[str]", schema.get("required") or []))
        first, later = '""', '""'
        for name in reversed(list(properties)):
            value = self._value(properties[name], depth + 1)
            member = f"{_literal(json.dumps(name) + ': ')} {value}"
            if name in needed:
                first = self.add("first", f"{member} {later}")
                later = self.add("later", f'", " {member} {later}')
            else:
                first = self.add("first", f"{member} {later} | {first}")
                later = self.add("later", f'(", " {member})? {later}')
        return self.add("object", f'"{{" {first} "}}"')


def _bounded(schema: Mapping[str, Any], rule: str) -> str:
    """Narrow a rule by the bounds that small models miss most: not below 0 or 1, not empty."""
    least = schema.get("minimum")
    if rule == "integer" and least in {0, 1}:
        return "positive" if least == 1 else "natural"
    return "filled" if rule == "string" and schema.get("minLength") == 1 else rule


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _literal(text: str) -> str:
    def escaped(found: re.Match[str]) -> str:
        special = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
        return special.get(found[0], f"\\x{ord(found[0]):02X}")

    return '"' + re.sub(r'[\x00-\x1f"\\]', escaped, text) + '"'
