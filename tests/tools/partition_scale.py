"""What the number of partitions costs: creation, start, controlled shutdown, controller failover.

    python -m tests.tools.partition_scale [--partitions 100,1000,10000] [--json FILE]

For each size, three nodes on the local target with so many partitions of replication factor 3, and
no load. Measured in ms, each from the command on:

- create: until the controller has answered every CreateTopics;
- led: until on every node the last partition that it leads answers;
- shutdown: from a node's SIGTERM until it has ended, its leaderships handed over;
- start: from the start of that node's process until it is in service (its logs open, registered,
  its roles taken up), and in sync: until the last partition's ISR is whole;
- controller: from SIGKILL of the active controller until another answers, and leaders: until every
  partition that the killed node led is led by another (the session timeout is part of it).

Whether every partition is as it should be is verified after each step, outside the measured time.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.describe_cluster.v0.request import DescribeClusterRequest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from kio.schema.metadata.v12.request import MetadataRequest

from harness.plans.plan import Plan, build
from harness.recording import store
from harness.recording.store import Run
from harness.systems.base import call_in_client_network
from harness.systems.brokers import BrokerSystem
from harness.targets.local import LocalTarget
from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill
from tests.support.targets.machine import local_target

NODES = 3
PARTITIONS_OF_A_TOPIC = 50
TOPICS_OF_A_REQUEST = 20
PATIENCE_S = 300.0
POLL_S = 0.01
VERIFY_EVERY_S = 0.5
"""Describing every partition costs the asked node more than what is measured."""
LATEST = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The figures of one size; milliseconds."""

    partitions: int
    create_ms: float
    led_ms: float
    shutdown_ms: float
    start_ms: float
    in_sync_ms: float
    controller_ms: float
    leaders_ms: float


@dataclass(frozen=True, slots=True)
class _State:
    """A partition as one node tells it."""

    leader: int
    isr: int


class Scale:
    """One cluster under measurement."""

    def __init__(self, target: LocalTarget, system: BrokerSystem, partitions: int) -> None:
        self._target = target
        self._system = system
        self._partitions = partitions
        self._channels: dict[int, Channel] = {}

    async def measure(self) -> Cost:
        """Every figure, in the order in which a cluster lives."""
        try:
            create_ms, led_ms = await self._create()
            shutdown_ms = await self._shut_down(1)
            start_ms, in_sync_ms = await self._start(1)
            controller_ms, leaders_ms = await self._fail_controller()
        finally:
            for channel in self._channels.values():
                channel.close()
        return Cost(
            partitions=self._partitions,
            create_ms=create_ms,
            led_ms=led_ms,
            shutdown_ms=shutdown_ms,
            start_ms=start_ms,
            in_sync_ms=in_sync_ms,
            controller_ms=controller_ms,
            leaders_ms=leaders_ms,
        )

    async def _create(self) -> tuple[float, float]:
        began_s = time.monotonic()
        names = list(_topics(self._partitions))
        for start in range(0, len(names), TOPICS_OF_A_REQUEST):
            topics = [
                {"name": name, "num_partitions": count, "replication_factor": NODES}
                for name, count in names[start : start + TOPICS_OF_A_REQUEST]
            ]
            request = fill(CreateTopicsRequest, topics=topics, timeout=timedelta(seconds=60))
            answer = await self._ask(1, request)
            # Exists already: created by a controller that was deposed before it could say so.
            fine = (ErrorCode.none, ErrorCode.topic_already_exists)
            bad = [t.error_code.name for t in answer.topics if t.error_code not in fine]
            assert not bad, f"not created: {bad[:3]}"
        create_ms = _since(began_s)
        last, _ = names[-1]
        for node in self._target.node_ids():
            await self._until(lambda node=node: self._serves(node, last), f"{node} leads nothing")  # type: ignore[misc]
        led_ms = _since(began_s)
        await self._verify(1, lambda state: state.isr == NODES and state.leader > 0)
        return create_ms, led_ms

    async def _serves(self, node: int, topic: str) -> bool:
        """Whether the last partition of the topic that `node` leads answers there."""
        states = await self._states(node, topic)
        led = [p.partition for p, state in states.items() if state.leader == node]
        if not led:
            return False
        part = {"partition_index": led[-1], "timestamp": LATEST, "current_leader_epoch": -1}
        answer = await self._ask(
            node,
            fill(ListOffsetsRequest, replica_id=-1, topics=[{"name": topic, "partitions": [part]}]),
        )
        return bool(answer.topics[0].partitions[0].error_code is ErrorCode.none)

    async def _shut_down(self, node: int) -> float:
        began_s = time.monotonic()
        by_itself = await asyncio.to_thread(self._target.stop, node, PATIENCE_S)
        took_ms = _since(began_s)
        assert by_itself, f"node {node} did not end"
        self._forget(node)
        await self._verify(2, lambda state: state.leader not in (node, -1) and state.isr == 2)
        # What did not hand over in time ends as dead, and counts as in service for a session.
        await self._until(lambda: self._is_gone(node), f"node {node} is still in service")
        return took_ms

    async def _is_gone(self, node: int) -> bool:
        answer = await self._ask(2, fill(DescribeClusterRequest))
        return all(broker.broker_id != node for broker in answer.brokers)

    async def _start(self, node: int) -> tuple[float, float]:
        began_s = time.monotonic()
        await asyncio.to_thread(self._target.start, node)

        async def in_service() -> bool:
            return not await self._is_gone(node)

        await self._until(in_service, f"node {node} does not return")
        start_ms = _since(began_s)
        last = list(_topics(self._partitions))[-1][0]

        async def in_sync() -> bool:
            states = await self._states(2, last)
            return all(state.isr == NODES for state in states.values())

        await self._until(in_sync, f"{last} is not in sync")
        await self._verify(2, lambda state: state.isr == NODES)
        return start_ms, _since(began_s)

    async def _fail_controller(self) -> tuple[float, float]:
        answer = await self._ask(2, fill(DescribeClusterRequest))
        controller = int(answer.controller_id)
        other = next(node for node in self._target.node_ids() if node != controller)
        began_s = time.monotonic()
        await asyncio.to_thread(self._target.kill, controller)
        self._forget(controller)
        probe = {"name": f"probe-{controller}", "num_partitions": 1, "replication_factor": 2}

        async def answers() -> bool:
            request = fill(CreateTopicsRequest, topics=[probe], timeout=timedelta(seconds=1))
            created = await self._ask(other, request)
            return created.topics[0].error_code in (
                ErrorCode.none,
                ErrorCode.topic_already_exists,
            )

        await self._until(answers, "no new controller")
        controller_ms = _since(began_s)

        async def led_elsewhere() -> bool:
            states = await self._all_states(other)
            return all(state.leader not in (controller, -1) for state in states.values())

        last = list(_topics(self._partitions))[-1][0]

        async def last_is_led_elsewhere() -> bool:
            states = await self._states(other, last)
            return all(state.leader not in (controller, -1) for state in states.values())

        # The last in order; to describe them all would hold up the node that is measured.
        await self._until(last_is_led_elsewhere, "no new leaders")
        leaders_ms = _since(began_s)
        if not await led_elsewhere():
            await self._until(led_elsewhere, "no new leaders")
            leaders_ms = _since(began_s)
        return controller_ms, leaders_ms

    # -- asking --------------------------------------------------------------------------------

    def _forget(self, node: int) -> None:
        channel = self._channels.pop(node, None)
        if channel is not None:
            channel.close()

    async def _ask(self, node: int, request: Any) -> Any:
        channel = self._channels.get(node)
        if channel is None:
            host, port = self._system.brokers[node]
            channel = Channel(host, port, client_id="scale", request_timeout_s=60.0)
            self._channels[node] = channel
        return await channel.request(request)

    async def _states(self, node: int, topic: str) -> dict[TopicPartition, _State]:
        answer = await self._ask(node, fill(MetadataRequest, topics=[{"name": topic}]))
        return dict(_states(answer))

    async def _all_states(self, node: int) -> dict[TopicPartition, _State]:
        answer = await self._ask(node, fill(MetadataRequest, topics=None))
        return {p: s for p, s in _states(answer) if not p.topic.startswith("probe")}

    async def _verify(self, node: int, holds: Callable[[_State], bool]) -> None:
        async def all_hold() -> bool:
            states = await self._all_states(node)
            return len(states) == self._partitions and all(map(holds, states.values()))

        what = "not every partition is as it should be"
        await self._until(all_hold, what, every_s=VERIFY_EVERY_S)

    @staticmethod
    async def _until(
        condition: Callable[[], Awaitable[bool]], what: str, *, every_s: float = POLL_S
    ) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                if await condition():
                    return
            except WireError:
                pass
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"after {PATIENCE_S:.0f} s: {what}")
            await asyncio.sleep(every_s)


