"""Answers of brokers that their logs, the metadata log or other answers contradict."""

from collections.abc import Sequence

from tests.support.histories.golden.base import F, P, U, golden, moved_away
from tests.support.histories.golden.leadership import END, START, decided
from tests.support.histories.golden.state_losses import log_file, metadata_logs, taken
from tests.support.histories.story import ALL, ONE, Row, S, Story, v

FILES, READS = ("contradicted-evidence", "files"), ("contradicted-evidence", "reads")
ANSWERS, ISR = ("contradicted-evidence", "answers"), ("contradicted-evidence", "isr")
LOST = ("lost-write", "middle")


def _answers(s: Story, topic: str) -> list[Row]:
    """The leader's answers about its epochs, oldest first."""
    return [r for r in s.cluster if (r["kind"], r["topic"]) == ("epoch", topic)]


def _answer(s: Story, topic: str, epoch: int, start: int, **more: int) -> None:
    """One more answer about an epoch."""
    row = _answers(s, topic)[-1] | {"leader_epoch": epoch, "start_offset": start}
    s.cluster.append(row | more)


@golden("INVALID", {FILES: (F, 1)},
        cause="the leader answered that epoch 1 begins at 11; its files hold records of epoch 1 "
        "from 10 on")  # fmt: skip
def epoch_is_answered_to_begin_after_its_first_record(s: Story) -> None:
    """Epoch 1 begins at 10 in all files."""
    _answers(s, ALL)[1]["start_offset"] = 11


@golden("INVALID", {FILES: (F, 1)})
def epoch_is_answered_to_begin_before_its_first_record(s: Story) -> None:
    """Offset 9 is of epoch 0 in all files, and in the answer about the end of epoch 0."""
    first, second = _answers(s, ALL)
    first["end_offset"] = 10
    second["start_offset"] = 9


@golden("INVALID", {FILES: (F, 1)})
def leader_leaves_out_an_epoch(s: Story) -> None:
    """It answers only about epoch 1, as if its log began with that."""
    first, second = _answers(s, ALL)
    s.cluster.remove(first)
    second["start_offset"] = 0


@golden("INVALID", {FILES: (F, 1)})
def log_is_answered_to_be_longer_than_it_is(s: Story) -> None:
    """All files end at 20."""
    _answer(s, ALL, 2, 21)


@golden("INVALID", {READS: (F, 1)})
def final_reads_return_an_earlier_epoch(s: Story) -> None:
    """The record at offset 10 is of epoch 0 for whoever reads it; files need not exist for that."""
    _without_files(s)
    _read_in_epochs(s, ALL, first_of_1=11)


@golden("VALID")
def final_reads_return_the_answered_epochs(s: Story) -> None:
    """Near miss: epoch 1 begins at 10 in the answer and in the records."""
    _without_files(s)
    _read_in_epochs(s, ALL, first_of_1=10)


def _without_files(s: Story) -> None:
    s.plan["system"] = "external"
    s.replicas.clear()
    s.replica_ends.clear()


def _read_in_epochs(s: Story, topic: str, first_of_1: int) -> None:
    for offset, row in s.final(topic).items():
        row["leader_epoch"] = int(offset >= first_of_1)


@golden("INVALID", {ANSWERS: (F, 1)})
def two_answers_differ(s: Story) -> None:
    """About where epoch 2 begins, of which there are no records."""
    _answer(s, ALL, 2, 20)
    _answer(s, ALL, 2, 21)


@golden("INVALID", {ANSWERS: (F, 1)})
def answers_go_back(s: Story) -> None:
    """Epoch 2 begins at 10, and epoch 1, without records, at 15."""
    for row in [r for r in s.cluster + s.replicas if r["topic"] == ALL]:
        row["leader_epoch"] *= 1 + row["leader_epoch"]
    _answer(s, ALL, 1, 15)


@golden("INVALID", {FILES: (F, 1), LOST: (U, 1)},
        cause="leader epochs are contradicted: the leader answered that epoch 1 begins at 11; its "
        "files hold records of epoch 1 from 10 on")  # fmt: skip
def wrong_answer_hides_what_explains_a_loss(s: Story) -> None:
    """The election would permit the loss at 10, and by the answer it removed nothing there."""
    _answers(s, ONE)[1]["start_offset"] = 11
    s.send(ONE, 99, 10, 9.4)


@golden("INVALID", {FILES: (F, 1), LOST: (U, 1)}, cause="leader epochs are contradicted")
def wrong_answer_would_excuse_a_loss(s: Story) -> None:
    """By the answer the election removed the write at 7, which both leaders had."""
    _answers(s, ONE)[1]["start_offset"] = 5
    s.send(ONE, 99, 7, 9.4)


@golden("INVALID", {FILES: (F, 1), LOST: (F, 1)}, cause="leader epochs are contradicted: ")
def wrong_answer_about_a_loss_that_nothing_excuses(s: Story) -> None:
    """An election excuses no loss with acks=all; the loss names the contradiction all the same."""
    _answers(s, ALL)[1]["start_offset"] = 11
    s.send(ALL, 99, 10, 9.4)


