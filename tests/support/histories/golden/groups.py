"""What groups committed: lost commits, and commits of an old generation."""

from tests.support.histories.golden.base import INFO, F, P, U, golden
from tests.support.histories.story import ALL, CONSUMER, ONE, PRODUCER, S, Story, v

GROUP = "readers"
HERE = {"topic": ONE, "partition": 0, "group": GROUP}
FIRST, SECOND = CONSUMER[ONE], 31
ID = "copy-0"
PAUSE = {
    "fault_id": 1, "fault": "pause", "label": "pause node 3", "targets": '{"nodes": [3]}',
    "started_ns": 14 * S, "effective_ns": 14 * S, "healed_ns": 22 * S,
}  # fmt: skip
"""Holds requests up."""


def _commit(s: Story, at_s: float, offset: int, client: int = FIRST, **more: object) -> None:
    columns = {"offset": offset, "generation": 1} | HERE | more
    s.row("offset-commit", client, at_s, **columns)


def _read(s: Story, at_s: float, first: int, last: int, client: int = FIRST) -> None:
    """A member gets the records between two offsets."""
    records = {offset: v(ONE, offset + 1) for offset in range(first, last + 1)}
    s.poll(ONE, at_s, records, client=client, group=GROUP)


def _safe(s: Story) -> None:
    """The internal topic cannot lose records with permission."""
    s.plan["broker"] = {"min.insync.replicas": "2"}


@golden("INVALID", {("lost-commit", "final"): (F, 1)})
def final_committed_offset_is_below_a_commit(s: Story) -> None:
    """The commit of 7 was acknowledged, and the coordinator has 5."""
    _safe(s)
    _commit(s, 20, 5)
    _commit(s, 21, 7)
    s.row("final-committed", FIRST, 60, offset=5, **HERE)


@golden("INVALID", {("lost-commit", "final"): (F, 1)})
def coordinator_has_forgotten_a_commit_altogether(s: Story) -> None:
    """It has no offset of the partition."""
    _safe(s)
    _commit(s, 21, 7)
    s.row("final-committed", FIRST, 60, offset=None, **HERE)


@golden("UNKNOWN", because="these groups have committed: readers (UNSTABLE_OFFSET_COMMIT)")
def coordinator_does_not_tell_what_is_committed(s: Story) -> None:
    """A transaction that would commit more is open, or forgotten."""
    _safe(s)
    _commit(s, 21, 7)
    untold = {"type": "info", "offset": None, "error": "UNSTABLE_OFFSET_COMMIT"}
    s.row("final-committed", FIRST, 60, **untold, **HERE)


@golden("VALID")
def nothing_was_committed(s: Story) -> None:
    """Near miss: the only commit was refused, and one more may still happen."""
    _safe(s)
    _commit(s, 20, 5, type="fail")
    _commit(s, 21, 7, type="info", complete_ns=None)
    s.row("final-committed", FIRST, 60, offset=None, **HERE)


@golden("UNKNOWN", {("lost-commit", "final"): (U, 1)})
def final_committed_offset_is_below_a_commit_of_a_risky_topic(s: Story) -> None:
    """The internal topic has min.insync.replicas=1."""
    _commit(s, 20, 5)
    _commit(s, 21, 7)
    s.row("final-committed", FIRST, 60, offset=5, **HERE)


@golden("VALID")
def group_went_back_by_a_later_commit(s: Story) -> None:
    """Near miss: the lower commit came later, or may have."""
    _commit(s, 21, 7)
    _commit(s, 21, 5, type="info", complete_ns=None)
    s.row("final-committed", FIRST, 60, offset=5, **HERE)


@golden("VALID")
def refused_commit_is_not_there(s: Story) -> None:
    """Near miss: the greater commit was refused."""
    _commit(s, 20, 5)
    _commit(s, 21, 7, type="fail")
    s.row("final-committed", FIRST, 60, offset=5, **HERE)


@golden("INVALID", {("phantom-commit", None): (F, 1)})
def coordinator_has_an_offset_that_nobody_committed(s: Story) -> None:
    """The group committed 5, and the coordinator has 7."""
    _safe(s)
    _commit(s, 20, 5)
    s.row("final-committed", FIRST, 60, offset=7, **HERE)


def _refused(s: Story, **commit: object) -> None:
    """The coordinator refused the commit of 7, and has it in the end."""
    _commit(s, 20, 5)
    _commit(s, 21, 7, type="fail", **commit)
    s.row("final-committed", FIRST, 60, offset=7, **HERE)


@golden("INVALID", {("phantom-commit", "refused"): (F, 1)})
def coordinator_has_an_offset_that_it_refused(s: Story) -> None:
    """The commit of 7 was refused, and the coordinator has it."""
    _safe(s)
    _refused(s)


def _aborted(s: Story) -> None:
    """The commit of 7 was sent in a transaction that was aborted, and the coordinator has it."""
    _safe(s)
    _refused(s, txn=7, transactional_id=ID)


