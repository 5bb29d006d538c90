"""A test kit for agents: a scripted API server with a faithful prompt cache,
recorded runs, a host in memory, and clocks.

See docs/testing.md. Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prong.testing.cache import Cache
    from prong.testing.clock import Clock, WallClock
    from prong.testing.conformance import check_backend, check_provider
    from prong.testing.host import MemoryHost
    from prong.testing.ledger import Rates
    from prong.testing.model import Model
    from prong.testing.package_conformance import (
        check_agent_type,
        check_launcher,
        check_package,
        check_pane_backend,
        check_tool,
    )
    from prong.testing.process import ServerProcess
    from prong.testing.program_recorder import ProgramRecorder, RecordedCall
    from prong.testing.recording import recorded_run
    from prong.testing.request import Request
    from prong.testing.run_recorder import record_run
    from prong.testing.run_replay import RunDiffers, replay_run
    from prong.testing.scene import World, Worlds, inside, world
    from prong.testing.script import (
        Script,
        Step,
        break_off,
        call,
        calls,
        cut,
        delay,
        fail,
        flood,
        forks,
        garble,
        malformed,
        refuse,
        report,
        say,
        stall,
        think,
        truncate,
    )
    from prong.testing.server import Server
    from prong.testing.service import Options, Record

__all__ = [
    "Cache",
    "Clock",
    "MemoryHost",
    "Model",
    "Options",
    "ProgramRecorder",
    "Rates",
    "Record",
    "RecordedCall",
    "Request",
    "RunDiffers",
    "Script",
    "Server",
    "ServerProcess",
    "Step",
    "WallClock",
    "World",
    "Worlds",
    "break_off",
    "call",
    "calls",
    "check_agent_type",
    "check_backend",
    "check_launcher",
    "check_package",
    "check_pane_backend",
    "check_provider",
    "check_tool",
    "cut",
    "delay",
    "fail",
    "flood",
    "forks",
    "garble",
    "inside",
    "malformed",
    "record_run",
    "recorded_run",
    "refuse",
    "replay_run",
    "report",
    "say",
    "stall",
    "think",
    "truncate",
    "world",
]

_HOMES = {
    "Cache": "cache",
    "Clock": "clock",
    "MemoryHost": "host",
    "Model": "model",
    "Options": "service",
    "ProgramRecorder": "program_recorder",
    "Rates": "ledger",
    "Record": "service",
    "RecordedCall": "program_recorder",
    "Request": "request",
    "RunDiffers": "run_replay",
    "Server": "server",
    "ServerProcess": "process",
    "WallClock": "clock",
    "World": "scene",
    "Worlds": "scene",
    "inside": "scene",
    "record_run": "run_recorder",
    "recorded_run": "recording",
    "replay_run": "run_replay",
    "check_agent_type": "package_conformance",
    "check_backend": "conformance",
    "check_launcher": "package_conformance",
    "check_package": "package_conformance",
    "check_pane_backend": "package_conformance",
    "check_tool": "package_conformance",
    "check_provider": "conformance",
    "world": "scene",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'script')}"), name)
