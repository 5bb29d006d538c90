"""An object that arrives in pieces."""

from __future__ import annotations

from collections.abc import Container

from prong.wire.raw import Fields, present, raw, string


class Grown:
    """An object under way: the fields it began with, in order, and the texts added to them."""

    __slots__ = ("_pieces", "fields")

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self._pieces: dict[str, list[str]] = {}

    def add(self, field: str, text: str) -> None:
        """Add to a text field; a new one takes its place behind the others."""
        pieces = self._pieces.get(field)
        if pieces is None:
            pieces = self._pieces[field] = [string(self.fields.get(field))]
            self.fields.setdefault(field, raw(""))
        pieces.append(text)

    def fold(self, delta: Fields, *, growing: Container[str] | None = None) -> None:
        """Take a piece of the same shape: texts grow (all or the named), the rest replaces."""
        for field, value in delta.items():
            if growing is None or field in growing:
                text = string(value)
                if text:
                    self.add(field, text)
                    continue
            if present(value):
                self.fields[field] = value

    def done(self) -> Fields:
        """Give the whole object."""
        for field, pieces in self._pieces.items():
            self.fields[field] = raw("".join(pieces))
        return self.fields
