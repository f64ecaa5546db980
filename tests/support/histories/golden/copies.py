"""What a group made of the records that it read: copies that are missing, there twice, or moved."""

from tests.support.histories.golden.base import INFO, F, P, golden
from tests.support.histories.golden.state_losses import taken
from tests.support.histories.story import ALL, CONSUMER, ONE, PRODUCER, S, Story, v

GROUP = "copiers"
LATE = 98


def _copier(
    s: Story, processing: str | None, copied: tuple[int, ...], *, again: tuple[int, ...] = ()
) -> None:
    """A group committed three records of ONE, and copied these to ALL, from offset 20 on. It got
    the records `again` a second time."""
    if processing is not None:
        s.plan["workload"]["processing"] = processing
        # The internal topic cannot lose its commits.
        s.plan["broker"] = {"min.insync.replicas": "2"}
    s.poll(ONE, 20, {o: v(ONE, o + 1) for o in range(3)}, group=GROUP, client=31)
    for sequence in again:
        s.assign(ONE, 20, 0)
        s.poll(ONE, 21, {sequence - 1: v(ONE, sequence)}, group=GROUP, client=21)
    for number, sequence in enumerate(copied):
        copy = {"copies": v(ONE, sequence), "group": GROUP}
        s.send(ALL, 50 + number, 20 + number, 22 + number / 100, **copy)
        s.read_in_the_end(ALL, 20 + number, v(ALL, 50 + number))
    where = {"topic": ONE, "partition": 0, "offset": 3, "group": GROUP}
    s.row("offset-commit", 31, 23, **where)
    s.row("final-committed", CONSUMER[ONE], 60, **where)


@golden("INVALID", {("uncopied", None): (F, 1)})
def committed_record_was_not_copied(s: Story) -> None:
    """The group committed beyond it."""
    _copier(s, "at-least-once", (1, 3))


@golden("VALID", {("uncopied", None): (P, 1)})
def committed_record_was_not_copied_at_most_once(s: Story) -> None:
    """The group commits first."""
    _copier(s, "at-most-once", (1, 3))


@golden("VALID", {("uncopied", None): (INFO, 1)})
def committed_record_was_not_copied_without_a_promise(s: Story) -> None:
    """Nobody knows what the group does."""
    _copier(s, None, (1, 3))


@golden("VALID")
def every_committed_record_was_copied(s: Story) -> None:
    """Near miss: the fourth record was not copied, and not committed."""
    _copier(s, "exactly-once", (1, 2, 3))


@golden("INVALID", {("inconsistent-offset", "read"): (F, 1), ("truncated-read", None): (F, 1)})
def group_got_another_value_at_the_offset(s: Story) -> None:
    """Near miss: the offset was used again, so the group never got what was not copied."""
    _copier(s, "exactly-once", (1, 3))
    (poll,) = [row for row in s.rows("poll", ONE) if (row["client"], row["offset"]) == (31, 1)]
    poll.update(value=v(ONE, 20))


@golden("UNKNOWN", because="1 partitions were not read to the end")
def copy_may_lie_beyond_the_final_read(s: Story) -> None:
    """Near miss: the outcome of a copy is unknown, and the log was not read to its end."""
    _copier(s, "at-least-once", (1, 2, 3))
    s.forget(topic=ALL, values={v(ALL, 52)})
    s.rows("send", ALL)[-1].update(type="info", offset=None)
    s.rows("final-read-end", ALL)[0].update(type="info", offset=22)


@golden("VALID")
def record_was_sent_when_the_group_had_passed_it(s: Story) -> None:
    """Near miss: the log was cut, and another producer used its offsets again."""
    _copier(s, "exactly-once", (1, 3))
    (sent,) = [row for row in s.rows("send", ONE) if row["value"] == v(ONE, 2)]
    late = {"invoke_ns": round(20.5 * S), "complete_ns": round(20.6 * S)}
    s.row("start", LATE, 20.4)
    sent.update(client=LATE, type="info", offset=None, **late)
    s.row("end", LATE, 21)


