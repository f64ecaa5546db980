"""What groups got: skipped records, records that were delivered again, and two owners."""

from tests.support.histories.golden.base import INFO, F, P, U, golden
from tests.support.histories.story import ONE, S, Story, v

GROUP = "readers"
HERE = {"topic": ONE, "partition": 0, "group": GROUP}
FIRST, SECOND = 41, 42


def _promise(s: Story, processing: str) -> None:
    """A group of the plan has a promise, and the internal topic cannot lose its commits."""
    s.plan["more_workloads"] = [{"kind": "group", "group": GROUP, "processing": processing}]
    s.plan["broker"] = {"min.insync.replicas": "2"}


def _get(s: Story, client: int, at_s: float, first: int, last: int) -> None:
    """A member gets the records between two offsets."""
    records = {offset: v(ONE, offset + 1) for offset in range(first, last + 1)}
    s.poll(ONE, at_s, records, client=client, group=GROUP)


def _commit(s: Story, client: int, at_s: float, offset: int, **more: object) -> None:
    generation = 1 if client == FIRST else 2
    columns = {"offset": offset, "generation": generation} | HERE | more
    s.row("offset-commit", client, at_s, **columns)


def _begin(s: Story) -> None:
    """The first member gets three records and commits them; there is a second member."""
    for client in (FIRST, SECOND):
        s.row("start", client, 18)
    s.row("assigned", FIRST, 19, offset=0, generation=1, **HERE)
    _get(s, FIRST, 20, 0, 2)
    _commit(s, FIRST, 21, 3)


def _move(s: Story, how: str, position: int | None, *, until: int = 5) -> None:
    """The partition moves at 25 s, from where the second member goes on to `until`. how: what the
    first member was told, or that it ended (`end`), or that its record did (`cut`)."""
    if how in ("revoked", "lost"):
        s.row(how, FIRST, 24, **HERE)
    s.row("assigned", SECOND, 25, offset=position, generation=2, **HERE)
    if position is not None:
        _get(s, SECOND, 26, position, until)
    _commit(s, SECOND, 27, until + 1)
    if how != "cut":
        s.row("end", FIRST, 23 if how == "end" else 61)
    s.row("end", SECOND, 61)


def _skip(s: Story, how: str, processing: str) -> None:
    """The group commits 3, and goes on at 5."""
    _promise(s, processing)
    _begin(s)
    _move(s, how, 5)


@golden("INVALID", {("aborted-read", "transaction"): (F, 2), ("false-abort", None): (F, 1)})
def group_skipped_aborted_records_that_came_back(s: Story) -> None:
    """Near miss: nobody must get them. The log lost their marker later."""
    _skip(s, "revoked", "at-least-once")
    for row in s.rows("send", ONE):
        if row["value"] in (v(ONE, 4), v(ONE, 5)):
            row |= {"type": "fail", "offset": None, "txn": 1, "transactional_id": "aborted"}
            last = row
    at_s = (last["complete_ns"] or 0) / S + 0.001
    ended = {"txn": 1, "transactional_id": "aborted"}
    s.row("abort-transaction", last["client"], at_s, **ended)


@golden("INVALID", {("skipped-record", "rebalanced"): (F, 2)})
def group_skipped_records(s: Story) -> None:
    """The second member went on two records too far."""
    _skip(s, "revoked", "at-least-once")


@golden("INVALID", {("skipped-record", "member-ended"): (F, 2)})
def group_skipped_records_when_a_member_ended(s: Story) -> None:
    """That the first member ended is no excuse."""
    _skip(s, "end", "exactly-once")


@golden("VALID", {("skipped-record", "member-ended"): (P, 2)})
def group_skipped_records_at_most_once(s: Story) -> None:
    """The first member may have committed them, and ended before it got them."""
    _skip(s, "end", "at-most-once")


@golden("VALID", {("skipped-record", "rebalanced"): (P, 2)})
def group_skipped_records_at_most_once_in_a_rebalance(s: Story) -> None:
    """The first member lost the partition."""
    _skip(s, "lost", "at-most-once")


@golden("UNKNOWN", {("skipped-record", "member-cut"): (U, 2)}, because="may have got the record")
def group_skipped_records_or_a_member_did_not_record_them(s: Story) -> None:
    """The record of the first member was cut."""
    _skip(s, "cut", "at-least-once")


