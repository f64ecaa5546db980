"""What the sources say about control planes: how times change with the number of partitions. Pure.

The sources are the talk "Why ZooKeeper Was Replaced with KRaft" and two published measurements,
"Apache Kafka Supports 200K Partitions Per Cluster" (2018) and "Apache Kafka Made Simple: A First
Glimpse of a Kafka Without ZooKeeper" (2021), all by Confluent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harness.bench.points import QUANTITIES, Measure, Point
from harness.bench.results import Result

ControlPlane = Literal["quorum", "zookeeper"]

FLAT: Final = 2.0
"""A time that grows less than this counts as flat."""
LEAST_MS: Final = 1.0
"""Shorter times are compared as this."""
ENOUGH: Final = 10
"""How many times the partitions must grow, at least, before a claim is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """How a time changes with the number of partitions, as the talk says it."""

    measure: Measure
    quantity: str
    control_plane: ControlPlane
    grows: bool
    """In proportion to the partitions; else it stays."""

    @property
    def text(self) -> str:
        """The claim in a few words."""
        return f"claim, {self.control_plane}: {'linear' if self.grows else 'flat'}"


_CLAIMED: Final = (
    (Measure.SHUTDOWN, "stopped_ms"),
    (Measure.FAILOVER, "gap_ms"),
    (Measure.CONTROLLER, "gap_ms"),
)
CLAIMS: Final[Sequence[Claim]] = tuple(
    Claim(measure=measure, quantity=quantity, control_plane=plane, grows=plane == "zookeeper")
    for measure, quantity in _CLAIMED
    for plane in ("zookeeper", "quorum")
)
PUBLISHED: Final = (
    "published for 2,000,000 partitions (Confluent, 2021): a controlled shutdown takes 135 s with "
    "ZooKeeper and 32 s with the quorum, the recovery after a kill 503 s and 37 s",
    "published for ZooKeeper (Confluent, 2018): a controlled shutdown takes 6.5 minutes if one "
    "partition is written after the other, and 3 s batched",
)


def about(measure: Measure, quantity: str) -> list[Claim]:
    """Return the claims about a quantity."""
    return [each for each in CLAIMS if (each.measure, each.quantity) == (measure, quantity)]


def control_plane(result: Result, name: str) -> ControlPlane | None:
    """Return the control plane of a system; None for a running cluster."""
    found = next(each for each in result.systems if each["name"] == name)
    if not found.get("system"):
        return None
    return "zookeeper" if found.get("control_plane") == "zookeeper" else "quorum"


def compares(result: Result) -> bool:
    """Whether a result has clusters of both control planes."""
    return {"quorum", "zookeeper"} <= {control_plane(result, name) for name in result.names}


def findings(result: Result) -> list[str]:
    """Return a sentence for each claim and cluster: what was measured, and whether the claim holds.

    Nothing without both control planes, or where the partitions do not grow ENOUGH.
    """
    if not compares(result):
        return []
    found = []
    for claim in CLAIMS:
        points = sorted((p for p in result.points if p.measure is claim.measure), key=lambda p: p.x)
        for name in result.names:
            if control_plane(result, name) == claim.control_plane:
                found += _finding(result, claim, name, points)
    return found


def _session_ms(result: Result, claim: Claim) -> float:
    """Return the part of a time that is the end of a session, which does not depend on partitions.

    Beside ZooKeeper a session holds the controller's role, too.
    """
    of_session = claim.measure is Measure.FAILOVER or (
        claim.measure is Measure.CONTROLLER and claim.control_plane == "zookeeper"
    )
    return float(result.options.get("session_timeout_ms") or 0) if of_session else 0.0


def _finding(result: Result, claim: Claim, name: str, points: Sequence[Point]) -> list[str]:
    known = [
        (point.x, spread.median)
        for point in points
        if (spread := result.spread(point, name, claim.quantity)) is not None
    ]
    if len(known) < 2 or known[-1][0] < ENOUGH * known[0][0]:
        return []
    (few, first), (many, last) = known[0], known[-1]
    session_ms = _session_ms(result, claim)
    growth = max(last - session_ms, LEAST_MS) / max(first - session_ms, LEAST_MS)
    more, left_out = many / few, f" (without the {session_ms:,.0f} ms of the session)"
    label = next(q.label for q in QUANTITIES[claim.measure] if q.name == claim.quantity)
    is_flat = growth < FLAT
    holds = is_flat != claim.grows
    return [
        f"{claim.measure}, {name}, {label}: {first:,.0f} and {last:,.0f}, {growth:.1f} times as "
        f"long{left_out if session_ms else ''} for {more:.0f} times the "
        f"partitions; the claim ({'it grows' if claim.grows else 'it stays flat'}) "
        f"{'holds' if holds else 'does not hold'} here"
    ]
