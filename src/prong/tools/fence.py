"""Fences text that programs, pages and other agents wrote, before it stands in front of a model.

Inside of a fence no text can open or close a tag that means something to the model, be it in
letters of other alphabets or with invisible ones between. Nothing else is changed, since results
are full of honest angle brackets.
"""

from __future__ import annotations

import re

from prong.tools.confusable import replace_read

# Whatever is neither a letter nor a bracket may stand between `<` and the name: a reader that
# forgives `< / Task-Notification` must not be led astray by it.
# A text, which is compiled for the first of them: many sessions never see one.
_TAG = (
    r"(?i)<(?=[^\w<>‹]*(?:"
    r"task[\W_]*(?:notification|id)|run|status|summary|result|usage|output[\W_]*file|tokens"
    r"|duration[\W_]*ms|teammate[\W_]*message|web[\W_]*(?:page|search)"
    r"|system|user|assistant|human|developer|function|tool|invoke|antml|command|local[\W_]*command"
    r"))"
)


def neutral(text: str) -> str:
    """Take the meaning from tags that imitate a notice or the system, however they are spelled."""
    (made,) = fenced(text)
    return made


def fenced(*texts: str) -> list[str]:
    """Do so with several texts that will stand one after the other."""
    return replace_read(re.compile(_TAG), "‹", texts)
