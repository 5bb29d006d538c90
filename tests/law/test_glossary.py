"""One word, one meaning: names of types and of files over the whole package, and the glossary."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.structure import modules, nodes

METAPHORS = (
    "office usher shelf door departure desk purse hush farewell voice tidings roster employer "
    "recruit hire"
)
"""Words that charm whoever wrote them and tell a newcomer nothing."""

DESIGN = Path(__file__).parents[2] / "docs" / "design.md"


def meanings() -> dict[str, set[str]]:
    """Give what each class, alias or new type means, leading underscores aside: where it is, or what it is.

    A union and the private base of its members, in one module, are one idea; so are two aliases of
    one type.
    """
    found: dict[str, dict[str, str]] = {}
    for module, tree in modules().items():
        for name, meaning in _types(module, tree):
            found.setdefault(name.lstrip("_"), {})[module] = meaning
    return {name: set(homes.values()) for name, homes in found.items()}


def _types(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) if not _is_vendors(module, name):
                yield name, module
            case ast.AnnAssign(
                target=ast.Name(id=name),
                annotation=ast.Name(id="TypeAlias"),
                value=ast.expr() as of,
            ):
                yield name, ast.unparse(of)
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="NewType"))
            ):
                yield name, module
            case _:
                pass


def _is_vendors(module: str, name: str) -> bool:
    """Whether a class mirrors the JSON of a vendor, in the vendor's words.

    Two vendors call two things `function`, `item` or `usage`, and a name of ours would only hide
    which field is meant. Such classes are private to their module and never leave it.
    """
    return module.startswith("prong.wire.") and name.startswith("_")


def test_a_type_name_means_one_thing() -> None:
    """No two classes, aliases or new types have one name, but for what mirrors a vendor's words."""
    assert not [name for name, found in meanings().items() if len(found) > 1]


def test_a_file_name_means_one_thing() -> None:
    """No two modules or packages have one name; a package's main module may have the package's."""
    names = [name.split(".") for name in modules()]
    count = Counter(parts[-1] for parts in names if parts[-1] not in parts[-2:-1])
    assert not [name for name, number in count.items() if number > 1]


def test_names_are_of_the_trade() -> None:
    """No module, class or function is named by a metaphor that its readers would have to guess."""
    names = {part for module in modules() for part in module.split(".")}
    for kind in (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef):
        names |= {node.name for _, node in nodes(kind)}
    words = {name: set(re.findall(r"[A-Z]?[a-z]+", name)) for name in names}
    banned = {form for word in METAPHORS.split() for form in (word, word.capitalize())}
    assert sorted(name for name, parts in words.items() if parts & banned) == []


def glossary() -> list[tuple[str, str]]:
    """Read the table: each word, and where what it means is found."""
    section = DESIGN.read_text("utf-8").partition("\n## Vocabulary\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [(row[0].strip(), row[-1].strip(" `")) for row in rows[1:]]


def test_a_word_of_the_glossary_is_explained_once() -> None:
    """No word stands in the glossary twice, and they are in order."""
    words = [word for word, _ in glossary()]
    assert len(words) > 40
    assert words == sorted(set(words))


@pytest.mark.parametrize(("word", "where"), glossary())
def test_a_word_of_the_glossary_is_where_it_says(word: str, where: str) -> None:
    """What the glossary names exists, in the file that it names."""
    path, _, name = where.partition(".")
    module = "prong." + path.replace("/", ".")
    assert module in modules(), word
    if name:
        assert name in {found for found, _ in _types(module, modules()[module])}, word
