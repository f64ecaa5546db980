"""The lost writes of a verdict as rows of a table, the worst first.

A row is a group of verdict.json: lost writes of one partition with one judgement and one cause.
Leader changes and faults are read from the sentence that names the cause; a cause of another kind
has none, and its sentence tells what happened. Nothing is judged here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from checkers.losses import LOSSES
from harness.reports.words import judgement_order

MAX_ROWS: Final = 60
"""Rows that the page shows. The rest is counted, and is listed with the anomalies."""
ALL: Final = -1

FAULT_NAMED: Final = re.compile(r"\bfault (\d+) \(")
_FAULT: Final = re.compile(r"\bfault (\d+) \(([^();]*?)(?:, [\d.]+ s [^()]*)?\)")
_LEADER_CHANGES: Final = (
    re.compile(
        r"node (?P<new>\d+) (?:replaced node (?P<old>\d+) as leader|became leader again)"
        r" at (?P<at>[\d.]+) s \(epoch (?P<epoch>\d+)\)"
    ),
    # Verdicts of earlier versions.
    re.compile(
        r"node (?P<old>\d+), leader of \S+ in epoch \d+, was deposed at (?P<at>[\d.]+) s"
        r" by node (?P<new>\d+) in epoch (?P<epoch>\d+)"
    ),
)
_ALTERNATIVE: Final = re.compile(r"\(\d+\) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """Node `new` became leader in `epoch`, instead of node `old`, `at_s` seconds into the run. They
    are equal when a leader restarted and leads again."""

    old: int
    new: int
    epoch: int
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRow:
    """Lost writes of one partition with one judgement and one cause.

    first_s: when the first of them was sent, in seconds since the start of the run.
    several: the record leaves more than one cause possible.
    """

    count: int
    acks: int | None
    judgement: str
    topic: str
    partition: int | None
    cause: str
    rule: str
    first_s: float | None
    leader_changes: tuple[LeaderChange, ...]
    faults: tuple[tuple[int, str], ...]
    several: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The worst rows; left_out: how many rows the page does not show."""

    rows: tuple[LossRow, ...]
    left_out: int


def losses_of(verdict: Mapping[str, Any]) -> Losses:
    """Return the lost writes: forbidden ones first, then undecided, then permitted ones; among
    these the strongest acks mode first, then the largest count."""
    found = sorted(_rows(verdict), key=_order)
    return Losses(rows=tuple(found[:MAX_ROWS]), left_out=max(0, len(found) - MAX_ROWS))


def faults_in(cause: str) -> list[int]:
    """Return the numbers of the faults that a cause names, each once."""
    return list(dict.fromkeys(int(number) for number in FAULT_NAMED.findall(cause)))


def leader_changes_in(cause: str) -> tuple[LeaderChange, ...]:
    """Return the leader changes that a cause names, in its order."""
    return tuple(
        LeaderChange(
            old=int(match["old"] or match["new"]),
            new=int(match["new"]),
            epoch=int(match["epoch"]),
            at_s=float(match["at"]),
        )
        for pattern in _LEADER_CHANGES
        for match in pattern.finditer(cause)
    )


def acks_strength(acks: Any) -> int:
    """Return a number that grows with the promise of an acks mode: 0, 1, all. Unknown is least."""
    if not isinstance(acks, int):
        return -1
    return 1 << 8 if acks == ALL else acks


def _rows(verdict: Mapping[str, Any]) -> Iterator[LossRow]:
    anomalies = verdict.get("anomalies")
    for group in anomalies if isinstance(anomalies, list) else ():
        if not isinstance(group, dict) or group.get("kind") not in LOSSES:
            continue
        acks, partition = group.get("acks"), group.get("partition")
        cause = str(group.get("cause") or "").rstrip(".")
        labels = {int(number): label for number, label in _FAULT.findall(cause)}
        yield LossRow(
            count=group["count"] if isinstance(group.get("count"), int) else 0,
            acks=acks if isinstance(acks, int) else None,
            judgement=str(group.get("judgement")),
            topic=str(group.get("topic") or ""),
            partition=partition if isinstance(partition, int) else None,
            cause=cause,
            rule=str(group.get("rule") or ""),
            first_s=_first_s(group.get("examples")),
            leader_changes=leader_changes_in(cause),
            faults=tuple((number, labels.get(number, "")) for number in faults_in(cause)),
            several=len(_ALTERNATIVE.findall(cause)) > 1,
        )


def _order(row: LossRow) -> tuple[int, int, int]:
    return judgement_order(row.judgement), -acks_strength(row.acks), -row.count


def _first_s(examples: Any) -> float | None:
    rows: Sequence[Any] = examples if isinstance(examples, list) else ()
    times = [row["invoke_ns"] for row in rows if isinstance(row, dict) and row.get("invoke_ns")]
    return min(times) / 1e9 if times and all(isinstance(each, int) for each in times) else None
