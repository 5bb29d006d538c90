"""What `make demo` plays: `python -m prong.testing.demo`, or with `--scripted` `make story`.

The embedded model's session, or, where the engine cannot run, the scripted one, which says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from prong.errors import ProngError
from prong.testing import demo_local, demo_scripted
from prong.testing.page import put, wrap
from prong.testing.plot import PLOT, Plot

_INTERRUPTED = 130
_UNREAD = 141


def main(arguments: Sequence[str], plot: Plot = PLOT) -> int:
    """Play a demo; gives the exit code, which is 0 only if every claim came true."""
    if unknown := [word for word in arguments if word != "--scripted"]:
        put(f"prong: {unknown[0]} is unknown here; there is --scripted")
        return 2
    code = 0
    try:
        code = demo_scripted.main() if arguments else _embedded(plot)
    except* KeyboardInterrupt:
        put()
        put("stopped; the engine and the temporary folder are gone")
        code = _INTERRUPTED
    except* BrokenPipeError:
        # Nobody reads any more; what Python still wants to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _UNREAD
    return code


def _embedded(plot: Plot) -> int:
    try:
        return demo_local.main(plot)
    except ProngError as error:
        put()
        wrap(f"The embedded model cannot run on this machine: {error}.")
        put()
        put("Here is the SCRIPTED session instead: what its model says is not a model's.")
        put()
        return demo_scripted.main()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
