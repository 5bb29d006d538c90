"""llama.cpp's own server on this machine, with the bundled model, for tests and benchmarks.

It is the server of the `prong[local]` engine, in a process that ends with its maker. By hand:

    python -m prong.testing.llama '{"port": 8080, "n_parallel": 5, "slot_save_path": "/tmp/slots/"}'
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import msgspec

from prong.testing.local_port import held_port

CALLS = """\
{%- for m in messages %}<|im_start|>{{ m['role'] }}
{{ m['content'] or '' }}{% for call in m.tool_calls or [] %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endfor %}{% if tools and loop.first %}
You may call a function within <tool_call></tool_call> tags:
{%- for tool in tools %} {{ tool.function.name }}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""A template with calls, which the bundled model's own has not."""


class LlamaServer:
    """A running server; the parameters are those of the engine."""

    def __init__(
        self, *, slots: int = 4, context: int = 1024, save: Path | None = None, **more: Any
    ) -> None:
        """Say how many slots of how many tokens there are, and where they may be saved."""
        self._parameters: dict[str, Any] = {
            "n_parallel": slots,
            "n_ctx": slots * context,
            # The parameter is a prefix of names, not a folder.
            "slot_save_path": f"{save}/" if save else "",
            **more,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._held = ExitStack()
        self.url = ""
        """The base URL, with the version."""

    def __enter__(self) -> Self:
        """Start it, and wait until it answers."""
        # Nobody else is given it between an end and the next start.
        self._parameters["port"] = self._held.enter_context(held_port())
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.kill()
        self._held.close()

    def start(self) -> None:
        """Start it, at the same address each time."""
        argv = [sys.executable, "-m", "prong.testing.llama"]
        process = self._process = subprocess.Popen(
            [*argv, msgspec.json.encode(self._parameters).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_WAIT_POLICY": "passive"},
        )
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"http"):
                self.url = f"{line.decode().strip()}/v1"
                return
        raise RuntimeError("llama.cpp's server did not start")

    def kill(self) -> None:
        """End it without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def main() -> None:
    """Serve until there is nobody at the other end of standard input."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    import xllamacpp  # pyright: ignore[reportMissingTypeStubs] - it has none

    from prong.provider.local.installation import weights

    engine: Any = xllamacpp
    parameters = engine.CommonParams()
    parameters.model.path = str(weights("local"))
    parameters.warmup = False
    for name, value in msgspec.json.decode(sys.argv[1]).items():
        setattr(parameters, name, value)
    server = engine.Server(parameters)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    # The engine's threads do not end by themselves.
    os._exit(0)


if __name__ == "__main__":
    main()
