"""How a model writes its calls and reads their results: one row for each well-known form.

Which form a model was trained on is seen from the text of its chat template, and so are, where they
can be taken out of it, the words by which it is told of its tools. A model of another form, or of
none, is shown the first one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from prong.entry import Call, Result

NAME = '{"name": '


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around calls, results and the list of tools."""

    name: Literal["tagged", "bare", "listed"]
    begin: str
    """Before the first call; empty where a reply is either a call or text."""
    between: str
    end: str
    lead: str = "\n"
    """Between a reply's text and its calls."""
    key: str = "arguments"
    numbered: bool = False
    """Whether calls and results carry the number of the call."""
    several: bool = False
    """Whether the model may make more than one call in a reply."""
    results: Literal["user", "ipython", "tool"] = "user"
    """Who brings results: the user, a role of the template's, or nobody but their marks."""
    result: tuple[str, str] = ("", "")
    apart: bool = False
    """Whether the list of tools stands before the system turn instead of at its end."""
    tools: tuple[str, str]
    """What stands before the list of tools, and after it."""
    comma: str = "\n"
    """What stands between two tools."""
    marks: tuple[str, ...]
    """Texts of ours that may be tokens of their own. Whatever is written here comes as a list of
    contents and marks in turn, contents first, because in contents these are letters."""

    def said(self, text: str, calls: Sequence[Call]) -> list[str]:
        """Write a reply as the model wrote it."""
        if not calls:
            return [text]
        parts = [(text, self.lead if text else ""), ("", self.begin)]
        for number, call in enumerate(calls):
            last = number == len(calls) - 1
            parts.append((self.write(call, number), self.end if last else self.between))
        return self._weave(parts)

    def write(self, call: Call, number: int) -> str:
        """Write the object of one call."""
        return f"{NAME}{json.dumps(call.name)}{self.middle}{call.arguments}{self.tail(number)}"

    @property
    def middle(self) -> str:
        """What stands between a call's name and its arguments."""
        return f', "{self.key}": '

    def tail(self, number: int) -> str:
        """Give what stands after the arguments of a call."""
        return f', "id": "{number:09}"}}' if self.numbered else "}"

    def opening(self) -> list[str]:
        """Give the text that every reply of calls begins with."""
        return self._weave([("", self.begin), (NAME.rstrip(), "")])

    def answered(self, results: Sequence[Result]) -> list[str]:
        """Write the results of a reply's calls."""
        before, after = self.result
        parts: list[tuple[str, str]] = []
        for number, one in enumerate(results):
            parts += [("\n" if number else "", before), (self._answer(one, number), after)]
        return self._weave(parts)

    def _answer(self, one: Result, number: int) -> str:
        text = f"{'Error: ' if one.failed else ''}{one.text}"
        if self.numbered:
            return json.dumps({"content": text, "call_id": f"{number:09}"}, ensure_ascii=False)
        return json.dumps(text, ensure_ascii=False) if self.results == "ipython" else text

    def listing(self, lines: Sequence[str]) -> list[str]:
        """Write the list of tools."""
        before, after = self.tools
        return self._weave([("", before), (self.comma.join(lines), after)])

    def _weave(self, parts: Sequence[tuple[str, str]]) -> list[str]:
        """Join contents and what of ours follows each: contents and marks in turn."""
        found = [""]
        for content, ours in parts:
            first, *rest = re.split(self._pattern(), ours)
            found[-1] += content + first
            found += rest
        return found

    def _pattern(self) -> str:
        return f"({'|'.join(map(re.escape, self.marks)) or '(?!)'})"


_TAGGED_WORDS = (
    "# Tools\n\n"
    "Call a tool by writing its name and a JSON object with its arguments, like this:\n"
    '<tool_call>\n{"name": "TOOL", "arguments": {"ARGUMENT": "VALUE"}}\n</tool_call>\n'
    "Its result comes back between <tool_response> and </tool_response>. The tools are:\n"
    "<tools>\n"
)
_BARE_WORDS = (
    "To call a tool, answer with nothing but a JSON object of its name and its arguments, like "
    'this: {"name": "TOOL", "parameters": {"ARGUMENT": "VALUE"}}. The tools are:\n\n'
)

TAGGED = Form(
    name="tagged",
    begin="<tool_call>\n",
    between="\n</tool_call>\n<tool_call>\n",
    end="\n</tool_call>",
    several=True,
    result=("<tool_response>\n", "\n</tool_response>"),
    tools=(_TAGGED_WORDS, "\n</tools>"),
    marks=("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
)
BARE = Form(
    name="bare",
    begin="",
    between="; ",
    end="",
    key="parameters",
    results="ipython",
    tools=(_BARE_WORDS, ""),
    comma="\n\n",
    marks=(),
)
LISTED = Form(
    name="listed",
    begin="[TOOL_CALLS] [",
    between=", ",
    end="]",
    lead="",
    numbered=True,
    results="tool",
    result=("[TOOL_RESULTS] ", "[/TOOL_RESULTS]"),
    apart=True,
    tools=("[AVAILABLE_TOOLS] [", "][/AVAILABLE_TOOLS]"),
    comma=", ",
    marks=(
        "[TOOL_CALLS]",
        *("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        *("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    ),
)


def recognise(template: str) -> Form:
    """Tell from a chat template which form its model was trained on."""
    if "[TOOL_CALLS]" in template and "[AVAILABLE_TOOLS]" in template and "[ARGS]" not in template:
        return _listed(template)
    if "ipython" in template and '"parameters": ' in template:
        return _bare(template)
    return _tagged(template)


def _tagged(template: str) -> Form:
    """Take over the template's own words if it has a list of tools between tags."""
    texts = spoken(template)
    for number, before in enumerate(texts):
        if not before.endswith("<tools>"):
            continue
        after = next((text for text in texts[number:] if text.startswith("\n</tools>")), "")
        kept = after[: after.rfind("</tool_call>") + len("</tool_call>")]
        if "<tool_call>" in kept:
            own = re.split(r"<\|[^|]*\|>\w*\n?", before)[-1].lstrip()
            words = (f"{own}\n", kept)
            return msgspec.structs.replace(TAGGED, tools=words)
    return TAGGED


def _bare(template: str) -> Form:
    text = next((text for text in spoken(template) if '"parameters": ' in text), "")
    # Where the words begin or go on with something that is not text, ours are the safer ones.
    whole = text.endswith("\n\n") and text[:1].isupper()
    return msgspec.structs.replace(BARE, tools=(text, "")) if whole else BARE


def _listed(template: str) -> Form:
    if "[TOOL_CALLS] " in template:
        return LISTED
    return msgspec.structs.replace(
        LISTED,
        begin="[TOOL_CALLS][",
        result=("[TOOL_RESULTS]", "[/TOOL_RESULTS]"),
        tools=("[AVAILABLE_TOOLS][", "][/AVAILABLE_TOOLS]"),
    )


_QUOTED = r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'"
_OUTPUT = re.compile(rf"\{{\{{-?\s*({_QUOTED})\s*-?\}}\}}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def spoken(template: str) -> list[str]:
    """Give the constant texts of a template; those that follow each other at once are one."""
    found: list[str] = []
    last = -1
    for one in _OUTPUT.finditer(template):
        text = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), one[1][1:-1], flags=re.DOTALL)
        if last >= 0 and not template[last : one.start()].strip():
            found[-1] += text
        else:
            found.append(text)
        last = one.end()
    return found
