"""Pictures that go with a message: from files, and from the clipboard of each desktop.

The programs that know a clipboard are stood for by a recorder; xclip was also tried on a real X
server.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from prong.entry import Image
from prong.face.edit.attachment import copied_picture, read_picture
from prong.testing import Worlds, say
from prong.testing.program_recorder import ProgramRecorder
from shared.pane_team import Terminal
from shared.picture import GIF, JPEG, PNG, WEBP, png

pytestmark = [pytest.mark.anyio, pytest.mark.door, pytest.mark.spec("X2")]

LIST = ("-selection", "clipboard", "-o", "-t", "TARGETS")
TAKE = ("-selection", "clipboard", "-o", "-t")


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder that alone is searched for programs, and nothing of a desktop."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    # A program that stands for another may start slowly here.
    monkeypatch.setattr("prong.face.edit.attachment._SECONDS", 50.0)
    for name in ("SSH_CONNECTION", "WAYLAND_DISPLAY", "DISPLAY", "TMUX"):
        monkeypatch.delenv(name, raising=False)
    return folder


def image(data: bytes, kind: str = "image/png") -> Image:
    return Image(kind, base64.b64encode(data).decode())


@pytest.mark.parametrize(
    ("offered", "kind", "data"),
    [
        ("TARGETS\nimage/png\n", "image/png", PNG),
        ("image/bmp\nimage/jpeg\ntext/html\n", "image/jpeg", JPEG),
        ("image/gif\n", "image/gif", GIF),
        ("image/webp\n", "image/webp", WEBP),
    ],
)
@pytest.mark.parametrize("by", ["xclip", "wl-paste"])
async def test_a_picture_is_taken_from_a_desktop_of_linux(
    desktop: Path, monkeypatch: pytest.MonkeyPatch, by: str, offered: str, kind: str, data: bytes
) -> None:
    """The types that there are are asked for first, and the best of them is taken."""
    monkeypatch.setenv("DISPLAY" if by == "xclip" else "WAYLAND_DISPLAY", ":9")
    lists = LIST if by == "xclip" else ("--list-types",)
    takes = (*TAKE, kind) if by == "xclip" else ("--no-newline", "--type", kind)
    program = ProgramRecorder(desktop, by)
    program.answer(*lists, output=offered)
    program.answer(*takes, data=data)

    assert await copied_picture() == image(data, kind)
    assert [call.words for call in program.calls] == [lists, takes]


async def test_a_clipboard_that_gives_no_answer_is_not_an_empty_one(
    desktop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has copied a picture is not told that there is none."""
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setattr("prong.face.edit.attachment._SECONDS", 0.2)
    (desktop / "xclip").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (desktop / "xclip").chmod(0o755)

    told = "the clipboard cannot be read: xclip gave no answer in 0.2 s"
    assert await copied_picture() == told


@pytest.mark.parametrize(
    ("by", "words", "output", "data"),
    [
        ("pngpaste", ("-",), "", PNG),
        ("osascript", ("-e",), f"«data PNGf{PNG.hex().upper()}»\n", b""),
        ("powershell.exe", ("-NoProfile",), base64.b64encode(PNG).decode() + "\r\n", b""),
    ],
)
async def test_a_picture_is_taken_from_a_mac_and_from_windows(
    desktop: Path, by: str, words: tuple[str, ...], output: str, data: bytes
) -> None:
    """Whatever a program puts around the bytes is taken off."""
    ProgramRecorder(desktop, by).answer(*words, output=output, data=data)

    assert await copied_picture() == image(PNG)


async def test_the_next_program_is_asked_where_one_knows_of_no_picture(
    desktop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under WSL there is a desktop of Linux whose clipboard has text alone."""
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    ProgramRecorder(desktop, "wl-paste").answer("--list-types", output="text/plain\n")
    windows = ProgramRecorder(desktop, "powershell.exe")
    windows.answer("-NoProfile", output=base64.b64encode(PNG).decode())

    assert await copied_picture() == image(PNG)


@pytest.mark.parametrize(
    ("offered", "data", "code", "why"),
    [
        ("text/plain\n", b"", 0, "there is no picture in the clipboard"),
        ("", b"", 1, "there is no picture in the clipboard"),
        ("image/png\n", b"", 1, "there is no picture in the clipboard"),
        ("image/tiff\n", b"", 0, "is image/tiff, and only png, jpeg, gif and webp"),
        ("image/png\n", b"nonsense", 0, "it is no PNG, JPEG, GIF or WebP picture"),
        ("image/png\n", PNG[:-8], 0, "it is damaged or incomplete"),
        ("image/png\n", png(9_000, 1), 0, "scale it down"),
    ],
)
async def test_what_is_no_picture_is_said(
    desktop: Path,
    monkeypatch: pytest.MonkeyPatch,
    offered: str,
    data: bytes,
    code: int,
    why: str,
) -> None:
    """No picture, a kind that models do not see, nonsense, and a program that fails."""
    monkeypatch.setenv("DISPLAY", ":9")
    program = ProgramRecorder(desktop, "xclip")
    program.answer(*LIST, output=offered, code=code if not offered else 0)
    program.answer(*TAKE, "image/png", data=data, code=code)

    found = await copied_picture()
    assert isinstance(found, str)
    assert why in found


async def test_a_clipboard_that_cannot_be_reached_has_a_remedy(
    desktop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over ssh it is elsewhere, whatever is installed here; without a program it says which."""
    found = await copied_picture()
    assert isinstance(found, str)
    assert "wl-clipboard (Wayland), xclip (X11) or pngpaste (macOS)" in found
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
    monkeypatch.setenv("DISPLAY", ":9")
    program = ProgramRecorder(desktop, "xclip")
    found = await copied_picture()
    assert isinstance(found, str)
    assert "copy the picture here as a file, and paste its path" in found
    assert program.calls == []


def test_a_file_is_what_its_bytes_are(tmp_path: Path) -> None:
    """A picture with a wrong ending has its own type; a file that is none is not attached."""
    (tmp_path / "a.png").write_bytes(JPEG)
    (tmp_path / "b.png").write_text("not a picture")
    assert read_picture(f"{tmp_path}/a.png") == image(JPEG, "image/jpeg")
    found = read_picture(f"{tmp_path}/b.png")
    assert isinstance(found, str)
    assert "b.png cannot be attached: it is no PNG" in found
    assert read_picture(f"{tmp_path}/c.png") == ""


@pytest.mark.parametrize("face", ["--plain", "--full"])
async def test_ctrl_v_attaches_what_was_copied(
    world: Worlds, terminal: Terminal, tmp_path: Path, face: str
) -> None:
    """In both faces, also by the empty paste that some terminals send; why not is said."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = ProgramRecorder(folder, "xclip")
    program.answer(*LIST, output="image/png\n")
    program.answer(*LIST, output="text/plain\n")
    program.answer(*TAKE, "image/png", data=PNG)
    path = f"{folder}:{os.environ['PATH']}"
    async with (
        world([say("I see it.")], opens=False) as w,
        terminal(w, face, PATH=path, DISPLAY=":9", SSH_CONNECTION="", WAYLAND_DISPLAY="") as screen,
    ):
        await screen.see("> ")
        screen.put("What is ")
        screen.key("C-v")
        await screen.see("What is [image clipboard #1]")
        screen.key("Enter")
        await screen.see("I see it.")
        assert base64.b64encode(PNG) in w.server.records[0].body
        screen.key("C-v")
        await screen.see("there is no picture in the clipboard")
