"""Wall clocks that are wrong change what records say of their time, and nothing else.

Real nodes with clocks of their own. Every node leads a partition of a topic whose records get the
leader's time, so that each one's wall clock is seen in what it answers.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message, Producer
from kio.schema.metadata.v12.request import MetadataRequest

from harness.plans.plan import build
from harness.recording import store
from harness.systems.base import call_in_client_network
from harness.systems.brokers import BrokerSystem
from harness.systems.monitoring.cluster_view import PartitionView, views_of
from harness.targets.local import LocalTarget
from nemesis.faults.catalogue import find
from nodes.ids import TopicPartition
from nodes.wire.client import Channel
from nodes.wire.errors import WireError
from nodes.wire.versions import fill
from tests.nemesis.faults.test_clock import aimed
from tests.support.clients.producers import sure_producer
from tests.support.require import require
from tests.support.targets.machine import local_target
from tests.support.tiers import at_turn

NODES = (1, 2, 3)
PATIENCE_S = 40.0
HOUR_MS = 3_600_000
PLAN = build(
    {
        "name": "clocks",
        "seed": 0,
        "topics": [
            {
                "name": "t",
                "acks": "all",
                "partitions": 3,
                "idempotence": True,
                "configs": {"message.timestamp.type": "LogAppendTime"},
            }
        ],
        # Kafka's own patience: a busy machine must not look like a broken clock.
        "broker": {
            "broker.session.timeout.ms": 6000,
            "replica.lag.time.max.ms": 30000,
            "controller.quorum.fetch.timeout.ms": 5000,
        },
    },
    where="clocks",
)


def views(
    target: LocalTarget, system: BrokerSystem, node: int
) -> dict[TopicPartition, PartitionView]:
    """The partitions as one node sees them; nothing when it does not answer."""

    async def ask() -> dict[TopicPartition, PartitionView]:
        channel = Channel(*system.brokers[node], client_id="test", request_timeout_s=5.0)
        try:
            return views_of(await channel.request(fill(MetadataRequest, topics=[{"name": "t"}])))
        except WireError:
            return {}
        finally:
            channel.close()

    return call_in_client_network(target, ask)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Poll until it holds; fail at the bound."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


class Cluster(NamedTuple):
    """Three nodes, each of which leads a partition."""

    target: LocalTarget
    system: BrokerSystem
    producer: Producer
    leaders: dict[int, int]
    """partition -> its leader"""

    def seen(self) -> dict[TopicPartition, PartitionView]:
        """Who leads what, in which epoch, with which replicas in sync, as node 1 sees it."""
        return views(self.target, self.system, 1)

    def ahead_ms(self) -> dict[int, float]:
        """How far every node's clock is ahead of ours, by its own answers to acks=all sends."""
        found: dict[int, float] = {}

        def delivered(error: object, message: Message) -> None:
            kind, stamp_ms = message.timestamp()
            assert error is None
            assert kind == TIMESTAMP_LOG_APPEND_TIME
            found[self.leaders[message.partition()]] = stamp_ms - time.time() * 1000

        for partition in self.leaders:
            self.producer.produce("t", b"x", partition=partition, on_delivery=delivered)
        assert self.producer.flush(PATIENCE_S) == 0, "acks=all does not go on"
        return found


