"""Records below the start of a log: permitted where retention was due, and forbidden before."""

from tests.support.histories.golden.base import F, P, U, golden, moved_away
from tests.support.histories.story import ALL, ONE, READER, S, Story, v

GONE = 5
"""How many records each of these stories removes from the start of a log."""


def _start_at(s: Story, topic: str, offset: int) -> None:
    """The files of all replicas start at this offset."""
    for row in s.replica_ends:
        if row["topic"] == topic:
            row["start_offset"] = offset
    s.replicas = [r for r in s.replicas if r["topic"] != topic or r["last_offset"] >= offset]


def remove_first(s: Story, topic: str, count: int = GONE) -> None:
    """The first records are gone from the final log, and from the files of all replicas."""
    s.forget(topic=topic, values={v(topic, n) for n in range(1, count + 1)}, but_polls=True)
    _start_at(s, topic, count)


def configs(s: Story, topic: str, **configs: int) -> None:
    """Kafka's properties, with underscores for dots."""
    s.set_topic(topic, configs={k.replace("_", "."): str(n) for k, n in configs.items()})


def _never_lead_again(s: Story, topic: str) -> None:
    """Leader changes leave the record of the topic: nothing was truncated."""
    s.cluster = [row for row in s.cluster if row["topic"] != topic or row["leader_epoch"] == 0]


BOTH = {("lost-write", "prefix"): (P, GONE), ("truncated-read", "prefix"): (P, GONE)}
FORBIDDEN = {("lost-write", "prefix"): (F, GONE), ("truncated-read", "prefix"): (F, GONE)}


@golden("VALID", BOTH, cause="the rest has 1,500 bytes, and retention.bytes=1500")
def retention_by_size_leaves_what_it_must(s: Story) -> None:
    """Three batches of 500 bytes are left, and as many bytes had to be."""
    remove_first(s, ALL)
    configs(s, ALL, retention_bytes=1500)


@golden("INVALID", FORBIDDEN)
def retention_by_size_removes_one_segment_too_many(s: Story) -> None:
    """One byte less is left than had to be, and the log never became shorter otherwise."""
    remove_first(s, ALL)
    _never_lead_again(s, ALL)
    configs(s, ALL, retention_bytes=1501)


@golden("UNKNOWN", dict.fromkeys(BOTH, (U, GONE)))
def retention_by_size_before_a_truncation(s: Story) -> None:
    """The log may have been longer when retention cut it: a leader change truncates."""
    remove_first(s, ALL)
    configs(s, ALL, retention_bytes=1501)


def _first_record_is_not_read(s: Story, **send: object) -> None:
    """The files of all replicas start with a record that no reader was given."""
    remove_first(s, ALL)
    configs(s, ALL, retention_bytes=1500)
    s.forget(topic=ALL, values={v(ALL, GONE + 1)})
    for row in s.rows("send", ALL):
        if row["value"] == v(ALL, GONE + 1):
            row.update(send)


@golden("VALID", BOTH, cause="the rest has 1,500 bytes, and retention.bytes=1500")
def retention_leaves_an_aborted_record_first(s: Story) -> None:
    """The log starts in the files before the first record that readers of committed records get."""
    _first_record_is_not_read(s, type="fail", txn=1, transactional_id="id")


@golden(
    "UNKNOWN", {("lost-write", "prefix"): (U, GONE + 1), ("truncated-read", "prefix"): (U, GONE)}
)
def retention_does_not_remove_what_the_files_have(s: Story) -> None:
    """Near miss: the record was acknowledged, so what the files have is not all that was left."""
    _first_record_is_not_read(s)


@golden(
    "VALID",
    {("lost-write", "prefix"): (P, GONE), ("truncated-read", "prefix"): (P, GONE),
     ("lost-write", "tail"): (P, 1)},
    cause="the log reached offset 25 before a leader change truncated it, with up to 2,000 bytes",
)  # fmt: skip
def retention_by_size_of_a_log_that_was_longer(s: Story) -> None:
    """Node 1 acknowledged offset 24; node 2, which replaced it, ends at 20."""
    s.send(ONE, 99, 24, 9.4)
    remove_first(s, ONE)
    configs(s, ONE, retention_bytes=2000)


