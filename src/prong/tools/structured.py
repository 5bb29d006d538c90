"""An answer as an object of a given JSON schema, for programs that read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from prong.entry import CallId
from prong.errors import BadInput
from prong.foreign_json import NOT_JSON
from prong.tools.access import Access
from prong.tools.tool import CallOutcome, Context, Failed, SideEffect, done


class _Anything(msgspec.Struct):
    value: dict[str, Any]


def _unresolved(table: dict[str, Any]) -> str:
    """Give the first $ref of a schema to something that is not in it; empty if there is none."""
    from jsonschema_specifications import REGISTRY
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    kind = specification_with(table.get("$schema", ""), default=DRAFT202012)
    root = kind.create_resource(table)
    parts = [(root, REGISTRY.resolver_with_root(root))]
    seen: set[int] = set()
    while parts:
        part, resolver = parts.pop()
        if not isinstance(part.contents, dict):
            continue
        contents = cast("dict[str, Any]", part.contents)
        if id(contents) in seen:
            continue
        seen.add(id(contents))
        reference = contents.get("$ref")
        if isinstance(reference, str):
            try:
                found = resolver.lookup(reference)
            except Unresolvable:
                return reference
            parts.append((kind.create_resource(found.contents), found.resolver))
        parts += [(one, resolver.in_subresource(one)) for one in part.subresources()]
    return ""


class StructuredOutput:
    """Takes the final answer and checks it against the schema."""

    name = "StructuredOutput"
    effect: SideEffect = "writes"
    arguments: type[msgspec.Struct] = _Anything
    budget = 10_000
    description = (
        "Give the final answer. Call this exactly once, when the work is done: what you pass is "
        "the answer that the caller's program reads, so it must be complete and of this schema."
    )

    def __init__(self, schema: str) -> None:
        """Take the JSON schema.

        Raises UsageError if it is not one for an object.
        """
        from jsonschema import exceptions, validators
        from jsonschema_specifications import REGISTRY

        try:
            table = msgspec.json.decode(schema, type=dict[str, Any])
            kind = validators.validator_for(table)
            kind.check_schema(table)
            unresolved = _unresolved(table)
        # Where a schema has values of odd types, its libraries fail in ways of their own.
        except (*NOT_JSON, exceptions.SchemaError, AttributeError, TypeError) as error:
            reason = str(error).partition("\n")[0]
            raise BadInput(f"the JSON schema cannot be used: {reason}") from error
        if unresolved:
            raise BadInput(
                f"the JSON schema refers to {unresolved!r}, which it does not hold; nothing is "
                "fetched from elsewhere: put it under $defs"
            )
        if table.get("type", "object") != "object":
            raise BadInput("the JSON schema must describe an object: set its type to 'object'")
        # Left to itself the library would get a schema from whatever address it names.
        self._validator = kind(table, registry=REGISTRY)
        self.raw_schema = msgspec.Raw(msgspec.json.encode({"type": "object"} | table))
        self.answer: bytes | None = None

    def decode(self, text: str) -> Any:
        """Read the answer and hold it against the schema."""
        value = msgspec.json.decode(text or "{}", type=dict[str, Any])
        errors = [
            f"{error.json_path}: {error.message}"
            # The package's stubs leave out what an error carries.
            for error in cast("Any", self._validator).iter_errors(value)
        ]
        if errors:
            raise msgspec.ValidationError("; ".join(errors[:5]))
        return value

    def title(self, args: Any) -> str:
        """Say that the answer was given."""
        del args
        return "StructuredOutput"

    def access(self, args: Any, context: Context) -> Sequence[Access]:
        """Touch nothing."""
        del args, context
        return ()

    async def run(self, call_id: CallId, args: Any, context: Context) -> CallOutcome:
        """Keep the answer; the last one counts."""
        del call_id, context
        if not isinstance(args, dict):
            return Failed("the answer must be an object")
        self.answer = msgspec.json.encode(args)
        return done("The answer was taken. End here, without further text.")
