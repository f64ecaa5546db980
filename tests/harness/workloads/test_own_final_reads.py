"""Final reads with our own client: they go on as long as there is progress."""

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from harness.simulation.recording import History
from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.environment import ClientEnvironment
from harness.workloads.final_reads import FinalReadConfig
from harness.workloads.own_final_reads import read_everything
from tests.support.clients.scripted_brokers import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    PORT,
    TOPIC_ID,
    Script,
    fetched,
    wanted,
)

TIMING = Timing(metadata_age_s=0.2)
NOBODY = -1


class Logs(Script):
    """Partitions 0, 1, ... of t, whose leaders and numbers of records are given."""

    def __init__(self, *leaders: int, records: int = 10, at_once: int = 100) -> None:
        super().__init__()
        self.leaders, self.records, self.at_once = list(leaders), records, at_once
        self.start = 0
        """The start of every log."""
        self.out_of_range: Callable[[], None] | None = None
        """Called once, when half of a log is read: the fetch is then answered as out of range."""
        self.answers |= {
            METADATA: self._all_leaders,
            FETCH: self._fetch,
            LIST_OFFSETS: self._ends,
        }

    def _all_leaders(self, node: int, request: Any) -> Mapping[str, Any]:
        partitions = [
            {"partition_index": number, "leader_id": leader, "leader_epoch": 0}
            for number, leader in enumerate(self.leaders)
        ]
        topic = {"name": "t", "topic_id": TOPIC_ID, "partitions": partitions}
        return {"brokers": [self.endpoint(1), self.endpoint(2)], "topics": [topic]}

    def _fetch(self, node: int, request: Any) -> Mapping[str, Any]:
        row = wanted(request)
        if self.out_of_range is not None and row.fetch_offset >= self.records // 2:
            self.out_of_range()
            self.out_of_range = None
            error = ErrorCode.offset_out_of_range
            return fetched({}, partition_index=row.partition, error_code=error)
        rest = range(row.fetch_offset, self.records)
        return fetched(dict.fromkeys(rest[: self.at_once], 0), partition_index=row.partition)

    def _ends(self, node: int, request: Any) -> Mapping[str, Any]:
        asked = request.topics[0].partitions[0]
        offset = self.start if asked.timestamp == -2 else self.records
        row = {"partition_index": asked.partition_index, "offset": offset}
        return {"topics": [{"name": "t", "partitions": [row]}]}

    def read(self, *, patience_s: float, timeout_s: float = 100.0) -> History:
        """What a final read records."""
        world = self.world.world
        history = History("final-reads", 2, lambda: world.now_ns)
        config = FinalReadConfig(
            run_id="run",
            base_ns=0,
            history_dir="",
            bootstrap=f"{self.world.hosts[1].address}:{PORT}",
            topics={"t": len(self.leaders)},
            value_bytes=100,
            patience_s=patience_s,
            timeout_s=timeout_s,
        )
        outside = ClientEnvironment(
            rng=world.stream("reads"), wall_clock_ms=lambda: 0, timing=TIMING
        )

        async def client(cluster: Cluster) -> None:
            await cluster.close()
            await read_everything(config, history, outside)

        self.run(client, TIMING)
        return history


def ends(history: History) -> dict[int, tuple[str, int | None, str | None]]:
    """How far each partition was read, and why no further."""
    return {
        row["partition"]: (row["type"], row["offset"], row["error"])
        for row in history.named()
        if row["f"] == "final-read-end"
    }


def took_s(history: History) -> float:
    """From the first row to the last."""
    rows = list(history.named())
    return float(rows[-1]["complete_ns"] - rows[0]["invoke_ns"]) / 1e9


def test_slow_log_is_read_to_its_end() -> None:
    """One record a fetch is progress enough."""
    history = Logs(1, records=2_000, at_once=1).read(patience_s=0.5)
    assert ends(history) == {0: ("ok", 2_000, None)}
    assert took_s(history) > 0.5


def test_read_goes_on_behind_what_retention_removes_meanwhile() -> None:
    """The records up to offset 7 are gone when the read comes to offset 5."""
    logs = Logs(1, at_once=5)

    def remove() -> None:
        logs.start = 8

    logs.out_of_range = remove
    history = logs.read(patience_s=5.0)
    assert ends(history) == {0: ("ok", 10, None)}
    read = [row["offset"] for row in history.named() if row["f"] == "final-read"]
    assert read == [0, 1, 2, 3, 4, 8, 9]
    (moved,) = [row for row in history.named() if row["f"] == "assign"]
    assert (moved["offset"], moved["error"]) == (8, "OFFSET_OUT_OF_RANGE")


def test_read_of_a_log_that_is_truncated_meanwhile_does_not_count() -> None:
    """The log has only three records when the read comes to offset 5."""
    logs = Logs(1, at_once=5)

    def truncate() -> None:
        logs.records = 3

    logs.out_of_range = truncate
    (end,) = ends(logs.read(patience_s=5.0)).values()
    assert end[0] == "info"
    assert end[2] == "OFFSET_OUT_OF_RANGE"


def test_final_reads_have_a_time_limit() -> None:
    """It holds even with progress."""
    history = Logs(1, records=2_000, at_once=1).read(patience_s=0.5, timeout_s=0.6)
    assert ends(history)[0][::2] == ("info", "timeout")
    assert took_s(history) < 0.7


def test_partition_without_a_leader_delays_no_other() -> None:
    """The other partitions are read; this one waits until the deadline."""
    history = Logs(NOBODY, 2, NOBODY).read(patience_s=5)
    missing = ("info", None, "LEADER_NOT_AVAILABLE")
    assert ends(history) == {0: missing, 1: ("ok", 10, None), 2: missing}
    assert 5 < took_s(history) < 7


def test_partition_whose_leader_comes_late_is_read_too() -> None:
    """It is asked again and again while others are read."""
    logs = Logs(1, NOBODY)
    logs.world.world.after(3_000_000_000, lambda: logs.leaders.__setitem__(1, 2))
    assert ends(logs.read(patience_s=5)) == {0: ("ok", 10, None), 1: ("ok", 10, None)}


def test_partition_that_refuses_is_tried_until_the_deadline() -> None:
    """The reason is recorded."""
    logs = Logs(1)
    logs.answers[FETCH] = lambda node, _: fetched({}, error_code=ErrorCode.corrupt_message)
    assert ends(logs.read(patience_s=2)) == {0: ("info", 0, "CORRUPT_MESSAGE")}
