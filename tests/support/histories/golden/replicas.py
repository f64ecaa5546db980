"""Replicas that differ, and those that may."""

import json
from collections.abc import Sequence

from tests.support.histories.golden.base import INFO, F, P, golden, moved_away
from tests.support.histories.golden.state_losses import log_file, taken
from tests.support.histories.story import (
    ALL,
    ASKER,
    CONSUMER,
    NONE,
    ONE,
    READER,
    S,
    Story,
    v,
)

UNREAD = "the files of 3 replicas were not read: none-1 of node 1"


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replica_has_other_bytes(s: Story) -> None:
    """Same offset, other batch, below the HW."""
    s.replicas[5]["digest"] = "something else"


def _flipped(s: Story, node: int, file: str = "log", damaged: Sequence[str] | None = None) -> None:
    s.replicas[-1]["digest"] = "other"
    s.faults.append(
        s.faults[0]
        | {
            "fault_id": 77,
            "fault": "disk.bit-flip",
            "label": f"disk.bit-flip node {node}",
            "targets": json.dumps({"nodes": [node], "details": {"file": file}}),
            "damaged": None if damaged is None else json.dumps({node: damaged}),
            "took_effect": True,
            "error": None,
        }
    )


@golden("VALID", {("divergent-replicas", "damaged"): (P, 1)})
def replicas_differ_by_a_flipped_bit(s: Story) -> None:
    """Nobody has read the batch since: the broker could not know."""
    _flipped(s, s.replicas[-1]["node"])


@golden("VALID", {("divergent-replicas", "damaged"): (P, 1)})
def replicas_differ_by_a_bit_flipped_in_this_log(s: Story) -> None:
    """The record says in which file it was."""
    _flipped(s, s.replicas[-1]["node"], damaged=[log_file(ALL)])


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replicas_differ_and_a_bit_flipped_in_another_log(s: Story) -> None:
    """Near miss: the damage was in another partition of this node."""
    _flipped(s, s.replicas[-1]["node"], damaged=[log_file(NONE)])


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replicas_differ_and_bits_flipped_elsewhere(s: Story) -> None:
    """Near miss: the damage was in another kind of file."""
    _flipped(s, s.replicas[-1]["node"], file="checkpoint")


def _copied_from(s: Story, node: int, topic: str, epoch: int) -> None:
    """Node 3's last batch is of this leader epoch. A bit had flipped on another node, which held a
    replica of a topic."""
    moved_away(s, topic, node)
    _flipped(s, node)
    s.replicas[-1]["leader_epoch"] = epoch


@golden("VALID", {("divergent-replicas", "damaged"): (P, 1)})
def replicas_differ_by_an_epoch_that_was_copied(s: Story) -> None:
    """No checksum covers the leader epoch, and the node has moved away."""
    _copied_from(s, 4, ALL, 0)


@golden("VALID", {("divergent-replicas", "damaged"): (P, 1)})
def replicas_differ_by_an_epoch_that_was_copied_from_a_third(s: Story) -> None:
    """The node still has a replica: neither the reference nor the one that differs."""
    _copied_from(s, 2, ALL, 0)


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replicas_differ_by_bytes_that_nobody_copies(s: Story) -> None:
    """Near miss: the checksum covers what differs."""
    _copied_from(s, 4, ALL, 1)


@golden("INVALID", {("divergent-replicas", "bytes"): (F, 1)})
def replicas_differ_by_an_epoch_and_a_bit_flipped_on_another_node(s: Story) -> None:
    """Near miss: it never had a replica of the partition."""
    _copied_from(s, 4, ONE, 0)


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


def _alone_with_a_marker(s: Story, told_end: int) -> None:
    """Node 1 has one more batch, and its leader had told where the log ends."""
    s.replicas.append({**s.replicas[-1], "node": 1, "topic": ALL, "base_offset": 20,
                       "last_offset": 20, "digest": "marker"})  # fmt: skip
    _end_of(s, 1, ALL).update(end_offset=21, high_watermark=21)
    [*_, last] = [r for r in s.cluster if (r["kind"], r["topic"]) == ("epoch", ALL)]
    last["end_offset"] = told_end


