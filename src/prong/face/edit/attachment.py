"""Pictures that go with a message: from a file, or from the clipboard of the desktop.

A terminal hands over text alone, so a picture that was copied is asked for where the desktop keeps
it. Each program that may know is asked in turn; over ssh none does, since the clipboard is on
another machine.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import anyio
import msgspec

from prong.entry import Image
from prong.face.edit.paste import PICTURES
from prong.session import inspect_picture

CLIPBOARD = "clipboard"
"""How a picture from there is called."""
LARGEST = 5 * 1024 * 1024
"""Bytes of a picture that can be attached."""
_SECONDS = 5.0
_KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")
_APPLE_DATA = ("«data PNGf".encode(), "»".encode())
_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms, System.Drawing; "
    "$picture = [Windows.Forms.Clipboard]::GetImage(); "
    "if ($picture) { $bytes = New-Object IO.MemoryStream; "
    "$picture.Save($bytes, [Drawing.Imaging.ImageFormat]::Png); "
    "[Convert]::ToBase64String($bytes.ToArray()) }"
)


class _Source(msgspec.Struct, frozen=True):
    """A program that knows the clipboard."""

    name: str
    take: tuple[str, ...]
    """What is run for the picture; `KIND` stands for its type."""
    kinds: tuple[str, ...] = ()
    """What is run for the types that there are, one a line; empty if it gives PNG or nothing."""


def _sources(env: Mapping[str, str]) -> list[_Source]:
    """Give who may know the clipboard here, the likeliest first."""
    x11 = ("xclip", "-selection", "clipboard", "-o", "-t")
    known = (
        (
            env.get("WAYLAND_DISPLAY"),
            _Source(
                "wl-paste",
                ("wl-paste", "--no-newline", "--type", "KIND"),
                ("wl-paste", "--list-types"),
            ),
        ),
        (env.get("DISPLAY"), _Source("xclip", (*x11, "KIND"), (*x11, "TARGETS"))),
        ("always", _Source("pngpaste", ("pngpaste", "-"))),
        (
            "always",
            _Source("osascript", ("osascript", "-e", "the clipboard as «class PNGf»")),
        ),
        (
            "always",
            _Source(
                "powershell.exe",
                ("powershell.exe", "-NoProfile", "-STA", "-Command", _POWERSHELL),
            ),
        ),
    )
    return [source for fits, source in known if fits and shutil.which(source.name)]


async def copied_picture() -> Image | str:
    """Give the picture in the clipboard; a text says why there is none."""
    if os.environ.get("SSH_CONNECTION"):
        return (
            "over ssh the clipboard is on your own machine: copy the picture here as a file, and "
            "paste its path"
        )
    if not (sources := _sources(os.environ)):
        return (
            "no clipboard can be reached from here: it takes a desktop, and wl-clipboard "
            "(Wayland), xclip (X11) or pngpaste (macOS); or paste the path of a file"
        )
    why = ""
    for source in sources:
        try:
            found = await _ask(source)
        except TimeoutError:
            found = f"the clipboard cannot be read: {source.name} gave no answer in {_SECONDS:g} s"
        if isinstance(found, bytes):
            return _picture(found, "the picture in the clipboard")
        why = why or found
    return why or "there is no picture in the clipboard"


async def _ask(source: _Source) -> bytes | str:
    """Ask a program; a text says why it gave none, empty if it knows of no picture.

    Raises TimeoutError if it does not answer.
    """
    kind = "image/png"
    if source.kinds:
        there = (await _output(source.kinds)).decode("utf-8", "replace").split()
        offered = [one for one in there if one.startswith("image/")]
        if not offered:
            return ""
        kind = next((one for one in _KINDS if one in offered), "")
        if not kind:
            return (
                f"the picture in the clipboard is {offered[0][:40]}, and only png, jpeg, gif and "
                f"webp can be attached"
            )
    data = await _output([kind if word == "KIND" else word for word in source.take])
    return _decoded(data, source.name) or ""


def _decoded(data: bytes, source: str) -> bytes:
    """Take off what a program puts around the bytes of a picture."""
    try:
        match source:
            case "osascript":
                begin, end = _APPLE_DATA
                return bytes.fromhex(
                    data.strip().removeprefix(begin).removesuffix(end).decode("ascii")
                )
            case "powershell.exe":
                return base64.b64decode(data.strip(), validate=True)
            case _:
                return data
    except (ValueError, binascii.Error):
        return b""


async def _output(argv: list[str] | tuple[str, ...]) -> bytes:
    """Run a program for what it prints; nothing if it fails.

    Raises TimeoutError.
    """
    try:
        with anyio.fail_after(_SECONDS):
            done = await anyio.run_process(argv, stderr=subprocess.DEVNULL, check=False)
    except TimeoutError:
        # An OSError too, but no answer.
        raise
    except OSError:
        return b""
    return done.stdout if done.returncode == 0 else b""


def read_picture(path: str) -> Image | str:
    """Read a picture; a text says why it cannot be attached, an empty one that there is none."""
    file = Path(path).expanduser()
    if file.suffix.lower() not in PICTURES:
        return ""
    try:
        if not file.is_file():
            return ""
        if file.stat().st_size > LARGEST:
            return f"{path} is too large to be attached; {LARGEST >> 20} MB are possible"
        data = file.read_bytes()
    except OSError as error:
        return f"{path} cannot be read ({error.strerror})"
    return _picture(data, path)


def _picture(data: bytes, what: str) -> Image | str:
    """Make a picture of bytes, by what they are and not by what they are called."""
    found = inspect_picture(data)
    if isinstance(found, str):
        return f"{what} cannot be attached: {found}"
    return Image(found.media_type, base64.b64encode(data).decode())
