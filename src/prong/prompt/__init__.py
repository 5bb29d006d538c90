"""The rope of wire bytes. Pure: no I/O."""

from prong.prompt.difference import Difference, Section, first_difference, prompt_bytes
from prong.prompt.outline import outline
from prong.prompt.rope import Head, Mark, Node, Prompt
from prong.prompt.share import shared_bytes

__all__ = [
    "Difference",
    "Head",
    "Mark",
    "Node",
    "Prompt",
    "Section",
    "first_difference",
    "outline",
    "prompt_bytes",
    "shared_bytes",
]