@golden(
    "UNKNOWN",
    {("lost-write", "prefix"): (U, GONE), ("truncated-read", "prefix"): (U, GONE),
     ("lost-write", "tail"): (P, 1)},
)  # fmt: skip
def retention_by_size_of_a_log_that_was_hardly_longer(s: Story) -> None:
    """The records that the log had by the acknowledgements are one byte less than had to stay."""
    s.send(ONE, 99, 24, 9.4)
    remove_first(s, ONE)
    configs(s, ONE, retention_bytes=2001)


@golden("VALID", BOTH, cause="the newest of them was sent at 2.500 s, the log was read at 60.001 s")
def retention_by_age_removes_the_old(s: Story) -> None:
    """The newest of the removed records was 57.5 s old at the end."""
    remove_first(s, ALL)
    configs(s, ALL, retention_ms=57_000)


@golden("INVALID", FORBIDDEN)
def retention_by_age_removes_too_early(s: Story) -> None:
    """One of the removed records was younger than retention.ms, also at the end."""
    remove_first(s, ALL)
    configs(s, ALL, retention_ms=59_000)


def clock_ahead(s: Story, ms: float, node: int = 2) -> None:
    """The clock of a node was ahead for some seconds."""
    for at_s, ahead_ms in ((20, ms), (25, 0.0)):
        s.cluster.append(
            {"at_ns": at_s * S, "kind": "clock", "node": node, "ahead_ms": ahead_ms, "source": "x"}
        )


@golden("VALID", BOTH, cause="faults shifted clocks by 3600.000 s")
def retention_by_age_with_a_shifted_clock(s: Story) -> None:
    """A broker's clock was an hour ahead: to this broker the records were old."""
    remove_first(s, ALL)
    configs(s, ALL, retention_ms=600_000)
    clock_ahead(s, 3_600_000.0)


@golden("VALID", BOTH, cause="faults shifted clocks by 3600.000 s")
def retention_by_age_with_the_clock_of_a_node_that_moved_away(s: Story) -> None:
    """It held a replica when its clock was ahead, and holds none in the end."""
    remove_first(s, ALL)
    configs(s, ALL, retention_ms=600_000)
    clock_ahead(s, 3_600_000.0, node=4)
    moved_away(s, ALL, 4)


@golden("INVALID", FORBIDDEN)
def retention_by_age_with_the_clock_of_another_node(s: Story) -> None:
    """Near miss: node 4 held a replica of another partition."""
    remove_first(s, ALL)
    configs(s, ALL, retention_ms=600_000)
    clock_ahead(s, 3_600_000.0, node=4)
    moved_away(s, ONE, 4)


@golden("VALID", {("lost-write", "prefix"): (P, 20), ("truncated-read", "prefix"): (P, 20)})
def retention_by_age_leaves_nothing(s: Story) -> None:
    """The log is empty at the end; its files say where it starts."""
    remove_first(s, ONE, 20)
    configs(s, ONE, retention_ms=1_000)


@golden("VALID", {("lost-write", "prefix"): (P, 2), ("truncated-read", "prefix"): (P, 2)})
def retention_overtakes_the_final_read(s: Story) -> None:
    """The final read had come to offset 3 when the log began at 5; it went on there."""
    s.forget(topic=ALL, values={v(ALL, 4), v(ALL, 5)}, but_polls=True)
    _start_at(s, ALL, GONE)
    (end,) = [row for row in s.rows("final-read-end") if row["topic"] == ALL]
    moved = {"offset": GONE, "error": "OFFSET_OUT_OF_RANGE", "op": end["op"]}
    s.row("assign", READER, 60, **({"topic": ALL, "partition": 0} | moved))
    configs(s, ALL, retention_ms=57_000)


