"""From schemas to grammars, checked by a small recogniser of our own; no engine is needed."""

from __future__ import annotations

import json
import re
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prong.entry import Call, CallId, ToolSpec
from prong.provider.local import grammar
from prong.provider.local.form import BARE, LISTED, Form
from prong.provider.local.grammar import Forced
from prong.provider.local.speech import read_call


class Recogniser:
    """Says whether a text belongs to a grammar: all ways at once, position by position."""

    _TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\[\^?(?:\\.|[^\]\\])*\]|[a-z][a-z0-9-]*|[()|*+?]')

    def __init__(self, text: str) -> None:
        self.rules = {}
        for line in filter(None, text.split("\n")):
            name, _, body = line.partition(" ::= ")
            tokens = self._TOKEN.findall(body)
            assert "".join(tokens) == re.sub(r'("(?:\\.|[^"\\])*"|\[[^\]]*\])|\s', r"\1", body), (
                line
            )
            self.rules[name] = self._choice(tokens)
            assert not tokens, f"left over in {line}: {tokens}"

    def _choice(self, tokens: list[str]):
        found = [self._row(tokens)]
        while tokens and tokens[0] == "|":
            tokens.pop(0)
            found.append(self._row(tokens))
        return ("choice", tuple(found))

    def _row(self, tokens: list[str]):
        items = []
        while tokens and tokens[0] not in "|)":
            token = tokens.pop(0)
            if token == "(":
                item = self._choice(tokens)
                assert tokens.pop(0) == ")"
            elif token[0] == '"':
                item = ("text", self._unescape(token[1:-1]))
            elif token[0] == "[":
                item = ("class", token)
            else:
                item = ("rule", token)
            while tokens and tokens[0] in {"*", "+", "?"}:
                item = (tokens.pop(0), item)
            items.append(item)
        return ("row", tuple(items))

    @staticmethod
    def _unescape(text: str) -> str:
        def one(found: re.Match[str]) -> str:
            code = str(found[1])
            plain = {"n": "\n", "r": "\r", "t": "\t"}
            return chr(int(code[1:], 16)) if code[0] == "x" else plain.get(code, code)

        return re.sub(r"\\(x[0-9A-F]{2}|.)", one, text)

    def accepts(self, text: str) -> bool:
        @cache
        def ends(item, at: int) -> frozenset[int]:
            kind, value = item
            match kind:
                case "text":
                    return frozenset({at + len(value)} if text.startswith(value, at) else ())
                case "class":
                    good = at < len(text) and re.fullmatch(value, text[at])
                    return frozenset({at + 1} if good else ())
                case "rule":
                    return ends(self.rules[value], at)
                case "choice":
                    return frozenset().union(*(ends(one, at) for one in value))
                case "row":
                    places = frozenset({at})
                    for one in value:
                        places = frozenset().union(*(ends(one, place) for place in places))
                    return places
                case _:
                    places = set() if kind == "+" else {at}
                    new = {at}
                    while new:
                        new = set().union(*(ends(value, place) for place in new)) - places
                        places |= new
                        if kind == "?":
                            break
                    return frozenset(places)

        return len(text) in ends(("rule", "root"), 0)


def tool(schema: object, name: str = "Do") -> ToolSpec:
    return ToolSpec(name, "Does it.", msgspec.Raw(json.dumps(schema).encode()))


def call(name: str, arguments: object) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "mode": {"enum": ["read", 'wri"te']},
        "deep": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Node"}]},
        "names": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "required": ["path"],
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {"value": {"type": "number"}, "next": {"$ref": "#/$defs/Node"}},
            "required": ["value"],
        }
    },
}


@pytest.mark.parametrize(
    ("arguments", "fits"),
    [
        ({"path": "a.py"}, True),
        ({"path": "a.py", "limit": 3}, True),
        ({"path": 'q"\n\\', "mode": 'wri"te', "names": ["a", "b"]}, True),
        ({"path": "", "deep": {"value": 1.5, "next": {"value": -2e9}}}, True),
        ({"path": "", "deep": None}, True),
        ({}, False),
        ({"limit": 3}, False),
        ({"path": "a.py", "limit": "3"}, False),
        ({"path": "a.py", "limit": 1.5}, False),
        ({"path": "a.py", "mode": "delete"}, False),
        ({"path": "a.py", "names": []}, False),
        ({"path": "a.py", "other": 1}, False),
        ({"path": "", "deep": {"next": None}}, False),
    ],
)
def test_a_grammar_takes_what_the_schema_takes(arguments, fits):
    """Required and optional properties, choices, references and lists come out as they should."""
    made = Recogniser(grammar.calls([tool(SCHEMA)]))

    assert made.accepts(call("Do", arguments)) is fits


_VALUES = st.one_of(st.text(), st.integers(-(2**60), 2**60), st.booleans(), st.none())
_TYPES = {str: "string", int: "integer", bool: "boolean", type(None): "null"}


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=6), _VALUES, max_size=5), st.data())
def test_every_object_of_a_schema_can_be_said_and_read_back(values, data):
    """Whatever subset of the optional properties is left out, the call parses to the same value."""
    needed = data.draw(st.sets(st.sampled_from(sorted(values)))) if values else set()
    given_ = {key: v for key, v in values.items() if key in needed or data.draw(st.booleans())}
    properties = {key: {"type": _TYPES[type(value)]} for key, value in values.items()}
    made = Recogniser(
        grammar.calls(
            [tool({"type": "object", "properties": properties, "required": sorted(needed)})]
        )
    )

    assert made.accepts(call("Do", given_))
    assert json.loads(read_call(call("Do", given_)[12:-13])[1]) == given_


