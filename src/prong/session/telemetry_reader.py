"""Reads a session's events for OpenTelemetry, beside it: nothing waits for it, and nothing of it is
loaded before the first request is on its way.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import anyio

from prong.config.place import Place
from prong.errors import NotPossibleNow
from prong.event import Envelope, Event, RequestSent, Warned
from prong.session.bus import Bus, Subscription
from prong.session.catalogue import recorded_events

if TYPE_CHECKING:
    from prong.config.model import Chosen
    from prong.telemetry.pipeline import Pipeline
    from prong.telemetry.span_writer import SpanOptions, SpanWriter

_PAUSE = 1.0
"""Seconds between two times that something is sent."""
_LOADED = 5.0
"""Seconds that it waits until something can be sent at all."""
_LAST = 0.5
"""Seconds that the end of a session waits for what is sent last."""
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
LOCAL = "http://localhost:4318"
MISSING = "OpenTelemetry is not installed: pip install 'prong[otel]'"


class TelemetryReader:
    """Exports the events of one session."""

    def __init__(
        self, place: Place, chosen: Chosen, bus: Bus, emit: Callable[[Event], None]
    ) -> None:
        """Nothing is read yet."""
        self._place = place
        self._chosen = chosen
        self._bus = bus
        self._emit = emit
        self._events: Subscription | None = None
        self._early: list[Envelope] = []
        """What has happened before spans can be written."""
        self._loading = threading.Thread(target=self._load, daemon=True)
        self._writer: SpanWriter | None = None
        self._pipeline: Pipeline | None = None
        self._scope = anyio.CancelScope()
        self._told = False

    @property
    def _env(self) -> Mapping[str, str]:
        return {**self._place.env, **self._place.settings.values.env}

    async def run(self) -> None:
        """Export what happens, until the session ends."""
        with self._scope:
            events = self._events = self._bus.subscribe(self._bus.began)
            async for envelope in events:
                self._early.append(envelope)
                if isinstance(envelope.event, RequestSent):
                    break
            else:
                return
            self._loading.start()
            await _over(self._loading)
            if (writer := self._begun()) is None:
                self._tell(f"telemetry is asked for, but {MISSING}")
                return
            async with anyio.create_task_group() as group:
                group.start_soon(self._send_now_and_then)
                async for envelope in events:
                    writer.take(envelope)
                group.cancel_scope.cancel()

    def _begun(self) -> SpanWriter | None:
        """Give what writes spans, once it is loaded; it knows what has happened before."""
        writer = self._writer
        if writer is not None:
            for envelope in self._early:
                writer.take(envelope)
            self._early.clear()
        return writer

    def _load(self) -> None:
        try:
            from prong.telemetry.pipeline import Pipeline
            from prong.telemetry.span_writer import SpanWriter
        except ImportError:
            return
        self._pipeline = Pipeline(self._env)
        options = span_options(self._place, self._chosen)
        self._writer = SpanWriter(self._pipeline.tracer, self._pipeline.meter, options)

    async def _send_now_and_then(self) -> None:
        while (pipeline := self._pipeline) is not None:
            await anyio.sleep(_PAUSE)
            if pipeline.waiting:
                await _apart(pipeline.send)
            if pipeline.problem:
                self._tell(f"telemetry: {pipeline.problem}; is a collector there?")

    def _tell(self, text: str) -> None:
        if not self._told and not self._bus.closed:
            self._told = True
            self._emit(Warned(text=text))

    async def close(self) -> None:
        """Export what is left; a collector that does not answer holds up nobody for long."""
        self._scope.cancel()
        if self._events is None or self._loading.ident is None:
            return
        with anyio.move_on_after(_LOADED):
            # A session may be over sooner than the exporter is loaded.
            await _over(self._loading)
        writer, pipeline = self._begun(), self._pipeline
        if writer is None or pipeline is None:
            return
        for envelope in self._events.drain():
            writer.take(envelope)
        self._events.close()
        writer.close()
        with anyio.move_on_after(_LAST):
            await _apart(pipeline.send)
            await _apart(pipeline.send_metrics)
        pipeline.stop()


async def _apart(work: Callable[[], None]) -> None:
    """Do some work in a thread that ends with the process, however long the work would take."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    await _over(thread)


async def _over(thread: threading.Thread) -> None:
    while thread.is_alive():  # noqa: ASYNC110 - it may outlive the loop whose event it would set
        await anyio.sleep(0.01)


def span_options(place: Place, chosen: Chosen) -> SpanOptions:
    """Say what spans tell of a session beside its events."""
    from urllib.parse import urlsplit

    from prong.telemetry.semconv import CAPTURE, VENDORS
    from prong.telemetry.span_writer import SpanOptions

    asked, endpoint = place.settings.values.telemetry, chosen.endpoint
    env = {**place.env, **place.settings.values.env}
    where = urlsplit(endpoint.base_url) if not endpoint.backend else urlsplit("")
    return SpanOptions(
        provider=endpoint.backend or VENDORS.get(endpoint.dialect, endpoint.dialect),
        address=where.hostname or "",
        port=where.port or (443 if where.scheme == "https" else 80),
        content=asked.content or env.get(CAPTURE, "").lower() in {"true", "1", "span_only"},
        old_names=asked.old_cache_name,
        traceparent=env.get("TRACEPARENT", ""),
    )


def replay_telemetry(wanted: str | None, say: Callable[[str], None], endpoint: str) -> str:
    """Send what a stored session has recorded; says what was sent, and where.

    Raises NotPossibleNow if there is nothing to send, or nobody who takes it.
    """
    try:
        from prong.telemetry.pipeline import Pipeline
        from prong.telemetry.semconv import CAPTURE
        from prong.telemetry.span_writer import SpanOptions, SpanWriter
    except ImportError:
        raise NotPossibleNow(MISSING) from None
    pipeline = Pipeline(os.environ, endpoint or os.environ.get(ENDPOINT) or LOCAL)
    content = os.environ.get(CAPTURE, "").lower() in {"true", "1", "span_only"}
    parent = os.environ.get("TRACEPARENT", "")
    options = SpanOptions(content=content, traceparent=parent)
    writer = SpanWriter(pipeline.tracer, pipeline.meter, options)
    for envelope in recorded_events(wanted, say):
        writer.take(envelope)
    writer.close()
    pipeline.send()
    pipeline.send_metrics()
    pipeline.stop()
    if pipeline.problem:
        raise NotPossibleNow(f"{pipeline.problem}: name a collector that is there, --otlp URL")
    return f"{pipeline.sent} spans sent to {pipeline.endpoint}"
