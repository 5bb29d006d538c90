"""Fixtures for pytest; `pytest_plugins = ["prong.testing.fixture"]` in conftest.py brings them."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import pytest

from prong.testing.recording import recorded_run as serve
from prong.testing.run_recorder import RecordingServer
from prong.testing.run_replay import ReplayServer


@pytest.fixture
def recorded_run(
    request: pytest.FixtureRequest,
) -> Callable[..., AbstractAsyncContextManager[RecordingServer | ReplayServer]]:
    """Replay the run of this test, or record it with PRONG_RECORD=1.

    It is kept beside the test's file, in `recordings`, under the test's name.
    """
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    return partial(serve, request.path.parent / "recordings" / f"{name}.run")
