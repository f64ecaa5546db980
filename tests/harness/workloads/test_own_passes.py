"""Passes over a compacted topic with our own client, against scripted brokers."""

import asyncio
from pathlib import Path
from typing import Any

from harness.simulation.recording import History
from harness.workloads.client_histories import ClientHistories
from harness.workloads.clients.counts import Tally
from harness.workloads.clients.own.cluster import Cluster
from harness.workloads.clients.passes import CUT_SHORT, PASS_S
from harness.workloads.environment import ClientEnvironment
from harness.workloads.own_passes import read_passes
from tests.harness.workloads.test_own_final_reads import NOBODY, TIMING, Logs
from tests.support.clients.scripted_brokers import FETCH, PORT
from tests.support.clients.workloads import client_config


def read(logs: Logs, seconds: float, *, every_s: float = 1.0) -> History:
    """What a reader records in so many seconds."""
    world = logs.world.world
    history = History("passes", 1000, lambda: world.now_ns)
    config: Any = client_config(
        folder=Path(),
        bootstrap=f"{logs.world.hosts[1].address}:{PORT}",
        partitions=len(logs.leaders),
        passes_every_s=every_s,
        base_ns=0,
    )
    outside = ClientEnvironment(rng=world.stream("passes"), wall_clock_ms=lambda: 0, timing=TIMING)

    async def client(cluster: Cluster) -> None:
        await cluster.close()
        stop = asyncio.Event()
        passes = ClientHistories(config, history).passes(Tally())
        reading = asyncio.get_running_loop().create_task(read_passes(config, passes, outside, stop))
        await asyncio.sleep(seconds)
        stop.set()
        await reading

    logs.run(client, TIMING)
    return history


def ends(history: History) -> list[tuple[int, str, int, str | None]]:
    """Partition, type, position and error of each pass."""
    return [
        (row["partition"], row["type"], row["offset"], row["error"])
        for row in history.named()
        if row["f"] == "keyed-pass"
    ]


def test_log_is_read_again_and_again() -> None:
    """Each pass begins at the first offset."""
    history = read(Logs(1, at_once=4), 5.0)
    assert 4 <= len(ends(history)) <= 6
    assert set(ends(history)) == {(0, "ok", 10, None)}
    rows = [row for row in history.named() if row["f"] == "keyed-poll"]
    for op in {row["op"] for row in rows}:
        assert [row["offset"] for row in rows if row["op"] == op] == [*range(10)]
    assert [*history.named()][-1]["f"] == "end"


def test_pass_over_a_log_that_is_truncated_meanwhile_is_not_whole() -> None:
    """The next one is."""
    logs = Logs(1, at_once=5)
    logs.out_of_range = lambda: None
    history = read(logs, 3.0)
    assert ends(history)[0] == (0, "info", 5, "OFFSET_OUT_OF_RANGE")
    assert set(ends(history)[1:]) == {(0, "ok", 10, None)}


def test_partition_without_a_leader_delays_no_other() -> None:
    """It has no pass."""
    history = read(Logs(1, NOBODY), 4.0)
    assert len(ends(history)) >= 3
    assert {partition for partition, *_ in ends(history)} == {0}


def test_pass_has_a_time_limit_and_ends_with_the_stop() -> None:
    """Its leader says that there are ten records, and gives three of them."""
    logs = Logs(1)
    fetch = logs.answers[FETCH]

    def three(node: int, request: Any) -> Any:
        logs.records, kept = 3, logs.records
        try:
            return fetch(node, request)
        finally:
            logs.records = kept

    logs.answers[FETCH] = three
    told = ends(read(logs, PASS_S * 1.5))
    assert told == [(0, "info", 3, CUT_SHORT), (0, "info", 3, CUT_SHORT)]
