"""The loopback HTTP server, as the servers of the test kit use it."""

from prong.host.http_server import MAX_BODY, Answering, Hangup, listen
from prong.host.http_server import HttpExchange as Exchange
from prong.host.http_server import HttpRequest as Incoming

__all__ = ["MAX_BODY", "Answering", "Exchange", "Hangup", "Incoming", "listen"]
