"""Compacted topics: a key without its last record, deleted keys that come back, and near misses.

The topic's producer writes four keys in turn; the last record of key k is at offset 15 + (k or 4).
"""

from tests.support.histories.golden.base import F, P, U, golden, moved_away
from tests.support.histories.story import ALL, ONE, Row, S, Story, v

KEYS = 4
LAST = 16
"""The offset of the last record of key 1."""


def compact(s: Story, topic: str = ALL, *, delete_retention_ms: int | None = None) -> None:
    """The topic is compacted, and nothing is cleaned yet."""
    configs = {"cleanup.policy": "compact"}
    if delete_retention_ms is not None:
        configs["delete.retention.ms"] = str(delete_retention_ms)
    s.set_topic(topic, configs=configs)
    s.plan["more_workloads"] = [{"kind": "compacted", "topics": [topic]}]
    polled = ("poll", "assign")
    s.history = [r for r in s.history if not (r["f"] in polled and r["topic"] == topic)]
    for row in [*s.rows("send", topic), *s.rows("final-read", topic)]:
        row["key"] = (row["offset"] + 1) % KEYS
        row["f"] = {"send": "keyed-write", "final-read": "keyed-read"}[row["f"]]


def write(s: Story, topic: str, sequence: int, at_s: float, **columns: object) -> Row:
    """One more write of key 1."""
    made = s.send(topic, sequence, None, at_s, key=1)
    made |= {"f": "keyed-write", **columns}
    return made


def delete_key_1(s: Story) -> None:
    """The last record of key 1 is a deletion, and the log has its tombstone."""
    for row in [*s.rows("keyed-write", ALL), *s.rows("keyed-read", ALL)]:
        if row["offset"] == LAST:
            deletion = row["f"] == "keyed-write"
            row.update({"f": "keyed-delete"} if deletion else {"value": None})


def clean(s: Story, topic: str = ALL, *, key: int = 1, below: int = LAST) -> None:
    """The log has nothing of a key below an offset."""
    s.history = [
        r
        for r in s.history
        if (r["f"], r.get("topic"), r.get("key")) != ("keyed-read", topic, key)
        or r["offset"] >= below
    ]


def lose(s: Story, topic: str = ALL, *, offset: int = LAST) -> None:
    """The log has no record at an offset."""
    s.history = [
        r
        for r in s.history
        if (r["f"], r.get("topic"), r.get("offset")) != ("keyed-read", topic, offset)
    ]


def lose_with_the_deposed_leader(s: Story) -> None:
    """The last record of key 7 is at offset 10; it was acknowledged with acks=1, and is gone with
    its leader."""
    compact(s, ONE)
    write(s, ONE, 97, 9.4, offset=10, key=7)
    write(s, ONE, 98, 5.2, offset=9, key=7, type="info")
    for row in s.history:
        if (row["f"], row.get("topic"), row.get("offset")) == ("keyed-read", ONE, 9):
            row.update(key=7, value=v(ONE, 98))
    for row in s.rows("keyed-write", ONE):
        if row["value"] == v(ONE, 10):
            row["type"] = "info"


def end_at(s: Story, offset: int) -> None:
    """The log has more offsets than usual."""
    s.rows("final-read-end", ALL)[0]["offset"] = offset
    for row in s.replica_ends:
        if row["topic"] == ALL:
            row.update(end_offset=offset, high_watermark=offset)
            batch = {"base_offset": 20, "last_offset": offset - 1, "leader_epoch": 1, "crc": 20}
            batch |= {"digest": "later", "size": 100, "node": row["node"]}
            s.replicas.append(batch | {"topic": ALL, "partition": 0})


@golden("VALID")
def nothing_of_a_compacted_topic_is_cleaned(s: Story) -> None:
    """Near miss: the log has older records of each key, too."""
    compact(s)


@golden("VALID")
def compacted_topic_has_the_last_record_of_each_key(s: Story) -> None:
    """Near miss: nothing else is left, and the replicas cleaned their files differently."""
    compact(s)
    for key in range(KEYS):
        clean(s, key=key)
    for row in s.replicas:
        if (row["topic"], row["node"], row["base_offset"]) == (ALL, 2, 5):
            row.update(crc=99, digest="cleaned", size=61)


