"""A bare server that answers without looking, and notes when each request's first byte came.

The loopback server reads and hashes every block, which with 256 long requests takes longer than
what is to be timed here. This one only counts bytes. The first request is answered at once, the
second dispatches N children; their answers are held back until all of them have been heard of.
Prints its URL, then, when N children have come, the seconds between the last byte of the
dispatching answer and the first byte of each child's first request. Speaks the Messages API, and
the Chat Completions API without streams.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
import time
from typing import Any

import scenario

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_MAIN = re.compile(rb"x-prong-lineage: *main\r", re.IGNORECASE)


class Peer:
    """One connection; `began` is when the first byte of its present request came."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.data = bytearray()
        self.began: float | None = None
        self.left: int | None = None

    def take(self, data: memoryview) -> bool:
        """Take bytes in; whether the request is whole."""
        if self.left is None:
            self.data += data
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return False
            found = _LENGTH.search(self.data, 0, end)
            assert found is not None, "a request says how long it is"
            self.left = int(found[1]) - (len(self.data) - end - 4)
        else:
            self.left -= len(data)
            self.data += data
        return self.left <= 0


def answer(parts: list[dict[str, Any]], *, stream: bool, chat: bool = False) -> bytes:
    """Make a whole HTTP answer of content blocks; `chat` says them in the words of that API."""
    calls = any(part["type"] == "tool_use" for part in parts)
    usage = {"input_tokens": 9, "cache_read_input_tokens": 50_000, "output_tokens": 9}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": scenario.MODEL,
        "content": parts, "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    if chat:
        assert not stream, "only whole answers are written for this API"
        body, kind = json.dumps(_completion(parts)).encode(), "application/json"
    elif not stream:
        body, kind = json.dumps(message).encode(), "application/json"
    else:
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
        ]
        for index, part in enumerate(parts):
            events += [{"index": index, **event} for event in _block(part)]
        delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": delta, "usage": usage},
            {"type": "message_stop"},
        ]
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        body, kind = "".join(lines).encode(), "text/event-stream"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _completion(parts: list[dict[str, Any]]) -> dict[str, Any]:
    calls = [
        {
            "id": part["id"],
            "type": "function",
            "function": {"name": part["name"], "arguments": json.dumps(part["input"])},
        }
        for part in parts
        if part["type"] == "tool_use"
    ]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    message = {"role": "assistant", "content": text or None, "tool_calls": calls or None}
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if calls else "stop",
        "logprobs": None,
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-5",
        "choices": [choice], "usage": usage,
    }  # fmt: skip


def _block(part: dict[str, Any]) -> list[dict[str, Any]]:
    if part["type"] == "text":
        empty, piece = {"type": "text", "text": ""}, {"type": "text_delta", "text": part["text"]}
    else:
        empty = {**part, "input": {}}
        piece = {"type": "input_json_delta", "partial_json": json.dumps(part["input"])}
    return [
        {"type": "content_block_start", "content_block": empty},
        {"type": "content_block_delta", "delta": piece},
        {"type": "content_block_stop"},
    ]


class Tap:
    """The server's state from the first request to the last child's."""

    def __init__(self, calls: list[dict[str, Any]]) -> None:
        self.calls = calls
        self.seen = 0
        self.sent = 0.0
        self.began: list[float] = []
        self.held: list[tuple[socket.socket, bytes]] = []

    def request(self, peer: Peer) -> None:
        """Answer a whole request, now or when all children have come."""
        stream = re.search(rb'"stream": ?true', peer.data) is not None
        chat = b"/chat/completions" in peer.data[:100]
        self.seen += 1
        if self.seen == 1:
            reply(peer.sock, answer([{"type": "text", "text": "Ready."}], stream=stream, chat=chat))
        elif self.seen == 2:
            dispatching = answer(self.calls, stream=stream, chat=chat)
            # Before it is sent: were this process to lose its turn in between, the client's work
            # of that time would be left out.
            self.sent = time.monotonic()
            reply(peer.sock, dispatching)
        elif _MAIN.search(peer.data, 0, 2_000) or len(self.began) == len(self.calls):
            reply(
                peer.sock,
                answer([{"type": "text", "text": scenario.CLOSING}], stream=stream, chat=chat),
            )
        else:
            assert peer.began is not None
            self.began.append(peer.began)
            text = {"type": "text", "text": scenario.report(0)}
            self.held.append((peer.sock, answer([text], stream=stream, chat=chat)))
        if len(self.began) == len(self.calls) and self.held:
            print(json.dumps([began - self.sent for began in self.began]), flush=True)
            for sock, data in self.held:
                reply(sock, data)
            self.held.clear()


def reply(sock: socket.socket, data: bytes) -> None:
    """Send all of an answer."""
    sock.setblocking(True)
    sock.sendall(data)
    sock.setblocking(False)


def serve(calls: list[dict[str, Any]]) -> None:
    """Serve until killed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setblocking(False)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    chosen = selectors.DefaultSelector()
    chosen.register(listener, selectors.EVENT_READ)
    tap, space = Tap(calls), memoryview(bytearray(4 << 20))
    while True:
        ready = chosen.select()
        now = time.monotonic()
        # The time is noted for all before any is read, so that reading delays nobody's.
        for key, _ in ready:
            if isinstance(key.data, Peer) and key.data.began is None:
                key.data.began = now
        for key, _ in ready:
            if key.data is None:
                sock, _address = listener.accept()
                sock.setblocking(False)
                chosen.register(sock, selectors.EVENT_READ, Peer(sock))
                continue
            peer: Peer = key.data
            count = peer.sock.recv_into(space)
            if not count:
                chosen.unregister(peer.sock)
                peer.sock.close()
            elif peer.take(space[:count]):
                tap.request(peer)
                peer.data, peer.began, peer.left = bytearray(), None, None


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
