"""The loopback API server, in this process or, as `python -m prong.testing.server`, in another."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from prong.testing.clock import AnyClock, WallClock
from prong.testing.control import PREFIX, control
from prong.testing.http import Exchange, listen
from prong.testing.ledger import Ledger, Rates
from prong.testing.script import AnyScript, Script, Step
from prong.testing.service import Options, Record, Service


class Server:
    """A scripted API server on the loopback interface.

    On leaving the context, every request must have extended its lineage, unless `moves_prefix`
    says why one did not.
    """

    def __init__(
        self,
        script: AnyScript = (),
        *,
        clock: AnyClock | None = None,
        options: Options | None = None,
        rates: Rates | None = None,
        moves_prefix: str | None = None,
        port: int = 0,
    ) -> None:
        self.clock = clock or WallClock()
        self.service = Service(script, self.clock, options or Options(), rates or Rates())
        self.moves_prefix = moves_prefix
        """Why requests need not extend each other; None demands that they do."""
        self.port = port
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.port = await self._stack.enter_async_context(listen(self._answer, self.port))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()
        if error is None and self.service.errors:
            raise self.service.errors[0]
        if error is None and self.moves_prefix is None:
            self.check_prefixes()

    @property
    def url(self) -> str:
        """The base URL, without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def records(self) -> list[Record]:
        """All requests, refused ones included, in order of arrival."""
        return self.service.records

    @property
    def ledger(self) -> Ledger:
        """The books."""
        return self.service.ledger

    def push(self, *steps: Step) -> None:
        """Add steps to the end of the script."""
        self.service.player.push(steps)

    def inject(self, *steps: Step) -> None:
        """Answer the next requests with these steps, ahead of the script."""
        self.service.faults.extend(steps)

    def lineages(self) -> dict[str, list[Record]]:
        """Give the requests of each lineage."""
        found = self.service.witness.lineages()
        return {
            name: [self.records[number - 1] for number in numbers]
            for name, numbers in found.items()
        }

    def check_prefixes(self) -> None:
        """Demand that every request of a lineage extends the one before.

        Raises:
            AssertionError: naming the first difference: section, item and byte.

        """
        breaches = self.service.witness.breaches()
        if breaches:
            raise AssertionError("\n".join(breaches))

    def paid(self) -> float:
        """Give what was paid for input, in tokens at the plain price."""
        return self.ledger.paid()

    def uncached(self) -> float:
        """Give what the same requests had cost without any cache."""
        return self.ledger.uncached()

    def least_possible(self) -> float:
        """Give what the same requests had cost with a perfect cache."""
        return self.ledger.least_possible()

    async def _answer(self, exchange: Exchange) -> None:
        if exchange.incoming.path.startswith(PREFIX):
            await control(self.service, exchange)
        else:
            await self.service.answer(exchange)


def load_script(path: Path) -> Script:
    """Read a script from a JSON file: a `Script`, or just a list of steps."""
    data = path.read_bytes()
    if data.lstrip()[:1] == b"[":
        return Script(msgspec.json.decode(data, type=list[Step]))
    return msgspec.json.decode(data, type=Script)


def main(arguments: list[str] | None = None) -> None:
    """Serve until killed; the first line printed is the URL."""
    import argparse
    import os
    import sys
    import threading

    import anyio

    parser = argparse.ArgumentParser(prog="python -m prong.testing.server")
    parser.add_argument("--script", type=Path, help="a JSON file of steps")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", help="the only API key that is accepted")
    parser.add_argument("--model", action="append", help="a model that exists; may be repeated")
    parser.add_argument("--context", type=int, help="the longest prompt in tokens")
    parser.add_argument("--minimum", type=int, help="the least number of tokens that is cached")
    parser.add_argument("--piece", type=int, default=40, help="characters per piece of a stream")
    parser.add_argument("--no-bodies", action="store_true", help="do not keep request bodies")
    parser.add_argument(
        "--while-stdin", action="store_true", help="stop when standard input is closed"
    )
    given = parser.parse_args(arguments)
    options = Options(
        key=given.key,
        models=tuple(given.model) if given.model else None,
        context=given.context,
        minimum=given.minimum,
        piece=given.piece,
        keep_bodies=not given.no_bodies,
    )
    script = load_script(given.script) if given.script else Script()

    def watch() -> None:
        # A server must not outlive the test that started it, however that ended.
        sys.stdin.buffer.read()
        os._exit(0)

    async def serve() -> None:
        async with Server(script, options=options, port=given.port, moves_prefix="asked") as server:
            sys.stdout.write(server.url + "\n")
            sys.stdout.flush()
            if given.while_stdin:
                threading.Thread(target=watch, daemon=True).start()
            await anyio.sleep_forever()

    anyio.run(serve)


def options_as_arguments(options: Options) -> list[str]:
    """Write options as the command line that `main` reads."""
    flags: Mapping[str, object] = {
        "--key": options.key,
        "--context": options.context,
        "--minimum": options.minimum,
        "--piece": options.piece,
    }
    arguments = [f"{name}={value}" for name, value in flags.items() if value is not None]
    if not options.keep_bodies:
        arguments.append("--no-bodies")
    return [*arguments, *(f"--model={name}" for name in options.models or ())]


if __name__ == "__main__":
    main()
