"""The monitor against nodes of canned answers: what it records, what it knows, how it waits."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from checkers.history.history import CLUSTER, HISTORY, read_arrow_stream
from harness.recording.history import HistoryWriter, RowStream
from harness.systems.monitoring.monitor import POLL_S, Monitor
from harness.systems.monitoring.queries import FRESH_S
from tests.support.clusters.fake_node import FakeNode, serving

LIST_OFFSETS, METADATA, OFFSET_FOR_LEADER_EPOCH, DESCRIBE_QUORUM = 2, 3, 23, 55
FIND_COORDINATOR, LIST_REASSIGNMENTS, DESCRIBE_TOPIC_PARTITIONS = 10, 46, 75
DEADLINE_S = 30
EPOCH = 2


def metadata(isr: tuple[int, ...] = (1, 2), leader: int = 1, epoch: int = EPOCH) -> Any:
    partition = {
        "partition_index": 0,
        "leader_id": leader,
        "leader_epoch": epoch,
        "replica_nodes": (1, 2),
        "isr_nodes": isr,
    }
    return lambda _: {"topics": [{"name": "t", "partitions": [partition]}]}


def end_offsets(request: Any) -> dict[str, Any]:
    (topic,) = request.topics
    (asked,) = topic.partitions
    assert asked.current_leader_epoch in (EPOCH, EPOCH + 1)
    found = {"partition_index": 0, "offset": 42, "leader_epoch": EPOCH}
    return {"topics": [{"name": "t", "partitions": [found]}]}


def epoch_end(request: Any) -> dict[str, Any]:
    ends = {0: (0, 10), 1: (0, 10), 2: (2, 42), 3: (2, 42)}
    epoch, end = ends[int(request.topics[0].partitions[0].leader_epoch)]
    found = {"partition": 0, "leader_epoch": epoch, "end_offset": end}
    return {"topics": [{"topic": "t", "partitions": [found]}]}


def quorum(leader: int, error: ErrorCode) -> Any:
    found = {
        "partition_index": 0,
        "leader_id": leader,
        "leader_epoch": 9,
        "error_code": error,
        "current_voters": [{"replica_id": voter} for voter in (1, 3, 2)],
    }
    return lambda _: {"topics": [{"topic_name": "__cluster_metadata", "partitions": [found]}]}


@pytest.fixture
def nodes() -> Iterator[dict[int, FakeNode]]:
    """Two nodes; the first leads the partition, the second the quorum."""
    made = {
        node: FakeNode(
            {
                METADATA: metadata(),
                LIST_OFFSETS: end_offsets,
                OFFSET_FOR_LEADER_EPOCH: epoch_end,
                DESCRIBE_QUORUM: quorum(
                    2, ErrorCode.none if node == 2 else ErrorCode.not_leader_or_follower
                ),
            }
        )
        for node in (1, 2)
    }
    with serving(*made.values()):
        yield made


@pytest.fixture
def monitor(tmp_path: Path, nodes: dict[int, FakeNode]) -> Iterator[Monitor]:
    """A running monitor that writes to tmp_path."""
    writer = HistoryWriter(tmp_path / "w.arrows", writer_id=1, base_ns=time.monotonic_ns())
    cluster = RowStream(tmp_path / "c.arrows", CLUSTER)
    addresses = {node: ("127.0.0.1", fake.port) for node, fake in nodes.items()}
    made = Monitor(
        brokers=addresses,
        controllers=addresses,
        partitions={"t": 1},
        writer=writer,
        client=1,
        cluster=cluster,
        enter_network=nullcontext,
    )
    made.start()
    yield made
    made.stop()
    writer.close()
    cluster.close()


def rows(path: Path) -> list[dict[str, Any]]:
    table, _ = read_arrow_stream(path, CLUSTER if path.name == "c.arrows" else HISTORY)
    return list(table.to_pylist())


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_monitor_knows_leader_isr_and_controller(monitor: Monitor) -> None:
    """Before the first answers they are None."""
    assert monitor.leader("t", 7) is None
    wait_for(lambda: monitor.leader("t", 0) == 1 and monitor.controller() == 2)
    assert monitor.isr("t", 0) == (1, 2)
    assert list(monitor.partitions()) == [("t", 0)]


def test_wait_settled_returns_the_reasons_when_an_isr_is_short(
    monitor: Monitor, nodes: dict[int, FakeNode]
) -> None:
    """A full ISR in the view of all nodes is settled."""
    assert monitor.wait_settled(DEADLINE_S) == []
    for node in nodes.values():
        node.answers[METADATA] = metadata(isr=(1,))
    wait_for(lambda: monitor.isr("t", 0) == (1,))
    assert any("in-sync replicas [1] of [1, 2]" in why for why in monitor.wait_settled(0.0))


def test_quiet_waits_until_every_record_is_committed(
    monitor: Monitor, nodes: dict[int, FakeNode]
) -> None:
    """The final reads would miss records beyond the high watermark."""
    assert monitor.wait_settled(DEADLINE_S, quiet=True) == []

    def lagging(request: Any) -> dict[str, Any]:
        told = end_offsets(request)
        if request.replica_id == -2:  # who asks so is told the log's end
            for topic in told["topics"]:
                topic["partitions"] = [{**p, "offset": 77} for p in topic["partitions"]]
        return told

    for node in nodes.values():
        node.answers[LIST_OFFSETS] = lagging
    assert monitor.wait_settled(DEADLINE_S) == []
    assert any("its log ends at 77" in why for why in monitor.wait_settled(1.0, quiet=True))


def test_node_without_answers_is_named_and_the_others_are_watched(
    monitor: Monitor, nodes: dict[int, FakeNode]
) -> None:
    """A node whose answers cannot be had is named; the others are still watched."""
    assert monitor.wait_settled(DEADLINE_S) == []

    def broken(_: Any) -> dict[str, Any]:
        raise ConnectionResetError

    nodes[2].answers[METADATA] = broken
    wait_for(lambda: monitor.wait_settled(0.6) == ["node 2 does not answer"])


def test_watermarks_and_epochs_are_recorded(monitor: Monitor, tmp_path: Path) -> None:
    """End offsets become operations of the monitor's client; epochs become rows."""
    assert monitor.wait_settled(DEADLINE_S) == []
    wait_for(lambda: any(row["f"] == "watermark" for row in rows(tmp_path / "w.arrows")))
    assert monitor.record_epochs() == []
    monitor.stop()
    history = rows(tmp_path / "w.arrows")
    watermark = next(row for row in history if row["f"] == "watermark")
    assert (watermark["offset"], watermark["node"], watermark["client"]) == (42, 1, 1)
    cluster = rows(tmp_path / "c.arrows")
    epochs = [
        (row["leader_epoch"], row["start_offset"], row["end_offset"])
        for row in cluster
        if row["kind"] == "epoch"
    ]
    assert epochs == [(0, 0, 10), (2, 10, 42)]
    assert {row["kind"] for row in cluster} == {"view", "leader", "epoch", "quorum"}
    [quorum] = [row for row in cluster if row["kind"] == "quorum"]
    assert (quorum["node"], quorum["leader"], quorum["leader_epoch"]) == (2, 2, 9)
    assert quorum["isr"] == [1, 2, 3]


