"""The public names: all there, all described, and no more than promised."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import get_type_hints

import msgspec
import pytest

import prong
import prong.testing
from prong.config.option import OptionKeywords, Options

pytestmark = pytest.mark.spec("X4")


def test_the_names_are_about_twenty() -> None:
    """`prong.__all__` is sorted, small, and what `dir` shows."""
    assert prong.__all__ == sorted(prong.__all__)
    assert 15 <= len(prong.__all__) <= 25
    assert dir(prong) == sorted(prong.__all__)


@pytest.mark.parametrize("name", prong.__all__)
def test_every_name_exists_and_says_what_it_is(name: str) -> None:
    """Each name can be imported; each class and function has a docstring of its own."""
    value = getattr(prong, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__doc__, name
        assert value.__doc__.strip()


def test_no_name_is_missing_from_the_list() -> None:
    """What is looked up when first used is what is listed, and anything else is refused."""
    assert set(prong._HOMES) | {"__version__"} == set(prong.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = prong.nonsense  # pyright: ignore[reportUnknownVariableType,reportAttributeAccessIssue] # on purpose


@pytest.mark.parametrize("name", prong.testing.__all__)
def test_the_test_kit_is_there(name: str) -> None:
    """Each public name of the test kit exists."""
    assert getattr(prong.testing, name) is not None


def test_options_and_keywords_are_the_same() -> None:
    """`open_session(**given)` takes exactly the fields of `Options`, with their types."""
    fields = {field.name for field in msgspec.structs.fields(Options)}
    assert set(OptionKeywords.__annotations__) == fields
    assert get_type_hints(OptionKeywords) == get_type_hints(Options)


def test_the_package_is_quick_to_import() -> None:
    """Importing `prong` loads neither a session nor a provider."""
    code = "import prong, sys; print([m for m in sys.modules if m.startswith('prong.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "['prong.about']"


def test_the_package_is_typed() -> None:
    """Type checkers find the marker."""
    from importlib.resources import files

    assert (files("prong") / "py.typed").is_file()
