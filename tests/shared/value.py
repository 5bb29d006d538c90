"""JSON of every kind, ids and names, to try the wire with."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from prong.entry import CallId

names = st.from_regex(r"\A[A-Za-z_]{1,12}\Z")
call_ids = st.from_regex(r"\A[A-Za-z0-9_-]{1,20}\Z").map(CallId)
odd_keys = st.text(max_size=6) | st.sampled_from(["a", "A", "а", "type", "malformed", "", "text"])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_keys, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(odd_keys, json_values, max_size=4)


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
