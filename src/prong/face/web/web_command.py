"""`prong web`: a session as a page in the user's browser."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import anyio

from prong.errors import BadInput
from prong.face.inspect import say
from prong.face.output import flat, flush, show, tell
from prong.face.web.admission import PageSecret
from prong.face.web.web_server import WebServer
from prong.session import SessionFeed, listen_http, open_feed


def run_web(words: list[str]) -> int:
    """Show a page until the user has seen enough; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="prong web",
        allow_abbrev=False,
        description="Show a session in a browser, live or after the fact: which bytes its "
        "requests share, its agents, its times, its cost. The page is of this machine alone.",
    )
    parser.add_argument("session", nargs="?", help="id, name or journal file; default: the last")
    parser.add_argument(
        "--no-open", action="store_true", help="only print the address; open no browser"
    )
    parser.add_argument(
        "--export", metavar="FILE", help="write the page as one file instead, without its texts"
    )
    parser.add_argument("--with-text", action="store_true", help="export what was said as well")
    args = parser.parse_args(words)
    if args.with_text and args.export is None:
        raise BadInput("--with-text is for --export FILE; the page itself always has the texts")
    feed = open_feed(args.session, say)
    if args.export is not None:
        _export(feed, Path(args.export), with_text=args.with_text)
        return 0
    anyio.run(lambda: _serve(feed, opens=not args.no_open))
    return 0


def _export(feed: SessionFeed, path: Path, *, with_text: bool) -> None:
    from prong.face.web.standalone import standalone

    data = standalone(feed, with_text=with_text)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written ({error.strerror}); name another file with --export"
        ) from error
    texts = "with all texts" if with_text else "texts are left out, --with-text includes them"
    show(f"{flat(str(path))}: {len(data):,} bytes; {texts}")


async def _serve(feed: SessionFeed, *, opens: bool) -> None:
    secret = PageSecret()
    async with listen_http(WebServer(feed, secret).answer, longest=0) as port:
        show(secret.address(port))
        # At once: a program that reads this waits for the line, and so does whoever looks on.
        flush()
        tell("the page of this session, for you alone; Ctrl+C ends it", lead="")
        if opens:
            await anyio.to_thread.run_sync(_open, secret.one_use_address(port))
        await anyio.sleep_forever()


def _open(address: str) -> None:
    """Open the user's browser, if there is one."""
    import webbrowser

    if not webbrowser.open(address):
        tell("no browser could be opened; open the address above yourself")
        sys.stderr.flush()