def test_several_calls_are_joined_by_a_line_break():
    """A reply may have more than one call, of different tools."""
    empty = {"type": "object", "properties": {}}
    made = Recogniser(grammar.calls([tool(empty, "One"), tool(empty, "Two")]))

    assert made.accepts(call("One", {}) + "\n" + call("Two", {}))
    assert not made.accepts(call("Three", {}))
    assert not made.accepts(call("One", {}) + call("Two", {}))


def test_a_forced_call_leaves_nothing_open():
    """A call given in full is the only text of its grammar; an unknown tool is an error."""
    made = Recogniser(grammar.forced([tool(SCHEMA)], [Forced("Do", {"path": "x\ty"})]))

    assert made.accepts(call("Do", {"path": "x\ty"}))
    assert not made.accepts(call("Do", {"path": "other"}))
    with pytest.raises(LookupError):
        grammar.forced([tool(SCHEMA)], [Forced("Else")])


def test_a_forced_tool_leaves_its_arguments_to_the_model():
    """Only the tool is settled, and its schema still holds."""
    made = Recogniser(grammar.forced([tool(SCHEMA), tool(SCHEMA, "Other")], [Forced("Do")]))

    assert made.accepts(call("Do", {"path": "anything"}))
    assert not made.accepts(call("Other", {"path": "anything"}))
    assert not made.accepts(call("Do", {}))


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"properties": {"a": True}}])
def test_an_open_schema_still_makes_a_grammar(schema):
    """A schema that says little makes a grammar that allows what it says."""
    made = Recogniser(grammar.calls([tool(schema)]))

    assert made.accepts(call("Do", {}))


def test_forced_calls_come_in_their_order():
    """Several planned calls make one reply, each as it was planned."""
    made = Recogniser(grammar.forced([tool(SCHEMA)], [Forced("Do", {"path": "a"}), Forced("Do")]))

    assert made.accepts(call("Do", {"path": "a"}) + "\n" + call("Do", {"path": "b"}))
    assert not made.accepts(call("Do", {"path": "b"}) + "\n" + call("Do", {"path": "a"}))
    assert not made.accepts(call("Do", {"path": "a"}))


def test_a_frame_leaves_sentences_to_the_model():
    """What is given stands as it is; the rest is a sentence of limited length."""
    text = grammar.framed(grammar.Framed(("Result: ", 40, "\nIssues: none")))

    assert text == 'root ::= "Result: " [^\\n,;:.!?<]{8,40} "." "\\nIssues: none"\n'


@pytest.mark.parametrize(
    ("planned", "settled"),
    [
        (grammar.Framed(("It has", 40, " End.")), "It has"),
        (grammar.Framed((40,)), ""),
        (grammar.Framed(()), ""),
        ([Forced("Do")], ""),
    ],
)
def test_only_what_is_settled_is_the_opening(planned, settled):
    """What the model is to choose is not in the opening, nor anything after it."""
    assert grammar.opening(planned) == settled


@given(st.lists(st.text(), min_size=1, max_size=3))
def test_the_opening_of_given_calls_is_what_their_grammar_allows(paths):
    """An opening that its own grammar refused would be spelled in some other way."""
    planned = [Forced("Do", {"path": path}) for path in paths]
    made = Recogniser(grammar.forced([tool(SCHEMA)], planned))

    assert made.accepts(grammar.opening(planned))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (BARE, '{"name": "Do", "parameters": {"path": "a"}}'),
        (LISTED, '[TOOL_CALLS] [{"name": "Do", "arguments": {"path": "a"}, "id": "000000000"}]'),
    ],
)
def test_other_forms_have_grammars_too(form: Form, text: str):
    """The call that a form writes is the call that its grammar takes; the schema holds as well."""
    made = Recogniser(grammar.calls([tool(SCHEMA)], form))
    planned = Recogniser(grammar.forced([tool(SCHEMA)], [Forced("Do", {"path": "a"})], form))
    call_ = Call(CallId("c"), "Do", '{"path": "a"}')

    assert "".join(form.said("", [call_])) == text
    assert made.accepts(text)
    assert planned.accepts(text)
    assert not made.accepts(text.replace('"path"', '"other"'))
    assert not made.accepts(call("Do", {"path": "a"}))
    assert text.startswith("".join(form.opening()))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer", "minimum": 1}, [1, 10, 207], [0, -1]),
        ({"type": "integer", "minimum": 0}, [0, 10], [-1]),
        ({"type": "integer", "minimum": -5}, [-1, 0], []),
        ({"type": "string", "minLength": 1}, ["a", '"'], [""]),
    ],
)
def test_simple_bounds_are_in_the_grammar(schema: object, good: list[object], bad: list[object]):
    """A small model that fills everything in cannot fill in zero where one is the least."""
    wanted = {"type": "object", "properties": {"n": schema}, "required": ["n"]}
    made = Recogniser(grammar.calls([tool(wanted)]))

    assert all(made.accepts(call("Do", {"n": value})) for value in good)
    assert not any(made.accepts(call("Do", {"n": value})) for value in bad)
