"""What the package's syntax trees say of its imports, classes and assignments."""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec

import prong

ROOT = Path(prong.__file__).parent

Level = Literal["module", "function", "typing"]
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Node = TypeVar("_Node", bound=ast.AST)


class Import(msgspec.Struct, frozen=True, order=True):
    """One module imports another, at its beginning, in a function, or for the checker only."""

    source: str
    target: str
    level: Level


class Shape(msgspec.Struct, frozen=True):
    """A class as it is written."""

    module: str
    name: str
    changes: bool
    """Whether its instances can: it is no frozen value, no protocol, no error."""
    fields: Mapping[str, str]
    """What an instance holds, with the annotation if there is one."""
    methods: frozenset[str]
    """With properties."""

    @property
    def public(self) -> set[str]:
        """Everything that others may use."""
        return {name for name in {*self.fields, *self.methods} if not name.startswith("_")}

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Assignment(msgspec.Struct, frozen=True):
    """A field is assigned on an object that is not the method's own."""

    module: str
    owner: frozenset[str]
    """The classes the object may be of, as far as an annotation or a construction tells."""
    attribute: str


@contextmanager
def _keeping() -> Generator[None]:
    """Look for no garbage while very many objects are made that stay: that takes most of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@cache
def modules() -> dict[str, ast.Module]:
    """Parse all modules of the package but the test kit."""
    with _keeping():
        return {name: ast.parse(text) for name, text in _texts()}


def _texts() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        parts = ("prong", *path.relative_to(ROOT).with_suffix("").parts)
        if parts[1] != "testing":
            yield ".".join(parts).removesuffix(".__init__"), path.read_text("utf-8")


def naming(*names: str) -> set[str]:
    """Find the modules that use one of these names; no other than where it stands is parsed."""
    return {
        module
        for module, text in _texts()
        if any(name in text for name in names)
        if any(
            isinstance(node, ast.Name) and node.id in names for node in ast.walk(ast.parse(text))
        )
    }


@cache
def _nodes() -> dict[type[ast.AST], list[tuple[str, ast.AST]]]:
    """Walk through all modules, once for everybody who looks for something."""
    found: dict[type[ast.AST], list[tuple[str, ast.AST]]] = {}
    trees = modules()
    with _keeping():
        for module, tree in trees.items():
            for node in ast.walk(tree):
                found.setdefault(type(node), []).append((module, node))
    return found


def nodes(kind: type[_Node]) -> Iterator[tuple[str, _Node]]:
    """Find all of one kind, each with its module."""
    for module, node in _nodes().get(kind, ()):
        if isinstance(node, kind):
            yield module, node


@cache
def imports() -> frozenset[Import]:
    """Find who imports whom, inside the package."""
    return frozenset(
        Import(source, target, level)
        for source, tree in modules().items()
        for node, level in _import_nodes(tree, "module")
        for target in _targets(node)
        if target != source and target in modules()
    )


def _import_nodes(
    node: ast.AST, level: Level
) -> Iterator[tuple[ast.Import | ast.ImportFrom, Level]]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import() | ast.ImportFrom():
                yield child, level
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _import_nodes(child, "function")
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from _import_nodes(child, "typing")
            case _:
                yield from _import_nodes(child, level)


def _targets(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    assert node.module is not None, "no import is relative"
    for alias in node.names:
        whole = f"{node.module}.{alias.name}"
        yield whole if whole in modules() else node.module


def cycles(*levels: Level) -> set[str]:
    """Find the modules that import each other, round about; each cycle as one line."""
    graph: dict[str, set[str]] = {name: set() for name in modules()}
    for each in imports():
        if each.level in levels:
            graph[each.source].add(each.target)
    reach = {name: _reached(graph, name) for name in graph}
    knots = {
        frozenset(other for other in reach[name] if name in reach[other])
        for name in graph
        if name in reach[name]
    }
    return {" ".join(sorted(short(name) for name in knot)) for knot in knots}


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = graph[waiting.pop()] - found
        found |= fresh
        waiting += fresh
    return found


def short(module: str) -> str:
    """Leave out what all names begin with."""
    return module.removeprefix("prong.")


@cache
def shapes() -> tuple[Shape, ...]:
    """Describe every class of the package."""
    trees = {(short(module), node.name): node for module, node in nodes(ast.ClassDef)}
    by_name: dict[str, list[ast.ClassDef]] = {}
    for (_, name), node in trees.items():
        by_name.setdefault(name, []).append(node)
    return tuple(
        Shape(
            module,
            name,
            not _is_fixed(node, by_name),
            _annotated(_fields(node)),
            frozenset(f.name for f in node.body if isinstance(f, Function)),
        )
        for (module, name), node in trees.items()
    )


_FIXED = {"Protocol", "TypedDict", "NamedTuple", "Enum", "StrEnum", "Exception", "ValueError"}


def _is_fixed(node: ast.ClassDef, by_name: Mapping[str, list[ast.ClassDef]]) -> bool:
    configured = [node, *(d for d in node.decorator_list if isinstance(d, ast.Call))]
    keywords = [k for part in configured for k in part.keywords]
    if any(k.arg == "frozen" and ast.unparse(k.value) == "True" for k in keywords):
        return True
    # The bare name: asyncio.Protocol is nothing of the kind.
    bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
    return any(
        base in _FIXED or any(_is_fixed(b, by_name) for b in by_name.get(base, ()) if b is not node)
        for base in bases
    )


def _annotated(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, annotation in fields:
        found[name] = found.get(name) or annotation
    return found


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if "ClassVar" not in (text := ast.unparse(annotation)):
                    yield name, text
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for target, annotation in _assigned(statement):
                    match target:
                        case ast.Attribute(value=ast.Name(id="self"), attr=name):
                            yield name, annotation
                        case _:
                            pass
            case _:
                pass


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Find all that is assigned to, with the annotation if there is one."""
    for child in ast.walk(node):
        match child:
            case ast.Assign(targets=targets):
                yield from ((part, "") for target in targets for part in _parts(target))
            case ast.AnnAssign(target=target, annotation=annotation):
                yield target, ast.unparse(annotation)
            case ast.AugAssign(target=target) | ast.For(target=target):
                yield from ((part, "") for part in _parts(target))
            case ast.withitem(optional_vars=ast.expr() as target):
                yield from ((part, "") for part in _parts(target))
            case ast.Delete(targets=targets):
                yield from ((target, "") for target in targets)
            case _:
                pass


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _parts(element)
    else:
        yield target


