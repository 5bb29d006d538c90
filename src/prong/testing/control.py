"""The endpoints under `/_prong/` by which a test in another process steers and reads a server."""

from __future__ import annotations

from typing import Any

import msgspec

from prong.testing.http import Exchange, Incoming
from prong.testing.request import Refused
from prong.testing.script import Script, Step
from prong.testing.service import Service

PREFIX = "/_prong/"


async def control(service: Service, exchange: Exchange) -> None:
    """Answer one request to a control endpoint."""
    try:
        value, status = _decide(service, exchange.incoming), 200
    except Refused as refused:
        value, status = {"error": refused.message}, refused.status
    except msgspec.ValidationError as error:
        value, status = {"error": str(error)}, 400
    headers = {"content-type": "application/json"}
    await exchange.send(status, msgspec.json.encode(value), headers)


def _decide(service: Service, incoming: Incoming) -> object:
    path, _, query = incoming.path.removeprefix(PREFIX).partition("?")
    body = incoming.body
    match incoming.method, path:
        case "GET", "ledger":
            return ledger(service)
        case "GET", "requests":
            return [
                _record(service, i, bodies="bodies=1" in query) for i in range(len(service.records))
            ]
        case "GET", "lineages":
            witness = service.witness
            return {"lineages": witness.lineages(), "breaches": witness.breaches()}
        case "POST", "clock":
            service.clock.advance(msgspec.json.decode(body, type=dict[str, float])["advance"])
            return {"now": service.clock.now()}
        case "POST", "script":
            script = msgspec.json.decode(body, type=Script)
            service.player.push(script.steps, script.routes, script.forever)
            return {"left": service.player.left}
        case "POST", "faults":
            service.faults.extend(msgspec.json.decode(body, type=list[Step]))
            return {"faults": len(service.faults)}
        case "POST", "reset":
            service.reset()
            return {}
        case _:
            raise Refused(404, "not_found_error", f"no control endpoint {incoming.method} {path}")


def ledger(service: Service) -> dict[str, Any]:
    """Give the books as plain values."""
    books = service.ledger
    return {
        "rows": books.rows,
        "paid": books.paid(),
        "uncached": books.uncached(),
        "least_possible": books.least_possible(),
    }


def _record(service: Service, index: int, *, bodies: bool) -> dict[str, Any]:
    record = service.records[index]
    shown: dict[str, Any] = {
        "number": record.number,
        "path": record.path,
        "at": record.at,
        "status": record.status,
        "outcome": record.outcome,
        "bytes": len(record.body),
        "lineage": record.lineage,
        "parent": record.seen.parent if record.seen else None,
        "usage": record.usage,
        "headers": dict(record.headers),
    }
    if bodies:
        shown["body"] = record.body.decode(errors="replace")
    return shown
