"""A whole piece of work under a coordinator, with real files and a real test suite."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from pathlib import Path

import pytest

from prong.event import TaskFinished, TaskStarted, ToolFinished, ToolStarted
from prong.ids import AgentPath, TaskId
from prong.provider.api import LINEAGE
from prong.testing import Request, Step, Worlds, call, calls, refuse, say

pytestmark = [pytest.mark.anyio, pytest.mark.spec("C1", "C3", "C4", "C5", "C7")]

PRICE = '''def total(prices, discount=0):
    """Sum up prices, less a discount in percent."""
    return sum(prices)
'''
STOCK = '''def reserve(have, wanted):
    """Give what is left."""
    return have - wanted
'''
TESTS = """import unittest

from shop import price, stock


class Price(unittest.TestCase):
    def test_discount(self):
        self.assertEqual(price.total([50, 50], discount=10), 90)

    def test_label(self):
        self.assertEqual(price.label(90), "90 EUR")


class Stock(unittest.TestCase):
    def test_enough(self):
        self.assertEqual(stock.reserve(5, 2), 3)

    def test_too_little(self):
        with self.assertRaises(ValueError):
            stock.reserve(1, 2)
"""
FILES = {
    "shop/__init__.py": "",
    "shop/price.py": PRICE,
    "shop/stock.py": STOCK,
    "tests/__init__.py": "",
    "tests/test_shop.py": TESTS,
}
CHECK = f"{sys.executable} -B -m unittest -q"
DISCOUNT = {
    "file_path": "shop/price.py",
    "old_string": "return sum(prices)",
    "new_string": "return sum(prices) * (100 - discount) / 100",
}
LABEL = {
    "file_path": "shop/price.py",
    "old_string": "def total",
    "new_string": 'def label(amount):\n    return f"{amount} EUR"\n\n\ndef total',
}
CHECKED = {
    "file_path": "shop/stock.py",
    "old_string": "    return",
    "new_string": '    if wanted > have:\n        raise ValueError("not enough")\n    return',
}


def worker(name: str, files: list[str]):
    brief = f"You are to do {name}. The whole of it, as this brief says."
    return ("Agent", {"description": name, "prompt": brief, "name": name, "files": files})


def read(path: str) -> Step:
    return call("Read", {"file_path": path})


def bash(command: str) -> Step:
    return call("Bash", {"command": command})


class Model:
    """Plays the coordinator by what it has been told, and each worker by its own list."""

    def __init__(self) -> None:
        self.workers: dict[str, deque[Step]] = {}
        self.stage = 0
        self.stages: list[tuple[list[str], Step]] = [
            (
                [],
                calls(worker("look-price", []), worker("look-stock", []), worker("look-tests", [])),
            ),
            (
                ["look-price", "look-stock", "look-tests"],
                calls(
                    worker("price", ["shop/price.py"]),
                    worker("stock", ["shop/stock.py"]),
                    worker("label", ["shop/p*.py"]),
                ),
            ),
            (
                ["price", "label"],
                calls(
                    (
                        "SendMessage",
                        {"to": "price", "message": "Apply the percentage in total() itself."},
                    ),
                    ("TaskStop", {"task_id": "stock"}),
                    worker("stock-anew", ["shop/stock.py"]),
                ),
            ),
            (["price#2", "stock", "stock-anew"], calls(worker("verify", []))),
            (["verify"], say("All four tests pass, as a fresh worker has checked.")),
        ]

    def play(self, pad: str) -> None:
        """Write the workers' parts; the researchers wait for each other in the scratchpad."""

        def meet(name: str) -> Step:
            met = " -a ".join(f"-e {pad}/{one}" for one in ("price", "stock", "tests"))
            return bash(f"touch {pad}/{name}; until [ {met} ]; do sleep 0.02; done")

        parts = {
            "look-price": [meet("price"), read("shop/price.py"), say("total() has no discount.")],
            "look-stock": [meet("stock"), read("shop/stock.py"), say("reserve() checks nothing.")],
            "look-tests": [
                meet("tests"),
                bash(CHECK),
                call("Write", {"file_path": "shop/price.py", "content": "x"}),
                say("Three of four tests fail."),
            ],
            "price": [
                read("shop/price.py"),
                refuse("I cannot tell where the discount belongs."),
                call("Edit", DISCOUNT),
                read("shop/price.py"),
                call("Edit", DISCOUNT),
                bash(f"{CHECK} tests.test_shop.Price"),
                say("total() takes off the discount; both tests of it pass."),
            ],
            "label": [read("shop/price.py"), call("Edit", LABEL), say("label() is there.")],
            "stock": [bash("echo wrong > shop/stock.py.orig"), bash("sleep 600")],
            "stock-anew": [
                read("shop/stock.py"),
                call("Edit", CHECKED),
                bash(f"{CHECK} tests.test_shop.Stock"),
                say("reserve() refuses what is not there."),
            ],
            "verify": [bash(CHECK), say("Ran all tests: OK.")],
        }
        self.workers = {name: deque(steps) for name, steps in parts.items()}

    def __call__(self, request: Request) -> Step:
        path = request.headers[LINEAGE]
        if path != "main":
            return self.workers[path.rpartition("/")[2]].popleft()
        text = b"".join(block.raw for block in request.blocks).decode()
        if self.stage < len(self.stages):
            needed, step = self.stages[self.stage]
            if all(_told(text, name) for name in needed):
                self.stage += 1
                return step
        return say("I wait for the others.")