def intrusions() -> set[tuple[str, str]]:
    """Find assignments to fields of classes of other modules: who assigns, and which field.

    Where the object's class cannot be told, a field counts as the module's own if any class of the
    module has a field of that name.
    """
    holders: dict[str, set[tuple[str, str]]] = {}
    names = {shape.name for shape in shapes()}
    for shape in (shape for shape in shapes() if shape.changes):
        for name in shape.fields:
            holders.setdefault(name, set()).add((shape.module, shape.name))
    found: set[tuple[str, str]] = set()
    for each in assignments():
        if each.owner and not each.owner & names:
            continue
        homes = {
            module
            for module, name in holders.get(each.attribute, ())
            if not each.owner or name in each.owner
        }
        if homes and each.module not in homes:
            found.add((each.module, each.attribute))
    return found


def assignments() -> Iterator[Assignment]:
    """Find the attributes that are assigned on anything but the method's own object."""
    for module, function in (*nodes(ast.FunctionDef), *nodes(ast.AsyncFunctionDef)):
        types = _types(function)
        for target, _ in _assigned(function):
            match target:
                case ast.Attribute(value=ast.Name(id="self" | "cls")):
                    pass
                case ast.Attribute(value=value, attr=attribute):
                    owner = re.findall(r"\w+", types.get(ast.unparse(value), ""))
                    yield Assignment(short(module), frozenset(owner), attribute)
                case _:
                    pass


def _types(function: Function) -> dict[str, str]:
    """Tell the classes of names: by annotations, and by being made on the spot."""
    given = function.args
    found = {
        argument.arg: ast.unparse(argument.annotation)
        for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)
        if argument.annotation is not None
    }
    for node in ast.walk(function):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                found[name] = ast.unparse(annotation)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=made))):
                if made[:1].isupper():
                    found.setdefault(name, made)
            case _:
                pass
    return found


def callables() -> set[str]:
    """Name what an annotation of a callback can say: Callable, its aliases, calling protocols."""
    aliases = {
        target.id
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.AnnAssign | ast.Assign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id[:1].isupper()
        if node.value is not None and "Callable[" in ast.unparse(node.value)
    }
    calling = {shape.name for shape in shapes() if "__call__" in shape.methods}
    return {"Callable", *aliases, *calling}
