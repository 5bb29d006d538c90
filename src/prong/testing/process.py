"""The loopback server in a process of its own, so that a client's work can be measured alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from prong.testing.script import Script, Step
from prong.testing.server import options_as_arguments
from prong.testing.service import Options


class ServerProcess:
    """Starts and stops a server in another process and speaks to its control endpoints."""

    def __init__(
        self, script: Script | Sequence[Step] = (), *, options: Options | None = None
    ) -> None:
        self._script = script if isinstance(script, Script) else Script(list(script))
        self._options = options or Options()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        """The base URL, without `/v1`."""

    def __enter__(self) -> Self:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "script.json")
            path.write_bytes(msgspec.json.encode(self._script))
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "prong.testing.server",
                    f"--script={path}",
                    "--while-stdin",
                    *options_as_arguments(self._options),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            assert self._process.stdout is not None
            self.url = self._process.stdout.readline().decode().strip()
        if not self.url:
            raise RuntimeError(f"the server did not start: status {self._process.wait()}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        with self._process:
            pass

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        assert self._process is not None
        return self._process.pid

    def ledger(self) -> dict[str, Any]:
        """Give rows, paid, uncached and least_possible."""
        return self._ask("ledger")

    def requests(self, *, bodies: bool = False) -> list[dict[str, Any]]:
        """Give all requests, with their bodies if wanted."""
        return self._ask("requests?bodies=1" if bodies else "requests")

    def lineages(self) -> dict[str, list[int]]:
        """Give the numbers of the requests of each lineage."""
        return self._ask("lineages")["lineages"]

    def check_prefixes(self) -> None:
        """Demand that every request of a lineage extends the one before."""
        breaches = self._ask("lineages")["breaches"]
        if breaches:
            raise AssertionError("\n".join(breaches))

    def advance(self, seconds: float) -> None:
        """Push the server's clock ahead."""
        self._ask("clock", {"advance": seconds})

    def push(self, script: Script | Sequence[Step]) -> None:
        """Add steps to the end of the script."""
        self._ask("script", script if isinstance(script, Script) else Script(list(script)))

    def inject(self, *steps: Step) -> None:
        """Answer the next requests with these steps, ahead of the script."""
        self._ask("faults", steps)

    def reset(self) -> None:
        """Forget all requests, books and cache entries; the script stays."""
        self._ask("reset", {})

    def _ask(self, path: str, body: object = None) -> Any:
        from urllib.request import Request, urlopen

        data = None if body is None else msgspec.json.encode(body)
        request = Request(f"{self.url}/_prong/{path}", data=data)  # noqa: S310 # our own loopback URL
        with urlopen(request) as response:  # noqa: S310 # likewise
            return msgspec.json.decode(response.read())