def _in_a_transaction(s: Story, outcome: str) -> None:
    """The second record was sent in a transaction that the producer aborted."""
    ended = {"txn": 1, "transactional_id": "input"}
    (sent,) = [row for row in s.rows("send", ONE) if row["value"] == v(ONE, 2)]
    sent |= {"type": "fail" if outcome == "ok" else outcome, "offset": None, **ended}
    s.row("abort-transaction", PRODUCER[ONE], 1.2, type=outcome, **ended)


def _passed_over(s: Story) -> None:
    """The group did not get the second record."""
    place = ("poll", 31, 1)
    s.history = [r for r in s.history if (r["f"], r["client"], r.get("offset")) != place]


@golden("INVALID", {("aborted-read", "transaction"): (F, 1), ("false-abort", None): (F, 1)})
def group_did_not_copy_an_aborted_record_that_came_back(s: Story) -> None:
    """Near miss: it passed over it before the log lost the marker."""
    _copier(s, "exactly-once", (1, 3))
    _passed_over(s)
    _in_a_transaction(s, "ok")


@golden("VALID")
def group_did_not_copy_a_record_of_a_transaction_of_unknown_end(s: Story) -> None:
    """Near miss: nobody was told that the transaction was aborted, but it may have been."""
    _copier(s, "exactly-once", (1, 3))
    _passed_over(s)
    _in_a_transaction(s, "info")


@golden("INVALID", {("uncopied", None): (F, 1)})
def group_got_a_record_of_a_transaction_of_unknown_end(s: Story) -> None:
    """It was given the record, so it had to copy it."""
    _copier(s, "exactly-once", (1, 3))
    _in_a_transaction(s, "info")


@golden("INVALID", {("copied-twice", None): (F, 1)})
def record_was_copied_twice(s: Story) -> None:
    """The group got it once."""
    _copier(s, "at-least-once", (1, 2, 3, 2))


@golden("INVALID", {("copied-twice", "commit-lost"): (INFO, 1), ("lost-commit", "assigned"): (F, 1),
                    ("delivered-again", "commit-lost"): (INFO, 1)})  # fmt: skip
def record_was_copied_again_since_its_commit_was_lost(s: Story) -> None:
    """The group went on below an offset that it had committed; that alone is judged."""
    s.plan["broker"] = {"min.insync.replicas": "2"}
    where = {"topic": ONE, "partition": 0, "group": GROUP}
    s.row("assigned", 31, 19, offset=0, generation=1, **where)
    _copier(s, "exactly-once", (1, 2, 3, 3))
    s.row("revoked", 31, 23.5, **where)
    s.row("assigned", 21, 24, offset=2, generation=2, **where)
    s.poll(ONE, 25, {2: v(ONE, 3)}, group=GROUP, client=21)


@golden("VALID", {("duplicate", None): (P, 1)})
def value_was_written_and_copied_twice(s: Story) -> None:
    """Near miss: its producer wrote it twice, and the group copied each record once."""
    _copier(s, "exactly-once", (1, 2, 3, 3))
    s.plan["topics"][0]["idempotence"] = False
    s.read_in_the_end(ONE, 20, v(ONE, 3))


@golden("VALID", {("copied-twice", "delivered-again"): (P, 1)})
def record_was_copied_again_at_least_once(s: Story) -> None:
    """The group got it twice."""
    _copier(s, "at-least-once", (1, 2, 3, 3), again=(3,))


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 1)})
def record_was_copied_again_exactly_once(s: Story) -> None:
    """The transaction of the first copy was committed."""
    _copier(s, "exactly-once", (1, 2, 3, 3), again=(3,))


def _beyond(s: Story, *, client: int = 31, at_s: float = 20.5) -> None:
    """A member gets a record that the log does not have in the end."""
    s.send(ONE, 97, None, 19, type="info")
    s.poll(ONE, at_s, {20: v(ONE, 97)}, group=GROUP, client=client)


def _again(s: Story, sequence: int, *, error: str | None = None) -> None:
    """A member moves back, perhaps because of an error, and gets a record again."""
    s.row("assign", 31, 20.9, topic=ONE, partition=0, offset=sequence - 1, error=error)
    s.poll(ONE, 21, {sequence - 1: v(ONE, sequence)}, group=GROUP, client=31)


TRUNCATED = {("truncated-read", None): (F, 1)}


