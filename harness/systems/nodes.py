"""The built-in broker, configured by Kafka's properties.

Every node is broker and controller unless a layout says otherwise; brokers may come and go while
the cluster runs. Timeouts are short, so that a minute of faults holds many failovers; the plan's
`broker` table overrides any of them. Addresses, directories and processes are the target's.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.request import MetadataRequest

from harness.history import FLUSH_ROWS, RowStream
from harness.plan import Plan, Topic
from harness.store import Run
from harness.systems import replica_files
from harness.systems.base import DeployError, call_in_client_network
from harness.systems.layout import BROKER, CONTROLLER, Layout
from harness.targets.base import Target
from nodes.config import ConfigError, parse_properties
from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill

BROKER_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093

READY_TIMEOUT_S: Final = 30.0
STOP_TIMEOUT_S: Final = 15.0
REQUEST_TIMEOUT_S: Final = 2.0
RETRY_S: Final = 0.1
FOREVER_NS: Final = 1 << 62

QUICK_FAILOVER: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.election.backoff.max.ms": "500",
    "controller.quorum.request.timeout.ms": "1000",
    "controlled.shutdown.max.wait.ms": "3000",
}


def server_properties(
    node: int,
    addresses: Mapping[int, str],
    *,
    log_dir: Path,
    cluster_id: str,
    overrides: Mapping[str, str | int | float | bool],
    layout: Layout | None = None,
) -> dict[str, str]:
    """One node's properties. Pure; `addresses` has every node of the layout, which is by default
    all of them with both roles.
    """
    layout = layout or Layout.combined(sorted(addresses))
    address = addresses[node]
    voters = [f"{each}@{addresses[each]}:{CONTROLLER_PORT}" for each in layout.controllers]
    listeners = {
        BROKER: f"PLAINTEXT://{address}:{BROKER_PORT}",
        CONTROLLER: f"CONTROLLER://{address}:{CONTROLLER_PORT}",
    }
    rack = {"broker.rack": layout.racks[node]} if node in layout.racks else {}
    return {
        "node.id": str(node),
        "process.roles": layout.roles[node],
        "listeners": ",".join(listeners[role] for role in layout.roles[node].split(",")),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "cluster.id": cluster_id,
        "log.dirs": str(log_dir),
        **rack,
        **QUICK_FAILOVER,
        **{name: _property(value) for name, value in overrides.items()},
    }


def _properties_file(run: Run, node: int) -> Path:
    return run.node_dir(node) / "server.properties"


def _property(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class NodesSystem:
    """The plan's cluster of built-in brokers on `target`; files of the run go below `run`."""

    def __init__(self, plan: Plan, target: Target, run: Run, layout: Layout | None = None) -> None:
        self._plan = plan
        self._target = target
        self._run = run
        self.layout = layout or Layout.combined(target.node_ids())
        self._stopping_ns = FOREVER_NS

    @classmethod
    def attach(cls, target: Target, run: Run) -> "NodesSystem":
        """The system that another process configured on `target`, by its files in `run`.

        Raises DeployError when they cannot be read.
        """
        try:
            plan = Plan.from_json(json.loads((run.path / "plan.json").read_text()), str(run.path))
            properties = {
                node: parse_properties(_properties_file(run, node).read_text())
                for node in target.node_ids()
            }
        except (OSError, ValueError, ConfigError) as error:
            raise DeployError(f"{run.path}: its nodes' configuration is lost: {error}") from error
        layout = Layout(
            roles={node: each["process.roles"] for node, each in properties.items()},
            racks={
                n: each["broker.rack"] for n, each in properties.items() if "broker.rack" in each
            },
        )
        system = cls(plan, target, run, layout)
        for node in layout.nodes:
            system._register(node)
        return system

    @property
    def brokers(self) -> dict[int, tuple[str, int]]:
        """Where each broker serves clients."""
        return {node: (self._target.address(node), BROKER_PORT) for node in self.layout.brokers}

    @property
    def controllers(self) -> dict[int, tuple[str, int]]:
        """Where each controller serves the metadata quorum."""
        return {
            node: (self._target.address(node), CONTROLLER_PORT) for node in self.layout.controllers
        }

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses as clients take them."""
        return ",".join(f"{host}:{port}" for host, port in self.brokers.values())

    def configure(self) -> None:
        """Write server.properties of every node and register its command."""
        for node in self.layout.nodes:
            self._configure(node)

    def _configure(self, node: int) -> None:
        properties = server_properties(
            node,
            {each: self._target.address(each) for each in self.layout.nodes},
            log_dir=self._log_dir(node),
            cluster_id=self._run.run_id,
            overrides=self._plan.broker,
            layout=self.layout,
        )
        lines = "".join(f"{name}={value}\n" for name, value in properties.items())
        _properties_file(self._run, node).write_text(lines)
        self._log_dir(node).mkdir(parents=True, exist_ok=True)
        self._register(node)

    def _register(self, node: int) -> None:
        path = _properties_file(self._run, node)
        self._target.set_command(
            node,
            [sys.executable, "-m", self._plan.broker_module, str(path)],
            dict(os.environ),
            self._run.node_dir(node) / "node.log",
        )

    def start(self) -> None:
        """Start all nodes and wait until each broker answers and knows all of them."""
        for node in self.layout.nodes:
            self._target.start(node)
        self._await_brokers()

    def add_broker(self, *, node: int | None = None, rack: str | None = None) -> int:
        """Start one more broker, the next number in the emptiest rack unless they are named.

        Returns its number when every broker knows it. Raises DeployError, TargetError; what was
        made of it is then removed again.
        """
        node = max(self.layout.nodes) + 1 if node is None else node
        before = self.layout
        self.layout = before.with_node(node, BROKER, rack or before.emptiest_rack())
        try:
            self._target.add_node(node)
            self._configure(node)
            self._target.start(node)
            self._await_brokers()
        except BaseException:
            self.layout = before
            if node in self._target.node_ids():
                self._target.remove_node(node)
            raise
        return node

    def remove_node(self, node: int, *, keep_data: bool = False) -> bool:
        """Stop a node in order and remove its machine; true when it ended by itself.

        Whether it holds anything yet is the caller's to know.
        """
        ended = self.stop_node(node)
        self.layout = self.layout.without(node)
        self._target.remove_node(node, keep_data=keep_data)
        return ended

    def stop_node(self, node: int) -> bool:
        """Stop a node in order; true when it ended by itself within the bound."""
        return self._target.stop(node, STOP_TIMEOUT_S)

    def _await_brokers(self) -> None:
        everyone = set(self.layout.brokers)

        async def ready(channels: Mapping[int, Channel]) -> str | None:
            for node, channel in channels.items():
                answer = await channel.request(fill(MetadataRequest, topics=()))
                known = {int(broker.node_id) for broker in answer.brokers}
                if known != everyone:
                    return f"node {node} knows brokers {sorted(known)} of {sorted(everyone)}"
            return None

        self._wait_until("the cluster is not complete", ready)

    def create_topics(self) -> None:
        """Create the topics, and wait until all nodes see them with every replica in sync."""
        topics = self._plan.topics

        async def create(channels: Mapping[int, Channel]) -> str | None:
            for channel in channels.values():
                answer = await channel.request(_create_request(topics))
                failed = [
                    f"{each.name}: {each.error_code.name} {each.error_message or ''}".strip()
                    for each in answer.topics
                    # An attempt before this one may have done it and its answer got lost.
                    if each.error_code not in (ErrorCode.none, ErrorCode.topic_already_exists)
                ]
                if not failed:
                    return None
            return "; ".join(failed)

        async def in_sync(channels: Mapping[int, Channel]) -> str | None:
            names = [{"name": topic.name} for topic in topics]
            for node, channel in channels.items():
                answer = await channel.request(fill(MetadataRequest, topics=names))
                if (missing := _not_in_sync(answer, topics)) is not None:
                    return f"node {node} sees {missing}"
            return None

        self._wait_until("the topics cannot be created", create)
        self._wait_until("the topics' replicas are not in sync", in_sync)

    def stop(self) -> list[int]:
        """SIGTERM to all nodes at once; returns those that had to be killed at the bound."""
        self._stopping_ns = self._run.now_ns()
        # Together: the last to go could not ask a quorum for leave.
        nodes = self.layout.nodes
        with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
            ended = list(pool.map(lambda n: self._target.stop(n, STOP_TIMEOUT_S), nodes))
        return [node for node, clean in zip(nodes, ended, strict=True) if not clean]

    def collect(self, cluster: RowStream) -> None:
        """Read the stopped nodes' files into the run; the controllers' decisions into `cluster`.

        What was decided because the nodes were told to stop is left out: the run was over.
        """
        partitions = [
            TopicPartition(topic.name, partition)
            for topic in self._plan.topics
            for partition in range(topic.partitions)
        ]
        ends = []
        replicas = self._run.replicas_stream()
        for node in self.layout.nodes:
            log_dir = self._log_dir(node)
            committed = replica_files.high_watermarks(log_dir)
            for partition in partitions:
                if not (log_dir / str(partition)).is_dir():
                    continue
                end = start = replica_files.first_offset(log_dir, partition)
                for row in replica_files.replica_rows(node, log_dir, partition):
                    replicas.append(row)
                    end = row[4] + 1
                    if len(replicas) >= FLUSH_ROWS:
                        replicas.flush()
                ends.append(
                    {
                        "node": node,
                        "topic": partition.topic,
                        "partition": partition.partition,
                        "start_offset": start,
                        "end_offset": end,
                        "high_watermark": committed.get(partition, 0),
                    }
                )
        replicas.close()
        self._run.write_table("replica_ends", ends)
        log_dirs = [self._log_dir(node) for node in self.layout.nodes]
        for change in replica_files.metadata_rows(log_dirs, self._run.started_wall_ns):
            if change["at_ns"] <= self._stopping_ns:
                cluster.append_named(**change)
        cluster.flush()

    def _log_dir(self, node: int) -> Path:
        # Below the volume's root, which may hold the file system's own directories.
        return self._target.data_dir(node) / "log"

    def _wait_until(
        self, what: str, attempt: Callable[[Mapping[int, Channel]], Awaitable[str | None]]
    ) -> None:
        """Repeat `attempt` until it has nothing to object. Raises DeployError at the bound."""

        async def waiting() -> str | None:
            channels = {
                node: Channel(
                    host, port, client_id="highwater", request_timeout_s=REQUEST_TIMEOUT_S
                )
                for node, (host, port) in self.brokers.items()
            }
            deadline_s = time.monotonic() + READY_TIMEOUT_S
            try:
                while True:
                    try:
                        objection = await attempt(channels)
                    except WireError as error:
                        objection = str(error)
                    if objection is None or time.monotonic() > deadline_s:
                        return objection
                    await asyncio.sleep(RETRY_S)
            finally:
                for channel in channels.values():
                    channel.close()

        objection = call_in_client_network(self._target, waiting)
        if objection is not None:
            logs = self._run.path / "nodes"
            raise DeployError(
                f"{what} after {READY_TIMEOUT_S:.0f} s: {objection}; see {logs}/*/node.log"
            )


def _create_request(topics: Sequence[Topic]) -> Any:
    return fill(
        CreateTopicsRequest,
        topics=[
            {
                "name": topic.name,
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "configs": [
                    {"name": name, "value": value}
                    for name, value in {
                        "min.insync.replicas": str(topic.min_insync_replicas),
                        **topic.configs,
                    }.items()
                ],
            }
            for topic in topics
        ],
        timeout=timedelta(seconds=REQUEST_TIMEOUT_S),
    )


def _not_in_sync(answer: Any, topics: Sequence[Topic]) -> str | None:
    """What a Metadata answer still lacks of the planned topics, in words; None when nothing."""
    found = {
        (str(topic.name), int(partition.partition_index)): partition
        for topic in answer.topics
        for partition in topic.partitions
    }
    for topic in topics:
        for number in range(topic.partitions):
            partition = found.get((topic.name, number))
            if partition is None:
                return f"no {topic.name}-{number}"
            if partition.leader_id < 0 or len(partition.isr_nodes) < topic.replication_factor:
                return (
                    f"{topic.name}-{number} with leader {partition.leader_id} and in-sync "
                    f"replicas {[int(each) for each in partition.isr_nodes]}"
                )
    return None