@golden("INVALID", {("lost-key", None): (F, 1)}, because="1 lost-key in all-0")
def compaction_loses_a_key(s: Story) -> None:
    """The log has nothing of it."""
    compact(s)
    clean(s, below=20)


@golden("INVALID", {("lost-key", "stale"): (F, 1)})
def compaction_leaves_an_older_record(s: Story) -> None:
    """The last record of the key is gone, and the one before is there."""
    compact(s)
    lose(s)


@golden("VALID")
def later_write_of_unknown_outcome_supersedes(s: Story) -> None:
    """Near miss: nobody acknowledged the later record, and it is in the log."""
    compact(s)
    clean(s, below=20)
    write(s, ALL, 97, 30, type="info")
    s.read_in_the_end(ALL, 20, v(ALL, 97), key=1)
    s.rows("final-read", ALL)[0]["f"] = "keyed-read"
    end_at(s, 21)


@golden("INVALID", {("lost-key", None): (F, 1)})
def later_write_of_unknown_outcome_is_gone_as_well(s: Story) -> None:
    """A record may supersede only while it is there itself."""
    compact(s)
    clean(s, below=20)
    write(s, ALL, 97, 30, type="info")


@golden("VALID")
def later_deletion_of_unknown_outcome_was_removed(s: Story) -> None:
    """Near miss: it may have superseded everything of the key, and its tombstone was old enough."""
    compact(s, delete_retention_ms=20_000)
    clean(s, below=20)
    write(s, ALL, 97, 30, type="info", f="keyed-delete")


@golden("INVALID", {("lost-key", None): (F, 1)})
def later_deletion_of_unknown_outcome_is_gone_too_early(s: Story) -> None:
    """Its tombstone would have to be there."""
    compact(s, delete_retention_ms=40_000)
    clean(s, below=20)
    write(s, ALL, 97, 30, type="info", f="keyed-delete")


@golden("INVALID", {("resurrected-key", None): (F, 1)}, because="1 resurrected-key in all-0")
def deleted_key_comes_back(s: Story) -> None:
    """The tombstone is gone, and the record before is there."""
    compact(s)
    delete_key_1(s)
    lose(s)


@golden("VALID")
def deleted_key_has_its_tombstone(s: Story) -> None:
    """Near miss: older records are there, too, and a later one supersedes them."""
    compact(s)
    delete_key_1(s)


@golden("UNKNOWN", {("resurrected-key", "expired"): (U, 1)})
def deleted_key_comes_back_after_its_time(s: Story) -> None:
    """A replica that lagged may have missed the tombstone."""
    compact(s, delete_retention_ms=1_000)
    delete_key_1(s)
    lose(s)


@golden("INVALID", {("lost-key", "tombstone"): (F, 1)})
def tombstone_is_removed_too_early(s: Story) -> None:
    """A reader from the beginning would not learn of the deletion."""
    compact(s)
    delete_key_1(s)
    clean(s, below=20)


@golden("VALID")
def tombstone_is_removed_after_its_time(s: Story) -> None:
    """Near miss: the key is deleted, and nothing is left of it."""
    compact(s, delete_retention_ms=1_000)
    delete_key_1(s)
    clean(s, below=20)


@golden("VALID")
def tombstone_is_removed_by_a_fast_clock(s: Story) -> None:
    """Near miss: the broker's clock was two days ahead."""
    compact(s)
    delete_key_1(s)
    clean(s, below=20)
    s.cluster.append({"at_ns": 20 * S, "kind": "clock", "node": 2, "ahead_ms": 172_800_000.0})


@golden("VALID")
def tombstone_is_removed_by_the_fast_clock_of_a_node_that_moved_away(s: Story) -> None:
    """Others copied the time at which the tombstone goes."""
    compact(s)
    delete_key_1(s)
    clean(s, below=20)
    s.cluster.append({"at_ns": 20 * S, "kind": "clock", "node": 4, "ahead_ms": 172_800_000.0})
    moved_away(s, ALL, 4)


