"""The composition root: the only place where everything meets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, overload

import anyio
import anyio.abc
import msgspec

from prong import __version__
from prong.agent import Agent, Desk, Limits, NoHooks, Respond
from prong.agent.answer import interrupted
from prong.agent.compact import carried
from prong.cost import Ledger, Prices, Row, read_prices
from prong.entry import Text, User
from prong.errors import ConfigError, UsageError
from prong.event import Event, SessionStarted, TaskFinished, Todo, Warned
from prong.host import LocalHost
from prong.prompt import Prompt
from prong.provider import Http
from prong.session import store
from prong.session.bus import Bus
from prong.session.connection import open_servers
from prong.session.guard import Guard
from prong.session.hook import CommandHooks
from prong.session.journal import Journal, branch
from prong.session.model import Chosen, cache_ttl, choose, remembered, render_head
from prong.session.option import Options
from prong.session.place import Place, look_around, make_policy
from prong.session.record import Opened
from prong.session.replay import Replay
from prong.session.session import Session
from prong.session.text import text
from prong.team.notice import render
from prong.team.outbox import Outbox
from prong.team.task import TaskBoard
from prong.tool.base import Context, Reads, Tool
from prong.tool.kit import Kit
from prong.tool.policy import PolicyBox
from prong.tool.skill import SkillTool, listing
from prong.tool.structured import StructuredOutput
from prong.wire import dialect

MAIN = "main"