@golden("UNKNOWN", {("phantom-commit", "transaction"): (U, 1)})
def coordinator_of_a_risky_topic_has_an_offset_of_an_aborted_transaction(s: Story) -> None:
    """The internal topic has min.insync.replicas=1: it may have lost the abort."""
    _aborted(s)
    s.plan["broker"] = {}


@golden("INVALID", {("phantom-commit", "refused"): (F, 1)})
def coordinator_of_a_risky_topic_has_an_offset_that_it_refused(s: Story) -> None:
    """Near miss: no loss explains an offset that was in no transaction."""
    _refused(s)


@golden("INVALID", {("phantom-commit", "transaction"): (F, 1)})
def coordinator_has_an_offset_of_an_aborted_transaction(s: Story) -> None:
    """Near miss: each transaction has an epoch of its own."""
    _aborted(s)
    s.faults.append(s.faults[0] | PAUSE)


@golden("VALID")
def offset_of_an_aborted_transaction_became_a_part_of_the_next_one(s: Story) -> None:
    """The request may have been late, and all transactions have one epoch."""
    _aborted(s)
    s.plan["broker"]["transaction.version"] = "1"
    s.faults.append(s.faults[0] | PAUSE)


@golden("UNKNOWN", {("phantom-commit", "member-cut"): (U, 1)})
def coordinator_has_an_offset_that_a_lost_member_may_have_committed(s: Story) -> None:
    """The record of another member ends without an end of the member."""
    _safe(s)
    _commit(s, 20, 5)
    s.row("start", 41, 18)
    s.row("assigned", 41, 22, offset=5, generation=2, **HERE)
    s.row("final-committed", FIRST, 60, offset=7, **HERE)


@golden("VALID")
def coordinator_has_an_offset_whose_commit_was_not_answered(s: Story) -> None:
    """Near miss: the commit of 7 happened."""
    _safe(s)
    _commit(s, 20, 5)
    _commit(s, 21, 7, type="info", complete_ns=None)
    s.row("final-committed", FIRST, 60, offset=7, **HERE)


@golden("VALID")
def group_without_recorded_commits_has_an_offset(s: Story) -> None:
    """Near miss: its members may commit by themselves."""
    _safe(s)
    s.row("final-committed", FIRST, 60, offset=7, **HERE)


@golden("INVALID", {("lost-commit", "assigned"): (F, 1)})
def member_went_on_below_a_commit(s: Story) -> None:
    """The commit of 7 was acknowledged, and the next owner began at 5."""
    _safe(s)
    _commit(s, 20, 5)
    _commit(s, 21, 7)
    s.row("assigned", SECOND, 22, offset=5, generation=2, **HERE)
    _read(s, 23, 5, 6, client=SECOND)
    s.row("final-committed", FIRST, 60, offset=7, **HERE)


@golden("VALID")
def member_went_on_while_a_commit_was_in_flight(s: Story) -> None:
    """Near miss: the commit of 7 ended after the next owner had begun."""
    _commit(s, 20, 5)
    _commit(s, 21, 7, complete_ns=23 * S)
    s.row("assigned", SECOND, 22, offset=5, generation=2, **HERE)
    _read(s, 23, 5, 6, client=SECOND)


def _held_up(s: Story, until_s: float, *, client: str = "librdkafka") -> None:
    """From 19.5 s on a fault holds commits up. That of 5 is answered after 0.6 s."""
    _safe(s)
    s.plan["more_workloads"] = [{"kind": "group", "group": GROUP, "client": client}]
    delays = {"fault_id": 1, "fault": "request-delayed", "label": "request-delayed OffsetCommit"}
    times = {"started_ns": int(19.5 * S), "effective_ns": int(19.6 * S)}
    s.faults.append({**s.faults[0], **delays, **times, "healed_ns": int(until_s * S)})
    _commit(s, 20, 5, complete_ns=int(20.6 * S))


@golden("VALID", {("lost-commit", "sent-again"): (P, 1)})
def request_of_a_repeated_commit_arrived_last(s: Story) -> None:
    """The client sent the commit of 5 again; the first request was held up until 22 s."""
    _held_up(s, 22)
    _commit(s, 21, 7)
    s.row("final-committed", FIRST, 60, offset=5, **HERE)


@golden("INVALID", {("lost-commit", "final"): (F, 1)})
def request_of_a_repeated_commit_arrived_long_before(s: Story) -> None:
    """Near miss: nothing was held up any more when the commit of 7 began."""
    _held_up(s, 20.5)
    _commit(s, 23, 7)
    s.row("final-committed", FIRST, 60, offset=5, **HERE)


@golden("INVALID", {("lost-commit", "final"): (F, 1)})
def commit_of_a_client_that_repeats_none_is_lost(s: Story) -> None:
    """Near miss: highwater's own client sends each commit once."""
    _held_up(s, 22, client="own")
    _commit(s, 21, 7)
    s.row("final-committed", FIRST, 60, offset=5, **HERE)