@golden("VALID", {("lost-key", "stale"): (P, 1)}, cause="replaced node 1 as leader at 10.000 s")
def key_is_lost_with_the_deposed_leader(s: Story) -> None:
    """Acknowledged by node 1 just before it was killed; no later write of the key."""
    lose_with_the_deposed_leader(s)


@golden("UNKNOWN", {("unseen", None): (U, 1)}, because="1 partitions were not read to the end")
def key_is_beyond_the_final_read(s: Story) -> None:
    """Near miss: the read did not come as far."""
    compact(s)
    for offset in range(LAST, 20):
        lose(s, offset=offset)
    s.history = [
        r
        for r in s.history
        if r["f"] != "keyed-write" or r.get("offset", 0) < LAST or r["offset"] == LAST
    ]
    s.rows("final-read-end", ALL)[0].update(type="info", offset=LAST, error="timeout")


@golden("INVALID", {("phantom", "unsent"): (F, 2), ("inconsistent-offset", "acknowledged"): (F, 1)})
def compacted_topic_has_what_nobody_wrote(s: Story) -> None:
    """A value of another key, and the tombstone of a key that was never deleted."""
    compact(s)
    rows = {r["offset"]: r for r in s.rows("keyed-read", ALL)}
    rows[2]["key"] = 0
    rows[3]["value"] = None


@golden("INVALID", {("phantom", "checksum"): (F, 1)})
def record_of_a_compacted_topic_is_damaged(s: Story) -> None:
    """Its checksum is wrong."""
    compact(s)
    rows = {r["offset"]: r for r in s.rows("keyed-read", ALL)}
    rows[2].update(value=None, error="checksum")


@golden("INVALID", {("aborted-read", None): (F, 1)})
def compacted_topic_has_a_refused_write(s: Story) -> None:
    """Its producer was told that the write surely did not happen."""
    compact(s)
    for row in s.rows("keyed-write", ALL):
        if row["offset"] == 5:
            row.update(type="fail", offset=None)


@golden("INVALID", {("inconsistent-offset", "acknowledged"): (F, 2)})
def compaction_swaps_two_offsets(s: Story) -> None:
    """Two records of a key are at each other's offset."""
    compact(s)
    rows = {r["offset"]: r for r in s.rows("keyed-read", ALL)}
    rows[4]["value"], rows[8]["value"] = rows[8]["value"], rows[4]["value"]


@golden(
    "INVALID",
    {
        ("lost-key", None): (F, 1),
        ("lost-key", "stale"): (F, 1),
        ("lost-key", "tombstone"): (F, 1),
        ("resurrected-key", None): (F, 1),
        ("resurrected-key", "expired"): (U, 1),
    },
)
def compaction_did_everything_wrong(s: Story) -> None:
    """Each aspect once."""
    compact(s, delete_retention_ms=40_000)
    delete_key_1(s)
    lose(s)
    clean(s, key=2, below=20)
    lose(s, offset=18)
    write(s, ALL, 91, 30, f="keyed-delete", offset=20, key=5)
    write(s, ALL, 92, 31, offset=21, key=6)
    write(s, ALL, 93, 32, f="keyed-delete", offset=22, key=6)
    s.read_in_the_end(ALL, 21, v(ALL, 92), key=6)
    s.rows("final-read", ALL)[0]["f"] = "keyed-read"
    end_at(s, 23)


@golden("VALID", {("lost-key", None): (P, 1)}, cause="replaced node 1 as leader at 10.000 s")
def key_is_lost_with_what_superseded_it(s: Story) -> None:
    """Near miss: the new epoch starts behind the acknowledged record, but the deposed leader had a
    later write of unknown outcome, and had cleaned the log."""
    compact(s, ONE)
    write(s, ONE, 97, 9.2, offset=9, key=7)
    write(s, ONE, 98, 9.4, key=7, type="info")
    lose(s, ONE, offset=9)
    for row in s.rows("keyed-write", ONE):
        if row["value"] == v(ONE, 10):
            row.update(type="info", offset=None)


