"""What options and settings ask for, as the parts of a session need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from anyio.abc import TaskGroup

from prong.agent import TurnLimits
from prong.config.option import Options
from prong.config.place import Place
from prong.config.secrecy import withheld
from prong.cost import Prices, read_prices
from prong.cost.budget import Bounds
from prong.entry import ToolSpec
from prong.errors import BadInput
from prong.provider import HttpLimits, Providers, SharedHttp
from prong.team.fanout import ForkSettings
from prong.team.remote_workers import RemoteWorkers
from prong.team.runner import Inline, Runner
from prong.team.supervisor import PATIENCE
from prong.tools.structured import StructuredOutput

_LARGEST = 4_000_000
"""Bytes that a JSON schema may have."""


def fork_settings(place: Place) -> ForkSettings:
    """Read what the user set about forks."""
    fork = place.settings.values.fork
    usual = ForkSettings()
    return ForkSettings(
        dispatch=None if fork.dispatch == "auto" else fork.dispatch,
        schedule=None if fork.schedule == "auto" else fork.schedule,
        turns=fork.turns or usual.turns,
        break_even=fork.break_even,
    )


def session_budget(place: Place) -> Bounds:
    """Read what the session may spend at most, all its agents together: the least that is said."""
    options, values = place.options, place.settings.values
    given = values.session_budget
    dollars = first(options.max_usd, values.max_budget_usd)
    tokens = [most for most in (given.tokens, options.max_tokens) if most is not None]
    usd = [most for most in (given.usd, dollars) if most is not None]
    return msgspec.structs.replace(
        given, tokens=min(tokens, default=None), usd=min(usd, default=None)
    )


def runner(place: Place) -> Runner:
    """Choose where the agents of children run."""
    if place.settings.values.agents.backend == "inline":
        return Inline()
    from prong.team.pipe import Processes

    return Processes()


def remote_workers(place: Place, group: TaskGroup, storage: str) -> RemoteWorkers:
    """Say on which other machines children can work; what leads there is held in the group."""
    values = place.settings.values
    if not values.remote.targets:
        return RemoteWorkers(background=values.background)
    from prong.team.worker_lines import WorkerLines

    folder = Path(storage, "machines")
    return RemoteWorkers(
        lines=WorkerLines(group, str(folder), session=folder.parent.name, withhold=withheld(place)),
        targets=values.remote.targets,
        default=values.remote.default,
        withhold=withheld(place),
        required=values.sandbox.mode == "required",
        background=values.background,
    )


def patience(place: Place) -> float | None:
    """Say how long a parent waits for a child in the foreground; 0 is for ever."""
    if not place.settings.values.background:
        return None
    seconds = place.settings.values.foreground_seconds
    return PATIENCE if seconds is None else seconds or None


def wakes_once(place: Place, *, attended: bool) -> bool:
    """Whether a fan-out wakes its parent once, when all are done: each wake reads the history."""
    return (place.settings.values.fork.wake or ("each" if attended else "all")) == "all"


def make_prices(place: Place) -> Prices:
    """Read the user's own prices, if there are any.

    Raises ConfigError if the file is wrong.
    """
    path = place.store / "prices.json"
    try:
        return Prices(read_prices(str(path), path.read_bytes()))
    except OSError:
        return Prices()


def make_limits(place: Place) -> TurnLimits:
    """Bound the turns of the main agent as options or settings ask."""
    turns = first(place.options.max_turns, place.settings.values.max_turns)
    return TurnLimits(max_turns=None if turns is None else int(turns))


def compact_share(place: Place, otherwise: float) -> float:
    """Give the share of the context at which to compact."""
    share = first(place.options.compact_at, place.settings.values.compact_at)
    return otherwise if share is None else share


def first(*values: float | None) -> float | None:
    """Give the first value that there is."""
    return next((value for value in values if value is not None), None)


def answer_schema(tools: Sequence[ToolSpec]) -> bytes | None:
    """Give the JSON schema of the answer, if one was asked for."""
    found = [bytes(tool.schema) for tool in tools if tool.name == StructuredOutput.name]
    return found[0] if found else None


def structured_output(options: Options) -> StructuredOutput | None:
    """Make the tool that takes an answer of the caller's JSON schema, if there is one.

    Raises UsageError if the schema cannot be read or used.
    """
    if options.json_schema is None:
        return None
    given = str(options.json_schema).strip()
    if not given.startswith("{"):
        try:
            given = _read_schema(given)
        except (OSError, ValueError) as error:
            raise BadInput(
                f"the JSON schema is neither an object nor a file that can be read: {error}"
            ) from error
    return StructuredOutput(given)


def _read_schema(name: str) -> str:
    # A device that never ends must not be read to its end; a pipe such as <(...) may be.
    with Path(name).open("rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ValueError(f"{name} has more than {_LARGEST:,} bytes")
    return data.decode("utf-8")


def make_providers(place: Place) -> Providers:
    """Make what makes the providers of all agents, on a client as patient as the user wants.

    Sessions of one event loop share connections.
    """
    given = place.settings.values.retry
    waits = {key: given[key] for key in ("idle", "progress") if key in given}
    http = SharedHttp(env=proxied(place), limits=msgspec.convert(waits, HttpLimits))
    env = {**place.env, **place.settings.values.env}
    return Providers(http, env=env, folder=place.store)


def proxied(place: Place) -> Mapping[str, str]:
    """Give the environment of the HTTP client, with the proxy that options or settings name."""
    proxy = place.options.proxy or place.settings.values.proxy
    return {**place.env, "HTTPS_PROXY": proxy, "HTTP_PROXY": proxy} if proxy else place.env


_GUARDED = 60.0
"""Seconds in which a server whose tool answers for permission must have started."""


def exports(place: Place) -> bool:
    """Whether settings or the environment ask for telemetry."""
    wanted = place.settings.values.telemetry.enabled
    if wanted is not None:
        return wanted
    env = {**place.env, **place.settings.values.env}
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return any(map(env.get, names)) and env.get("OTEL_SDK_DISABLED", "").lower() != "true"


def server_wait(place: Place) -> float:
    """Give the seconds that a start waits for servers: as long as they take for one that guards."""
    wait = place.settings.values.mcp.wait
    return wait if place.options.permission_prompt_tool is None else max(wait, _GUARDED)
