"""The command line."""

from __future__ import annotations


def main() -> int:
    """Run the command line; gives the exit code."""
    return 0