@golden(
    "VALID",
    {("lost-write", "prefix"): (P, 12), ("truncated-read", "prefix"): (P, 12),
     ("inconsistent-offset", "acknowledged"): (P, 1)},
    cause="node 2 replaced node 1 as leader",
)  # fmt: skip
def retention_hides_where_an_epoch_began(s: Story) -> None:
    """A write that node 1 had acknowledged was written again elsewhere. Retention then removed the
    first records of node 2's epoch, so that leaders report a later start of this epoch."""
    s.send(ONE, 99, 11, 9.4)
    s.read_in_the_end(ONE, 20, v(ONE, 99))
    (end,) = [row for row in s.rows("final-read-end") if row["topic"] == ONE]
    end["offset"] = 21
    remove_first(s, ONE, 12)
    for row in s.cluster:
        if row["topic"] == ONE and row["kind"] == "epoch" and row["leader_epoch"] == 1:
            row["start_offset"] = 12
    configs(s, ONE, retention_ms=40_000)


def _begins_at_an_epoch(s: Story) -> None:
    """The log of the acks=1 topic starts with the record at 12; leaders report that epoch 1 starts
    there. Nobody had polled what is gone, and node 1 may have accepted all of it."""
    s.faults[0].update(fault="pause", label="pause node 1")
    s.history = [r for r in s.history if r["f"] != "poll" or r["topic"] != ONE]
    s.poll(ONE, 17, {offset: v(ONE, offset + 1) for offset in range(12, 20)})
    s.rows("assign", ONE)[0]["offset"] = 12
    remove_first(s, ONE, 12)
    for row in s.cluster:
        if (row["topic"], row["kind"], row["leader_epoch"]) == (ONE, "epoch", 1):
            row["start_offset"] = 12


@golden("INVALID", {("lost-write", "prefix"): (F, 12)}, because="no new leader that could have")
def retention_is_never_due_and_a_leader_was_replaced(s: Story) -> None:
    """An election cuts the end of a log, and not its beginning."""
    _begins_at_an_epoch(s)


@golden("VALID", {("lost-write", "prefix"): (P, 12)}, cause="as leader at 10.000 s")
def retention_was_due_for_others_and_a_leader_was_replaced(s: Story) -> None:
    """Near miss: the older ones may have been removed, and the younger ones by the election."""
    _begins_at_an_epoch(s)
    configs(s, ONE, retention_ms=58_000)


@golden("VALID", {("lost-write", "prefix"): (P, 12)}, cause="as leader at 10.000 s")
def log_begins_before_what_readers_get(s: Story) -> None:
    """Near miss: the files have what is no record of the run, in place of what an election cut."""
    files, ends = [*s.replicas], [{**row} for row in s.replica_ends]
    _begins_at_an_epoch(s)
    s.replicas, s.replica_ends = files, ends


@golden("UNKNOWN", dict.fromkeys(BOTH, (U, GONE)))
def retention_by_size_without_files(s: Story) -> None:
    """Nobody knows how many bytes are left."""
    remove_first(s, ALL)
    s.replicas.clear()
    s.replica_ends.clear()
    s.plan["system"] = "external"
    configs(s, ALL, retention_bytes=1)


def _written_again_behind(s: Story, topic: str) -> None:
    """The first record was acknowledged where the log has been cut, and is in it once more."""
    remove_first(s, topic)
    configs(s, topic, retention_bytes=1500)
    s.read_in_the_end(topic, 20, v(topic, 1))


_TWICE = {("lost-write", "prefix"): (P, GONE - 1), ("truncated-read", "prefix"): (P, GONE)}


@golden("VALID", {**_TWICE, ("duplicate", None): (P, 1), ("reordered-send", None): (P, 1)})
def retention_removed_the_first_copy_of_a_repeated_send(s: Story) -> None:
    """Seed 100488: a client without idempotence had repeated its request."""
    _written_again_behind(s, ONE)


@golden("INVALID", {**_TWICE, ("duplicate", None): (F, 1), ("reordered-send", None): (F, 1)})
def retention_removed_the_first_copy_of_an_idempotent_send(s: Story) -> None:
    """The broker must know the batch by its sequence, wherever the log begins now."""
    _written_again_behind(s, ALL)