@golden("UNKNOWN", {("unequal-ends", None): (INFO, 2)}, because="beyond the final reads: all-0")
def one_replica_goes_on_when_the_others_are_stopped(s: Story) -> None:
    """Near miss: the nodes were stopped one after the other, and the last one, alone in sync, ended
    a transaction (seed 82799)."""
    _alone_with_a_marker(s, told_end=20)


@golden("INVALID", {("divergent-replicas", "short"): (F, 2)})
def one_replica_alone_has_what_was_there_before_the_stop(s: Story) -> None:
    """The others had said that they have it, too."""
    _alone_with_a_marker(s, told_end=21)


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


def _second_partition(s: Story, topic: str = NONE, *, end: int) -> None:
    """A topic has a partition 1 that node 1 leads, and the final read of it ends at an offset. No
    node has files of it."""
    s.set_topic(topic, partitions=2)
    for row in [r for r in s.cluster if r["topic"] == topic and r["leader_epoch"] == 0]:
        s.cluster.append({**row, "partition": 1})
    s.row("assign", CONSUMER[topic], 0.1, topic=topic, partition=1, offset=0)
    s.row("watermark", ASKER, 6, topic=topic, partition=1, offset=end)
    s.row("final-read-end", READER, 60, topic=topic, partition=1, offset=end)


@golden("VALID", {("lost-write", None): (P, 1)})
def partition_without_records_has_no_files(s: Story) -> None:
    """Seed 2006: the broker makes the directory of a log when it writes the first record, and no
    record with acks=0 reached it."""
    _second_partition(s, end=0)
    s.send(NONE, 21, None, 18, partition=1)


@golden("UNKNOWN", because=UNREAD)
def partition_with_a_record_has_no_files(s: Story) -> None:
    """Near miss: the final read found a record."""
    _second_partition(s, end=1)
    s.send(NONE, 21, None, 18, partition=1, type="info")
    s.read_in_the_end(NONE, 0, v(NONE, 21), partition=1)


@golden("UNKNOWN", because="the files of 2 replicas were not read: none-1 of node 2")
def partition_with_an_uncommitted_record_has_files_of_one_node(s: Story) -> None:
    """Near miss: node 1 has a record that the final read did not find, so other nodes may too."""
    _second_partition(s, end=0)
    s.replicas.append({**s.replicas[0], "partition": 1, "last_offset": 0})
    s.replica_ends.append({**s.replica_ends[0], "partition": 1, "end_offset": 1,
                           "high_watermark": 0})  # fmt: skip


@golden("VALID", {("lost-write", "tail"): (P, 1)})
def partition_that_lost_its_only_record_with_a_disk(s: Story) -> None:
    """Seed 1084: node 1 got a new disk after the record. Its log is empty, as those of the others
    are, but it has no directory."""
    _lost_its_only_record(s)
    taken(s, 1, fault="disk.lost", by_s=13)


@golden("UNKNOWN", {("lost-write", "tail"): (P, 1)},
        because="the files of 1 replicas were not read: one-1 of node 1")  # fmt: skip
def partition_that_lost_its_only_record_has_no_files_of_a_sound_disk(s: Story) -> None:
    """Near miss: node 2 got the new disk, and node 1 has no directory."""
    _lost_its_only_record(s)
    taken(s, 2, fault="disk.lost", by_s=13)


def _lost_its_only_record(s: Story) -> None:
    """Node 1 acknowledged a record with acks=1 that node 2, the next leader, does not have. Nodes 2
    and 3 have a directory without records."""
    _second_partition(s, ONE, end=0)
    s.send(ONE, 21, 0, 9.4, partition=1)
    for row in [r for r in s.cluster if r["topic"] == ONE and r["leader_epoch"] == 1]:
        moved = {"start_offset": 0} if row["kind"] == "epoch" else {"at_ns": row["at_ns"] + 10 * S}
        s.cluster.append({**row, **moved, "partition": 1})
    for row in [r for r in s.replica_ends if r["topic"] == ONE and r["node"] != 1]:
        s.replica_ends.append({**row, "partition": 1, "end_offset": 0, "high_watermark": 0})


def _end_of(s: Story, node: int, topic: str) -> dict[str, int]:
    (found,) = [r for r in s.replica_ends if (r["node"], r["topic"]) == (node, topic)]
    return found
