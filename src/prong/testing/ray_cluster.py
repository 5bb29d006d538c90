"""A real Ray cluster of two machines, which are processes of this one."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from prong.testing.local_port import held_port
from prong.testing.process_table import kill_processes, read_processes

HAS_RAY = find_spec("ray") is not None
HAS_CLIENT = HAS_RAY and find_spec("grpc") is not None
_TRIES = 3
_JOINED = 120.0
"""Seconds in which a machine has joined, however busy this one is."""
_STORE = 80 * 1024 * 1024
_QUICK = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}
"""A machine that is gone is missed within two seconds."""


class RayNodes(msgspec.Struct):
    """The cluster; the label `zone` of its machines is `a` for the first and `b` for the second."""

    cluster: Any
    address: str
    second: Any
    folder: Path
    """Where the cluster keeps all that it keeps, its logs too."""
    client: str = ""
    """The address for those who are on no machine of it; empty if Ray's client is not installed."""

    def add(self, zone: str, *, cpus: int = 1) -> Any:
        """Add a machine."""
        made = self.cluster.add_node(
            num_cpus=cpus, object_store_memory=_STORE, labels={"zone": zone}
        )
        self.cluster.wait_for_nodes(_JOINED)
        return made

    def kill(self, node: Any) -> None:
        """Let a machine die, with all that was started on it, at once."""
        first = [one.process.pid for group in node.all_processes.values() for one in group]
        kill_processes(read_processes().below(first))
        self.cluster.remove_node(node, allow_graceful=False)

    def actors(self, node: Any = None) -> set[int]:
        """Give the processes of our actors, on the whole cluster or on one machine of it."""
        table = read_processes()
        if node is None:
            # Every process of Ray's own has the cluster's folder among its words.
            first = table.holding(bytes(self.folder))
        else:
            first = {node.all_processes["raylet"][0].process.pid}
        return table.holding(b"ray::PlacedWorker") & table.below(first)


@contextmanager
def ray_cluster() -> Generator[RayNodes]:
    """Start one, bound to this machine's own address; nothing of it stays."""
    with ExitStack() as stack:
        yield _start(stack)


def _start(stack: ExitStack) -> RayNodes:
    """Try until a cluster is up: Ray gives up on a machine that took 30 s, as a busy one may."""
    for left in reversed(range(_TRIES)):
        # Sockets lie in it, whose paths may not be long.
        made = tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(made))
        try:
            # At all addresses: Ray's server for its clients listens at more than one.
            port = stack.enter_context(held_port("")) if HAS_CLIENT else None
            return stack.enter_context(_cluster_in(folder, port))
        except Exception:
            kill_processes(read_processes().holding(bytes(folder)))
            if not left:
                raise
    raise AssertionError("no cluster was tried")


@contextmanager
def _cluster_in(folder: Path, port: int | None) -> Generator[RayNodes]:
    given = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder)}
    given["RAY_gcs_server_port_wait_time_s"] = "120"
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    made: Any = None
    try:
        kind = import_module("ray.cluster_utils").Cluster
        usual: dict[str, Any] = {"num_cpus": 2, "object_store_memory": _STORE}
        usual |= {"include_dashboard": False, "_system_config": _QUICK}
        head = {**usual, "labels": {"zone": "a"}, "ray_client_server_port": port}
        with warnings.catch_warnings():
            # Ray forgets to close the logs of the server for its clients.
            warnings.simplefilter("ignore", ResourceWarning)
            made = kind(initialize_head=True, head_node_args=head)
        second = made.add_node(num_cpus=2, object_store_memory=_STORE, labels={"zone": "b"})
        made.wait_for_nodes(_JOINED)
        client = f"ray://{made.address.partition(':')[0]}:{port}" if port else ""
        yield RayNodes(made, made.address, second, folder, client)
    finally:
        if made is not None:
            made.shutdown()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
