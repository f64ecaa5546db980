"""When a partition could not be written to, whatever its brokers did.

That is while recorded faults separate more than half of its in-sync replicas, or so many replicas
that fewer than min.insync.replicas are left. The partition may be unavailable for that time. Faults
and ISR changes are few, so this is plain Python.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from checkers.history.settings import FOREVER_NS

HARMLESS = (
    "clock.", "link.", "broker.add", "config", "elect", "partitions.", "quorum.", "reassign",
    "topic.", "records.",
)  # fmt: skip
"""How the names of faults begin that stop no node."""
CUTTING = ("partition.", "cut.port", "cut.flapping")
"""How the names of faults begin that only cut nodes off from each other."""

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """What one fault stops: whole nodes (down), and traffic between pairs of nodes (apart)."""

    from_ns: int
    until_ns: int
    down: frozenset[int]
    apart: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time span in which a partition was out of reach."""

    from_ns: int
    until_ns: int


def read_outage(row: Mapping[str, Any]) -> Outage | None:
    """Read a row of the faults' table as an outage; None if the fault stopped nothing."""
    if not row["took_effect"] or row["started_ns"] is None or row["fault"].startswith(HARMLESS):
        return None
    targets = _parsed(row["targets"])
    cutting = row["fault"].startswith(CUTTING)
    pairs = [*(targets.get("cuts") or ()), *(targets.get("drops") or ())] if cutting else []
    return Outage(
        from_ns=row["started_ns"],
        until_ns=FOREVER_NS if row["healed_ns"] is None else row["healed_ns"],
        down=frozenset() if cutting else frozenset(_integers(targets.get("nodes"))),
        apart=frozenset(
            (min(one, other), max(one, other))
            for pair in pairs
            if isinstance(pair, list) and len(list(_integers(pair[:2]))) == 2
            for one, other in [pair[:2]]
        ),
    )


def _parsed(targets: str | None) -> dict[str, Any]:
    try:
        found = json.loads(targets) if targets else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {"nodes": found}


def _integers(value: Any) -> Iterable[int]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, int) and not isinstance(item, bool):
            yield item


def out_of_reach(
    leaders: Iterable[Mapping[str, Any]],
    outages: Sequence[Outage],
    min_isr: Callable[[str], int],
) -> dict[Partition, list[Span]]:
    """Return for each partition when it was out of reach, in the order of time.

    leaders: rows of the cluster's table of kind leader. min_isr: the greatest min.insync.replicas
    that a topic ever had.
    """
    by_partition: dict[Partition, list[Mapping[str, Any]]] = defaultdict(list)
    for row in leaders:
        if row["isr"] is not None:
            by_partition[row["topic"], row["partition"]].append(row)
    return {
        partition: spans
        for partition, rows in sorted(by_partition.items())
        if (spans := _spans(sorted(rows, key=_at), outages, min_isr(partition[0])))
    }


def _at(row: Mapping[str, Any]) -> int:
    return int(row["at_ns"])


def _spans(rows: Sequence[Mapping[str, Any]], outages: Sequence[Outage], least: int) -> list[Span]:
    replicas = frozenset(node for row in rows for node in row["isr"])
    edges = {row["at_ns"] for row in rows}
    for outage in outages:
        edges |= {outage.from_ns, outage.until_ns}
    moments = sorted(edges | {FOREVER_NS})
    found: list[Span] = []
    known = 0
    for from_ns, until_ns in pairwise(moments):
        while known < len(rows) and rows[known]["at_ns"] <= from_ns:
            known += 1
        in_force = [o for o in outages if o.from_ns <= from_ns < o.until_ns]
        isr = frozenset(rows[max(known - 1, 0)]["isr"])
        if not in_force or _reachable(isr, replicas, in_force, least):
            continue
        if found and found[-1].until_ns == from_ns:
            from_ns = found.pop().from_ns
        found.append(Span(from_ns=from_ns, until_ns=until_ns))
    return found


def _reachable(
    isr: frozenset[int], replicas: frozenset[int], outages: Sequence[Outage], least: int
) -> bool:
    """Whether some running in-sync replica reaches half of the ISR, and enough replicas (itself
    included).

    Half of the ISR is enough, because the others have to leave the ISR.
    """
    up = replicas.difference(*(outage.down for outage in outages))
    apart = frozenset().union(*(outage.apart for outage in outages))
    for hub in sorted(isr & up):
        heard = {n for n in up if n == hub or (min(n, hub), max(n, hub)) not in apart}
        if 2 * len(heard & isr) >= len(isr) and len(heard) >= least:
            return True
    return not isr & replicas