def _topics(partitions: int) -> Iterator[tuple[str, int]]:
    """Names and sizes of topics that have so many partitions together."""
    for number, start in enumerate(range(0, partitions, PARTITIONS_OF_A_TOPIC)):
        yield f"t{number:05d}", min(PARTITIONS_OF_A_TOPIC, partitions - start)


def _states(answer: Any) -> Iterator[tuple[TopicPartition, _State]]:
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(str(topic.name), int(each.partition_index))
            yield partition, _State(int(each.leader_id), len(each.isr_nodes))


def _since(began_s: float) -> float:
    return 1000 * (time.monotonic() - began_s)


@contextmanager
def _cluster(place: Path, plan: Plan) -> Iterator[tuple[LocalTarget, BrokerSystem, Run]]:
    run = store.create(place / "store", plan.name, versions={}, commit=None)
    with local_target(place, nodes=NODES) as target:
        system = BrokerSystem(plan, target, run)
        system.configure()
        system.start()
        try:
            yield target, system, run
        finally:
            system.stop()
            for node in target.node_ids():
                log = place / "run/nodes" / str(node) / "node.log"
                (place / f"node-{node}.log").write_bytes(log.read_bytes())


def measure(place: Path, partitions: int) -> Cost:
    """The figures of a cluster with so many partitions; its files go below `place`."""
    plan = build(
        {
            "name": "scale",
            "seed": 0,
            "topics": [{"name": "unused", "acks": 1, "partitions": 1}],
            "broker": {"auto.leader.rebalance.enable": False},
        },
        where="scale",
    )
    with _cluster(place, plan) as (target, system, _):
        scale = Scale(target, system, partitions)
        return call_in_client_network(target, scale.measure)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the curve as a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", default="100,1000,10000", help="comma-separated sizes")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, help="a directory for the nodes' output")
    options = parser.parse_args(arguments)
    costs: list[dict[str, float]] = []
    for partitions in map(int, options.partitions.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            if options.keep is not None:
                place = options.keep / str(partitions)
                place.mkdir(parents=True)
            cost = asdict(measure(place, partitions))
        if not costs:
            print(" ".join(f"{name.removesuffix('_ms'):>10}" for name in cost))
        print(" ".join(f"{value:10.0f}" for value in cost.values()), flush=True)
        costs.append(cost)
    if options.json is not None:
        options.json.write_text(json.dumps(costs, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
