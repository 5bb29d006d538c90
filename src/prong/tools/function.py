"""A Python function as a tool.

Its schema comes from its type hints and is made once, when the function is made a tool: it is part
of the head of every session that has it, which nothing may change while the session runs. Whatever
no model could be told of is refused in that moment. A plain function runs in a thread, one that is
`async` in the session's event loop; a generator's pieces are shown as they come.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import (
    Annotated,
    Any,
    Generic,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
    overload,
)

import msgspec

from prong.entry import CallId
from prong.errors import BadInput
from prong.tools.access import Access, Using
from prong.tools.filter import is_own
from prong.tools.function_call import call_function
from prong.tools.rule import TOOLS
from prong.tools.schema import decoder, schema
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect

_P = ParamSpec("_P")
_R = TypeVar("_R")

RESULT = 50_000
"""Characters of a result that the model sees at most, unless the tool says otherwise."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TITLE = 80
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_REMEDY = "say its type, such as `city: str`; the model is told by it what to give"


class FunctionTool(Generic[_P, _R]):
    """A function that a model may call; made by `prong.tool`, and still called as it was."""

    def __init__(
        self, function: Callable[_P, _R], *, name: str, about: str, read_only: bool, budget: int
    ) -> None:
        """Use `prong.tool`."""
        from prong.tools.docstring import read_docstring

        self._function = function
        self._form = _form(function)
        self.name = _checked_name(name)
        self.effect: SideEffect = "reads" if read_only else "writes"
        self.budget = budget
        told, parameters = read_docstring(about or inspect.getdoc(function) or "")
        self.description = told or f"Calls the function {name}."
        self.arguments = _arguments(function, name, parameters)
        try:
            self.raw_schema = msgspec.Raw(schema(self.arguments))
            self._decoder = decoder(self.arguments)
        except (TypeError, ValueError, RecursionError) as error:
            why = " ".join(str(error).split())
            raise BadInput(f"the tool {name}: no JSON schema can say its parameters: {why}") from (
                error
            )
        # Help, names and hints are those of the function.
        self.__doc__, self.__wrapped__ = function.__doc__, function
        self._fixed = True

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse every change: heads show what it takes, and gates know whether it only reads."""
        if "_fixed" in self.__dict__:
            raise AttributeError(f"{self!r} is as it was made; make another with prong.tool(...)")
        super().__setattr__(name, value)

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call the function as it is."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing, so that nobody need be asked."""
        return self.effect == "reads"

    def decode(self, text: str) -> Any:
        """Read the arguments of a call."""
        return self._decoder.decode(text or "{}")

    def title(self, args: Any) -> str:
        """Name the tool and its arguments."""
        given = ", ".join(f"{key}={value!r}" for key, value in _given(args).items())
        shown = " ".join(f"{self.name} {given}".split())
        return shown if len(shown) <= _TITLE else f"{shown[: _TITLE - 1]}…"

    def access(self, args: Any, context: Context) -> Sequence[Access]:
        """Rules speak of it by its name."""
        del args, context
        return (Using(self.name, reads=self.read_only),)

    async def run(self, call_id: CallId, args: Any, context: Context) -> CallOutcome:
        """Call the function; whatever it raises is told to the model."""
        if _form(self._function) != self._form:
            return Failed(
                f"the function behind {self.name} was changed since it was made a tool, so what "
                f"you know of it is no longer true: work without it"
            )
        return await call_function(self.name, self._function, _given(args), call_id, context)


AnyFunctionTool: TypeAlias = FunctionTool[..., Any]


@overload
def tool(function: Callable[_P, _R], /) -> FunctionTool[_P, _R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    max_result: int = RESULT,
) -> Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    max_result: int = RESULT,
) -> Any:
    """Make a function a tool, to be given to `open_session(tools=[...])`.

    The model knows it by its name, its docstring and its type hints, which say what each parameter
    must be. One that is `read_only` changes nothing: it runs without asking, in plan mode too, and
    beside other calls. Of a longer result than `max_result` characters the model sees a part, and
    where the whole is.

    Raises BadInput if the function has no hints, or a parameter that cannot be given by name or
    that no JSON schema can say.
    """
    if max_result < 1:
        raise BadInput(f"max_result is {max_result}; it must be above 0")

    def make(given: Callable[..., Any]) -> AnyFunctionTool:
        if isinstance(given, FunctionTool):
            raise BadInput(f"{given!r} is a tool already")
        if not inspect.isroutine(given):
            raise BadInput(f"{given!r} is not a function; only those can be tools")
        return FunctionTool(
            given,
            name=name or given.__name__,
            about=description or "",
            read_only=read_only,
            budget=max_result,
        )

    return make if function is None else make(function)


def as_tool(given: Callable[..., Any]) -> AnyFunctionTool:
    """Take a tool, or make a function one.

    Raises BadInput if that cannot be.
    """
    return cast("AnyFunctionTool", given) if isinstance(given, FunctionTool) else tool(given)


def _given(args: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(args, name) for name in args.__struct_fields__}


def _checked_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise BadInput(
            f"a tool cannot be called {name!r}: give it a name of letters, digits, _ and -, of 64 "
            f"at most, with name=..."
        )
    if name in TOOLS or is_own(name) or name.lower().startswith("mcp__"):
        raise BadInput(
            f"a function cannot be called {name!r}, which is the name of another tool; choose "
            f"another with name=..."
        )
    return name


def _form(function: Callable[..., Any]) -> object:
    """Give what of a function its schema was made from, by which a change is noticed."""
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    return names, dict(getattr(plain, "__annotations__", {}))


def _arguments(
    function: Callable[..., Any], name: str, told: dict[str, str]
) -> type[msgspec.Struct]:
    """Make the type of a call's arguments from the function's parameters."""
    hints = _hints(function, name)
    if hints.get("return") in (bytes, bytearray, memoryview):
        raise BadInput(f"the tool {name} gives bytes, which no model can read; give back a text")
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = _checked_parameter(name, parameter, hints)
        described = _described(kind, told.get(parameter.name, ""))
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, described))
        else:
            fields.append((parameter.name, described, _default(parameter.default)))
    try:
        return msgspec.defstruct(
            name.replace("-", "_"), fields, kw_only=True, forbid_unknown_fields=True
        )
    except (TypeError, ValueError) as error:
        raise BadInput(f"the tool {name} has parameters that no model can give: {error}") from error


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    from typing import get_type_hints

    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise BadInput(
            f"the tool {name} has a type hint that cannot be read ({error}); what it names must be "
            f"known where the function's module is"
        ) from error


def _checked_parameter(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> Any:
    if parameter.kind not in _BY_NAME:
        raise BadInput(
            f"the tool {name} has the parameter {str(parameter).split(':')[0]!r}, which cannot be "
            f"given by name; a model gives each parameter by its name"
        )
    if parameter.name not in hints:
        method = " (of a method, make the bound one a tool)" if parameter.name == "self" else ""
        raise BadInput(
            f"the tool {name} has the parameter {parameter.name!r} without a type hint{method}: "
            f"{_REMEDY}"
        )
    return hints[parameter.name]


def _described(kind: Any, told: str) -> Any:
    """Say in words what a parameter is: those of its hint go before those of the docstring."""
    extras = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
    if any(isinstance(one, msgspec.Meta) and one.description for one in extras):
        return kind
    words = next((one for one in extras if isinstance(one, str)), told)
    return Annotated[kind, msgspec.Meta(description=words)] if words else kind


def _default(value: object) -> Any:
    """Give a default as it is; what the model cannot be told of is only used."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return msgspec.field(default_factory=lambda: value)
