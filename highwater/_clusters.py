"""A cluster of the built-in broker for tests: it starts in seconds, and ends with its user.

The cluster is a process of its own with a network of its own. Programs of this machine reach it
through forwarded ports of the loopback interface; faults between clients and nodes hit them too.
Root is not needed. However this process ends, the cluster is removed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from highwater._errors import ClusterFailed, FaultFailed
from highwater._faults import Faults

if TYPE_CHECKING:
    from types import TracebackType


LOOPBACK: Final = "127.0.0.1"
SPARE_NODES: Final = 3
"""Ports for brokers that faults of membership add."""
START_TIMEOUT_S: Final = 120.0
END_TIMEOUT_S: Final = 60.0
SHOWN_LINES: Final = 15


def cluster(
    *,
    nodes: int = 3,
    disks: bool = False,
    broker: Mapping[str, str] | None = None,
    store: str | os.PathLike[str] | None = None,
) -> Cluster:
    """Start a cluster of the built-in broker; `close`, or the end of a `with` block, removes it.

    `broker` has further properties of every node, by Kafka's names. With `disks` every node gets a
    disk of its own, which faults of disks need; that takes root and a second more. `store` is a
    folder for logs and data, by default a temporary one. Raises ClusterFailed.

    Example:
        >>> with highwater.cluster(nodes=1) as kafka:
        ...     kafka.create_topic("orders", replication_factor=1)
        ...     kafka.produce("orders", [b"1", b"2"])
        ...     kafka.read("orders")
        [b'1', b'2']
        [b'1', b'2']
    """
    return Cluster(nodes=nodes, disks=disks, broker=broker or {}, store=store)


class Cluster:
    """A running cluster. `highwater.cluster` and the fixture `kafka_cluster` make it.

    Example:
        >>> CLUSTER.nodes
        (1, 2, 3)
    """

    def __init__(
        self,
        *,
        nodes: int,
        disks: bool,
        broker: Mapping[str, str],
        store: str | os.PathLike[str] | None,
    ) -> None:
        from harness.run.by_hand.client import BreakerClient

        with ExitStack() as ends:
            if store is None:
                folder = tempfile.TemporaryDirectory(prefix="highwater-cluster-")
                ends.callback(folder.cleanup)
                store = folder.name
            self._log = Path(store, "cluster.log")
            self._log.parent.mkdir(parents=True, exist_ok=True)
            near, far = socket.socketpair()
            self._client = ends.enter_context(BreakerClient(near))
            with ExitStack() as handed:
                handed.enter_context(far)
                listening = {
                    node: handed.enter_context(socket.create_server((LOOPBACK, 0), backlog=128))
                    for node in range(1, nodes + SPARE_NODES + 1)
                }
                outside = {
                    node: f"{LOOPBACK}:{each.getsockname()[1]}" for node, each in listening.items()
                }
                options = {
                    "control": far.fileno(),
                    "listening": {node: each.fileno() for node, each in listening.items()},
                    "outside": outside,
                    "store": str(Path(store).resolve()),
                    "nodes": nodes,
                    "broker": dict(broker),
                    "disks": disks,
                }
                fds = [far.fileno(), *(each.fileno() for each in listening.values())]
                self._process = self._spawn(options, fds)
            ends.callback(self._end)
            facts = self._await_start(near)
            self._nodes = tuple(int(node) for node in facts["nodes"])
            self._run = Path(facts["run"])
            self._bootstrap = ",".join(outside[node] for node in self._nodes)
            self._ends = ends.pop_all()

    def _spawn(self, options: Mapping[str, Any], fds: list[int]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "harness.run.by_hand.for_tests", json.dumps(options)],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests; they end the cluster
            )

    def _await_start(self, control: socket.socket) -> Mapping[str, Any]:
        from harness.run.by_hand.protocol import Refused

        control.settimeout(START_TIMEOUT_S)
        try:
            facts: Mapping[str, Any] = self._client.first_answer()
        except Refused as error:
            raise ClusterFailed(
                f"the cluster did not start: {error}\n{self._last_lines()}"
            ) from error
        control.settimeout(None)
        return facts

    @property
    def bootstrap_servers(self) -> str:
        """host:port,... for any Kafka client on this machine.

        Example:
            >>> CLUSTER.bootstrap_servers.count(",")
            2
        """
        return self._bootstrap

    @property
    def nodes(self) -> tuple[int, ...]:
        """The numbers of the nodes; `node:2` is the selector of node 2.

        Example:
            >>> [f"node:{node}" for node in CLUSTER.nodes]
            ['node:1', 'node:2', 'node:3']
        """
        return self._nodes

    @property
    def path(self) -> Path:
        """The folder with the configuration, logs and data of the nodes.

        Example:
            >>> (CLUSTER.path / "nodes" / "1" / "node.log").is_file()
            True
        """
        return self._run

    @cached_property
    def faults(self) -> Faults:
        """Breaks this cluster.

        Example:
            >>> with CLUSTER.faults.kill("node:2"):
            ...     pass
        """
        return Faults(self._ask)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        min_insync_replicas: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until every replica is in sync. An existing topic stays.

        By default it has up to three replicas, and `min.insync.replicas` is one less, but at least
        one. Raises ClusterFailed.

        Example:
            >>> CLUSTER.create_topic("payments", partitions=2)
        """
        replicas = replication_factor or min(3, len(self._nodes))
        self._ask(
            "create-topic",
            failed=ClusterFailed,
            name=name,
            partitions=partitions,
            replication_factor=replicas,
            min_insync_replicas=min_insync_replicas or max(1, replicas - 1),
            configs=dict(configs or {}),
        )

    def await_recovery(self, timeout_s: float = 30.0) -> None:
        """Wait until every replica of every topic is in sync again. Raises ClusterFailed.

        Example:
            >>> with CLUSTER.faults.kill("node:1"):
            ...     pass
            >>> CLUSTER.await_recovery()
        """
        if missing := self._ask("settle", failed=ClusterFailed, timeout_s=timeout_s):
            raise ClusterFailed(
                f"the cluster has not recovered in {timeout_s:g} s: {'; '.join(missing)}"
            )

    def produce(
        self, topic: str, values: Iterable[bytes], *, timeout_s: float = 30.0
    ) -> list[bytes]:
        """Write values with acks=all, in order; return those that the cluster acknowledged.

        Example:
            >>> CLUSTER.create_topic("greetings")
            >>> CLUSTER.produce("greetings", [b"hello"])
            [b'hello']
        """
        from confluent_kafka import Producer

        acked: list[bytes] = []

        def note(error: object, message: Any) -> None:
            if error is None:
                acked.append(message.value())

        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": max(1000, round(timeout_s * 1000)),
                "log_level": 0,
            }
        )
        for value in values:
            producer.produce(topic, value, on_delivery=note)
            producer.poll(0)
        producer.flush(timeout_s)
        return acked

    def read(self, topic: str, *, timeout_s: float = 30.0) -> list[bytes]:
        """Return the value of every committed record of a topic, partition by partition.

        It waits for recovery first. Raises ClusterFailed when not everything can be read in time.

        Example:
            >>> CLUSTER.create_topic("numbers")
            >>> _ = CLUSTER.produce("numbers", [b"1", b"2"])
            >>> CLUSTER.read("numbers")
            [b'1', b'2']
        """
        from highwater._reading import read_topic

        deadline_s = time.monotonic() + timeout_s
        self.await_recovery(timeout_s)
        return read_topic(self._bootstrap, topic, deadline_s)

    def close(self) -> None:
        """Heal everything and remove the cluster. A second call does nothing.

        Example:
            >>> kafka = highwater.cluster(nodes=1)
            >>> kafka.close()
        """
        self._ends.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _ask(
        self,
        do: str,
        *,
        failed: type[ClusterFailed] | type[FaultFailed] = FaultFailed,
        **fields: Any,
    ) -> Any:
        from harness.run.by_hand.protocol import Refused

        __tracebackhide__ = True  # pytest shows the line of the test
        try:
            return self._client.ask(do, **fields)
        except Refused as error:
            if self._process.poll() is not None:
                raise ClusterFailed(f"{error}\n{self._last_lines()}") from None
            raise failed(str(error)) from None

    def _last_lines(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-SHOWN_LINES:])

    def _end(self) -> None:
        """Wait for the process, which ends when its socket is closed."""
        self._client.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
