"""One line of `--input-format stream-json`: a command, or a message as other programs write it."""

from __future__ import annotations

from codecs import BOM_UTF8
from typing import get_args

import msgspec

from prong.command import Command, Say
from prong.entry import Image, Part, Text
from prong.errors import nearest


class _ImageSource(msgspec.Struct):
    type: str = "base64"
    media_type: str = ""
    data: str = ""


class _ContentBlock(msgspec.Struct):
    type: str
    text: str = ""
    source: _ImageSource | None = None

    def part(self) -> Part:
        """Read it as a part of a message.

        Raises ValidationError if it is of another kind: to leave it out would change what is said.
        """
        match self:
            case _ContentBlock(type="text"):
                return Text(self.text)
            case _ContentBlock(type="image", source=_ImageSource(type="base64") as source) if (
                source.media_type and source.data
            ):
                return Image(source.media_type, source.data)
            case _ContentBlock(type="image"):
                raise msgspec.ValidationError(
                    "a picture needs a source of type base64, with media_type and data"
                )
            case _:
                raise msgspec.ValidationError(
                    f"a message may hold blocks of text and image, not {self.type!r}"
                )


class _UserMessage(msgspec.Struct):
    content: str | list[_ContentBlock]
    role: str = "user"


class _UserLine(msgspec.Struct, tag_field="type", tag="user"):
    message: _UserMessage

    def command(self) -> Say:
        """Read it as something that the user says; raises ValidationError."""
        message = self.message
        if message.role != "user":
            raise msgspec.ValidationError(
                f"a message that is sent is the user's; its role is {message.role!r}"
            )
        if isinstance(message.content, str):
            return Say(message.content)
        return Say(parts=tuple(block.part() for block in message.content))


class _AnyLine(msgspec.Struct):
    type: str


def read_command(line: bytes) -> Command:
    """Read one line of input: a command, or `{"type": "user", "message": {"content": …}}`.

    Raises msgspec.MsgspecError if it is neither.
    """
    # Some programs begin what they write with a mark of its encoding.
    line = line.removeprefix(BOM_UTF8)
    kind = msgspec.json.decode(line, type=_AnyLine).type
    if kind == "user":
        return msgspec.json.decode(line, type=_UserLine).command()
    known = [str(one.__struct_config__.tag) for one in get_args(Command)]
    if kind not in known:
        close = nearest(kind, [*known, "user"])
        hint = f"did you mean {close!r}?" if close else f"they are user, {', '.join(known)}"
        raise msgspec.ValidationError(f"there is no command of the type {kind!r}; {hint}")
    return msgspec.json.decode(line, type=Command)