def more(s: Story, *records: tuple[int, int], key: int = 1) -> None:
    """The log goes on: (offset, number of the value)."""
    for offset, sequence in records:
        s.read_in_the_end(ALL, offset, v(ALL, sequence), key=key)
        s.rows("final-read", ALL)[0]["f"] = "keyed-read"
    end_at(s, max(offset for offset, _ in records) + 1)


@golden("INVALID", {("lost-key", "stale"): (F, 1)})
def another_record_of_the_key_is_at_the_acknowledged_offset(s: Story) -> None:
    """Two writes of the key were acknowledged at one offset, and the log has one of them."""
    compact(s)
    write(s, ALL, 97, 30, offset=LAST)


@golden("INVALID", {("inconsistent-offset", "acknowledged"): (F, 1)})
def another_record_is_at_an_acknowledged_offset_that_was_superseded(s: Story) -> None:
    """The log has a later record of the key, so no key is lost; but the offset was used twice."""
    compact(s)
    write(s, ALL, 97, 30, offset=LAST - KEYS)


@golden("VALID")
def superseded_record_was_removed(s: Story) -> None:
    """Near miss: nothing is at its offset."""
    compact(s)
    lose(s, offset=LAST - KEYS)


@golden("VALID", {("lost-key", "stale"): (P, 1)}, cause="replaced node 1 as leader at 10.000 s")
def offset_of_a_key_is_used_again_by_the_next_leader(s: Story) -> None:
    """Near miss: acks=1, and the acknowledged record went with the deposed leader."""
    compact(s, ONE)
    [next_] = [row for row in s.rows("keyed-write", ONE) if row["offset"] == 10]
    write(s, ONE, 97, 9.4, offset=10, key=7)
    next_["key"] = 7
    for row in s.rows("keyed-read", ONE):
        if row["offset"] == 10:
            row["key"] = 7


@golden("INVALID", {("duplicate", None): (F, 1)})
def idempotent_producer_writes_a_key_twice(s: Story) -> None:
    """Compaction has not removed the first of the two yet."""
    compact(s)
    write(s, ALL, 97, 30, offset=20)
    more(s, (20, 97), (21, 97))


@golden("VALID", {("duplicate", "outlasted"): (P, 1)})
def producer_of_a_key_expires_while_it_sends_again(s: Story) -> None:
    """Near miss: the broker had forgotten it."""
    idempotent_producer_writes_a_key_twice(s)
    s.plan["broker"] = {"producer.id.expiration.ms": "5000"}
    s.rows("keyed-write", ALL)[-1]["complete_ns"] = 38 * S


@golden("INVALID", {("reordered-ack", None): (F, 1)})
def older_write_of_a_key_is_the_last_one(s: Story) -> None:
    """98 began after 97 was acknowledged, and 97 is what readers keep."""
    compact(s)
    write(s, ALL, 97, 30, offset=21)
    write(s, ALL, 98, 31, offset=20)
    more(s, (21, 97), (20, 98))


@golden("INVALID", {("inconsistent-offset", "acknowledged"): (F, 1)})
def older_offset_of_a_write_holds_another_record(s: Story) -> None:
    """Near miss: 97 is in no order, because the log does not have it."""
    compact(s)
    write(s, ALL, 98, 29, type="info")
    write(s, ALL, 96, 30, offset=21)
    write(s, ALL, 97, 31, offset=20)
    more(s, (20, 98), (21, 96))


@golden("VALID")
def writes_of_a_key_in_flight_together_are_in_either_order(s: Story) -> None:
    """Near miss: 98 began before 97 was acknowledged."""
    older_write_of_a_key_is_the_last_one(s)
    s.rows("keyed-write", ALL)[-2]["complete_ns"] = 32 * S


@golden("VALID")
def tombstone_is_of_a_later_deletion(s: Story) -> None:
    """Near miss: 97 was acknowledged at the offset of the tombstone, too, before 98 began. The
    tombstone may be of 99, which came after 98: nobody can tell."""
    compact(s)
    write(s, ALL, 97, 30, offset=21, f="keyed-delete")
    write(s, ALL, 98, 31, offset=20)
    write(s, ALL, 99, 32, offset=21, f="keyed-delete")
    more(s, (20, 98), (21, 99))
    s.rows("keyed-read", ALL)[-1]["value"] = None
