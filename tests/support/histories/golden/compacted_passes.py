"""Compacted topics that are read in passes during the run: what passes miss, and near misses.

The stories are those of `compacted`: key k has its last record at offset 15 + (k or 4), written by
16 s. Passes begin at 20, 25, 30 and 35 s; each takes two seconds.
"""

from tests.support.histories.golden.base import F, P, golden
from tests.support.histories.golden.compacted import (
    LAST,
    compact,
    delete_key_1,
    end_at,
    lose_with_the_deposed_leader,
    write,
)
from tests.support.histories.story import ALL, ONE, Row, S, Story, v

PASS_READER = 41
PASSES_S = (20, 25, 30, 35)
NEXT = 20
"""The offset behind the log of the usual story."""

Records = dict[int, tuple[int, int | None]]
"""Key and value by offset."""


def records(s: Story, topic: str = ALL) -> Records:
    """What the final read has."""
    return {r["offset"]: (r["key"], r["value"]) for r in s.rows("keyed-read", topic)}


def passes(s: Story, *given: Records, topic: str = ALL, reached: int = NEXT) -> list[Row]:
    """Passes that were given these records, a pass for each; the last one is repeated to the end.
    Return the rows of their ends."""
    s.plan["more_workloads"][0]["passes_every_s"] = 3.0
    s.row("start", PASS_READER, 0)
    ends = []
    for number, at_s in enumerate(PASSES_S):
        ends.append(read(s, at_s, given[min(number, len(given) - 1)], topic, reached))
    s.row("end", PASS_READER, 60)
    return ends


def read(s: Story, at_s: float, given: Records, topic: str = ALL, reached: int = NEXT) -> Row:
    """A pass of two seconds."""
    op, place = s.next_op(), {"topic": topic, "partition": 0}
    for offset, (key, value) in given.items():
        columns = {"op": op, "offset": offset, "value": value, "key": key}
        s.row("keyed-poll", PASS_READER, at_s + 1 + offset / 100, **place, **columns)
    times = {"complete_ns": round((at_s + 2) * S), "op": op}
    return s.row("keyed-pass", PASS_READER, at_s, offset=reached, **place, **times)


def without(given: Records, *offsets: int) -> Records:
    """The records without those at some offsets."""
    return {offset: each for offset, each in given.items() if offset not in offsets}


def of_key(given: Records, key: int) -> tuple[int, ...]:
    """Where a key has records."""
    return tuple(offset for offset, (named, _) in given.items() if named == key)


def start(s: Story, topic: str = ALL, **configs: int) -> Records:
    """The story of a compacted topic; return what its log has in the end."""
    compact(s, topic, **configs)
    return records(s, topic)


def append(s: Story, at_s: float, *, offset: int, until_s: int, type: str = "ok") -> None:
    """One more write of key 1, which ends the log."""
    told = offset if type == "ok" else None
    write(s, ALL, 97, at_s, offset=told, key=1, type=type, complete_ns=until_s * S)
    s.read_in_the_end(ALL, offset, v(ALL, 97), key=1)
    s.rows("final-read", ALL)[0]["f"] = "keyed-read"
    end_at(s, offset + 1)


@golden("VALID")
def passes_are_given_the_last_record_of_each_key(s: Story) -> None:
    """Near miss: from pass to pass more of the older records are gone."""
    log = start(s)
    passes(s, log, without(log, 0, 1, 2, 7), without(log, *range(16)))


@golden("INVALID", {("missing-key", None): (F, 1)}, because="1 missing-key in all-0")
def passes_are_given_nothing_of_a_key(s: Story) -> None:
    """The final read has it again: a leader without the record led meanwhile."""
    log = start(s)
    passes(s, without(log, *of_key(log, 1)))


@golden("INVALID", {("missing-key", "stale"): (F, 1), ("reverted-key", "stale"): (F, 1)})
def passes_are_given_an_older_record(s: Story) -> None:
    """The last record of the key was there in the first pass."""
    log = start(s)
    passes(s, log, without(log, LAST))


@golden("VALID")
def one_pass_is_given_nothing_of_a_key(s: Story) -> None:
    """Near miss: a write that nobody recorded yet may have come while the pass was under way."""
    log = start(s)
    passes(s, log, without(log, *of_key(log, 1)), log)


