"""How the built-in broker is configured, found ready, given topics, and collected."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kio.schema.errors import ErrorCode

from harness.brokers.errors import DeployError
from harness.plans.plan import Plan, Topic
from harness.recording import store
from harness.recording.store import Run
from harness.systems.brokers import BrokerSystem, server_properties
from harness.systems.monitoring.quorum_times import QuorumTimes
from harness.systems.node_roles import COMBINED, Layout
from nodes.config import load_config, parse_properties
from nodes.ids import Epoch, Offset
from nodes.log.batch import Record, encode_batch
from tests.support.clusters.fake_node import FakeNode, serving
from tests.support.clusters.fake_target import FakeTarget

METADATA, CREATE_TOPICS = 3, 19
PLAN = Plan(
    seed=1,
    topics=(Topic(name="t", acks=1, partitions=1, min_insync_replicas=2),),
    broker={"replica.lag.time.max.ms": 1234, "auto.leader.rebalance.enable": False},
)
ADDRESSES = {1: "198.18.0.1", 2: "198.18.0.2", 3: "198.18.0.3"}


def test_broker_accepts_its_properties(tmp_path: Path) -> None:
    """Every property is one that the broker knows, and the plan's overrides win."""
    properties = server_properties(
        2, ADDRESSES, log_dir=tmp_path, cluster_id="c", overrides=PLAN.broker
    )
    config, unknown = load_config(properties)
    assert unknown == []
    assert config.node_id == 2
    assert config.replication.lag_time_max_ms == 1234
    assert not config.administration.auto_leader_rebalance
    assert config.voters == {node: (host, 9093) for node, host in ADDRESSES.items()}


def test_programs_outside_are_told_the_forwarder_and_brokers_each_other(tmp_path: Path) -> None:
    """A listener of its own advertises the forwarder's address."""
    properties = server_properties(
        2, ADDRESSES, log_dir=tmp_path, cluster_id="c", overrides={}, outside="127.0.0.1:4711"
    )
    config, unknown = load_config(properties)
    assert unknown == []
    told = {each.listener: (each.host, each.port) for each in config.advertised}
    assert told == {"PLAINTEXT": ("198.18.0.2", 9092), "OUTSIDE": ("127.0.0.1", 4711)}
    served = {each.listener: (each.host, each.port) for each in config.broker_listeners}
    assert served["OUTSIDE"] == ("198.18.0.2", 9094)
    assert config.inter_broker_listener == "PLAINTEXT"


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 2), (3, 3, 2)])
def test_internal_topics_fit_on_the_brokers(
    tmp_path: Path, brokers: int, replicas: int, min_isr: int
) -> None:
    """Otherwise a small cluster would have no groups and no transactions."""
    addresses = {node: ADDRESSES[node] for node in range(1, brokers + 1)}
    properties = server_properties(1, addresses, log_dir=tmp_path, cluster_id="c", overrides={})
    config, unknown = load_config(properties)
    assert unknown == []
    assert config.groups.topic.replication_factor == replicas
    assert config.transactions.topic.replication_factor == replicas
    assert config.transactions.min_isr == min_isr
    assert config.groups.topic.partitions == config.transactions.topic.partitions == 3


def test_joining_controller_is_no_first_voter(tmp_path: Path) -> None:
    """It finds the quorum by the existing controllers, and gets a vote while it runs (KIP-853)."""
    layout = Layout(roles={1: COMBINED, 2: COMBINED, 3: COMBINED})
    properties = server_properties(
        3, ADDRESSES, log_dir=tmp_path, cluster_id="c", overrides={}, layout=layout, joins=(1, 2)
    )
    config, unknown = load_config(properties)
    assert unknown == []
    assert config.is_controller
    assert config.voters == {}
    assert config.quorum.bootstrap_servers == ((ADDRESSES[1], 9093), (ADDRESSES[2], 9093))


def test_wiped_node_gets_another_directory_id(system: BrokerSystem, target: FakeTarget) -> None:
    """Its old directory id is lost with the data."""
    system.configure()
    log_dir = target.data_dir(2) / "log"
    assert system.directory_id(2) is None
    known = "f5s4wzBHQsqq8Cn4PPR3Tw"
    (log_dir / "meta.properties").write_text(
        f"version=1\ncluster.id=c\nnode.id=2\ndirectory.id={known}\n"
    )
    assert str(system.directory_id(2)) == "7f9b38c3-3047-42ca-aaf0-29f83cf4774f"
    system.wipe(2)
    assert system.directory_id(2) is None
    assert list(log_dir.iterdir()) == []


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """An empty one."""
    return store.create(tmp_path / "store", "p", versions={}, commit=None)


@pytest.fixture
def target(run: Run) -> FakeTarget:
    """Three nodes without machines."""
    return FakeTarget(run.path)


@pytest.fixture
def system(run: Run, target: FakeTarget) -> BrokerSystem:
    """The plan's system on them."""
    return BrokerSystem(PLAN, target, run)


