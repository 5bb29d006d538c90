"""Which sed scripts only print: sed has commands that write files and run programs."""

from __future__ import annotations

import re

_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SED = re.compile(
    rf"[\s;{{}}]*(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?\d+|{_ADDRESS}))?)?\s*!?\s*"
    r"(?:[pdDPNnhHgGxl=](?=[\s;}]|$)|[qQ]\d*(?=[\s;}]|$)|\{|"
    r"s([/|,#@:%!])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiI\d]*(?=[\s;}]|$))[\s;}]*"
)


def sed_only_prints(script: str) -> bool:
    """Whether a sed script is made of printing, deleting and replacing alone."""
    at = 0
    while at < len(script):
        found = _SED.match(script, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return True
