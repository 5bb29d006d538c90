"""Tools that installed packages bring: functions, by entry points of the group `prong.tools`.

They are tools of every session, as those are that a program gives: part of the head, in the order
of their names, under the same rules. What cannot be used is left out and told, unless it was asked
for by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from prong.config.option import Options
from prong.config.tool_choice import chosen_names, given_functions
from prong.errors import NotInstalled, UsageError
from prong.extension import Extension, installed
from prong.tools.filter import is_same
from prong.tools.function import AnyFunctionTool, as_tool


class PackageTools(msgspec.Struct, frozen=True):
    """What packages bring to a session."""

    tools: tuple[AnyFunctionTool, ...] = ()
    """In the order of their names."""
    problems: tuple[str, ...] = ()
    """What was left out, and why."""


def package_tools(options: Options) -> PackageTools:
    """Load the tools of all packages that the options leave room for.

    Names among the options choose here too, and a function of the caller's goes before one of its
    name.
    """
    wanted = chosen_names(options)
    if options.bare or (wanted is not None and not wanted):
        return PackageTools()
    brought: list[tuple[Extension, AnyFunctionTool]] = []
    problems: list[str] = []
    for found in installed("prong.tools"):
        try:
            brought += ((found, tool) for tool in load_tools(found))
        except NotInstalled as error:
            problems.append(str(error))
    kept: list[AnyFunctionTool] = []
    for at, (found, tool) in enumerate(brought):
        if why := _why_not(tool, [*brought[:at], *brought[at + 1 :]], given_functions(options)):
            problems.append(f"the tool {tool.name} of {found} is left out: {why}")
        elif wanted is None or tool.name in wanted:
            kept.append(tool)
    return PackageTools(tuple(sorted(kept, key=lambda tool: tool.name)), tuple(problems))


def _why_not(
    tool: AnyFunctionTool,
    others: Sequence[tuple[Extension, AnyFunctionTool]],
    given: Sequence[AnyFunctionTool],
) -> str:
    """Say why a tool cannot be had; empty if it can."""
    same = [str(found) for found, other in others if is_same(other.name, tool.name)]
    if same:
        return f"one of its name is among {', '.join(same)}; uninstall all but one"
    if any(is_same(other.name, tool.name) for other in given):
        return "the caller has given a function of its name"
    return ""


def load_tools(found: Extension) -> tuple[AnyFunctionTool, ...]:
    """Load the tools of one entry point: a function, or several.

    Raises NotInstalled if it brings anything else, or cannot be loaded.
    """
    loaded: Any = found.load()
    given = [loaded] if callable(loaded) else loaded
    try:
        return tuple(map(as_tool, cast("Iterable[Any]", given)))
    except (UsageError, TypeError) as error:
        raise found.wrong(f"are none: {error}") from error
