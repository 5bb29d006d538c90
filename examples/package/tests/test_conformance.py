"""What Prong relies on, held against this package."""

import pytest

from prong.host.target import RemoteTarget
from prong.testing import (
    check_agent_type,
    check_backend,
    check_launcher,
    check_package,
    check_pane_backend,
    check_tool,
)
from prong_example.agents import proof_reader
from prong_example.launcher import NiceLauncher
from prong_example.panes import LoggedPanes
from prong_example.provider import EchoBackend
from prong_example.tools import count_words, readability

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Prong runs on asyncio."""
    return "asyncio"


def test_all_that_the_package_names_can_be_loaded() -> None:
    """Each entry point is there, and of its kind."""
    assert len(check_package("prong-example")) == 5


async def test_the_provider() -> None:
    """It answers in one conversation, and counts."""
    await check_backend(EchoBackend, "loud")


async def test_the_tools() -> None:
    """A model can call them, and reads what they give."""
    assert await check_tool(count_words, {"text": "one two three"}) == "3"
    assert await check_tool(readability, {"text": "Short. Very short."}) == "1.5 words a sentence"


async def test_the_agent_type() -> None:
    """It can be started, and reports."""
    await check_agent_type(proof_reader)


async def test_the_panes() -> None:
    """They open, are found again, and close."""
    await check_pane_backend(LoggedPanes)


async def test_the_launcher() -> None:
    """A worker that it starts says hello."""
    await check_launcher(NiceLauncher(), RemoteTarget(launcher="nice"))
