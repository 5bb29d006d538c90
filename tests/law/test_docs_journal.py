import re
from pathlib import Path
from typing import get_args

import msgspec

from prong.journal import record
from prong.journal.note import Note

PAGE = (Path(__file__).parents[2] / "docs/journal.md").read_text("utf-8")


def test_every_kind_of_line_is_documented():
    """docs/journal.md has a row for each kind of record, and names each of its members."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))
    kinds = {
        str(kind.__struct_config__.tag): kind.__struct_fields__
        for kind in vars(record).values()
        if isinstance(kind, type)
        and issubclass(kind, msgspec.Struct)
        and kind.__struct_config__.tag_field == "k"
    }
    missing = {
        (kind, field)
        for kind, fields in kinds.items()
        for field in fields
        if f"`{field}`" not in rows.get(kind, "")
    }

    assert set(rows) - {"k"} == set(kinds)
    assert missing == set()


def test_every_kind_of_note_is_documented():
    """docs/journal.md names each kind of note, in the order of the union, and no other."""
    listed = re.search(r"^    name +of +value\n((?:    .+\n)+)", PAGE, re.MULTILINE)
    assert listed is not None
    names = [line.split()[0].removesuffix("/ID") for line in listed[1].splitlines()]

    assert names == [kind.tag for kind in get_args(Note)]
