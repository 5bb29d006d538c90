"""The books of a session: what its agents paid, shared, and could have paid at least."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from prong.cost import Charge, Prices, total
from prong.cost.breakeven import BreakEven
from prong.cost.least import least_costs
from prong.cost.receipt import FanReceipt, Receipt
from prong.entry import Usage
from prong.ids import AgentPath, parent_of, task_of
from prong.journal.note import FanPlanned, ReceiptClosed
from prong.journal.replay import Replay

_LineKind: TypeAlias = Literal["agent", "fan", "session"]


class CostLine(msgspec.Struct, frozen=True):
    """What an agent, the siblings of a fan-out or the whole session cost, in dollars."""

    agent: str
    requests: int
    usage: Usage
    cost: float | None
    uncached: float | None
    """The same requests without any cache."""
    unshared: float | None
    """The same requests if every fork had had to write the shared prefix itself."""
    least: float | None
    """The same requests with every distinct block written once and read in all others."""
    kind: _LineKind = "agent"
    estimated: float | None = None
    """What the children of a fan-out were estimated to cost before they started."""


class Books:
    """The rows of a session with what each could have cost at least, and its receipts."""

    def __init__(self, replay: Replay, prices: Prices, live: Iterable[Receipt] = ()) -> None:
        """Take a journal; `live` are receipts of children that still run and have stored none."""
        self._replay = replay
        self._rows = [paid.row for paid in replay.requests if not paid.inherited]
        ended = dict(replay.each(ReceiptClosed))
        # In the order in which children began, not in that in which they ended.
        began = dict.fromkeys((*replay.agents, *ended))
        closed = {agent: ended[agent].value for agent in began if agent in ended}
        self._receipts = {receipt.agent: receipt for receipt in live} | closed
        self._least = _least(replay, self._rows, prices)

    @property
    def receipts(self) -> list[Receipt]:
        """The receipts of all children."""
        return list(self._receipts.values())

    def of_task(self, task: str) -> list[Receipt]:
        """Give the receipts of a task's id, an agent's path or an agent's name."""
        return [
            receipt
            for receipt in self.receipts
            if task in {receipt.task_id, receipt.agent, task_of(receipt.agent)}
        ]

    def lines(self) -> list[CostLine]:
        """Say what the session cost: by agent, by fan-out, and in all."""
        agents = dict.fromkeys(row.agent for row in self._rows)
        lines = [self._line(agent, [agent], "agent") for agent in agents]
        for group in self._groups():
            name = f"{len(group)} {'fork' if len(group) == 1 else 'forks'} of {_parent(group[0])}"
            told = self._line(name, [receipt.agent for receipt in group], "fan")
            lines.append(msgspec.structs.replace(told, estimated=self._fan(group).estimated))
        return [*lines, self._sum("session", range(len(self._rows)), "session")]

    def fans(self) -> list[FanReceipt]:
        """Give what the forks of each dispatch shared and paid."""
        return [self._fan(group) for group in self._groups()]

    def _groups(self) -> list[tuple[Receipt, ...]]:
        """Group the forks of one dispatch, or what is known of no dispatch by its base.

        What a fork in a session of its own has paid is in the books of that one.
        """
        groups: dict[tuple[str, str], list[Receipt]] = {}
        for receipt in self.receipts:
            if receipt.kind == "fork" and not receipt.session:
                group = receipt.fan or receipt.base
                groups.setdefault((_parent(receipt), group), []).append(receipt)
        return [tuple(group) for group in groups.values()]

    def _fan(self, group: tuple[Receipt, ...]) -> FanReceipt:
        estimate = self._estimate(group[0])
        return FanReceipt(
            base=group[0].base,
            size=len(group),
            plan=estimate.plan if estimate else None,
            estimate=estimate,
            receipts=group,
            least=self._line("", [receipt.agent for receipt in group], "fan").least,
        )

    def _estimate(self, receipt: Receipt) -> BreakEven | None:
        if not receipt.fan:
            return None
        note = self._replay.last(_parent(receipt), FanPlanned, receipt.fan)
        return note.value.estimate if note is not None else None

    def _line(self, name: str, agents: Sequence[str], kind: _LineKind) -> CostLine:
        chosen = [index for index, row in enumerate(self._rows) if row.agent in agents]
        return self._sum(name, chosen, kind)

    def _sum(self, name: str, chosen: Sequence[int], kind: _LineKind) -> CostLine:
        rows = [self._rows[index] for index in chosen]
        least = [self._least[index] for index in chosen]
        summed = total(rows)
        floor = None if None in least else sum(amount for amount in least if amount is not None)
        if floor is not None and summed.cost is not None:
            # An earlier session may have paid for the writing of what these requests only read.
            floor = min(floor, summed.cost)
        return CostLine(
            name,
            summed.requests,
            summed.usage,
            summed.cost,
            summed.uncached,
            _unshared(rows, summed.cost, self._receipts),
            floor,
            kind,
        )


def _parent(receipt: Receipt) -> AgentPath:
    return parent_of(receipt.agent)


def _least(replay: Replay, rows: Sequence[Charge], prices: Prices) -> list[float | None]:
    # A request whose prompt was not stored counts as it was paid.
    found = [row.cost for row in rows]
    known = [
        (index, prompt)
        for index, row in enumerate(rows)
        if (prompt := replay.known.get(row.digest)) is not None
    ]
    pairs = [(prompt, rows[index]) for index, prompt in known]
    for (index, _), least in zip(known, least_costs(pairs, prices), strict=True):
        found[index] = least
    return found


def _unshared(
    rows: Sequence[Charge], cost: float | None, known: Mapping[str, Receipt]
) -> float | None:
    for receipt in (known[agent] for agent in {row.agent for row in rows} if agent in known):
        if cost is None or receipt.unshared is None or receipt.cost is None:
            return None
        cost += receipt.unshared - receipt.cost
    return cost
