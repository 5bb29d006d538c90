"""`prong web`: a session as a page in the user's browser."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path

import anyio

from prong.errors import BadInput
from prong.face.command_grammar import parser_of
from prong.face.inspect import say
from prong.face.output import flat, flush, show, tell
from prong.face.owned_file import write_owned
from prong.face.web.admission import PageSecret
from prong.face.web.page_action import PageActions
from prong.face.web.web_server import WebServer
from prong.session import SessionFeed, listen_http, open_feed
from prong.system.console import has_screen

_BODY = 128_000
"""Bytes that a request may have behind its head: a message, and little else."""


def run_web(words: list[str]) -> int:
    """Show a page until the user has seen enough; gives the exit code."""
    args = parser_of("web").parse_args(words)
    if args.with_text and args.export is None:
        raise BadInput("--with-text is for --export FILE; the page itself always has the texts")
    if args.allow_actions and args.export is not None:
        raise BadInput("--allow-actions is for a page that is served; leave it out with --export")
    feed = open_feed(args.session, say)
    if args.export is not None:
        _export(feed, Path(args.export), with_text=args.with_text)
        return 0
    anyio.run(lambda: _serve(feed, opens=not args.no_open, acts=args.allow_actions))
    return 0


def _export(feed: SessionFeed, path: Path, *, with_text: bool) -> None:
    from prong.face.web.standalone import standalone

    data = standalone(feed, with_text=with_text)
    write_owned(path, data)
    texts = "with all texts" if with_text else "texts are left out, --with-text includes them"
    show(f"{flat(str(path))}: {len(data):,} bytes; {texts}")


async def _serve(feed: SessionFeed, *, opens: bool, acts: bool) -> None:
    secret = PageSecret(acts=acts)
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(anyio.create_task_group())
        page = WebServer(feed, secret, PageActions(group) if acts else None)
        port = await stack.enter_async_context(listen_http(page.answer, longest=_BODY))
        show(secret.address(port))
        # At once: a program that reads this waits for the line, and so does whoever looks on.
        flush()
        tell("the page of this session, for you alone; Ctrl+C ends it", lead="")
        if opens:
            await anyio.to_thread.run_sync(_open, secret.one_use_address(port))
        await anyio.sleep_forever()


def _open(address: str) -> None:
    """Open the user's browser, if there is one that can show the page."""
    import webbrowser

    if not (has_screen() and webbrowser.open(address)):
        tell("no browser could be opened; open the address above yourself")
        sys.stderr.flush()