def _told(text: str, name: str) -> bool:
    task, _, run = name.partition("#")
    after = f"\\n<run>{run}</run>" if run else "\\n<status>"
    return f"<task-id>{task}</task-id>{after}" in text


def suite(root: Path) -> int:
    return subprocess.run(CHECK.split(), cwd=root, capture_output=True, check=False).returncode


async def test_research_synthesis_implementation_verification(world: Worlds) -> None:
    """Three look in parallel; two implement and one is held back; one failure is continued, one
    wrong approach stopped and replaced; a fresh worker verifies.
    """
    model = Model()
    async with world(
        model, files=FILES, coordinator=True, mode="acceptEdits", allow=("Bash",)
    ) as w:
        model.play(w.parts.agent.policy.policy.scratchpad)
        assert suite(w.root) != 0

        turn = await w.session.run("Discounts are ignored and stock goes below zero. Fix it.")

        last = w.session.last
        assert turn.why == "done"
        assert last is not None
        assert last.text == "All four tests pass, as a fresh worker has checked."
        assert suite(w.root) == 0
        assert not (w.root / "shop" / "stock.py.orig").exists()

        ended = {
            e.task_id: e.status for e in w.told(TaskFinished) if not e.task_id.startswith("task-")
        }
        assert ended == {
            "look-price": "completed",
            "look-stock": "completed",
            "look-tests": "completed",
            "price": "completed",
            "label": "completed",
            "stock": "killed",
            "stock-anew": "completed",
            "verify": "completed",
        }
        started = [e.task_id for e in w.told(TaskStarted)]
        assert started.count(TaskId("price")) == 2, "a failure is continued by the same worker"

        mains = [r for r in w.server.records if r.headers[LINEAGE] == "main"]
        assert "overlap those of price" in mains[-1].body.decode()
        assert mains[-1].body.decode().count("has not begun yet") == 1

        verifier = next(r for r in w.server.records if r.headers[LINEAGE] == "main/verify")
        assert "discount" not in verifier.request.last_text
        assert len([b for b in verifier.request.blocks if b.section == "messages"]) == 1

        refused = [e.text for e in w.told(ToolFinished) if e.failed and e.name != "Bash"]
        assert any("not among the files that are yours" in text for text in refused)
        assert any("has changed" in text or "changed since" in text for text in refused)
        own = {
            e.event.name
            for e in w.envelopes
            if e.agent == "main" and isinstance(e.event, ToolStarted)
        }
        assert own == {"Agent", "SendMessage", "TaskStop"}
        order = [
            e.agent
            for e in w.envelopes
            if isinstance(e.event, ToolFinished) and e.event.name == "Edit" and not e.event.failed
        ]
        assert order.index(AgentPath("main/label")) < order.index(AgentPath("main/price"))