@golden("VALID")
def epoch_without_records_is_answered(s: Story) -> None:
    """Near miss: epoch 2 begins where the log ends."""
    s.leader(ALL, 17, 3, 2, [1, 2, 3])
    _answer(s, ALL, 2, 20, end_offset=20)


@golden("VALID")
def epoch_begins_after_the_answer(s: Story) -> None:
    """Near miss: the files have records of epoch 2, which began after the leader was asked."""
    for node in (1, 2, 3):
        _append(s, node, 2)


def _is_at(row: Row, node: int, base: int) -> bool:
    return (row["node"], row["topic"], row["base_offset"]) == (node, ALL, base)


@golden("VALID")
def another_replica_has_not_truncated_its_tail_yet(s: Story) -> None:
    """Near miss: node 3 answered, and has a record of epoch 2 at 20; node 1 still has one of epoch
    1 there. Neither is committed."""
    s.leader(ALL, 17, 3, 2, [1, 2, 3])
    _answer(s, ALL, 2, 20)
    for row in _answers(s, ALL):
        row["node"] = 3
    for node, epoch in ((1, 1), (2, 2), (3, 2)):
        _append(s, node, epoch)


def _append(s: Story, node: int, epoch: int) -> None:
    """One more record of a replica, at offset 20."""
    [last] = [r for r in s.replicas if _is_at(r, node, 15)]
    where = {"base_offset": 20, "last_offset": 20, "leader_epoch": epoch}
    s.replicas.append(last | where | {"digest": f"of {epoch}", "crc": epoch})
    [end] = [r for r in s.replica_ends if (r["node"], r["topic"]) == (node, ALL)]
    end["end_offset"] = 21


GONE = 12


@golden("VALID", {("lost-write", "prefix"): (P, GONE), ("truncated-read", "prefix"): (P, GONE)})
def log_starts_within_an_epoch(s: Story) -> None:
    """Near miss: the records below 12 are deleted, so epoch 1 is answered to begin there; the batch
    with the first of the others begins at 10."""
    s.forget(topic=ALL, values={v(ALL, n) for n in range(1, GONE + 1)}, but_polls=True)
    s.replicas = [r for r in s.replicas if r["topic"] != ALL or r["last_offset"] >= GONE]
    for row in s.replica_ends:
        if row["topic"] == ALL:
            row["start_offset"] = GONE
    s.set_topic(ALL, configs={"retention.bytes": "1000"})
    first, second = _answers(s, ALL)
    first["end_offset"] = second["start_offset"] = GONE


OLD = 5


@golden("VALID", {("lost-write", "prefix"): (P, OLD), ("truncated-read", "prefix"): (P, OLD)})
def retention_moves_the_start_between_final_read_and_answer(s: Story) -> None:
    """Near miss: the final reads began at 5; when the leader was asked, the log began at 12."""
    _without_files(s)
    s.forget(topic=ALL, values={v(ALL, n) for n in range(1, OLD + 1)}, but_polls=True)
    s.set_topic(ALL, configs={"retention.ms": "50000"})
    _read_in_epochs(s, ALL, first_of_1=10)
    first, second = _answers(s, ALL)
    first["end_offset"] = second["start_offset"] = 12


@golden("UNKNOWN", {FILES: (U, 1)}, because="the leader may have truncated its log")
def wrong_answer_of_a_cluster_that_did_not_settle(s: Story) -> None:
    """Node 1 was never in sync again."""
    epoch_is_answered_to_begin_after_its_first_record(s)
    settled = ("leader", ALL, 16 * S)
    s.cluster = [r for r in s.cluster if (r["kind"], r["topic"], r["at_ns"]) != settled]
    s.plan["name"] = "one that did not settle"


@golden("VALID", {("contradicted-evidence", "changed-bytes"): (P, 1)})
def bytes_in_the_files_were_changed(s: Story) -> None:
    """No checksum covers the leader epoch in a batch; node 2 may have copied what node 3 read."""
    epoch_is_answered_to_begin_after_its_first_record(s)
    taken(s, 3, fault="disk.bit-flip", details={"file": "log"})


@golden("VALID", {("contradicted-evidence", "changed-bytes"): (P, 1)})
def bytes_in_the_files_of_a_node_that_moved_away_were_changed(s: Story) -> None:
    """Others may have copied them before."""
    epoch_is_answered_to_begin_after_its_first_record(s)
    taken(s, 4, fault="disk.bit-flip", details={"file": "log"})
    moved_away(s, ALL, 4)


@golden("INVALID", {FILES: (F, 1)})
def bytes_in_the_files_of_another_node_were_changed(s: Story) -> None:
    """Near miss: it never had a replica of the partition."""
    epoch_is_answered_to_begin_after_its_first_record(s)
    taken(s, 4, fault="disk.bit-flip", details={"file": "log"})
    moved_away(s, ONE, 4)


