"""Three broker processes and a real ZooKeeper: kills, a lost session, and clear refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from nodes.zookeeper import paths, znodes
from tests.support.clusters.cluster_command import highwater
from tests.support.nodes.cluster import free_ports
from tests.support.nodes.real_zookeeper import real_zookeeper
from tests.support.require import require
from tests.support.tiers import at_turn, nightly

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WITHIN_S = 60.0
RECORDS = 200


class Brokers:
    """Three processes; `kazoo` looks at what they write."""

    def __init__(self, directory: Path, zookeeper: int) -> None:
        self.ports = dict(zip((1, 2, 3), free_ports(3), strict=True))
        self.connect = f"127.0.0.1:{zookeeper}/kafka"
        self.kazoo = KazooClient(hosts=f"127.0.0.1:{zookeeper}")
        self.kazoo.start()
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self._directory = directory
        for node in self.ports:
            self.start(node)

    @property
    def addresses(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def properties(self, node: int, **more: str) -> Path:
        lines = {
            "node.id": str(node),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]}",
            "log.dirs": str(self._directory / f"data-{node}"),
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": "2000",
            "min.insync.replicas": "2",
            "offsets.topic.num.partitions": "1",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
        path = self._directory / f"server-{node}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return path

    def start(self, node: int) -> None:
        with (self._directory / f"log-{node}").open("a") as log:
            self.processes[node] = subprocess.Popen(
                [sys.executable, "-m", "nodes", str(self.properties(node))],
                stdout=log,
                stderr=log,
                text=True,
            )

    def end(self) -> None:
        self.kazoo.stop()
        self.kazoo.close()
        for process in self.processes.values():
            process.kill()
            process.wait()

    def controller(self) -> int:
        path = f"/kafka{paths.CONTROLLER}"
        found = self.kazoo.get(path) if self.kazoo.exists(path) else None
        return 0 if found is None else int(znodes.read_controller(found[0]))

    def registered(self) -> list[str]:
        path = f"/kafka{paths.BROKER_IDS}"
        return sorted(self.kazoo.get_children(path)) if self.kazoo.exists(path) else []

    def epoch(self, node: int) -> int:
        return int(self.kazoo.exists(f"/kafka{paths.broker(node)}").czxid)

    def in_sync(self) -> bool:
        data, _ = self.kazoo.get(f"/kafka{paths.state('t', 0)}")
        return len(znodes.read_state(data).isr) == 3


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    require("zookeeper", "java")
    with real_zookeeper(tmp_path) as port:
        made = Brokers(tmp_path, port)
        try:
            until(lambda: len(made.registered()) == 3 and made.controller() > 0)
            yield made
        finally:
            made.end()


def until(look: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WITHIN_S
    while not look():
        assert time.monotonic() < deadline_s, "not in time"
        time.sleep(0.1)


def produce(brokers: Brokers, numbers: Sequence[int]) -> None:
    """Every record is acknowledged by all in-sync replicas."""
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": brokers.addresses, "acks": "all"})
    for number in numbers:
        producer.produce(
            "t", str(number), on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert producer.flush(WITHIN_S) == 0
    assert failed == []


def consume(brokers: Brokers, count: int) -> set[int]:
    """A member of a group reads everything."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.addresses,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"])
    found: set[int] = set()
    deadline_s = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < deadline_s:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.add(int(message.value() or b""))
    consumer.close()
    return found


@at_turn(
    0,
    2,
    "system/test_zookeeper.py::test_detached_cluster_beside_zookeeper_is_administered_and_broken",
)
def test_cluster_survives_a_kill_and_a_lost_session_of_its_controller(brokers: Brokers) -> None:
    """A killed controller is replaced; a paused one loses its session and comes back."""
    admin = AdminClient({"bootstrap.servers": brokers.addresses})
    admin.create_topics([NewTopic("t", 1, 3)])["t"].result(WITHIN_S)
    until(brokers.in_sync)
    produce(brokers, range(RECORDS))

    killed = brokers.controller()
    brokers.processes[killed].kill()
    brokers.processes[killed].wait()
    until(lambda: brokers.controller() not in (0, killed))
    until(lambda: str(killed) not in brokers.registered())
    produce(brokers, range(RECORDS, 2 * RECORDS))
    brokers.start(killed)
    until(brokers.in_sync)

    paused = brokers.controller()
    epoch = brokers.epoch(paused)
    os.kill(brokers.processes[paused].pid, signal.SIGSTOP)
    until(lambda: brokers.controller() not in (0, paused))
    os.kill(brokers.processes[paused].pid, signal.SIGCONT)
    until(lambda: str(paused) in brokers.registered() and brokers.epoch(paused) > epoch)
    until(brokers.in_sync)
    produce(brokers, range(2 * RECORDS, 3 * RECORDS))
    assert consume(brokers, 3 * RECORDS) == set(range(3 * RECORDS))

    stopped = next(node for node in brokers.ports if node != brokers.controller())
    brokers.processes[stopped].terminate()
    assert brokers.processes[stopped].wait(WITHIN_S) == 0
    until(lambda: str(stopped) not in brokers.registered())


def test_broker_of_another_cluster_is_refused(brokers: Brokers, tmp_path: Path) -> None:
    """One line says which cluster ZooKeeper has."""
    brokers.processes[1].kill()
    brokers.processes[1].wait()
    path = brokers.properties(1, cluster_id="other", log_dirs=str(tmp_path / "other"))
    done = subprocess.run(
        [sys.executable, "-m", "nodes", str(path)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 1
    assert "ZooKeeper has the cluster highwater, this broker is of other" in done.stderr


def test_broker_without_zookeeper_ends_with_one_message(tmp_path: Path) -> None:
    port, nobody = free_ports(2)
    path = tmp_path / "server.properties"
    path.write_text(
        f"node.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\n"
        f"zookeeper.connect=127.0.0.1:{nobody}\nzookeeper.connection.timeout.ms=500\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "nodes", str(path)],
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"no ZooKeeper at 127.0.0.1:{nobody} within 500 ms" in done.stderr
    assert "start ZooKeeper first" in done.stderr


@at_turn(3, 4, "system/test_whole_runs.py::test_truncation_to_the_high_watermark_is_caught")
@pytest.mark.parametrize(
    ("module", "code", "verdict"),
    [
        pytest.param(
            *("nodes", 0, "VALID"),
            marks=nightly(
                "system/test_zookeeper.py::test_built_in_broker_beside_zookeeper_keeps_its_contract"
            ),
        ),
        ("truncate_to_high_watermark", 1, "INVALID"),
    ],
)
def test_truncation_to_the_high_watermark_loses_writes_beside_zookeeper_too(
    module: str, code: int, verdict: str, tmp_path: Path
) -> None:
    """The original design (before KIP-101). The sound broker truncates by leader epoch."""
    require("zookeeper", "netns", "nftables")
    scenario = ROOT / "harness/zoo/scenarios/truncation-to-high-watermark.toml"
    options = ("--control-plane", "zookeeper", "--broker-module", module, "--store", tmp_path)
    done = highwater("run", scenario, *options, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    (found,) = tmp_path.glob("*/2*/verdict.json")
    assert json.loads(found.read_text())["verdict"] == verdict
