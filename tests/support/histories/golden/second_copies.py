"""Records that a compacted topic has again, behind what superseded them, and near misses.

The stories are those of `compacted`: key 1 has its records at offsets 0, 4, 8, 12 and 16.
"""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.compacted import clean, compact, lose, more, write
from tests.support.histories.story import ALL, ONE, S, Story, v


def _second_copy(s: Story) -> None:
    """13 was acknowledged at offset 12, is there again behind all others, and nothing else of its
    key is left."""
    compact(s)
    clean(s, below=20)
    more(s, (20, 13))


@golden("INVALID", {("duplicate", None): (F, 1)}, because="1 duplicate in all-0")
def second_copy_supersedes_what_came_after_the_first(s: Story) -> None:
    """Compaction has removed the first one, and the last acknowledged value of the key."""
    _second_copy(s)


@golden("INVALID", {("duplicate", None): (F, 1)})
def second_copy_of_the_last_record_of_a_key(s: Story) -> None:
    """Nothing but the offset tells."""
    compact(s)
    clean(s, below=20)
    more(s, (20, 17))


@golden("VALID", {("duplicate", None): (P, 1)})
def second_copy_without_idempotence(s: Story) -> None:
    """Near miss: the client repeated the write when the answer was lost."""
    _second_copy(s)
    s.set_topic(ALL, idempotence=False)
    for row in s.rows("keyed-write", ALL):
        row["complete_ns"] = row["invoke_ns"] + S // 10


@golden("VALID", {("duplicate", "outlasted"): (P, 1)})
def second_copy_of_a_producer_that_expired(s: Story) -> None:
    """Near miss: the broker had forgotten it."""
    _second_copy(s)
    s.plan["broker"] = {"producer.id.expiration.ms": "5000"}
    for row in s.rows("keyed-write", ALL):
        if row["offset"] == 12:
            row["complete_ns"] = 38 * S


@golden("VALID", {("lost-key", "stale"): (P, 1)}, cause="replaced node 1 as leader at 10.000 s")
def second_copy_since_the_first_went_with_the_deposed_leader(s: Story) -> None:
    """Near miss: acks=1, and the copy that is there is the only one."""
    compact(s, ONE)
    write(s, ONE, 97, 9.4, offset=25, key=7)
    s.read_in_the_end(ONE, 20, v(ONE, 97), key=7)
    s.rows("final-read", ONE)[0]["f"] = "keyed-read"


@golden("VALID")
def record_of_a_key_whose_offset_the_client_was_not_told(s: Story) -> None:
    """Near miss: some clients then say -1."""
    _second_copy(s)
    for row in s.rows("keyed-write", ALL):
        if row["offset"] == 12:
            row["offset"] = -1


@golden("UNKNOWN", because="1 partitions were not read to the end")
def second_copy_and_the_final_read_stops(s: Story) -> None:
    """Near miss: what else may be there is not known."""
    _second_copy(s)
    s.rows("final-read-end", ALL)[0].update(type="info", error="timeout")


def _second_tombstone(s: Story) -> None:
    """Key 1 was deleted at offset 12 and written at 16, and all that is left is a tombstone behind
    all others."""
    compact(s)
    for row in s.rows("keyed-write", ALL):
        if row["offset"] == 12:
            row["f"] = "keyed-delete"
    clean(s, below=20)
    more(s, (20, 13))
    s.rows("keyed-read", ALL)[-1]["value"] = None


@golden("INVALID", {("duplicate", None): (F, 1)})
def second_tombstone_deletes_what_came_after_the_first(s: Story) -> None:
    """No other deletion of the key was ever asked for."""
    _second_tombstone(s)


@golden("INVALID", {("duplicate", None): (F, 1)})
def second_tombstone_is_of_one_of_two_deletions(s: Story) -> None:
    """Both were acknowledged elsewhere."""
    _second_tombstone(s)
    write(s, ALL, 97, 19, offset=19, key=1, f="keyed-delete")
    lose(s, offset=19)
    for row in s.rows("keyed-write", ALL):
        if row["value"] == v(ALL, 20):
            row.update(key=9, offset=18, type="info")


@golden("VALID")
def tombstone_is_of_a_deletion_of_unknown_outcome(s: Story) -> None:
    """Near miss: nobody told where it is."""
    _second_tombstone(s)
    write(s, ALL, 97, 19, f="keyed-delete", type="info")


@golden("VALID")
def tombstone_of_a_deletion_whose_offset_the_client_was_not_told(s: Story) -> None:
    """Near miss: it may be anywhere."""
    _second_tombstone(s)
    for row in s.rows("keyed-delete", ALL):
        row["offset"] = -1


@golden("VALID")
def second_tombstone_without_idempotence(s: Story) -> None:
    """Near miss: the client may have repeated it."""
    _second_tombstone(s)
    s.set_topic(ALL, idempotence=False)


@golden("VALID")
def second_tombstone_of_a_producer_that_expired(s: Story) -> None:
    """Near miss: the broker had forgotten it."""
    _second_tombstone(s)
    s.plan["broker"] = {"producer.id.expiration.ms": "5000"}
    for row in s.rows("keyed-delete", ALL):
        row["complete_ns"] = 38 * S


@golden("UNKNOWN", because="clients have no end row")
def second_tombstone_beside_a_client_that_was_cut(s: Story) -> None:
    """Near miss: it may have deleted the key, and not have recorded it."""
    _second_tombstone(s)
    s.row("start", 99, 0)