@golden("VALID")
def passes_that_are_not_whole_accuse_nobody(s: Story) -> None:
    """Near miss: their reader was told that the log had been truncated."""
    log = start(s)
    for end in passes(s, log, log, without(log, *of_key(log, 1)))[2:]:
        end.update(type="info", error="LOG_TRUNCATION")


@golden("VALID")
def passes_end_before_the_last_record(s: Story) -> None:
    """Near miss: a leader that was deposed answered; it did not know of the record."""
    log = start(s)
    passes(s, without(log, LAST, 17, 18, 19), reached=LAST)


@golden("VALID")
def only_the_second_pass_came_to_the_record(s: Story) -> None:
    """Near miss: the first one says nothing of it, so one pass missed it."""
    log = start(s)
    gone = without(log, LAST)
    ends = passes(s, without(log, LAST, 17, 18, 19), gone, log)
    ends[0]["offset"] = LAST


@golden("VALID")
def record_is_acknowledged_while_passes_are_under_way(s: Story) -> None:
    """Near miss: nobody knew of it before the second pass began."""
    log = start(s)
    append(s, 24, offset=20, until_s=31)
    passes(s, log, log, log, log | {20: (1, v(ALL, 97))}, reached=21)


@golden("VALID")
def later_write_lies_behind_the_passes(s: Story) -> None:
    """Near miss: it superseded the record while each pass was under way."""
    log = start(s)
    append(s, 26, offset=21, until_s=40)
    passes(s, log, without(log, *of_key(log, 1)), reached=21)


@golden("INVALID", {("missing-key", None): (F, 1), ("reverted-key", None): (F, 1)})
def later_write_lies_behind_the_first_pass_only(s: Story) -> None:
    """The second one passed it."""
    log = start(s)
    append(s, 26, offset=21, until_s=40)
    gone = without(log, *of_key(log, 1))
    for end in passes(s, log, gone, reached=21)[2:]:
        end["offset"] = 22


@golden("VALID")
def write_of_unknown_outcome_may_have_come_late(s: Story) -> None:
    """Near miss: it was not over when the first of two passes began."""
    log = start(s)
    append(s, 24, offset=20, until_s=26, type="info")
    gone = without(log, *of_key(log, 1))
    passes(s, log, gone, gone, log | {20: (1, v(ALL, 97))})
    s.rows("keyed-pass", ALL)[-1]["offset"] = 21


@golden("INVALID", {("missing-key", None): (F, 1), ("reverted-key", None): (F, 1)})
def write_of_unknown_outcome_was_given_up_long_before(s: Story) -> None:
    """It cannot have come late twice."""
    log = start(s)
    write(s, ALL, 97, 18, key=1, type="info", complete_ns=24 * S)
    passes(s, log, without(log, *of_key(log, 1)), without(log, *of_key(log, 1)), log)


@golden("INVALID", {("missing-key", "tombstone"): (F, 1), ("reverted-key", None): (F, 1)})
def passes_miss_a_tombstone(s: Story) -> None:
    """It has to stay for a day."""
    compact(s)
    delete_key_1(s)
    log = records(s)
    passes(s, log, without(log, *of_key(log, 1)))


@golden("VALID")
def passes_miss_a_tombstone_after_its_time(s: Story) -> None:
    """Near miss: it was older than delete.retention.ms."""
    compact(s, delete_retention_ms=1_000)
    delete_key_1(s)
    log = records(s)
    passes(s, log, without(log, *of_key(log, 1)))


@golden("VALID")
def passes_miss_a_tombstone_by_a_fast_clock(s: Story) -> None:
    """Near miss: the clock of a broker was two days ahead."""
    compact(s)
    delete_key_1(s)
    log = records(s)
    passes(s, log, without(log, *of_key(log, 1)))
    s.cluster.append({"at_ns": 20 * S, "kind": "clock", "node": 2, "ahead_ms": 172_800_000.0})


@golden("INVALID", {("missing-key", "resurrected"): (F, 1), ("reverted-key", "stale"): (F, 1)})
def passes_are_given_what_was_deleted(s: Story) -> None:
    """The tombstone is gone, and an older record is there."""
    compact(s)
    delete_key_1(s)
    log = records(s)
    passes(s, log, without(log, LAST))


@golden("INVALID", {("reverted-key", "stale"): (F, 1)}, because="1 reverted-key in all-0")
def key_goes_back_to_an_older_value(s: Story) -> None:
    """Nobody knew that the later write was in the log until a pass was given it."""
    log = start(s)
    write(s, ALL, 97, 17, key=1, type="info")
    passes(s, log | {20: (1, v(ALL, 97))}, log, reached=21)


