"""A real Ray cluster of two machines, which are processes of this one."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

HAS_RAY = find_spec("ray") is not None
HAS_CLIENT = HAS_RAY and find_spec("grpc") is not None
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

    def add(self, zone: str) -> Any:
        """Add a machine."""
        made = self.cluster.add_node(num_cpus=1, object_store_memory=_STORE, labels={"zone": zone})
        self.cluster.wait_for_nodes()
        return made

    def kill(self, node: Any) -> None:
        """Let a machine die."""
        self.cluster.remove_node(node, allow_graceful=False)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return int(found.getsockname()[1])


@contextmanager
def ray_cluster(folder: Path) -> Generator[RayNodes]:
    """Start one, bound to this machine's own address; nothing of it stays."""
    given = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder)}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    made: Any = None
    try:
        kind = import_module("ray.cluster_utils").Cluster
        usual: dict[str, Any] = {"num_cpus": 2, "object_store_memory": _STORE}
        usual |= {"include_dashboard": False, "_system_config": _QUICK}
        port = _free_port() if HAS_CLIENT else None
        head = {**usual, "labels": {"zone": "a"}, "ray_client_server_port": port}
        with warnings.catch_warnings():
            # Ray forgets to close the logs of the server for its clients.
            warnings.simplefilter("ignore", ResourceWarning)
            made = kind(initialize_head=True, head_node_args=head)
        second = made.add_node(num_cpus=2, object_store_memory=_STORE, labels={"zone": "b"})
        made.wait_for_nodes()
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
