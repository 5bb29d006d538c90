"""Two tools, for every session of whoever installs the package."""

import prong


@prong.tool(read_only=True)
def count_words(text: str) -> int:
    """Count the words of a text.

    Args:
        text: What to count.

    """
    return len(text.split())


@prong.tool(read_only=True)
def readability(text: str) -> str:
    """Say how hard a text is to read: words per sentence.

    Args:
        text: One or more sentences.

    """
    sentences = max(1, sum(text.count(end) for end in ".!?"))
    return f"{len(text.split()) / sentences:.1f} words a sentence"


TOOLS = [count_words, readability]