@golden("INVALID", {FILES: (F, 1)})
def bytes_of_another_partition_were_changed(s: Story) -> None:
    """Near miss: the files of this one are as the nodes wrote them."""
    epoch_is_answered_to_begin_after_its_first_record(s)
    damaged = {3: [log_file(ONE)]}
    taken(s, 3, fault="disk.bit-flip", details={"file": "log"}, damaged=damaged)


def _viewed(
    s: Story, at_s: float, isr: Sequence[int], leader: int | None = 2, epoch: int = 1
) -> None:
    """Node 3 answers about a leader, in a cluster whose controllers' decisions are known."""
    decided(s, START, (10, 2, 1, (2, 3)), END)
    s.cluster.append({"at_ns": round(at_s * S), "kind": "view", "topic": ALL, "partition": 0,
                      "node": 3, "leader": leader, "leader_epoch": epoch,
                      "isr": list(isr)})  # fmt: skip


@golden("INVALID", {ISR: (F, 1)})
def in_sync_replicas_are_answered_that_nobody_decided(s: Story) -> None:
    """Of the leader alone."""
    _viewed(s, 11, [2])


@golden("INVALID", {("contradicted-evidence", "leader"): (F, 1)})
def epoch_without_a_leader_is_answered_that_nobody_decided(s: Story) -> None:
    """There are two epochs."""
    _viewed(s, 11, [2], None, 2)


@golden("VALID")
def leader_is_answered_to_be_unreachable(s: Story) -> None:
    """Near miss: node 3 does not know how to reach the leader of epoch 1, and so names none."""
    _viewed(s, 11, [2, 3], None)


@golden("VALID")
def in_sync_replicas_are_answered_in_another_order(s: Story) -> None:
    """Near miss: the same nodes."""
    _viewed(s, 11, [3, 2])


@golden("VALID")
def in_sync_replicas_are_answered_after_the_final_read(s: Story) -> None:
    """Near miss: the last decisions of a shutdown are not in the log that was read."""
    _viewed(s, 62, [2])


@golden("VALID")
def in_sync_replicas_are_answered_from_before_the_log(s: Story) -> None:
    """Near miss: a snapshot replaced the beginning of epoch 1."""
    _viewed(s, 11, [2])
    mine = [r for r in s.cluster if (r["kind"], r["topic"]) == ("leader", ALL)]
    s.cluster.remove(mine[0])
    metadata_logs(s, (90, 90), (90, 90), (90, 90))


LED = (
    "the leaders are contradicted: node 2 was named as the leader of epoch 1; the metadata log has"
)


def _leads_on(s: Story, named: int) -> None:
    """The controllers let node 1 lead on in epoch 1; a node names a leader of epoch 1 at 10 s. A
    write of node 1 is lost."""
    decided(s, START, (10, 1, 1, (1, 2, 3)), topic=ONE)
    s.leader(ONE, 9.9, named, 1, [1, 2, 3])
    s.cluster[-1].update(source="polled", partition_epoch=None)
    s.send(ONE, 99, 10, 9.4)


@golden("INVALID", {("two-leaders", "told"): (F, 1), LOST: (U, 1)}, cause=f"{LED} node 1")
def leader_is_named_that_the_controllers_did_not_elect(s: Story) -> None:
    """If node 2 had led, the loss would be permitted."""
    _leads_on(s, 2)


@golden("INVALID", {LOST: (F, 1)}, because="no new leader that could have removed the write")
def leader_is_named_that_the_controllers_elected(s: Story) -> None:
    """Near miss: there is nothing that contradicts, and nothing that excuses."""
    _leads_on(s, 1)


@golden("INVALID", {("metadata-rollback", "leader"): (F, 1), LOST: (U, 1)},
        cause=f"{LED} no leader of this epoch")  # fmt: skip
def leader_is_named_of_an_epoch_that_the_controllers_lack(s: Story) -> None:
    """By the metadata log nobody led after epoch 0."""
    decided(s, START, topic=ONE)
    s.leader(ONE, 9.9, 2, 1, [1, 2, 3])
    s.cluster[-1].update(source="polled", partition_epoch=None)
    s.send(ONE, 99, 10, 9.4)


@golden("INVALID", {("two-leaders", "told"): (F, 1), LOST: (U, 1)},
        cause="node 2 was named as the leader of epoch 1; node 3 was named, too")  # fmt: skip
def two_leaders_are_named_where_no_metadata_log_is_read(s: Story) -> None:
    """Which of the two replaced node 1, and when, is not known."""
    _without_files(s)
    s.leader(ONE, 10.1, 3, 1, [1, 2, 3])
    s.send(ONE, 99, 10, 9.4)


@golden("VALID", {LOST: (P, 1)}, cause="node 2 replaced node 1 as leader at 10.000 s")
def one_leader_is_named_where_no_metadata_log_is_read(s: Story) -> None:
    """Near miss: all name node 2."""
    _without_files(s)
    s.leader(ONE, 10.1, 2, 1, [1, 2, 3])
    s.send(ONE, 99, 10, 9.4)
