"""`prong acp`: serves an editor over standard input and output until it is gone.

Nothing heavy is loaded before the first answer has left: an editor waits for it at its own start.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.abc
import msgspec

from prong.errors import BadInput
from prong.face.acp.editor_answer import initialized
from prong.face.acp.editor_value import EditorAbility, InitializeParams
from prong.face.acp.rpc import INVALID_PARAMS, INVALID_REQUEST, RpcPeer, RpcRequest
from prong.face.output import tell
from prong.foreign_json import NOT_JSON

if TYPE_CHECKING:
    from prong.face.acp.editor_method import EditorMethods

_GRACE = 5.0
"""Seconds that an editor has to read what was sent before the end."""
_OWN = (
    ("prompt", None, "a prompt comes from the editor"),
    ("print", False, "-p works without an editor"),
    ("cwd", ".", "the editor names the folder of each session"),
    ("resume", None, "the editor chooses the sessions"),
    ("continue_last", False, "the editor chooses the sessions"),
    ("fork_session", False, "the editor chooses the sessions"),
    ("session_id", None, "the editor opens as many sessions as it likes"),
    ("name", None, "the editor opens as many sessions as it likes"),
    ("full", False, "there is no terminal"),
    ("plain", False, "there is no terminal"),
    ("output_format", "text", "the editor speaks a language of its own"),
    ("input_format", "text", "the editor speaks a language of its own"),
    ("json_schema", None, "answers are for people"),
)
"""Options that make no sense here, as they are when nobody gives them, and why."""


def run_acp(words: list[str]) -> int:
    """Run `prong acp`; gives the exit code."""
    from prong.face.flag import parse

    if words in (["-h"], ["--help"]):
        _help()
    args = parse(words, {})
    for name, usual, why in _OWN:
        if getattr(args, name) != usual:
            raise BadInput(f"prong acp takes no {name.replace('_', '-')}: {why}")
    if sys.stdin.isatty():
        tell("this talks to an editor, in lines of JSON; docs/editors.md says how to set one up")
    source, sink = _pipes()
    return anyio.run(partial(_serve, args, RpcPeer(source, sink)))


def _help() -> None:
    argparse.ArgumentParser(
        prog="prong acp",
        usage="prong acp [option ...]",
        description="Serve an editor by the Agent Client Protocol, over standard input and output: "
        "lines of JSON-RPC, any number of sessions at once. The editor starts it.",
        epilog="The options are those of prong that say how a session works: models, permissions, "
        "context. 'prong --help' lists them.",
        add_help=False,
    ).print_help()
    raise SystemExit(0)


def _pipes() -> tuple[int, int]:
    """Take the two pipes away from everybody else: what is printed by mistake goes to the log."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return source, sink


async def _serve(args: argparse.Namespace, peer: RpcPeer) -> int:
    """Answer until the editor is gone, or a signal comes; then nothing is left running."""
    async with anyio.create_task_group() as outer:
        async with anyio.create_task_group() as group:
            outer.start_soon(_write, peer, group.cancel_scope)
            methods: EditorMethods | None = None
            try:
                async for asked in peer.incoming():
                    if methods is not None:
                        await methods.take(asked)
                    elif (client := await _begun(peer, asked)) is not None:
                        methods = _load(args, peer, client, group)
            finally:
                group.cancel_scope.cancel()
                if methods is not None:
                    await methods.close()
        peer.end()
        with anyio.move_on_after(_GRACE):
            await peer.flush()
        outer.cancel_scope.cancel()
    return 0


async def _write(peer: RpcPeer, work: anyio.CancelScope) -> None:
    """Write until the editor reads no more: then it is gone."""
    await peer.write()
    work.cancel()


async def _begun(peer: RpcPeer, asked: RpcRequest) -> EditorAbility | None:
    """Answer the first request; gives what the editor can do once that is known."""
    if asked.method != "initialize":
        await peer.fail(asked, INVALID_REQUEST, "the first request must be initialize")
        return None
    try:
        params = msgspec.json.decode(asked.params, type=InitializeParams)
    except NOT_JSON as error:
        await peer.fail(asked, INVALID_PARAMS, str(error))
        return None
    await peer.respond(asked, initialized())
    # It must have left before everything else is loaded.
    await peer.flush()
    return params.client_capabilities


def _load(
    args: argparse.Namespace, peer: RpcPeer, client: EditorAbility, group: anyio.abc.TaskGroup
) -> EditorMethods:
    """Load what works on sessions."""
    from prong.face.acp.editor_method import EditorMethods
    from prong.face.flag import options_of
    from prong.face.garbage import look_seldom

    methods = EditorMethods(options_of(args), peer, client, group)
    group.start_soon(methods.end_on_signal, group.cancel_scope)
    look_seldom()
    return methods
