"""Which tools options ask for: functions are added to our own, names choose among those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from prong.agent.spec import AgentType
from prong.config.option import Options
from prong.errors import BadInput
from prong.tools.filter import is_same
from prong.tools.function import AnyFunctionTool, as_tool


def read_tools(given: object) -> tuple[str | AnyFunctionTool, ...] | None:
    """Read the option, with functions made tools.

    Raises BadInput if it holds anything else, or two functions of one name.
    """
    if given is None:
        return None
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise BadInput("the option tools must be a list of functions and names; write tools=[...]")
    read = tuple(_read(one) for one in cast("Sequence[object]", given))
    functions = [one.name for one in read if not isinstance(one, str)]
    for number, name in enumerate(functions):
        if any(is_same(name, other) for other in functions[:number]):
            raise BadInput(f"two functions are called {name!r}; choose another with name=...")
    return read


def _read(one: object) -> str | AnyFunctionTool:
    if isinstance(one, str):
        return one
    if callable(one):
        return as_tool(one)
    raise BadInput("each item of the option tools must be a function or the name of a tool")


def chosen_names(options: Options) -> tuple[str, ...] | None:
    """Give the tools of ours that are wanted; None if all are: functions alone choose nothing."""
    if options.tools is None:
        return None
    names = tuple(one for one in options.tools if isinstance(one, str))
    return names if names or not options.tools else None


def given_functions(options: Options) -> tuple[AnyFunctionTool, ...]:
    """Give the functions, in the order in which every prompt has them."""
    found = (as_tool(one) for one in options.tools or () if not isinstance(one, str))
    return tuple(sorted(found, key=lambda tool: tool.name))


def given_types(options: Options) -> tuple[AgentType, ...]:
    """Give the types of options that have been looked over."""
    return cast("tuple[AgentType, ...]", options.agents or ())


def function_names(options: Options) -> frozenset[str]:
    """Name all functions, of the session and of types, as rules may speak of them."""
    own = [kind.functions for kind in given_types(options)]
    return frozenset(tool.name for some in (given_functions(options), *own) for tool in some)