def _copied(s: Story, final: int | None, type: str = "info", *, output: bool = True) -> None:
    """A member copies three records in a transaction, and commits their offsets in it. The answer
    to the commit is `type`; the copies are in the final log, or not."""
    s.plan["workload"]["processing"] = "exactly-once"
    _safe(s)
    ended = {"txn": 7, "transactional_id": ID}
    s.row("assigned", SECOND, 19, offset=0, generation=1, **HERE)
    _read(s, 20, 0, 2, client=SECOND)
    for number in range(3):
        copy = {"copies": v(ONE, number + 1), "group": GROUP, "type": type} | ended
        s.send(ALL, 50 + number, 20 + number if type == "ok" else None, 21 + number / 100, **copy)
        if output:
            s.read_in_the_end(ALL, 20 + number, v(ALL, 50 + number), isolation=1)
    unknown = {"type": type} if type == "ok" else {"type": type, "complete_ns": None}
    _commit(s, 22, 3, SECOND, **ended, **unknown)
    s.row("commit-transaction", PRODUCER[ALL], 22.5, type=type, **ended)
    s.row("final-committed", FIRST, 60, offset=final, **HERE)


@golden("INVALID", {("lost-commit", "final"): (F, 1)})
def transaction_was_committed_without_its_offsets(s: Story) -> None:
    """Nobody answered its commit. Its copies are in the log, and the group has no position."""
    _copied(s, None)


@golden("VALID")
def transaction_of_unknown_end_was_committed_with_its_offsets(s: Story) -> None:
    """Near miss: the group has the position behind the copies."""
    _copied(s, 3)


@golden("VALID")
def transaction_of_unknown_end_was_aborted_with_its_offsets(s: Story) -> None:
    """Near miss: the copies are not there either."""
    _copied(s, None, output=False)


@golden("VALID")
def group_went_back_after_a_transaction_of_unknown_end(s: Story) -> None:
    """Near miss: the lower commit came later."""
    _copied(s, 1)
    _commit(s, 30, 1)


@golden("VALID")
def offsets_of_a_transaction_were_sent_after_its_commit(s: Story) -> None:
    """Near miss: they do not belong to it for sure."""
    _copied(s, None)
    s.rows("offset-commit")[-1]["invoke_ns"] = round(22.6 * S)


@golden("VALID")
def old_transaction_was_committed_without_its_offsets_after_a_delay(s: Story) -> None:
    """A delayed commit of the transaction before it committed its copies."""
    _copied(s, None)
    s.plan["broker"]["transaction.version"] = "1"
    s.faults.append(s.faults[0] | PAUSE)


BOTH = {("two-owners", None): (INFO, 1)}
"""Nobody told the first member of the second one."""


def _moved(s: Story, committed_s: float, **more: object) -> None:
    """The partition moves to the second member at 20 s, in generation 2; the first one commits."""
    s.row("assigned", FIRST, 19, offset=0, generation=1, **HERE)
    _read(s, 19.5, 0, 2)
    s.row("assigned", SECOND, 20, offset=0, generation=2, **HERE)
    _commit(s, committed_s, 3, **more)


@golden("INVALID", {("stale-commit", None): (F, 1)} | BOTH)
def member_of_an_old_generation_committed(s: Story) -> None:
    """Its partition had another owner."""
    _moved(s, 21)


def _went_back(s: Story) -> None:
    """The second member had the partition in generation 2, then the first one in generation 1."""
    s.row("assigned", SECOND, 19, offset=0, generation=2, **HERE)
    s.row("assigned", FIRST, 20, offset=0, generation=1, **HERE)
    _read(s, 20.5, 0, 2)
    _commit(s, 21, 3)


@golden("INVALID", {("stale-commit", "generation-went-back"): (F, 1)} | BOTH)
def generation_went_back(s: Story) -> None:
    """The internal topic loses nothing, so no coordinator may forget a generation."""
    _safe(s)
    _went_back(s)


@golden("UNKNOWN", {("stale-commit", "generation-went-back"): (U, 1)} | BOTH)
def generation_may_have_been_lost(s: Story) -> None:
    """Near miss: the internal topic has min.insync.replicas=1."""
    _went_back(s)


@golden("VALID", BOTH)
def member_committed_before_its_partition_moved(s: Story) -> None:
    """Near miss: the commit began earlier."""
    _moved(s, 20)


@golden("VALID", BOTH)
def commit_of_an_old_generation_was_refused(s: Story) -> None:
    """Near miss: the coordinator refused it."""
    _moved(s, 21, type="fail")


@golden("VALID", {("stale-commit", "transaction"): (P, 1)} | BOTH)
def transaction_without_group_metadata_committed_offsets(s: Story) -> None:
    """The coordinator cannot know the generation."""
    s.plan["workload"] |= {"processing": "exactly-once", "group_metadata": False}
    _moved(s, 21, txn=1, transactional_id="id")


@golden("INVALID", {("stale-commit", "transaction"): (F, 1)} | BOTH)
def transaction_with_group_metadata_committed_offsets(s: Story) -> None:
    """Near miss: the coordinator knows it, and must refuse."""
    s.plan["workload"] |= {"processing": "exactly-once"}
    _moved(s, 21, txn=1, transactional_id="id")
