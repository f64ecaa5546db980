"""What is remembered of cluster and faults judges as all of it would, and does not grow."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from checkers.engines.engine import DuckDbEngine
from checkers.following.follow import forbidden
from checkers.following.memory import ClusterMemory
from checkers.following.state import HistoryState
from checkers.following.suspects import Suspect
from checkers.history.history import CLUSTER, FAULTS, HISTORY, RunSources, table
from checkers.verdict import Anomaly
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.story import ALL, S, Story, healthy, v
from tests.support.tiers import in_turn

PARTS = 3


def suspects_of(story: Story) -> list[Suspect]:
    """All that a follower would look at before the final reads."""
    ended = [row for row in story.history if not row["f"].startswith("final")]
    rows = sorted(ended, key=lambda row: row["complete_ns"] or row["invoke_ns"])
    return list(HistoryState().take(table(HISTORY, rows)))


def alarms(
    folder: Path, story: Story, suspects: Sequence[Suspect], sources: RunSources
) -> tuple[Anomaly, ...]:
    """What is forbidden of suspects by a cluster and by faults as they are told."""
    path = folder / "history.parquet"
    rows = [row for row in story.history if not row["f"].startswith("final")]
    pyarrow.parquet.write_table(table(HISTORY, rows), path)
    engine = DuckDbEngine()
    try:
        return forbidden(engine, replace(sources, history=(path,)), story.plan, suspects)
    finally:
        engine.close()


def told_before_the_end(story: Story) -> tuple[list[Any], list[Any]]:
    """Rows of the cluster and of faults, as a run that goes on has recorded them."""
    cluster = [row for row in story.cluster if row["kind"] != "epoch"]
    return sorted(cluster, key=lambda row: int(row["at_ns"])), list(story.faults)


def remembered_of(cluster: list[Any], faults: list[Any]) -> ClusterMemory:
    """Taken in parts, as they are sealed."""
    kept = ClusterMemory()
    for rows, schema, take in (
        (cluster, CLUSTER, kept.take_cluster),
        (faults, FAULTS, kept.take_faults),
    ):
        size = -(-len(rows) // PARTS)
        for part in range(PARTS):
            take(table(schema, rows[part * size : (part + 1) * size]))
    return kept


@pytest.mark.parametrize(
    "name",
    in_turn(
        "checkers/following/test_memory.py::test_kept_rows_give_the_verdict_of_all_rows",
        sorted(ALL_GOLDEN),
        of=12,
    ),
)
def test_kept_rows_give_the_verdict_of_all_rows(name: str, tmp_path: Path) -> None:
    """Of every golden story, with the same suspects: the same alarms, for the same reasons."""
    story = ALL_GOLDEN[name].story()
    if not (suspects := suspects_of(story)):
        return
    cluster, faults = told_before_the_end(story)
    whole = RunSources(
        history=(), cluster=(table(CLUSTER, cluster),), faults=(table(FAULTS, faults),),
        replicas=(), replica_ends=(),
    )  # fmt: skip
    kept = remembered_of(cluster, faults)
    short = replace(whole, cluster=(kept.cluster(),), faults=(kept.faults(),))
    assert alarms(tmp_path, story, suspects, short) == alarms(tmp_path, story, suspects, whole)


def lost(story: Story) -> Story:
    """Where a write was acknowledged by all, another one is read."""
    story.send(ALL, 21, 20, 25)
    story.poll(ALL, 30, {20: v(ALL, 22)})
    return story


def fault(number: int, kind: str, node: int, at_s: float, **details: str) -> dict[str, Any]:
    """A fault that took effect."""
    return {
        "fault_id": number, "fault": kind, "label": f"{kind} node {node}",
        "targets": json.dumps({"nodes": [node], "details": details}),
        "started_ns": round(at_s * S), "effective_ns": round(at_s * S),
        "healed_ns": round((at_s + 1) * S), "took_effect": True, "effect": "seen",
    }  # fmt: skip


def min_isr(topic: str) -> dict[str, Any]:
    """Somebody lowered what was promised to a topic."""
    return fault(0, "config", 1, 25, topic=topic, name="min.insync.replicas", value="1")


@pytest.mark.parametrize(
    ("faults", "alarm"),
    [
        ([fault(0, "kill", 1, 5)], True),
        ([fault(0, "power-loss", 1, 5)], False),
        ([fault(0, "disk.lost", 1, 5)], False),
        ([min_isr(ALL)], False),
        ([min_isr("other")], True),
    ],
)
def test_only_faults_that_destroy_state_excuse_after_their_heal(
    faults: list[dict[str, Any]], alarm: bool, tmp_path: Path
) -> None:
    """However long ago it was: a loss that something may permit raises no alarm before the end."""
    story = lost(healthy())
    kept = ClusterMemory()
    kept.take_cluster(table(CLUSTER, told_before_the_end(story)[0]))
    kept.take_faults(table(FAULTS, faults))
    kept.take_faults(table(FAULTS, [fault(n, "pause", 2, n) for n in range(1, 100)]))
    short = RunSources(
        history=(), cluster=(kept.cluster(),), faults=(kept.faults(),), replicas=(),
        replica_ends=(),
    )  # fmt: skip
    assert bool(alarms(tmp_path, story, suspects_of(story), short)) is alarm


def hour(number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A leader is killed every ten seconds, and another one leads; voters stay who they are."""
    cluster, faults = [], []
    for at in range(360):
        at_ns = (3_600 * number + 10 * at) * S
        epoch, leader = 360 * number + at, at % 3
        named = {"at_ns": at_ns, "topic": "t", "partition": 0, "leader": leader,
                 "leader_epoch": epoch}  # fmt: skip
        isr = [n for n in range(3) if n != (at + 1) % 3]
        cluster += [{**named, "kind": "leader", "isr": isr}, {**named, "kind": "view", "node": 1}]
        cluster.append({"at_ns": at_ns, "kind": "quorum", "node": 1, "leader": leader,
                        "leader_epoch": epoch, "isr": [0, 1, 2]})  # fmt: skip
        faults.append(fault(epoch, "kill", leader, at_ns / S))
    return cluster, faults


def test_a_week_is_remembered_like_a_day() -> None:
    """Who leads and who is struck changes all the time; what may matter later does not."""
    kept = ClusterMemory()
    sizes = []
    for number in range(7):
        cluster, faults = hour(number)
        kept.take_cluster(table(CLUSTER, cluster))
        kept.take_faults(table(FAULTS, faults))
        sizes.append(kept.size())
    assert sizes == [4] * 7


def test_voters_are_known_at_every_moment() -> None:
    """Of a stretch of equal voters its first and last row are kept, of every change both sides."""
    told = [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 3]]
    rows = [{"at_ns": at, "kind": "quorum", "isr": isr} for at, isr in enumerate(told)]
    kept = ClusterMemory()
    for row in rows:
        kept.take_cluster(table(CLUSTER, [row]))
    assert kept.cluster()["at_ns"].to_pylist() == [0, 2, 3, 4, 7]


def test_of_the_clocks_of_a_node_the_extremes_are_kept() -> None:
    """How long tombstones stay is judged by them."""
    rows = [
        {"at_ns": n, "kind": "clock", "node": node, "ahead_ms": ahead_ms}
        for n, (node, ahead_ms) in enumerate([(1, 5.0), (1, 0.0), (2, -7.0), (1, 3.0), (1, -2.0)])
    ]
    kept = remembered_of(rows, [])
    told = [(row["node"], row["ahead_ms"]) for row in kept.cluster().to_pylist()]
    assert told == [(1, -2.0), (1, 5.0), (2, -7.0)]
    assert kept.size() == 3