def test_epochs_of_a_partition_are_recorded_completely_or_not_at_all(
    monitor: Monitor,
    nodes: dict[int, FakeNode],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader that is replaced during its answers gives none."""
    monkeypatch.setattr("harness.systems.monitoring.final_epochs.PATIENCE_S", 0.3)
    assert monitor.wait_settled(DEADLINE_S) == []

    def deposed(request: Any) -> dict[str, Any]:
        answer = epoch_end(request)
        [found] = answer["topics"][0]["partitions"]
        if found["leader_epoch"] == EPOCH:
            found["error_code"] = ErrorCode.not_leader_or_follower
        return answer

    nodes[1].answers[OFFSET_FOR_LEADER_EPOCH] = deposed
    assert monitor.record_epochs() == ["t-0: node 1 answers not_leader_or_follower"]
    monitor.stop()
    assert not any(row["kind"] == "epoch" for row in rows(tmp_path / "c.arrows"))


def test_epochs_are_asked_of_the_leader_of_the_newest_view(
    monitor: Monitor, nodes: dict[int, FakeNode], tmp_path: Path
) -> None:
    """The leader may change between the view and the request."""
    assert monitor.wait_settled(DEADLINE_S) == []

    def deposed(_: Any) -> dict[str, Any]:
        for node in nodes.values():
            node.answers[METADATA] = metadata(leader=2, epoch=EPOCH + 1)
        found = {"partition": 0, "error_code": ErrorCode.fenced_leader_epoch}
        return {"topics": [{"topic": "t", "partitions": [found]}]}

    nodes[1].answers[OFFSET_FOR_LEADER_EPOCH] = deposed
    assert monitor.record_epochs() == []
    monitor.stop()
    told = {row["node"] for row in rows(tmp_path / "c.arrows") if row["kind"] == "epoch"}
    assert told == {2}


def test_stopped_monitor_sends_no_requests(monitor: Monitor) -> None:
    """Stopping twice is harmless."""
    monitor.stop()
    monitor.stop()
    assert monitor.record_epochs() == ["the monitor is not running"]


def test_end_row_is_recorded_once_however_quickly_the_monitor_stops(
    monitor: Monitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that is gone before its stop returns ended in order too: once, and with its row."""
    loop = monitor._loop

    class Quick:
        def call_soon_threadsafe(self, stop: Any) -> None:
            assert loop is not None
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop)
            monitor._thread.join()

    monkeypatch.setattr(monitor, "_loop", Quick())
    monitor.stop()
    monitor.stop()
    monitor._writer.close()
    assert [row["f"] for row in rows(tmp_path / "w.arrows")].count("end") == 1


