import os
import shutil
import signal
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from prong.testing import Worlds
from prong.testing import world as make_world
from shared.example import draw_no_literals

# The machines are shared and noisy: no law is judged by the clock. Where changes are judged, each is
# held to the same examples as the one before; everywhere else new ones are tried in every run.
settings.register_profile(
    "prong",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("prong")
if os.environ.get("CI"):
    draw_no_literals()

# No test opens panes in the terminal that somebody runs it from.
for name in ("TMUX", "TMUX_PANE", "ITERM_SESSION_ID", "WEZTERM_PANE"):
    os.environ.pop(name, None)

# Programs that tests start write where the user's home is said to be, and so would a session to
# which no other place was given. The path is short: there are sockets in it. What other processes
# of the same run use is in the first one's, which also removes it when they are interrupted.
_OWN = Path(tempfile.mkdtemp(prefix="pt-", dir=os.environ.get("TESTS_PLACE")))
os.environ.setdefault("TESTS_PLACE", str(_OWN))
# What was installed there is not meant.
os.environ.setdefault("RUSTUP_HOME", str(Path.home() / ".rustup"))
for name in ("PRONG_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
    os.environ.pop(name, None)
for name, place in (("HOME", "home"), ("XDG_RUNTIME_DIR", "run")):
    os.environ[name] = str(_OWN / place)
    (_OWN / place).mkdir(mode=0o700)

# A shell without jobs lets what it runs in the background ignore Ctrl+C, and all that is below it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_unconfigure() -> None:
    """Remove what programs have written to the home of the tests."""
    shutil.rmtree(_OWN, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Fail a test that kept something of a session in the user's home, as nobody gave it another."""
    kept = _OWN / "home/.prong"
    if kept.exists():
        shutil.rmtree(kept)
        pytest.fail(f"{item.nodeid} wrote to ~/.prong: give it a home of its own", pytrace=False)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Worlds:
    """Make worlds in the test's folder; the marker `moves_prefix` is obeyed."""
    marker = request.node.get_closest_marker("moves_prefix")
    return partial(make_world, folder=tmp_path, moves_prefix=marker.args[0] if marker else None)
