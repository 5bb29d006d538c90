"""The API reference, made from the docstrings of what programs may use.

Each page is one module: what it exports, with signatures, fields and what is said under them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType, UnionType
from typing import Any, Union, get_args, get_origin

MODULES = {
    "api/prong.md": "prong",
    "api/event.md": "prong.event",
    "api/command.md": "prong.command",
    "api/errors.md": "prong.errors",
    "api/testing.md": "prong.testing",
}


def pages() -> Iterator[tuple[str, str]]:
    """Give the path of each page with its text."""
    for path, name in MODULES.items():
        yield path, page(import_module(name))


def page(module: ModuleType) -> str:
    """Give the page of a module: every public name in the order of the alphabet."""
    told = (module.__doc__ or "").partition("\n\n")[0]
    parts = [f"# {module.__name__}", _prose(told)]
    parts.extend(_entry(name, getattr(module, name)) for name in names(module))
    return "\n\n".join(part for part in parts if part) + "\n"


def names(module: ModuleType) -> list[str]:
    """Give what a module offers: its list, or the public classes and functions made in it."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted((name for name in listed if not name.startswith("__")), key=str.casefold)
    own = (name for name, value in vars(module).items() if _is_own(module, name, value))
    return sorted(own, key=str.casefold)


def _is_own(module: ModuleType, name: str, value: object) -> bool:
    made = inspect.isclass(value) or inspect.isfunction(value)
    return made and not name.startswith("_") and value.__module__ == module.__name__


def _entry(name: str, value: object) -> str:
    if inspect.isclass(value):
        return _class(name, value)
    if inspect.isroutine(value):
        parts = [f"## {name}", _signature(name, value), _prose(inspect.getdoc(value) or "")]
        return "\n\n".join(parts)
    return f"## {name}\n\n{_text(value)}"


def _text(value: object) -> str:
    """Say what an alias stands for."""
    members = get_args(value)
    if get_origin(value) in {Union, UnionType} and members:
        told = ", ".join(f"`{getattr(one, '__name__', one)}`" for one in members)
        return f"One of {told}."
    return f"Stands for `{value}`."


def _class(name: str, kind: type) -> str:
    ours = (base for base in kind.__bases__ if base.__module__.startswith("prong"))
    bases = [base.__name__ for base in ours if not base.__name__.startswith("_")]
    parts = [f"## {name}"]
    if bases:
        parts.append(f"A kind of `{', '.join(bases)}`.")
    if "__init__" in vars(kind) and not _fields(kind):
        parts.append(_signature(name, kind))
    parts.append(_prose(_own_doc(kind)))
    if fields := _fields(kind):
        rows = [f"- `{field}`{f': {said}' if said else ''}" for field, said in fields]
        parts.append("\n".join(rows))
    for method, value in _methods(kind):
        parts.append(f"### {name}.{method}")
        shown = value.fget if isinstance(value, property) else value
        if not isinstance(value, property):
            parts.append(_signature(method, getattr(kind, method)))
        parts.append(_prose(inspect.getdoc(shown) or ""))
    return "\n\n".join(part for part in parts if part)


def _own_doc(kind: type) -> str:
    """Give a class's own words: a subclass without any would repeat its base's."""
    return inspect.cleandoc(vars(kind).get("__doc__") or "")


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(kind).items():
        plain = inspect.isfunction(value) or isinstance(
            value, property | classmethod | staticmethod
        )
        if plain and not name.startswith("_"):
            yield name, value


def _fields(kind: type) -> list[tuple[str, str]]:
    """Give the documented fields of a class, as they stand: name and type, and what is said."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError):
        return []
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: list[tuple[str, str]] = []
    for number, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        if node.target.id.startswith("_"):
            continue
        following = body[number + 1] if number + 1 < len(body) else None
        found.append((ast.unparse(node), _literal(following)))
    return found


def _literal(node: ast.AST | None) -> str:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return ""
    said = node.value.value
    return " ".join(said.split()) if isinstance(said, str) else ""


def _signature(name: str, value: Callable[..., Any]) -> str:
    try:
        told = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    kept = [one for one in told.parameters.values() if one.name not in {"self", "cls"}]
    shown = f"{name}{told.replace(parameters=kept)}".replace("'", "")
    prefix = "async " if inspect.iscoroutinefunction(value) else ""
    if len(shown) > 90:
        inner = ",\n".join(f"    {one}" for one in kept).replace("'", "")
        returned = told.return_annotation
        arrow = "" if returned is told.empty else f" -> {returned}".replace("'", "")
        shown = f"{name}(\n{inner},\n){arrow}"
    return f"```python\n{prefix}{shown}\n```"


def _prose(text: str) -> str:
    """Give a docstring as Markdown; what `Raises:` lists becomes a list."""
    lines = inspect.cleandoc(text).splitlines()
    made: list[str] = []
    listing = False
    for line in lines:
        if line.strip() in {"Raises:", "Args:", "Returns:"}:
            listing = True
            made += [f"{line.strip()[:-1]}:", ""]
        elif listing and line.startswith("    "):
            made.append(f"- {line.strip()}")
        else:
            listing = listing and not line
            made.append(line)
    return "\n".join(made)
