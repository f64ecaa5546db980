"""Counts situations that a seed reached and in which replicated logs have been found wrong.

The counts come from rows that a run records anyway, so they cost nothing. If no seed reaches a
situation, the plan cannot find the bugs that hide in it.
"""

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

from harness.simulation.recording import Recording


def situations(recording: Recording) -> Counter[str]:
    """Return how often the run reached each situation."""
    met: Counter[str] = Counter()
    faults = recording.faults.named()
    for fault in faults:
        if fault["took_effect"]:
            met[f"fault {fault['fault']}"] += 1
    met["faults in force together"] += _overlapping(faults)
    _leadership(recording, met)
    for history in recording.histories:
        for row in history.rows:
            f, type_, error = row[2], row[3], row[15]
            if f == "producer-epoch":
                met["producer left its epoch"] += 1
            elif f == "assign" and error is not None:
                met["consumer was cut back"] += 1
            elif f == "send" and type_ != "ok":
                met[f"send {type_}"] += 1
    return +met


def _overlapping(faults: list[dict[str, Any]]) -> int:
    spans = sorted(
        (row["effective_ns"], row["healed_ns"] or row["effective_ns"])
        for row in faults
        if row["effective_ns"] is not None
    )
    return sum(later[0] < earlier[1] for earlier, later in pairwise(spans))


def _leadership(recording: Recording, met: Counter[str]) -> None:
    """Count changes in what the nodes reported of partitions, in the order of the reports."""
    last: dict[tuple[str, int], dict[str, Any]] = {}
    epochs: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in recording.cluster.named():
        if row["kind"] != "leader":
            continue
        at = row["topic"], row["partition"]
        before, isr = last.get(at), row["isr"] or []
        last[at] = row
        epochs[at].add(row["leader_epoch"])
        if before is None:
            continue
        old = before["isr"] or []
        if row["leader"] is None:
            met["partition without a leader"] += before["leader"] is not None
        elif row["leader_epoch"] > before["leader_epoch"]:
            met["new leader"] += row["leader"] != before["leader"]
            met["same leader, new epoch"] += row["leader"] == before["leader"]
            met["leader from outside the ISR last seen"] += row["leader"] not in old
        met["ISR shrank to one"] += len(isr) == 1 < len(old)
        met["ISR empty"] += not isr and bool(old)
        met["ISR grew"] += len(isr) > len(old)
    met["partition with five epochs or more"] += sum(len(found) >= 5 for found in epochs.values())
