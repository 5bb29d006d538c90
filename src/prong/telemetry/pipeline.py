"""Where spans and metrics go: to the host program's own, or by OTLP over HTTP to a collector.

What is ours is sent when we say so, in a thread, and its outcome is known: the SDK's own batches
have a thread each, and hold up the end of a program for as long as a collector does not answer.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import Tracer
from opentelemetry.util.re import parse_env_headers

from prong.about import __version__

_NAME: Final = "prong"
_BATCH: Final = 512
_PATIENCE: Final = 3.0
"""Seconds in which a collector must have taken what it is sent, all tries together."""


class EndedSpans(SpanProcessor):
    """Keeps the spans that have ended until they are sent."""

    def __init__(self) -> None:
        """There are none yet."""
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        """Take in a span."""
        self.spans.append(span)


class Pipeline:
    """Where one session's telemetry goes."""

    def __init__(self, env: Mapping[str, str], endpoint: str = "") -> None:
        """Use the host program's providers if it has set some, else an exporter of our own."""
        self._collected = EndedSpans()
        self.sent = 0
        self.problem = ""
        """Why something could not be sent."""
        self.own = bool(endpoint) or isinstance(
            trace.get_tracer_provider(), trace.ProxyTracerProvider
        )
        if not self.own:
            self._tracers, self._meters = trace.get_tracer_provider(), metrics.get_meter_provider()
            return
        _quieten()
        resource = Resource.create(
            {
                "service.name": env.get("OTEL_SERVICE_NAME") or _NAME,
                "service.version": __version__,
            }
        )
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(self._collected)
        self._reader = InMemoryMetricReader()
        self._tracers = tracers
        self._meters = MeterProvider([self._reader], resource, shutdown_on_exit=False)
        base = endpoint or env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or "http://localhost:4318"
        headers = parse_env_headers(env.get("OTEL_EXPORTER_OTLP_HEADERS", ""), liberal=True)
        self.endpoint = _signal({} if endpoint else env, "TRACES", base)
        self._spans_out = OTLPSpanExporter(self.endpoint, headers=headers, timeout=_PATIENCE)
        measured = _signal({} if endpoint else env, "METRICS", base)
        self._metrics_out = OTLPMetricExporter(measured, headers=headers, timeout=_PATIENCE)

    @property
    def tracer(self) -> Tracer:
        """Makes spans."""
        return self._tracers.get_tracer(_NAME, __version__)

    @property
    def meter(self) -> Meter:
        """Makes measurements."""
        return self._meters.get_meter(_NAME, __version__)

    @property
    def waiting(self) -> int:
        """How many spans have ended and were not sent."""
        return len(self._collected.spans)

    def send(self) -> None:
        """Send what has come together; may take as long as the collector does."""
        if not self.own:
            return
        while batch := self._collected.spans[:_BATCH]:
            del self._collected.spans[: len(batch)]
            if self._spans_out.export(batch) is not SpanExportResult.SUCCESS:
                self.problem = f"{len(batch)} spans could not be sent to {self.endpoint}"
                return
            self.sent += len(batch)

    def send_metrics(self) -> None:
        """Send what was measured."""
        data = self._reader.get_metrics_data() if self.own else None
        if data is None:
            return
        # Its keywords have no types.
        outcome = self._metrics_out.export(data)  # pyright: ignore[reportUnknownMemberType]
        if outcome is not MetricExportResult.SUCCESS:
            self.problem = self.problem or f"metrics could not be sent beside {self.endpoint}"

    def stop(self) -> None:
        """Give up what is being sent."""
        if self.own:
            self._spans_out.shutdown()
            self._metrics_out.shutdown()  # pyright: ignore[reportUnknownMemberType] - as above


def _signal(env: Mapping[str, str], signal: str, base: str) -> str:
    own = env.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return own or f"{base.rstrip('/')}/v1/{signal.lower()}"


def _quieten() -> None:
    """Let the SDK's own log say nothing on our terminal; what fails is told by `problem`."""
    log = logging.getLogger("opentelemetry")
    log.addHandler(logging.NullHandler())
    log.propagate = False
