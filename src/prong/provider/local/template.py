"""A chat template as the texts that join turns, so that a longer conversation extends a shorter.

A template renders a whole conversation at once, and nothing says that it renders an earlier turn
the same when a later one follows. So it is asked once, with marks for contents, what it puts before
the first turn and between any two; from then on every turn is its joint and its content, and

    render(turns + [turn]) = render(turns) + joint + content

holds by construction. `Template.faithful` says whether the template itself renders that way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

ChatRole: TypeAlias = Literal["tools", "system", "user", "assistant", "tool"]
Render: TypeAlias = Callable[[Sequence[tuple[str, str]], bool], "str | None"]
"""Renders messages by the model's template, with or without the opening of a reply."""

_MARKS = ("Kappa1", "Kappa2", "Kappa3", "Kappa4", "Kappa5")


class Template(msgspec.Struct, frozen=True):
    """What stands between turns."""

    joints: dict[str, str]
    """By the two roles, such as `user/assistant`; `/user` begins a conversation."""
    own: bool
    """Whether these are the model's own."""
    faithful: bool
    """Whether the model's template renders every longer conversation as these joints do."""
    note: str = ""
    """What the user should know about it."""

    def joint(self, before: ChatRole | None, role: ChatRole) -> str:
        """Give the text between two turns, or before the first."""
        if role == "tools":
            return ""
        key = f"{'' if before in {None, 'tools'} else before}/{role}"
        return self.joints[key] if key in self.joints else self.joints[f"user/{role}"]


_CHATML = {
    "/system": "<|im_start|>system\n",
    "/user": "<|im_start|>user\n",
    "system/user": "<|im_end|>\n<|im_start|>user\n",
    "system/assistant": "<|im_end|>\n<|im_start|>assistant\n",
    "user/user": "<|im_end|>\n<|im_start|>user\n",
    "user/assistant": "<|im_end|>\n<|im_start|>assistant\n",
    "assistant/user": "<|im_end|>\n<|im_start|>user\n",
    "user/tool": "<|im_end|>\n<|im_start|>user\n",
}


def derive(render: Render, results: str = "user") -> Template:
    """Find out the joints of a template by rendering conversations of marks.

    Results are brought by a role of that name; by no role at all if it is `tool`.
    """
    first, second, third, fourth, fifth = _MARKS
    talk = [
        ("system", first),
        ("user", second),
        ("assistant", third),
        ("user", fourth),
        ("user", fifth),
    ]
    whole = split(render(talk, True), _MARKS)
    alone = split(render([("user", first)], True), _MARKS[:1])
    if whole is None or alone is None:
        return Template(
            _CHATML,
            own=False,
            faithful=False,
            note="the model's chat template is unknown to the engine; ChatML is used instead",
        )
    start, asked, answered, again, twice, opening = whole
    joints = {
        "/system": start,
        "/user": alone[0],
        "system/user": asked,
        "user/assistant": opening,
        "assistant/user": again,
        # Templates of strict turns take a second user turn for a reply; there it joins the first.
        "user/user": "\n\n" if twice == opening else twice,
    }
    joints |= _of_results(render, results, joints)
    shorter = split(render(talk[:2], True), _MARKS[:2])
    faithful = answered == opening == alone[1] and shorter == [start, asked, opening]
    note = "" if faithful else _UNFAITHFUL
    return Template(joints, own=True, faithful=faithful, note=note)


def _of_results(render: Render, role: str, joints: dict[str, str]) -> dict[str, str]:
    first, second, third, fourth = _MARKS[:4]
    if role == "tool":
        # They stand between two replies, and their marks are all there is around them.
        opens = joints["/user"]
        ends = joints["assistant/user"].removesuffix(opens)
        return {"user/tool": ends, "tool/assistant": "", "tool/user": opens}
    talk = [("user", first), ("assistant", second), (role, third), ("user", fourth)]
    found = split(render(talk, True), _MARKS[:4])
    if found is None:
        return {"user/tool": joints["assistant/user"]}
    return {"user/tool": found[2], "tool/user": found[3]}


_UNFAITHFUL = (
    "the model's chat template renders a turn differently once others follow it; earlier turns are "
    "kept as they were first rendered, so that forks share them"
)


def split(text: str | None, marks: Sequence[str]) -> list[str] | None:
    """Cut a text at marks that must stand in it in that order."""
    if text is None:
        return None
    pieces: list[str] = []
    for mark in marks:
        before, found, text = text.partition(mark)
        if not found:
            return None
        pieces.append(before)
    return [*pieces, text]