@contextmanager
def running(place: Path, module: str = "nodes") -> Iterator[Cluster]:
    """A cluster in which nothing has happened yet."""
    require("root", "netns", "faketime")
    run = store.create(place / "store", "clocks", versions={}, commit=None)
    plan = PLAN.model_copy(update={"broker_module": module})
    with local_target(place, nodes=len(NODES), clocks=True) as target:
        system = BrokerSystem(plan, target, run)
        system.configure()
        system.start()
        system.create_topics()
        producer = sure_producer(target, system.bootstrap, PATIENCE_S)
        found = views(target, system, 1)
        leaders = {each.partition: int(view.leader or 0) for each, view in found.items()}
        assert sorted(leaders.values()) == list(NODES)
        yield Cluster(target, system, producer, leaders)
        assert system.stop() == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all tests that leave the clocks right and everything else as it was."""
    with running(tmp_path_factory.mktemp("clocks")) as made:
        yield made


def about(measured_ms: float, wanted_ms: float) -> bool:
    """To within half a minute: a busy machine answers late, and hours are told apart."""
    return abs(measured_ms - wanted_ms) < 30_000


@pytest.mark.slow
def test_records_show_a_jump_and_sessions_stay_up(cluster: Cluster) -> None:
    """An hour forward, an hour back, and both at once on two nodes, the controller among all."""
    before, clocks = cluster.seen(), cluster.target.clocks
    for offsets in ({1: HOUR_MS}, {2: -HOUR_MS}, {1: -HOUR_MS, 2: 0, 3: HOUR_MS}, {}):
        for node in NODES:
            clocks.unskew(node, "test")
            clocks.skew(node, "test", offsets.get(node, 0))
        shown = cluster.ahead_ms()
        assert all(about(shown[node], offsets.get(node, 0)) for node in NODES), shown
        time.sleep(1)  # a few heartbeats, elections and fetches that could time out
        assert cluster.ahead_ms().keys() == set(NODES)
    assert cluster.seen() == before, "leaders, their epochs and the ISRs are what they were"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("clock.strobe", {"offset_ms": "200", "period_ms": "400"}),
        ("clock.strobe", {"offset_ms": str(-HOUR_MS), "period_ms": "400"}),
        ("clock.drift", {"rate": "1.05"}),
    ],
)
def test_clocks_that_never_stand_right(cluster: Cluster, name: str, given: dict[str, str]) -> None:
    """Strobing and drifting clocks on all nodes: acks=all goes on, and nobody loses anything."""
    before, fault = cluster.seen(), find(name)
    hosts: Any = SimpleNamespace(processes=cluster.target, clocks=cluster.target.clocks)
    injection = aimed(name, *NODES, seed=1, **given)
    fault.inject(hosts, injection)
    try:
        began, sends, proven = time.monotonic(), 0, False
        while (elapsed_s := time.monotonic() - began) < 2 or not proven:
            assert elapsed_s < PATIENCE_S, fault.measure_effect(hosts, injection).evidence
            fault.tick(hosts, injection, round(elapsed_s * 1000))
            proven = proven or fault.measure_effect(hosts, injection).confirmed
            sends += len(cluster.ahead_ms())
        assert sends >= len(NODES)
    finally:
        fault.heal(hosts, injection)
    assert fault.measure_heal(hosts, injection).confirmed
    assert all(about(ahead, 0) for ahead in cluster.ahead_ms().values())
    assert cluster.seen() == before, "leaders, their epochs and the ISRs are what they were"


@pytest.mark.slow
def test_a_node_that_restarts_with_a_wrong_clock_comes_back(tmp_path: Path) -> None:
    """An hour behind its own files: recovery, registration and fetching go by no wall clock."""
    with running(tmp_path) as cluster:
        cluster.ahead_ms()
        cluster.target.clocks.skew(3, "test", -HOUR_MS)
        cluster.target.kill(3)
        cluster.target.start(3)
        wait_for(
            lambda: [len(view.isr) for view in cluster.seen().values()] == [3, 3, 3],
            "node 3 does not come back into every ISR",
        )
        assert cluster.ahead_ms()
        shown = cluster.target.clocks.read(3)
        assert shown is not None
        assert shown.allows(-HOUR_MS)


@pytest.mark.slow
def test_sessions_by_the_wall_clock_are_found_out(tmp_path: Path) -> None:
    """Where a controller measures them so, an hour's jump costs brokers their leaderships."""
    with running(tmp_path, "harness.zoo.mutants.sessions_by_wall_clock") as cluster:
        before = {p: view.leader_epoch for p, view in cluster.seen().items()}
        for node in NODES:
            cluster.target.clocks.skew(node, "test", HOUR_MS)
        wait_for(
            lambda: any(view.leader_epoch > before[p] for p, view in cluster.seen().items()),
            "no leader changed",
        )


RUN = """
name = "clocks"
seed = 1
duration_s = 9
warmup_s = 0

[[topics]]
name = "t"
acks = "all"
partitions = 1

[workload]
producers = 1
rate_per_s = 50

[[nemesis.events]]
at_ms = 0
fault = "clock.jump"
targets = "all"
duration_ms = 9000
params = {offset_ms = "3600000"}

[[nemesis.events]]
at_ms = 1000
fault = "partition.isolate-leader"
targets = "leader:t/0"
duration_ms = 6000
"""


@pytest.mark.slow
@at_turn(0, 2, "system/test_clocks.py::test_a_node_that_restarts_with_a_wrong_clock_comes_back")
def test_a_run_times_its_causes_by_its_own_clock(tmp_path: Path) -> None:
    """With all controllers an hour ahead a leader is cut off: when it was deposed is told right."""
    require("root", "netns", "faketime")
    (tmp_path / "run.toml").write_text(RUN)
    argv = [sys.executable, "-m", "harness.cli.main", "run", str(tmp_path / "run.toml")]
    done = subprocess.run(
        [*argv, "--store", str(tmp_path / "store"), "--json"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = Path(json.loads(done.stdout)["run"])
    faults = pq.read_table(run / "faults.parquet").to_pylist()
    assert [fault["took_effect"] for fault in faults] == [True, True], faults
    rows = pq.read_table(run / "cluster.parquet").to_pylist()
    decided = [row["at_ns"] for row in rows if row["source"] == "metadata-log"]
    jump = next(fault for fault in faults if fault["fault"] == "clock.jump")
    assert "+3600" in jump["effect"]
    cut = next(fault for fault in faults if fault is not jump)
    assert any(cut["started_ns"] < at < cut["healed_ns"] for at in decided), decided
    assert max(decided) < HOUR_MS * 1_000_000 / 2, "nothing is timed by a wrong clock"
