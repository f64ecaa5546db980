"""Three nodes with disks of their own, and a producer: for tests of disk faults."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import Message, Producer
from kio.schema.metadata.v12.request import MetadataRequest

from harness.admin.client import Address
from harness.plans.plan import build
from harness.recording import store
from harness.run.administration.administrator import Administrator
from harness.systems.base import call_in_client_network
from harness.systems.brokers import BrokerSystem
from harness.systems.monitoring.cluster_view import PartitionView, views_of
from harness.systems.replica_files import replica_rows
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Fault, Injection, Params
from nemesis.hosts import Hosts
from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill
from tests.support.clients.producers import sure_producer
from tests.support.nemesis.fakes import FakeView
from tests.support.require import require
from tests.support.targets.machine import local_target

NODES = (1, 2, 3)
PATIENCE_S = 40.0
"""A failover takes the session timeout of 2 s and a little; the machine may be busy."""
PLAN = build(
    {
        "name": "disks",
        "seed": 0,
        "topics": [{"name": "t", "acks": "all", "partitions": 3, "idempotence": True}],
        # So that every node leads a partition again before its disk is broken.
        "broker": {"leader.imbalance.check.interval.seconds": 1},
    },
    where="disks",
)
PARTITIONS = [TopicPartition("t", number) for number in range(3)]


@dataclass
class DiskCluster:
    """A running cluster."""

    target: LocalTarget
    system: BrokerSystem
    producer: Producer
    hosts: Hosts
    administrator: Administrator
    acknowledged: list[bytes] = field(default_factory=list)
    """What every partition has to hold, in this order."""

    def views(self, node: int) -> dict[TopicPartition, PartitionView]:
        """The partitions in the view of one node; empty when it does not answer."""

        async def ask() -> dict[TopicPartition, PartitionView]:
            channel = Channel(*self.system.brokers[node], client_id="test", request_timeout_s=1.0)
            try:
                answer = await channel.request(fill(MetadataRequest, topics=[{"name": "t"}]))
            except WireError:
                return {}
            finally:
                channel.close()
            return views_of(answer)

        return call_in_client_network(self.target, ask)

    def send_to_all(self, value: bytes) -> float:
        """Send one acks=all message to every partition; return the seconds until the last
        acknowledgement."""
        failures: list[str] = []

        def delivered(error: object, message: Message) -> None:
            if error is not None:
                failures.append(f"t-{message.partition()}: {error}")

        began_s = time.monotonic()
        for partition in PARTITIONS:
            self.producer.produce("t", value, partition=partition.partition, on_delivery=delivered)
        assert self.producer.flush(PATIENCE_S) == 0, f"{value!r} was not acknowledged everywhere"
        assert not failures, failures
        self.acknowledged.append(value)
        return time.monotonic() - began_s

    def await_leadership(self, node: int) -> None:
        """Wait until another node sees that this node leads a partition."""
        other = next(each for each in NODES if each != node)
        wait_for(
            lambda: node in [view.leader for view in self.views(other).values()],
            f"node {node} leads nothing",
        )

    def await_whole(self) -> None:
        """Until every node sees every replica in sync."""
        whole = [len(NODES)] * len(PARTITIONS)

        def seen(node: int) -> bool:
            return [len(view.isr) for view in self.views(node).values()] == whole

        for node in NODES:
            wait_for(partial(seen, node), f"node {node} does not see everybody in every ISR")

    def plan_injection(
        self, name: str, nodes: Sequence[int], **given: str
    ) -> tuple[Fault, Injection]:
        """Return a fault by its name, and its injection."""
        fault = find(name)
        params = Params.of(fault.options, given)
        return fault, fault.plan_injection(
            nodes, NODES, random.Random(len(self.acknowledged)), params
        )

    def end(self) -> None:
        """Shut the cluster down; every replica must have what was acknowledged, and all must be
        equal."""
        assert sorted(self.system.stop()) == []
        for partition in PARTITIONS:
            logs = [
                [
                    row[1:]
                    for row in replica_rows(node, self.target.data_dir(node) / "log", partition)
                ]
                for node in NODES
            ]
            assert logs[0] == logs[1] == logs[2]
            assert logs[0][-1][3] == len(self.acknowledged) - 1


class NoObserver:
    """An observer that knows nothing, so that all brokers are worth asking."""

    def controller(self) -> int | None:
        """Unknown."""
        return None

    def answers(self, node: int) -> bool | None:
        """Unknown."""
        return None

    def add_broker(self, node: int, address: Address) -> None:
        """NoObserver comes."""

    def remove_broker(self, node: int) -> None:
        """NoObserver goes."""


@contextmanager
def disk_cluster(place: Path, volume: Volume = Volume.IMAGE_EXT4) -> Iterator[DiskCluster]:
    """A running cluster with its topic."""
    require("root", "netns", "loop")
    run = store.create(place / "store", "disks", versions={}, commit=None)
    with local_target(place, nodes=len(NODES), volume=volume) as target:
        system = BrokerSystem(PLAN, target, run)
        system.configure()
        system.start()
        system.create_topics()
        producer = sure_producer(target, system.bootstrap, PATIENCE_S)
        administrator = Administrator(system, target, NoObserver())
        hosts = Hosts(
            processes=target,
            clients=target.clients,
            links=target.links,
            disks=target.disks,
            clocks=target.clocks,
            power=target.power,
            cluster=administrator,
            view=FakeView(),
        )
        try:
            yield DiskCluster(target, system, producer, hosts, administrator)
        finally:
            administrator.finish(0)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll until the condition holds; fail at the time limit."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)