def test_configure_registers_the_command_of_every_node(
    system: BrokerSystem, target: FakeTarget
) -> None:
    """Each node runs the broker module on a file of its own that reads back."""
    system.configure()
    assert sorted(target.commands) == [1, 2, 3]
    argv, _, log_path = target.commands[3]
    assert argv[1:3] == ("-m", "nodes")
    assert parse_properties(Path(argv[3]).read_text())["node.id"] == "3"
    assert log_path.parent == Path(argv[3]).parent
    assert (target.data_dir(3) / "log").is_dir()


class Cluster:
    """Three fake nodes at the ports that the system is told."""

    def __init__(self) -> None:
        self.brokers: tuple[int, ...] = (1, 2, 3)
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.create_error = ErrorCode.none
        answers = {METADATA: self.metadata, CREATE_TOPICS: self.create}
        self.nodes = {node: FakeNode(answers) for node in (1, 2, 3)}

    def metadata(self, _: Any) -> dict[str, Any]:
        partition = {"partition_index": 0, "leader_id": 1, "isr_nodes": self.isr}
        return {
            "brokers": [{"node_id": node} for node in self.brokers],
            "topics": [{"name": "t", "partitions": [partition]}],
        }

    def create(self, request: Any) -> dict[str, Any]:
        (topic,) = request.topics
        assert {config.name: config.value for config in topic.configs} == {
            "min.insync.replicas": "2"
        }
        return {"topics": [{"name": topic.name, "error_code": self.create_error}]}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The fake cluster, served, with the system looking for it on its ports."""
    made = Cluster()
    with serving(*made.nodes.values()):
        addresses = {node: ("127.0.0.1", fake.port) for node, fake in made.nodes.items()}
        monkeypatch.setattr(BrokerSystem, "brokers", addresses)
        yield made


def test_start_and_topic_creation_wait_for_a_complete_cluster(
    system: BrokerSystem, cluster: Cluster, target: FakeTarget
) -> None:
    """They return when every node answers as planned."""
    system.start()
    assert target.started == [1, 2, 3]
    system.create_topics()


def test_node_that_ends_instead_of_starting_is_an_error_at_once(
    system: BrokerSystem, cluster: Cluster, target: FakeTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the node's own reason; the other nodes would wait for it in vain."""
    system.configure()
    target.commands[2][2].write_text("the disk is not mine\n")
    monkeypatch.setattr(target, "is_running", lambda node: node != 2)
    monkeypatch.setattr(target, "exit_code", lambda _: 1)
    with pytest.raises(DeployError, match=r"node 2 ended by itself, exit code 1: the disk is not"):
        system.start()


def test_existing_topic_counts_as_created(system: BrokerSystem, cluster: Cluster) -> None:
    """An earlier request may have succeeded although its answer was lost."""
    cluster.create_error = ErrorCode.topic_already_exists
    system.create_topics()


def test_incomplete_cluster_gives_a_deploy_error_with_the_reason(
    run: Run, target: FakeTarget, cluster: Cluster
) -> None:
    """A missing node, a short ISR and a refused topic each end in a DeployError that says so, after
    as long as the plan says.
    """
    hasty = PLAN.model_copy(update={"start_timeout_s": 0.001})
    system = BrokerSystem(hasty, target, run)
    cluster.brokers = (1, 2)
    with pytest.raises(DeployError, match=r"knows brokers \[1, 2\] of \[1, 2, 3\]"):
        system.start()
    cluster.isr = (1,)
    with pytest.raises(DeployError, match=r"t-0 with leader 1 and in-sync replicas \[1\]"):
        system.create_topics()
    cluster.create_error = ErrorCode.invalid_replication_factor
    with pytest.raises(DeployError, match="topic t: INVALID_REPLICATION_FACTOR"):
        system.create_topics()


def test_stop_returns_the_killed_nodes(system: BrokerSystem, target: FakeTarget) -> None:
    """All nodes are stopped; the one that had to be killed is returned."""
    assert system.stop() == [3]
    assert sorted(target.stopped) == [1, 2, 3]


def test_collect_reads_replicas_and_ends(run: Run, target: FakeTarget) -> None:
    """Every existing replica gives its batches and its ends."""
    system = BrokerSystem(PLAN, target, run)
    data = encode_batch(
        [Record(value=b"x")] * 3, base_offset=Offset(0), leader_epoch=Epoch(1), timestamp_ms=1
    )
    for node in (1, 2):
        directory = target.data_dir(node) / "log" / "t-0"
        directory.mkdir(parents=True)
        (directory / f"{0:020d}.log").write_bytes(data)
        (directory.parent / "replication-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    (target.data_dir(3) / "log").mkdir(parents=True)
    cluster = run.cluster_stream()
    system.collect(cluster, QuorumTimes())
    cluster.close()
    store.seal(run.path)
    replicas = pq.read_table(run.path / "replicas.parquet").to_pylist()
    assert [(row["node"], row["last_offset"]) for row in replicas] == [(1, 2), (2, 2)]
    assert replicas[0]["digest"] == replicas[1]["digest"]
    ends = pq.read_table(run.path / "replica_ends.parquet").to_pylist()
    assert [(row["node"], row["end_offset"], row["high_watermark"]) for row in ends] == [
        (1, 3, 2),
        (2, 3, 2),
    ]
