"""Edit changes the matched text and nothing else."""

from __future__ import annotations

import difflib
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.tools.files.content import TextFile, decode
from prong.tools.files.diff import unified
from prong.tools.files.pattern import Pattern, expand
from prong.tools.files.replace import occurrences, substitute
from prong.tools.files.window import Window, split

pytestmark = pytest.mark.spec("L2")

letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
prose = st.text(letters)
small = st.text(st.sampled_from("ab\r\n é\U0001f600"), max_size=40)
bits = st.text(st.sampled_from("ab\n "), min_size=1, max_size=3)


@given(prose, st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"]))
def test_decoding_loses_nothing(text: str, encoding: str) -> None:
    """What was decoded encodes to the same bytes."""
    mark = "\ufeff" if encoding != "utf-8" else ""
    data = (mark + text).encode(encoding.removesuffix("-sig"))
    document = decode(data)
    if isinstance(document, TextFile):
        assert document.encode(document.text) == data
    else:
        assert encoding == "utf-8", "only unmarked bytes may be taken for binary"


@given(st.binary())
def test_any_bytes_decode_or_are_binary(data: bytes) -> None:
    """Bytes of any kind are either text that encodes back to them, or named as binary."""
    document = decode(data)
    if isinstance(document, TextFile):
        assert document.encode(document.text) == data


@given(prose, prose.filter(bool), prose, prose)
def test_a_single_occurrence_is_replaced_exactly(a: str, old: str, b: str, new: str) -> None:
    """In a file with plain line feeds the result is before + new + after."""
    text = (a + old + b).replace("\r\n", "\n")
    old = old.replace("\r\n", "\n")
    spans = occurrences(text, old)
    if "\r\n" in text or len(spans) != 1:
        return
    ((start, end),) = spans
    assert text[start:end] == old
    assert substitute(text, spans, new) == text[:start] + new + text[end:]


@given(small, bits, bits)
def test_outside_the_spans_nothing_changes(text: str, old: str, new: str) -> None:
    """With mixed line endings too, all text around the matches survives byte for byte."""
    spans = occurrences(text, old)
    changed = substitute(text, spans, new)
    outside: list[str] = []
    at = 0
    for start, end in spans:
        assert text[start:end].replace("\r\n", "\n") == old
        outside.append(text[at:start])
        at = end
    outside.append(text[at:])
    written = {new, new.replace("\n", "\r\n")}
    assert changed in {w.join(outside) for w in written}


@given(small, bits)
def test_every_occurrence_is_found(text: str, old: str) -> None:
    """As many matches as the text with plain line feeds has, and none left when deleted once."""
    spans = occurrences(text, old)
    assert len(spans) == text.replace("\r\n", "\n").count(old)


@given(st.lists(st.text("ab ", max_size=4), min_size=1), bits, bits)
def test_crlf_files_stay_crlf(lines: list[str], old: str, new: str) -> None:
    """An edit of a file whose lines all end in CR LF gives such a file again."""
    text = "".join(f"{line}\r\n" for line in lines)
    changed = substitute(text, occurrences(text, old), new)
    assert re.search(r"(?<!\r)\n|\r(?!\n)", changed) is None
    plain = text.replace("\r\n", "\n").replace(old, new)
    assert changed == plain.replace("\n", "\r\n")


@given(st.binary(max_size=200), st.integers(1, 6), st.integers(1, 6), st.integers(1, 7))
def test_a_window_shows_the_same_lines_however_the_bytes_come(
    data: bytes, first: int, count: int, size: int
) -> None:
    """A range read piece by piece equals the range of the whole."""
    data = data.replace(b"\1", b"\n")
    window = Window(first, count)
    for at in range(0, len(data), size):
        window.feed(data[at : at + size])
    lines = data.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    assert window.total == len(lines)
    wanted = [line.decode(errors="replace") for line in lines[first - 1 : first - 1 + count]]
    assert window.lines() == wanted


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_a_diff_applies(old: list[str], new: list[str]) -> None:
    """The hunks of a diff, applied to the old lines at their numbers, give the new ones."""
    a, b = "".join(f"{x}\n" for x in old), "".join(f"{x}\n" for x in new)
    result, at = list[str](), 0
    for line in unified("f", a, b).split("\n")[2:]:
        found = re.match(r"@@ -(\d+)(?:,(\d+))? ", line)
        if found:
            start = int(found[1]) - (0 if found[2] == "0" else 1)
            result += old[at:start]
            at = start
        elif line[0] == "+":
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            result += [line[1:]] if line[0] == " " else []
            at += 1
    assert result + old[at:] == new


def test_a_diff_in_a_long_file_is_the_usual_one() -> None:
    """Trimming what is common does not change what people see."""
    old = "".join(f"line {i}\n" for i in range(5000))
    new = old.replace("line 2500\n", "row\n")
    usual = difflib.unified_diff(old.splitlines(), new.splitlines(), "f", "f", lineterm="")
    assert unified("f", old, new) == "\n".join(usual)


@given(st.text(st.sampled_from("ab*?/{},[]!\\"), max_size=12), st.text("ab/", max_size=6))
def test_any_pattern_is_a_pattern_or_a_reason(glob: str, path: str) -> None:
    """A pattern either works or raises ValueError, and nothing else."""
    try:
        pattern = Pattern(glob, anchored=False)
    except ValueError:
        return
    pattern.keeps(path)
    assert pattern.ignore_file().startswith(b"*\n!*/\n")


def test_braces_multiply() -> None:
    """Alternatives nest and keep their order."""
    assert expand("{a,b}{c,d{e,f}}") == ["ac", "ade", "adf", "bc", "bde", "bdf"]
    assert expand("x") == ["x"]
    assert expand("{a") == ["{a"]


def test_lines_are_counted_as_editors_do() -> None:
    """A final line feed ends the last line; other breaks are characters."""
    assert split("a\nb\n") == ["a", "b"]
    assert split("a\u2028b\x0c\n\n") == ["a\u2028b\x0c", ""]
    assert msgspec.json.encode(split("")) == b"[]"