def test_monitor_knows_which_nodes_answer_and_are_in_service(
    monitor: Monitor, nodes: dict[int, FakeNode]
) -> None:
    """The majority of the answering brokers decides."""
    both = {"brokers": [{"node_id": node, "host": "h", "port": 1} for node in (1, 2)]}
    for node in nodes.values():
        node.answers[METADATA] = lambda _: metadata()(_) | both
    wait_for(lambda: monitor.fenced(2) is False)
    assert monitor.answers(1) is monitor.answers(2) is True
    assert monitor.brokers() == (1, 2)
    assert list(monitor.controllers()) == [1, 2]
    assert monitor.replicas("t", 0) == (1, 2)
    assert (monitor.answers(7), monitor.fenced(7)) == (None, None)
    for node in nodes.values():
        node.answers[METADATA] = lambda _: metadata()(_) | {"brokers": both["brokers"][:1]}
    wait_for(lambda: monitor.fenced(2) is True)
    assert monitor.fenced(1) is False


def test_queries_are_sent_only_while_answers_are_wanted(
    monitor: Monitor, nodes: dict[int, FakeNode]
) -> None:
    """The first call starts the query."""
    eligible = {"partition_index": 0, "leader_id": 1, "eligible_leader_replicas": (2,)}
    moving = {"partition_index": 0, "replicas": (1, 2), "adding_replicas": (2,)}
    for node in nodes.values():
        node.answers[DESCRIBE_TOPIC_PARTITIONS] = lambda _: {
            "topics": [{"name": "t", "topic_id": None, "partitions": [eligible]}]
        }
        node.answers[LIST_REASSIGNMENTS] = lambda _: {
            "topics": [{"name": "t", "partitions": [moving]}]
        }
        node.answers[LIST_OFFSETS] = lambda request: _ends(request)

    def asked(api_key: int) -> int:
        return sum(each.__api_key__ == api_key for node in nodes.values() for each in node.seen)

    wait_for(lambda: monitor.leader("t", 0) == 1)
    assert asked(DESCRIBE_TOPIC_PARTITIONS) == asked(LIST_REASSIGNMENTS) == 0
    assert (monitor.elr("t", 0), monitor.ends("t", 0), monitor.reassigning()) == (None,) * 3
    wait_for(lambda: monitor.elr("t", 0) == (2,))
    wait_for(lambda: monitor.ends("t", 0) == (42, 77))
    wait_for(lambda: monitor.reassigning() is True)
    time.sleep(FRESH_S + 3 * POLL_S)
    before = asked(DESCRIBE_TOPIC_PARTITIONS)
    time.sleep(3 * POLL_S)
    assert asked(DESCRIBE_TOPIC_PARTITIONS) == before
    assert monitor.elr("t", 0) is None


def test_coordinators_are_asked_for(monitor: Monitor, nodes: dict[int, FakeNode]) -> None:
    """Each kind of id by its key type; a broker that does not know one tells so."""

    def found(request: Any) -> dict[str, Any]:
        key, node = request.coordinator_keys[0], {0: 1, 1: 2}[request.key_type]
        unknown = key == "unknown"
        code = ErrorCode.coordinator_not_available if unknown else ErrorCode.none
        where = {"node_id": -1 if unknown else node, "host": "h", "port": 1}
        return {"coordinators": [{"key": key, "error_code": code, "error_message": None, **where}]}

    for node in nodes.values():
        node.answers[FIND_COORDINATOR] = found
    assert monitor.coordinator("group", "a") is None
    wait_for(lambda: monitor.coordinator("group", "a") == 1)
    wait_for(lambda: monitor.coordinator("transaction", "a") == 2)
    assert monitor.coordinator("group", "unknown") is None
    wait_for(lambda: any(_asks_for(each, "unknown") for n in nodes.values() for each in n.seen))
    assert monitor.coordinator("group", "unknown") is None


def _asks_for(request: Any, key: str) -> bool:
    return request.__api_key__ == FIND_COORDINATOR and request.coordinator_keys == (key,)


def _ends(request: Any) -> dict[str, Any]:
    """A log that goes on beyond its high watermark."""
    told = end_offsets(request)
    if request.replica_id == -2:
        told["topics"][0]["partitions"][0]["offset"] = 77
    return told