@golden("INVALID", {("skipped-record", None): (F, 2)})
def member_skipped_records_at_most_once(s: Story) -> None:
    """At that time no member ended, and none had to give up the partition; one had before."""
    _promise(s, "at-most-once")
    _begin(s)
    s.row("assigned", SECOND, 18.2, offset=0, generation=0, **HERE)
    s.row("revoked", SECOND, 18.5, **HERE)
    s.row("assigned", FIRST, 25, offset=5, generation=2, **HERE)
    _get(s, FIRST, 26, 5, 5)
    _commit(s, FIRST, 27, 6)
    for client in (FIRST, SECOND):
        s.row("end", client, 61)


@golden("VALID", {("skipped-record", "rebalanced"): (INFO, 2)})
def group_without_a_promise_skipped_records(s: Story) -> None:
    """Nobody knows when the group commits."""
    _begin(s)
    _move(s, "revoked", 5)


@golden("VALID")
def group_got_every_record(s: Story) -> None:
    """Near miss: the second member went on where the first one had stopped."""
    _promise(s, "at-least-once")
    _begin(s)
    _move(s, "revoked", 3)


@golden("VALID")
def group_began_behind_some_records(s: Story) -> None:
    """Near miss: the group never was at the first records."""
    _promise(s, "at-least-once")
    for client in (FIRST, SECOND):
        s.row("start", client, 18)
    _move(s, "end", 3)


@golden("VALID")
def group_did_not_commit_what_it_skipped(s: Story) -> None:
    """Near miss: the commit beyond the skipped records was refused."""
    _skip(s, "revoked", "at-least-once")
    s.rows("offset-commit")[-1]["type"] = "fail"


def _send_late(s: Story, offsets: tuple[int, ...]) -> None:
    """The records at these offsets are sent when the group has got the record at offset 5."""
    for row in s.rows("send", ONE):
        if row["offset"] in offsets:
            row.update(invoke_ns=28 * S, complete_ns=29 * S, type="info", offset=None)


@golden("INVALID", {("inconsistent-offset", "read"): (F, 1), ("truncated-read", None): (F, 1)})
def group_was_beyond_the_records_when_they_were_written(s: Story) -> None:
    """Near miss: the log was cut, and its offsets were used again behind the group."""
    _skip(s, "revoked", "at-least-once")
    (poll,) = [row for row in s.rows("poll", ONE) if (row["client"], row["offset"]) == (SECOND, 5)]
    poll.update(value=v(ONE, 20))
    _send_late(s, (3, 4))


@golden("INVALID", {("skipped-record", "rebalanced"): (F, 1)})
def group_skipped_the_earlier_of_two_records(s: Story) -> None:
    """The other one was sent when the group had got a record above it."""
    _skip(s, "revoked", "at-least-once")
    _send_late(s, (4,))


def _repeat(s: Story, how: str, processing: str, position: int | None = 3) -> None:
    """The first member got two records more than it committed."""
    _promise(s, processing)
    _begin(s)
    _get(s, FIRST, 22, 3, 4)
    _move(s, how, position)


@golden("VALID", {("delivered-again", "rebalanced"): (P, 2)})
def records_were_delivered_again_after_a_rebalance(s: Story) -> None:
    """They were not committed."""
    _repeat(s, "revoked", "at-least-once")


@golden("VALID", {("delivered-again", "member-ended"): (P, 2)})
def records_were_delivered_again_after_a_member_ended(s: Story) -> None:
    """The first member ended without a word."""
    _repeat(s, "end", "at-least-once")


@golden("VALID", {("delivered-again", "rebalanced"): (INFO, 2)})
def records_of_an_open_transaction_were_delivered_again(s: Story) -> None:
    """The transaction that had them was not committed."""
    _repeat(s, "lost", "exactly-once")


def _repeat_committed(s: Story, position: int | None, **commit: object) -> None:
    """The first member committed all five records; the second one gets two of them."""
    _repeat(s, "revoked", "at-least-once", position)
    _commit(s, FIRST, 23, 5, **commit)
    if position is None:
        _get(s, SECOND, 26, 3, 5)


@golden("INVALID", {("delivered-again", "below-commit"): (F, 2)})
def committed_records_were_delivered_again(s: Story) -> None:
    """Their commit was acknowledged before the partition moved."""
    _repeat_committed(s, None)


