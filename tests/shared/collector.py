"""A collector of OpenTelemetry on 127.0.0.1: takes what is sent by OTLP over HTTP and keeps it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What has come."""

    def __init__(self) -> None:
        self.url = ""
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.raw = b""
        self._one_by_one = threading.Lock()

    def take(self, path: str, body: bytes) -> None:
        """Keep what was sent; each request comes in a thread of its own."""
        with self._one_by_one:
            self._take(path, body)

    def _take(self, path: str, body: bytes) -> None:
        self.raw += body
        if path == "/v1/traces":
            sent = ExportTraceServiceRequest.FromString(body)
            self.spans += [
                span for r in sent.resource_spans for s in r.scope_spans for span in s.spans
            ]
        elif path == "/v1/metrics":
            measured = ExportMetricsServiceRequest.FromString(body)
            self.metrics += [
                one for r in measured.resource_metrics for s in r.scope_metrics for one in s.metrics
            ]

    def named(self, start: str) -> list[Any]:
        """Give the spans whose names begin so."""
        return [span for span in self.spans if span.name.startswith(start)]


def attributes(span: Any) -> dict[str, Any]:
    """Give a span's attributes as plain values."""
    found: dict[str, Any] = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = [v.string_value for v in value.values] if kind == "array_value" else value
    return found


@contextmanager
def collector(status: int = 200) -> Generator[Collector]:
    """Listen until the block is left."""
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            packed = self.headers.get("content-encoding") == "gzip"
            kept.take(self.path, gzip.decompress(body) if packed else body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
