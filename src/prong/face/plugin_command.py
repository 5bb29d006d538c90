"""The command that looks after plug-ins."""

from __future__ import annotations

import sys

import msgspec

from prong.face.command_grammar import parser_of
from prong.face.output import confirm, flat, show, show_json, tell
from prong.session import (
    PluginRequest,
    add_plugins,
    describe_plugins,
    list_plugins,
    offered_plugins,
    plugin_question,
    remove_plugin,
    update_plugins,
)


def run_plugin(words: list[str]) -> int:
    """Run `prong plugin`; gives the exit code, 1 if something was not approved."""
    args = parser_of("plugin").parse_args(words)
    match args.action:
        case "list":
            return _list(args.source, json=args.json)
        case "remove":
            show(remove_plugin(args.name))
            return 0
        case "add":
            asking = _PluginPrompt(yes=args.yes)
            lines = add_plugins(args.source, args.name, asking.approve)
        case _:
            asking = _PluginPrompt(yes=args.yes)
            lines = update_plugins(args.name, asking.approve)
    show("\n".join(map(flat, lines)))
    return 1 if asking.refused else 0


def _list(source: str | None, *, json: bool) -> int:
    if source is None:
        rows = list_plugins()
        data, lines = msgspec.json.encode(rows), describe_plugins(rows)
    else:
        offers = offered_plugins(source)
        lines = [f"{one.name}: {one.description}" for one in offers]
        data = msgspec.json.encode([[one.name, one.description] for one in offers])
    if json:
        show_json(msgspec.json.format(data))
    else:
        show("\n".join(map(_line, lines)))
    return 0


def _line(text: str) -> str:
    """Keep a line of somebody else's on one line, set in as it is."""
    return " " * (len(text) - len(text.lstrip(" "))) + flat(text)


class _PluginPrompt:
    """Shows what a plug-in wants, and asks whoever is there."""

    def __init__(self, *, yes: bool) -> None:
        self.refused = False
        self._yes = yes

    def approve(self, request: PluginRequest) -> bool:
        for line in plugin_question(request):
            show(_line(line))
        if not self._yes and not self._answered():
            self.refused = True
            return False
        return True

    def _answered(self) -> bool:
        if not sys.stdin.isatty():
            tell("nobody is here to approve that; --yes does")
            return False
        return confirm("add it?")
