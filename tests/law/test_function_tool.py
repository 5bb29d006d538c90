"""A Python function as a tool: what its schema says, and what is refused when it is made one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from msgspec import Meta

import prong
from prong.errors import BadInput
from prong.tools.docstring import read_docstring
from prong.tools.function import AnyFunctionTool
from prong.tools.kit import Kit

pytestmark = pytest.mark.spec("B1")


class Point(TypedDict):
    x: int
    y: int


@dataclass
class Box:
    corner: Point
    label: str | None = None


class Age(pydantic.BaseModel):
    years: int = pydantic.Field(ge=0)


class Chain(msgspec.Struct):
    next: Chain | None = None


class Opaque:
    pass


@prong.tool(read_only=True)
def lookup(
    city: Annotated[str, "Such as Oslo"],
    days: Annotated[int, Meta(ge=1, le=7)] = 1,
    unit: Literal["C", "F"] = "C",
) -> str:
    """Tell the weather.

    Args:
        city: what the hint says goes before this
        days (int): how many days,
            from today on
        unit: of the temperature

    """
    return f"{city} {days} {unit}"


def schema_of(made: AnyFunctionTool) -> Any:
    (spec,) = Kit([made]).specs()
    return msgspec.json.decode(spec.schema)


def test_the_schema_comes_from_hints_and_docstring() -> None:
    """Types, bounds, choices, defaults and descriptions are in it, and nothing else."""
    (spec,) = Kit([lookup]).specs()

    assert (spec.name, spec.description) == ("lookup", "Tell the weather.")
    assert msgspec.json.decode(spec.schema) == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Such as Oslo"},
            "days": {
                "type": "integer",
                "description": "how many days, from today on",
                "minimum": 1,
                "maximum": 7,
                "default": 1,
            },
            "unit": {
                "type": "string",
                "description": "of the temperature",
                "enum": ["C", "F"],
                "default": "C",
            },
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_the_function_can_be_called_as_before() -> None:
    """A tool is still the function that it was."""
    assert lookup("Oslo", unit="F") == "Oslo 1 F"
    assert lookup.read_only


@pytest.mark.parametrize("name", ["raw_schema", "description", "effect", "name", "more"])
def test_a_tool_cannot_be_changed(name: str) -> None:
    """Heads show it as it was made, and the gate knows it so: a change is refused at once."""
    with pytest.raises(AttributeError, match="is as it was made"):
        setattr(lookup, name, "writes")


def test_nested_types_stand_inline() -> None:
    """Typed dicts, dataclasses and pydantic models say their fields, without references."""

    def place(box: Box, owner: Age, more: list[Point], pair: tuple[int, Point]) -> None:
        del box, owner, more, pair

    text = msgspec.json.encode(schema_of(prong.tool(place))).decode()
    assert "$" not in text
    point = '{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}}'
    assert text.count(point) == 3
    assert '"years":{"type":"integer","minimum":0}' in text


def test_arguments_become_what_the_hints_say() -> None:
    """A dataclass comes as one, a pydantic model as one, and both are checked."""

    def place(box: Box, owner: Age) -> str:
        return f"{box.corner['x']} {owner.years}"

    made = prong.tool(place)
    args = made.decode('{"box": {"corner": {"x": 1, "y": 2}}, "owner": {"years": 3}}')
    assert (args.box, args.owner) == (Box({"x": 1, "y": 2}), Age(years=3))
    with pytest.raises(msgspec.ValidationError, match="greater than or equal to 0"):
        made.decode('{"box": {"corner": {"x": 1, "y": 2}}, "owner": {"years": -3}}')


def test_what_is_required_may_be_null_if_its_type_says_so() -> None:
    """Nothing can be left out that is required, so that null is offered; optional it is not."""

    def one(a: int | None, b: int | None = None) -> None:
        del a, b

    found = schema_of(prong.tool(one))["properties"]
    assert found == {
        "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "b": {"type": "integer"},
    }


def bare(city) -> str:  # pyright: ignore[reportUnknownParameterType,reportMissingParameterType] # the mistake
    return str(city)  # pyright: ignore[reportUnknownArgumentType] # the mistake


def many(*cities: str) -> str:
    return " ".join(cities)


def keyed(**cities: str) -> str:
    return " ".join(cities)


def placed(city: str, /) -> str:
    return city


def opaque(one: Opaque) -> str:
    return str(one)


def calling(one: Callable[[], int]) -> str:
    return str(one)


def endless(one: Chain) -> str:
    return str(one)


def unread(one: Missing) -> str:  # pyright: ignore[reportUndefinedVariable,reportUnknownParameterType] # noqa: F821
    return str(one)  # pyright: ignore[reportUnknownArgumentType]


def raw(city: str) -> bytes:
    return city.encode()


class Shop:
    def price(self, item: str) -> str:
        return item


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (bare, "the parameter 'city' without a type hint: say its type"),
        (many, "the parameter '*cities', which cannot be given by name"),
        (keyed, "the parameter '**cities', which cannot be given by name"),
        (placed, "the parameter 'city', which cannot be given by name"),
        (opaque, "no JSON schema can say its parameters"),
        (calling, "no JSON schema can say its parameters"),
        (endless, "holds itself"),
        (unread, "a type hint that cannot be read"),
        (raw, "gives bytes, which no model can read"),
        (Shop.price, "of a method, make the bound one a tool"),
        (lambda: "x", "a tool cannot be called '<lambda>'"),
        (Shop, "is not a function"),
        (lookup, "is a tool already"),
    ],
)
def test_what_no_model_could_be_told_of_is_refused_at_once(function: Any, why: str) -> None:
    """The error comes when the function is made a tool, and says which parameter and what to do."""
    with pytest.raises(BadInput) as caught:
        prong.tool(function)
    assert why in str(caught.value)


def test_a_bound_method_is_a_function() -> None:
    """Its `self` is no parameter."""
    assert schema_of(prong.tool(Shop().price))["required"] == ["item"]


@pytest.mark.parametrize(
    "name", ["Read", "read", "task_stop", "WebFetch", "mcp__x__y", "a b", "", "x" * 65, "é"]
)
def test_a_name_that_is_taken_or_none_is_refused(name: str) -> None:
    """Neither a tool of Prong's, however it is spelt, nor a server's, nor what no API takes."""
    with pytest.raises(BadInput, match=r"choose another|give it a name|a tool cannot be called"):
        prong.tool(name=name or " ")(lambda: None)


def test_a_docstring_is_taken_apart() -> None:
    """Sections and fields speak of parameters; all else is the description."""
    assert read_docstring("Do it.\n\n:param a: one\n  more\n:param int b: two\n:returns: x") == (
        "Do it.",
        {"a": "one more", "b": "two"},
    )
    told = read_docstring("Do it.\n\nArgs:\n    a: one: really\n\nReturns:\n    A text.\n")
    assert told == ("Do it.\n\nReturns:\n    A text.", {"a": "one: really"})