@golden("INVALID", {("copied-twice", "input-cut"): (INFO, 1), **TRUNCATED})
def record_was_copied_again_after_its_input_was_cut(s: Story) -> None:
    """Its member had got a record above that the log lost; that alone is judged."""
    _copier(s, "exactly-once", (1, 2, 3, 3))
    _beyond(s)
    _again(s, 3, error="LOG_TRUNCATION")


@golden("VALID", {("copied-twice", "input-cut"): (INFO, 1)})
def record_was_copied_again_after_its_input_lost_power(s: Story) -> None:
    """A leader without the member's place told it so; a later leader had the records again."""
    _copier(s, "exactly-once", (1, 2, 3, 3))
    taken(s, 1, 2)
    _again(s, 3, error="LOG_TRUNCATION")


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 1)})
def member_was_told_of_a_cut_that_nothing_permits(s: Story) -> None:
    """Near miss: too few replicas lost power."""
    _copier(s, "exactly-once", (1, 2, 3, 3))
    taken(s, 3)
    _again(s, 3, error="LOG_TRUNCATION")


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 1)})
def member_was_told_of_a_cut_before_it_was_permitted(s: Story) -> None:
    """Near miss: the power went later, and nobody was told of that."""
    s.row("assign", 31, 7, topic=ONE, partition=0, offset=0, error="LOG_TRUNCATION")
    _copier(s, "exactly-once", (1, 2, 3, 3))
    taken(s, 1, 2)
    _again(s, 3)


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 1)})
def member_was_not_told_of_a_cut(s: Story) -> None:
    """Near miss: the log may have been cut, but not for this member."""
    _copier(s, "exactly-once", (1, 2, 3, 3))
    taken(s, 1, 2)
    _again(s, 3)


@golden("INVALID", {("copied-out-of-order", "input-cut"): (INFO, 1), **TRUNCATED})
def records_were_copied_out_of_order_after_a_cut(s: Story) -> None:
    """The member got the second record again."""
    _copier(s, "exactly-once", (1, 3, 2))
    _beyond(s)
    _again(s, 2, error="LOG_TRUNCATION")


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 1)})
def member_went_back_in_its_input(s: Story) -> None:
    """Near miss: the log lost nothing."""
    _copier(s, "exactly-once", (1, 2, 3, 3))
    _again(s, 3)


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 1), **TRUNCATED})
def member_went_back_before_its_input_was_cut(s: Story) -> None:
    """Near miss: it got the lost record later."""
    _copier(s, "exactly-once", (1, 2, 3, 3))
    _again(s, 3)
    _beyond(s, at_s=21.5)


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 1), ("truncated-read", None): (F, 2),
                    ("lost-write", "middle"): (F, 1)})  # fmt: skip
def member_went_back_above_what_was_cut(s: Story) -> None:
    """Near miss: the log lost a record below."""
    _copier(s, "exactly-once", (1, 2, 3, 3))
    s.forget(topic=ONE, values={v(ONE, 2)}, but_polls=True)
    _again(s, 3)


@golden("INVALID", {("copied-twice", "delivered-again"): (F, 1), **TRUNCATED})
def other_member_got_the_record_again_after_a_cut(s: Story) -> None:
    """Near miss: that the log lost something does not set another member back."""
    _copier(s, "exactly-once", (1, 2, 3, 3), again=(3,))
    _beyond(s)


@golden("VALID", {("copied-twice", "delivered-again"): (P, 1)})
def record_was_copied_again_without_group_metadata(s: Story) -> None:
    """A zombie of the group can commit its transaction."""
    _copier(s, "exactly-once", (1, 2, 3, 3), again=(3,))
    s.plan["workload"]["group_metadata"] = False


@golden("INVALID", {("copied-out-of-order", None): (F, 1)})
def records_were_copied_out_of_order(s: Story) -> None:
    """The second record was copied before the first."""
    _copier(s, "exactly-once", (2, 1, 3))


@golden("VALID", {("copied-out-of-order", "delivered-again"): (P, 1)})
def records_were_copied_out_of_order_at_least_once(s: Story) -> None:
    """The copy of the second record failed, and the group got the record again."""
    _copier(s, "at-least-once", (1, 3, 2), again=(2,))
