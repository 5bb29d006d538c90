"""JSON of others is read by one rule: whatever is wrong with it, its reader says so and goes on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from prong.config.document import parse_document
from prong.config.server_file import read_codex
from prong.cost.price import read_prices
from prong.errors import BadInput, ConfigError
from prong.face.acp.rpc import _found_id
from prong.foreign_json import NOT_JSON
from prong.journal.eventlog import read_envelope
from prong.tools.files.cells import parse
from prong.tools.structured import StructuredOutput
from shared.structure import nodes

DEEP = b'{"a":' + b"[" * 200_000
LATIN = b'{"title": "caf\xe9"}'.decode(errors="surrogateescape")
"""What Python makes of an argument in another encoding."""


def incomplete() -> Iterator[str]:
    """Name the places that take some of what reading JSON raises, and let the rest through."""
    for module, found in nodes(ast.Try):
        caught = {
            ast.unparse(kind)
            for handler in found.handlers
            if handler.type is not None
            for kind in (
                handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            )
        }
        expected = caught & {"msgspec.MsgspecError", "msgspec.DecodeError"}
        if expected and not {"ValueError", "RecursionError"} <= caught:
            yield f"{module}:{found.lineno}"


def test_whoever_expects_bad_json_expects_all_of_it() -> None:
    """No reader takes what is no JSON for an error and fails with what nests, or is no text."""
    assert [*incomplete()] == []


def test_what_nests_is_not_understood(tmp_path: Path) -> None:
    """Events, prices, messages of editors and TOML of others that nest are as bad as torn ones."""
    assert read_envelope(DEEP) is None
    assert _found_id(DEEP) is None
    with pytest.raises(ConfigError):
        read_prices("prices.json", DEEP)
    settings = tmp_path / "config.toml"
    settings.write_text(f"mcp_servers = {'[' * 20_000}")
    assert isinstance(read_codex(settings), ConfigError)


def test_what_is_no_text_is_not_understood() -> None:
    """Bytes of another encoding, in a notebook or on the command line, are as bad as torn ones."""
    assert "decode" in str(parse(b'{"cells": [{"cell_type": "code", "source": "\xff"}]}'))
    assert isinstance(parse_document("--settings", LATIN), ConfigError)
    with pytest.raises(BadInput, match="cannot be used"):
        StructuredOutput(LATIN)


@pytest.mark.parametrize("data", [b"{", DEEP, b'"\xff"', b"[1]"])
def test_all_that_reading_raises_is_named(data: bytes) -> None:
    """What is torn, nests, is no text or of another shape raises one of the kinds that are named."""
    with pytest.raises(NOT_JSON):
        msgspec.json.decode(data, type=dict[str, int])
