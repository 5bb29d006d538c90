import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

from prong.testing import Worlds
from prong.testing import world as make_world

# The machines are shared and noisy: no law is judged by the clock.
settings.register_profile("prong", deadline=None)
settings.load_profile("prong")

# No test opens panes in the terminal that somebody runs it from.
for name in ("TMUX", "TMUX_PANE", "ITERM_SESSION_ID", "WEZTERM_PANE"):
    os.environ.pop(name, None)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Worlds:
    """Make worlds in the test's folder; the marker `moves_prefix` is obeyed."""
    marker = request.node.get_closest_marker("moves_prefix")
    return partial(make_world, folder=tmp_path, moves_prefix=marker.args[0] if marker else None)
