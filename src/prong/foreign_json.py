"""What can be wrong with JSON that others wrote."""

from __future__ import annotations

import msgspec

NOT_JSON = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What reading it raises: it is none, or of another shape, or no text, or nests too deeply."""
