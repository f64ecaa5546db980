"""How long a killed leader's partitions refused writes, from a stored run.

    python -m tests.tools.failovers RUN...

From SIGKILL to the controller's election in the metadata log, and on to the first send that a
client saw acknowledged by the new leader. Acknowledgements that were under way at the kill do not
count, nor do topics with acks=0, which acknowledge nothing.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from checkers.history.recorded_faults import touched_nodes

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """One partition whose leader was killed; times in ms since the kill, None: never seen."""

    topic: str
    partition: int
    node: int
    elected_ms: float | None
    acked_ms: float | None


def failovers(run_dir: Path) -> list[Failover]:
    """Every failover after a kill in a sealed run, in the order of the kills."""
    cluster = pq.read_table(run_dir / "cluster.parquet").to_pylist()
    elections = [r for r in cluster if r["kind"] == "leader" and r["source"] == "metadata-log"]
    acked = _acknowledged(run_dir)
    faults = pq.read_table(run_dir / "faults.parquet").to_pylist()
    kills = [fault for fault in faults if fault["fault"] == "kill" and fault["took_effect"]]
    found = []
    for kill in sorted(kills, key=lambda fault: fault["started_ns"]):
        killed_ns, (nodes, _) = kill["started_ns"], touched_nodes(kill["targets"])
        for partition, node, epoch in _led(elections, killed_ns):
            if node not in nodes or partition not in acked:
                continue
            later = [
                row["at_ns"]
                for row in elections
                if (row["topic"], row["partition"]) == partition
                and row["leader_epoch"] > epoch
                and row["leader"] is not None
            ]
            elected_ns = min(later, default=None)
            acks = (ns for ns in acked[partition] if elected_ns is not None and ns >= elected_ns)
            found.append(
                Failover(
                    topic=partition[0],
                    partition=partition[1],
                    node=node,
                    elected_ms=_since(killed_ns, elected_ns),
                    acked_ms=_since(killed_ns, next(acks, None)),
                )
            )
    return found


def _led(elections: list[Row], at_ns: int) -> Iterator[tuple[tuple[str, int], int, int]]:
    """(partition, leader, leader epoch) of every partition that had a leader at `at_ns`."""
    last: dict[tuple[str, int], Row] = {}
    for row in sorted(elections, key=lambda row: (row["leader_epoch"], row["partition_epoch"])):
        if row["at_ns"] <= at_ns:
            last[row["topic"], row["partition"]] = row
    for partition, row in sorted(last.items()):
        if row["leader"] is not None:
            yield partition, row["leader"], row["leader_epoch"]


def _acknowledged(run_dir: Path) -> dict[tuple[str, int], list[int]]:
    """When each send was acknowledged by a broker, by partition, in order of time."""
    columns = ["f", "type", "acks", "complete_ns", "topic", "partition"]
    acked: dict[tuple[str, int], list[int]] = {}
    for path in sorted((run_dir / "history").glob("*.parquet")):
        for row in pq.read_table(path, columns=columns).to_pylist():
            if row["f"] == "send" and row["type"] == "ok" and row["acks"] != 0:
                acked.setdefault((row["topic"], row["partition"]), []).append(row["complete_ns"])
    return {partition: sorted(times) for partition, times in acked.items()}


def _since(start_ns: int, at_ns: int | None) -> float | None:
    return None if at_ns is None else (at_ns - start_ns) / 1e6


def main(run_dirs: list[str]) -> None:
    """Print one line per failover, and the range over all."""
    every = [each for run_dir in run_dirs for each in failovers(Path(run_dir))]
    for each in every:
        print(
            f"{each.topic}-{each.partition} of killed node {each.node}: "
            f"elected after {_ms(each.elected_ms)}, acknowledged after {_ms(each.acked_ms)}"
        )
    acked = sorted(each.acked_ms for each in every if each.acked_ms is not None)
    if acked:
        middle = acked[len(acked) // 2]
        print(
            f"{len(acked)} failovers: first acknowledgement after {acked[0]:.0f} to "
            f"{acked[-1]:.0f} ms, median {middle:.0f} ms"
        )


def _ms(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f} ms"


if __name__ == "__main__":
    main(sys.argv[1:])
