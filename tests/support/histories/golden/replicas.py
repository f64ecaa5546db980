"""Replicas that differ, and those that may."""

import json

from tests.support.histories.golden.base import INFO, F, P, golden
from tests.support.histories.story import ALL, Story


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replica_has_other_bytes(s: Story) -> None:
    """Same offset, other batch, below the HW."""
    s.replicas[5]["digest"] = "something else"


def _flipped(s: Story, node: int, file: str = "log") -> None:
    s.replicas[-1]["digest"] = "other"
    s.faults.append(
        s.faults[0]
        | {
            "fault_id": 77,
            "fault": "disk.bit-flip",
            "label": f"disk.bit-flip node {node}",
            "targets": json.dumps({"nodes": [node], "details": {"file": file}}),
            "took_effect": True,
            "error": None,
        }
    )


@golden("VALID", {("divergent-replicas", "damaged"): (P, 1)})
def replicas_differ_by_a_flipped_bit(s: Story) -> None:
    """Nobody has read the batch since: the broker could not know."""
    _flipped(s, s.replicas[-1]["node"])


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replicas_differ_and_bits_flipped_elsewhere(s: Story) -> None:
    """Near miss: the damage was in another kind of file."""
    _flipped(s, s.replicas[-1]["node"], file="checkpoint")


@golden("INVALID", {("divergent-replicas", "missing"): (F, 1)})
def replica_lacks_a_batch(s: Story) -> None:
    """Node 3 has a hole."""
    s.replicas = [r for r in s.replicas if (r["node"], r["topic"], r["base_offset"]) != (3, ALL, 5)]


@golden("INVALID", {("divergent-replicas", "extra"): (F, 1)})
def replica_has_a_batch_of_its_own(s: Story) -> None:
    """The reference, node 1, has a hole; the two others have what it lacks... one is enough."""
    s.replicas = [r for r in s.replicas if (r["node"], r["topic"], r["base_offset"]) != (1, ALL, 5)]
    s.replica_ends = [r for r in s.replica_ends if (r["node"], r["topic"]) != (3, ALL)]


@golden("INVALID", {("divergent-replicas", "short"): (F, 1)})
def replica_ends_below_the_high_watermark(s: Story) -> None:
    """All were in sync, yet node 3 lacks the end."""
    s.replicas = [
        r for r in s.replicas if (r["node"], r["topic"], r["base_offset"]) != (3, ALL, 15)
    ]
    _end_of(s, 3, ALL).update(end_offset=15, high_watermark=15)


@golden("VALID", {("unequal-ends", None): (INFO, 2)})
def replica_lags_beyond_the_high_watermark(s: Story) -> None:
    """Near miss: the leader has a batch that nobody knows to be committed."""
    s.replicas.append({**s.replicas[-1], "node": 1, "topic": ALL, "base_offset": 20,
                       "last_offset": 20, "digest": "new"})  # fmt: skip
    _end_of(s, 1, ALL).update(end_offset=21)


@golden("VALID")
def tails_differ_above_the_replicas_own_high_watermark(s: Story) -> None:
    """Near miss: node 3 does not know offset 15 to be committed, so its tail may be cut yet."""
    for row in s.replicas:
        if (row["node"], row["topic"], row["base_offset"]) == (3, ALL, 15):
            row["digest"] = "not truncated yet"
    _end_of(s, 3, ALL).update(high_watermark=15)


def _end_of(s: Story, node: int, topic: str) -> dict[str, int]:
    (found,) = [r for r in s.replica_ends if (r["node"], r["topic"]) == (node, topic)]
    return found