@golden(
    "INVALID",
    {("delivered-again", "input-cut"): (INFO, 2), ("truncated-read", None): (F, 1)},
)
def committed_records_were_delivered_again_after_a_cut(s: Story) -> None:
    """The second member's place was no longer in the log; that alone is judged."""
    _repeat_committed(s, 6)
    s.send(ONE, 97, None, 19, type="info")
    s.poll(ONE, 22.5, {20: v(ONE, 97)}, client=FIRST, group=HERE["group"])
    s.row("assign", SECOND, 26.5, topic=ONE, partition=0, offset=3, error="OFFSET_OUT_OF_RANGE")
    _get(s, SECOND, 26.6, 3, 5)


@golden(
    "INVALID",
    {("delivered-again", "rebalanced"): (P, 2), ("truncated-read", None): (F, 1)},
)
def member_began_below_its_earlier_place(s: Story) -> None:
    """Near miss: it got the partition a second time, from the commit on."""
    s.row("assigned", SECOND, 18.2, offset=0, generation=1, **HERE)
    s.send(ONE, 97, None, 18.5, type="info")
    s.poll(ONE, 18.7, {20: v(ONE, 97)}, client=SECOND, group=GROUP)
    s.row("revoked", SECOND, 18.9, **HERE)
    _repeat(s, "revoked", "at-least-once")


@golden("INVALID", {("delivered-again", "below-commit"): (F, 2)})
def member_began_again_below_its_place(s: Story) -> None:
    """Near miss: the log lost nothing."""
    _repeat_committed(s, 5)
    s.row("assign", SECOND, 26.5, topic=ONE, partition=0, offset=3)
    _get(s, SECOND, 26.6, 3, 5)


@golden("UNKNOWN", {("delivered-again", "below-commit"): (U, 2)})
def committed_records_of_a_risky_topic_were_delivered_again(s: Story) -> None:
    """The internal topic has min.insync.replicas=1."""
    _repeat_committed(s, None)
    s.plan["broker"] = {}


@golden(
    "INVALID", {("delivered-again", "commit-lost"): (INFO, 2), ("lost-commit", "assigned"): (F, 1)}
)
def records_of_a_lost_commit_were_delivered_again(s: Story) -> None:
    """The second member says that it begins below the commit."""
    _repeat_committed(s, 3)


@golden("VALID", {("delivered-again", "rebalanced"): (P, 2)})
def records_were_delivered_again_while_their_commit_was_in_flight(s: Story) -> None:
    """Near miss: nobody had been told of the commit when the partition moved."""
    _repeat_committed(s, None, complete_ns=26 * S)


@golden("VALID", {("delivered-again", "rebalanced"): (P, 2)})
def records_were_delivered_again_after_the_group_went_back(s: Story) -> None:
    """Near miss: a later commit was lower."""
    _repeat_committed(s, None)
    _commit(s, FIRST, 23.5, 3)


@golden("VALID")
def member_read_records_again_by_itself(s: Story) -> None:
    """Near miss: the member went back; the partition was not assigned again."""
    _promise(s, "at-least-once")
    _begin(s)
    s.row("assign", FIRST, 22, topic=ONE, partition=0, offset=0)
    _get(s, FIRST, 22.5, 0, 2)
    _move(s, "revoked", 3)


def _share(s: Story, generation: int = 1, **commit: object) -> None:
    """The second member is assigned the partition while the first one owns it; both commit."""
    _promise(s, "at-least-once")
    _begin(s)
    _move(s, "nothing", 3)
    for row in s.rows("assigned") + s.rows("offset-commit"):
        if row["client"] == SECOND:
            row["generation"] = generation
    _commit(s, FIRST, 28, 6, **commit)


@golden("INVALID", {("two-owners", "both-committed"): (F, 1)})
def two_owners_committed(s: Story) -> None:
    """Both are of one generation."""
    _share(s)


@golden("VALID", {("two-owners", None): (INFO, 1)})
def commit_of_one_of_two_owners_was_refused(s: Story) -> None:
    """Near miss: only the second one is the owner for the coordinator."""
    _share(s, generation=2, type="fail")


@golden("INVALID", {("two-owners", None): (INFO, 1), ("stale-commit", None): (F, 1)})
def two_owners_of_different_generations_committed(s: Story) -> None:
    """Near miss: that the commit of the older generation was accepted is another anomaly."""
    _share(s, generation=2)


@golden("VALID")
def owners_followed_each_other(s: Story) -> None:
    """Near miss: the first one gave the partition up before; both were of one generation."""
    _promise(s, "at-least-once")
    _begin(s)
    _move(s, "revoked", 3)
    s.rows("assigned")[-1]["generation"] = s.rows("offset-commit")[-1]["generation"] = 1
    _commit(s, FIRST, 28, 6)
