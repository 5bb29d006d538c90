"""The line that is being typed: a value whose cursor never stands where no cursor can."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prong.command import Say
from prong.entry import Image
from prong.face.edit import grapheme
from prong.face.edit.buffer import Buffer
from prong.face.edit.keymap import EDITS, KEYMAP, TOLD, meaning, press
from prong.face.edit.paste import clean, labels, picture_path
from prong.face.handover import drafted

pytestmark = pytest.mark.spec("X2")

LETTERS = st.text(
    st.sampled_from("ab \n_\\é日👍🏽👩\u200d💻🇩🇪e\u0301\ufe0f❤각ᄀ\u1161"), max_size=12
)
STEPS = st.lists(
    st.one_of(
        st.sampled_from(sorted(EDITS)),
        LETTERS.map(lambda text: ("type", text)),
        st.just(("paste", "long\n" * 20)),
        st.sampled_from(["up", "down"]),
    ),
    max_size=25,
)
PICTURE = Image("image/png", "aGk=")


def boundaries(buffer: Buffer) -> set[int]:
    places = {0}
    for cluster in grapheme.clusters(buffer.text):
        places.add(max(places) + len(cluster))
    for start, end, _ in labels(buffer.text, buffer.folded):
        places = {at for at in places if not start < at < end} | {start, end}
    return places


def played(steps: list[object]) -> list[Buffer]:
    buffers = [Buffer()]
    for step in steps:
        now = buffers[-1]
        match step:
            case ("type", str(text)):
                now = now.insert(text)
            case ("paste", str(text)):
                now = now.paste(text)
            case "up":
                now = now.up()
            case "down":
                now = now.down()
            case str(action):
                now = press(now, action) or now
            case _:
                raise AssertionError(step)
        buffers.append(now)
    return buffers


@given(STEPS)
def test_the_cursor_stands_between_characters(steps: list[object]) -> None:
    """Whatever is typed, pasted, moved, killed and undone: no cluster and no label is cut."""
    for buffer in played(steps):
        assert buffer.cursor in boundaries(buffer)
        assert buffer.place(buffer.cursor).cursor == buffer.cursor
        assert buffer.selection is None or 0 <= buffer.selection[0] < buffer.selection[1]


@given(STEPS)
def test_all_that_was_done_can_be_undone_and_done_again(steps: list[object]) -> None:
    """Undoing to the beginning gives an empty buffer, and redoing gives the last one back."""
    last = played(steps)[-1]
    back = last
    while back.past:
        back = back.undo()
    if len(last.past) + len(last.future) <= 100 and not last.future:
        assert back.text == ""
        while back.future:
            back = back.redo()
        assert back.text == last.text


@given(LETTERS, LETTERS)
def test_left_is_the_way_back_from_right(before: str, after: str) -> None:
    """As many steps to the left as to the right end where they began."""
    buffer = Buffer(before + after).place(len(before))
    if buffer.cursor < len(buffer.text):
        assert buffer.right().left().cursor == buffer.cursor


@given(st.text())
def test_clusters_are_the_text(text: str) -> None:
    """Cutting a text into clusters loses nothing, and no cluster is empty."""
    pieces = list(grapheme.clusters(text))
    assert "".join(pieces) == text
    assert all(pieces)


def test_one_backspace_takes_one_character() -> None:
    """A family, a flag, an accented letter and a label go with one key each."""
    buffer = Buffer().insert("a👩\u200d💻🇩🇪e\u0301").paste("x\n" * 30)
    assert buffer.text == "a👩\u200d💻🇩🇪e\u0301[pasted 30 lines #1]"
    for rest in ("a👩\u200d💻🇩🇪e\u0301", "a👩\u200d💻🇩🇪", "a👩\u200d💻", "a", ""):
        buffer = buffer.erase_left()
        assert buffer.text == rest


def test_lines() -> None:
    """Up and down keep the column where they can, and stop at the edges."""
    buffer = Buffer().insert("long line\nab\n日本語 line")
    up = buffer.up()
    assert (up.line, up.cursor) == (1, 12)
    assert up.up().cursor == 9
    assert up.up().up() == up.up()
    assert up.down().cursor == len(buffer.text)
    assert buffer.down() == buffer
    assert buffer.home().cursor == 13
    assert buffer.start().end().cursor == 9


def test_enter_sends_unless_a_backslash_asks_for_more() -> None:
    """An odd backslash at the end makes a line break; two are two backslashes."""
    assert Buffer().insert("go").enter() is None
    more = Buffer().insert("go \\").enter()
    assert more is not None
    assert more.text == "go \n"
    assert Buffer().insert("C:\\\\").enter() is None
    assert Buffer().insert("a\\").left().enter() is None


def test_killed_pieces_are_yanked_as_one() -> None:
    """Kills that follow each other join in their order; an older one can take the place."""
    buffer = Buffer().insert("one two three")
    killed = buffer.kill_blank_word_left().kill_blank_word_left()
    assert killed.kills == ("two three",)
    other = killed.home().kill_to_end()
    assert other.kills == ("one ", "two three")
    assert other.yank().text == "one "
    assert other.yank().yank_other().text == "two three"
    assert other.yank_other() == other


def test_a_selection_gives_way_to_what_is_typed() -> None:
    """Typing, erasing and killing take the selection; a motion leaves it."""
    buffer = Buffer().insert("one two").word_left(select=True)
    assert buffer.selected == "two"
    assert buffer.insert("2").text == "one 2"
    assert buffer.erase_left().text == "one "
    assert buffer.kill_word_left().kills == ("two",)
    assert buffer.left().selection is None
    assert buffer.left().cursor == 4
    assert buffer.right().cursor == 7


def test_words_are_undone_not_letters() -> None:
    """Letters typed in a row go together, up to a blank."""
    buffer = Buffer()
    for letter in "one two":
        buffer = buffer.insert(letter)
    assert buffer.undo().text == "one"
    assert buffer.undo().redo().text == "one two"


def test_a_paste_is_made_harmless() -> None:
    """Line breaks become those of a text; colours, links and control characters go."""
    assert clean("a\r\nb\rc\x1b[31m\x07\td\x00\x9b0m") == "a\nb\nc\td"
    assert clean("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07 [0]") == "link [0]"
    assert clean("👩\u200d💻") == "👩\u200d💻"


def test_what_was_folded_is_sent_whole() -> None:
    """A long paste and a picture stand as labels; the message holds what they stand for."""
    text = "\n".join(f"line {n}" for n in range(120))
    buffer = Buffer().insert("See ").paste(text).insert(" and ").attach("shot 1.png", PICTURE)
    assert buffer.text == "See [pasted 120 lines #1] and [image shot_1.png #2]"
    assert buffer.message() == Say(f"See {text} and [image shot_1.png #2]", (PICTURE,))


def test_a_picture_that_is_not_there_is_missed() -> None:
    """A label of an earlier session has no picture, which is said; one of this session has its own."""
    buffer = Buffer().attach("a.png", PICTURE)
    assert buffer.missing == ""
    assert buffer.cleared("[image a.png #1]").message().parts == (PICTURE,)
    assert buffer.cleared("[image b.png #1] [pasted 3 lines #7]").missing.endswith(
        "attach it anew: [image b.png #1]"
    )


def test_a_message_that_was_sent_stands_in_the_line_again() -> None:
    """Going back to it brings its pictures: sent again it is the same message."""
    other = Image("image/gif", "eW8=")
    for buffer in (
        Buffer().insert("See ").attach("shot 1.png", PICTURE),
        Buffer().attach("a.png", PICTURE).insert(" and ").attach("b.png", other),
        Buffer().paste("long\n" * 20).attach("a.png", PICTURE).insert(", that is all"),
        Buffer().insert("No picture, but [pasted 3 lines #1]"),
    ):
        sent = buffer.message()
        assert isinstance(sent, Say)
        pictures = [part for part in sent.parts if isinstance(part, Image)]
        again = drafted(sent.text, pictures)
        assert again.message() == sent
        assert not again.missing
        assert again.cursor == len(again.text)


@given(
    LETTERS | st.sampled_from(["[image a.png #0]", "[image a #2] [image a #99999]", "[image x #7]"])
)
def test_no_picture_of_a_message_is_lost(text: str) -> None:
    """Whatever a message says, as one of another program may, its pictures are in the line."""
    for pictures in ((PICTURE,), (PICTURE, Image("image/gif", "eW8="))):
        assert drafted(text, pictures).message().parts == pictures


@pytest.mark.parametrize(("lines", "text"), [(10, ""), (11, "[pasted 11 lines #1]")])
def test_a_break_at_the_end_is_no_line(lines: int, text: str) -> None:
    """Eleven lines are folded and counted as eleven, whether or not the last has a break."""
    for paste in ("\n".join(["x"] * lines), "x\n" * lines):
        assert Buffer().paste(paste).text == (text or paste)


def test_a_label_that_was_typed_is_only_text() -> None:
    """Only a label that Prong has put there stands for something."""
    buffer = Buffer().insert("[pasted 9 lines #1] [pasted 120 lines #1]")
    assert buffer.message() == Say("[pasted 9 lines #1] [pasted 120 lines #1]")
    held = buffer.paste("x\n" * 119 + "x")
    assert held.text.count("[pasted 120 lines #1]") == 2


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/tmp/shot.png", "/tmp/shot.png"),
        (" '/tmp/my shot.PNG' ", "/tmp/my shot.PNG"),
        (r"/tmp/my\ shot.jpg", "/tmp/my shot.jpg"),
        ("file:///tmp/my%20shot.webp", "/tmp/my shot.webp"),
        ("~/a.gif", "~/a.gif"),
        ("/tmp/a.txt", None),
        ("see /tmp/a.png", None),
        ("a.png", None),
        ("/tmp/a.png\n/tmp/b.png", None),
        ("", None),
    ],
)
def test_a_dropped_picture_is_recognised(text: str, path: str | None) -> None:
    """The forms in which terminals paste a dropped file; words that hold a path are words."""
    assert picture_path(text) == path


def test_every_key_has_a_meaning() -> None:
    """What the table names is an edit or a deed of the face, and help names no unknown key."""
    deeds = {
        "send", "complete", "up", "down", "older", "newer", "search", "interrupt", "escape",
        "leave", "mode", "background", "editor", "redraw", "suspend", "swap", "picture",
    }  # fmt: skip
    assert set(KEYMAP.values()) <= deeds | set(EDITS)
    assert set(EDITS) <= set(KEYMAP.values())
    assert meaning("alt+enter") == meaning("ctrl+j") == meaning("shift+enter") == "newline"
    assert meaning("f9") == ""
    assert press(Buffer("x", 1), "send") is None
    assert all(len(f"{keys:18} {told}") <= 95 for keys, told in TOLD)