@golden("INVALID", {("reverted-key", "stale"): (F, 1)})
def key_goes_back_before_the_final_read(s: Story) -> None:
    """All passes were given the later write."""
    log = start(s)
    write(s, ALL, 97, 17, key=1, type="info")
    end_at(s, 21)
    passes(s, log | {20: (1, v(ALL, 97))}, reached=21)


def _second_copy(s: Story) -> None:
    """The later passes are given the last record of key 1 at another offset. In the end there is a
    later write."""
    log = start(s)
    s.history = [
        r for r in s.history if r["f"] != "keyed-read" or r["offset"] not in of_key(log, 1)
    ]
    append(s, 45, offset=21, until_s=46)
    passes(s, log, log, without(log, LAST) | {20: log[LAST]}, reached=21)


@golden("INVALID", {("duplicate", None): (F, 1)})
def passes_are_given_a_second_copy(s: Story) -> None:
    """Compaction moves nothing."""
    _second_copy(s)


@golden("VALID")
def passes_are_given_a_second_copy_and_nobody_knows_the_leaders(s: Story) -> None:
    """Near miss: what they were given may have been lost, and sent again."""
    _second_copy(s)
    s.cluster = [r for r in s.cluster if (r["kind"], r.get("topic")) != ("epoch", ALL)]


@golden("VALID")
def pass_was_given_what_an_unclean_election_took(s: Story) -> None:
    """Near miss: the client had no answer then, and sent it again."""
    log = start(s)
    passes(s, log)
    s.set_topic(
        ALL, configs={"cleanup.policy": "compact", "unclean.leader.election.enable": "true"}
    )
    s.leader(ALL, 8, 1, 0, [1])
    append(s, 7, offset=20, until_s=22)
    read(s, 7.1, {25: (1, v(ALL, 97))}, reached=26)
    s.rows("keyed-pass", ALL)[0]["offset"] = 26


@golden("INVALID", {("inconsistent-offset", "read"): (F, 1)})
def passes_are_given_different_records_at_one_offset(s: Story) -> None:
    """Compaction changes no record."""
    log = start(s)
    passes(s, log, log | {4: (1, v(ALL, 1))}, log)


@golden("INVALID", {("nonmonotonic-poll", None): (F, 1)})
def pass_goes_back(s: Story) -> None:
    """Its reader is given a record again, far behind."""
    log = start(s)
    passes(s, log)
    again = {**s.rows("keyed-poll", ALL)[0], "invoke_ns": round(21.5 * S)}
    s.history.append(again | {"complete_ns": round(21.5 * S)})


@golden("INVALID", {("phantom", "unsent"): (F, 1), ("phantom", "checksum"): (F, 1)})
def pass_is_given_what_nobody_wrote(s: Story) -> None:
    """And a damaged record. Neither is there in the end."""
    log = start(s)
    passes(s, log | {20: (1, v(ALL, 97)), 21: (2, None)}, log | {20: (1, v(ALL, 97))}, log)
    s.rows("keyed-poll", ALL)[21]["error"] = "checksum"
    for end in s.rows("keyed-pass", ALL):
        end.update(type="info", error="cut short")


@golden("INVALID", {("aborted-read", None): (F, 1)})
def pass_is_given_a_refused_write(s: Story) -> None:
    """Its producer was told that the write surely did not happen."""
    log = start(s)
    for row in s.rows("keyed-write", ALL):
        if row["offset"] == 5:
            row.update(type="fail", offset=None)
    s.history = [r for r in s.history if (r["f"], r.get("offset")) != ("keyed-read", 5)]
    passes(s, log, without(log, 5))


@golden(
    "VALID",
    {("missing-key", "stale"): (P, 1), ("lost-key", "stale"): (P, 1)},
    cause="replaced node 1 as leader at 10.000 s",
)
def passes_miss_what_the_deposed_leader_had(s: Story) -> None:
    """Acknowledged by node 1 just before it was killed; no later write of the key."""
    lose_with_the_deposed_leader(s)
    passes(s, records(s, ONE), topic=ONE)


@golden("UNKNOWN", because="detector keyed-passes nothing-to-judge")
def plan_asks_for_passes_that_nobody_made(s: Story) -> None:
    """Nothing is known of the time before the end."""
    compact(s)
    s.plan["more_workloads"][0]["passes_every_s"] = 3.0
