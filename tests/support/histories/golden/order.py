"""Values twice, at other offsets than promised, in another order than they were sent."""

from tests.support.histories.golden.base import F, P, U, golden
from tests.support.histories.story import ALL, NONE, ONE, PRODUCER, S, Story, v, value

READER = 98
"""The first of some clients that poll once."""


@golden("VALID", {("duplicate", None): (P, 1)})
def retry_without_idempotence_writes_twice(s: Story) -> None:
    """The answer was lost, the retry landed behind."""
    s.read_in_the_end(ONE, 20, v(ONE, 20))


@golden("INVALID", {("duplicate", None): (F, 1)}, because="1 duplicate in all-0")
def idempotent_producer_writes_twice(s: Story) -> None:
    """The broker must know the batch by its sequence."""
    s.read_in_the_end(ALL, 20, v(ALL, 20))


@golden("VALID")
def two_consumers_read_the_same(s: Story) -> None:
    """Near miss of a duplicate: one record, read by two."""
    s.row("start", 99, 0)
    s.poll(ALL, 20, {o: v(ALL, o + 1) for o in range(20)}, client=99)
    s.row("end", 99, 61)


@golden("INVALID", {("inconsistent-offset", "read"): (F, 1), ("truncated-read", None): (F, 1)})
def two_reads_of_one_offset_differ(s: Story) -> None:
    """One consumer was given another value at offset 10 than the log holds in the end."""
    s.row("start", 99, 0)
    s.poll(ONE, 11, {10: v(ONE, 20)}, client=99)
    s.row("end", 99, 61)


@golden("INVALID", {("inconsistent-offset", "acknowledged"): (F, 1)})
def acknowledged_offset_holds_another_value(s: Story) -> None:
    """Acknowledged at 15, found at 20."""
    s.send(ALL, 99, 15, 21)
    s.read_in_the_end(ALL, 20, v(ALL, 99))


@golden("VALID", {("inconsistent-offset", "acknowledged"): (P, 1)})
def acknowledged_copy_was_cut_and_another_lives(s: Story) -> None:
    """acks=1: the acknowledged copy went with the deposed leader's tail; the retry's lives."""
    s.send(ONE, 99, 12, 9.4)
    s.read_in_the_end(ONE, 20, v(ONE, 99))


@golden("UNKNOWN", because="failed check: final reads are complete")
def acknowledged_copy_lies_beyond_what_was_read(s: Story) -> None:
    """Sent again, since its answer was lost, and acknowledged where the final read did not get."""
    s.set_topic(ONE, idempotence=False)
    s.send(ONE, 99, 22, 21)
    s.read_in_the_end(ONE, 20, v(ONE, 99))
    (end,) = s.rows("final-read-end", ONE)
    end.update(type="info", offset=21)


@golden("INVALID", {("inconsistent-offset", "acknowledged"): (F, 1)})
def acknowledged_offset_was_passed(s: Story) -> None:
    """Near miss: nothing lies there, and the read got further."""
    acknowledged_copy_lies_beyond_what_was_read(s)
    s.read_in_the_end(ONE, 23, v(ONE, 97))
    s.send(ONE, 97, 23, 22)
    s.rows("final-read-end", ONE)[0].update(offset=24)


@golden("VALID", {("duplicate", None): (P, 1)})
def acknowledged_offset_is_one_of_two(s: Story) -> None:
    """Near miss of an inconsistent offset: the value is where it was acknowledged, and again."""
    s.read_in_the_end(ONE, 20, v(ONE, 3))


@golden("VALID", {("reordered-send", None): (P, 1)})
def later_batch_overtakes(s: Story) -> None:
    """Without idempotence and with more than one in flight, a retry lands behind."""
    s.send(ONE, 97, 21, 20.0, complete_ns=round(20.2 * S))
    s.send(ONE, 98, 20, 20.1)
    s.read_in_the_end(ONE, 20, v(ONE, 98))
    s.read_in_the_end(ONE, 21, v(ONE, 97))


@golden("INVALID", {("reordered-send", None): (F, 1)})
def later_batch_overtakes_though_idempotent(s: Story) -> None:
    """The broker must refuse a batch whose predecessor it lacks."""
    s.send(ALL, 97, 21, 20.0, complete_ns=round(20.2 * S))
    s.send(ALL, 98, 20, 20.1)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.read_in_the_end(ALL, 21, v(ALL, 97))


def _overtaken_without_an_answer(
    s: Story, *, given_up_s: float | None = None, topic: str = ALL, client: int = PRODUCER[ALL]
) -> None:
    """The send before the last has no answer, and lies behind the last."""
    first, second = value(client, 97), value(client, 98)
    over_ns = None if given_up_s is None else round(given_up_s * S)
    unknown = {"type": "info", "complete_ns": over_ns, "value": first, "client": client}
    s.send(topic, 97, None, 20.0, **unknown)
    s.send(topic, 98, 20, 20.1, value=second, client=client)
    s.read_in_the_end(topic, 20, second)
    s.read_in_the_end(topic, 21, first)


@golden("INVALID", {("reordered-send", None): (F, 1)})
def later_batch_overtakes_one_without_an_answer(s: Story) -> None:
    """The client had not given it up, so both are of one producer epoch."""
    _overtaken_without_an_answer(s)


@golden("INVALID", {("reordered-send", None): (F, 1)})
def later_batch_without_an_answer_overtakes(s: Story) -> None:
    """The earlier one was acknowledged."""
    later_batch_overtakes_though_idempotent(s)
    s.rows("send", ALL)[-1].update(type="info", offset=None, complete_ns=None)


@golden("VALID")
def later_batch_overtakes_one_that_was_given_up(s: Story) -> None:
    """Near miss: the client may have begun another producer epoch, and its batch came late."""
    _overtaken_without_an_answer(s, given_up_s=20.05)


@golden("VALID")
def later_batch_overtakes_one_that_was_given_up_just_now(s: Story) -> None:
    """Near miss: clients may record somewhat later what they were told."""
    _overtaken_without_an_answer(s, given_up_s=22)


@golden("VALID")
def later_batch_overtakes_one_that_was_sent_again_in_a_new_epoch(s: Story) -> None:
    """Near miss: its answer was lost, and the leader may not have known the producer before."""
    _overtaken_without_an_answer(s)
    s.new_epoch(PRODUCER[ALL], 21, 22, "message sequence gap", partition=0)


@golden("VALID")
def later_batch_overtakes_the_first_one_of_its_producer(s: Story) -> None:
    """Near miss: a producer that the leader does not know may begin with any batch."""
    s.row("start", 99, 0)
    _overtaken_without_an_answer(s, client=99)
    s.row("end", 99, 61)


@golden("VALID")
def later_batch_overtakes_when_the_producer_may_be_forgotten(s: Story) -> None:
    """Near miss: the send before both is older than producer.id.expiration.ms."""
    s.plan["broker"] = {"producer.id.expiration.ms": "5000"}
    _overtaken_without_an_answer(s)


@golden("UNKNOWN", because="clients have no end row")
def later_batch_of_a_client_that_was_cut_overtakes(s: Story) -> None:
    """Near miss: it may have begun another producer epoch, and not have recorded it."""
    _overtaken_without_an_answer(s)
    s.history.remove(next(r for r in s.rows("end") if r["client"] == PRODUCER[ALL]))


@golden("VALID")
def later_batch_overtakes_one_without_an_answer_and_idempotence(s: Story) -> None:
    """Near miss: nothing forbids it."""
    _overtaken_without_an_answer(s, topic=ONE, client=PRODUCER[ONE])


@golden("VALID")
def neither_of_two_batches_was_answered(s: Story) -> None:
    """Near miss: the later one may have been sent in a later epoch."""
    _overtaken_without_an_answer(s)
    s.rows("send", ALL)[-1].update(type="info", offset=None, complete_ns=None)


def _read_by_consumers_alone(s: Story, first: int, second: int) -> None:
    """The final read is cut before both sends; consumers read one after the other."""
    s.send(ALL, 97, 21, 20.0, complete_ns=round(20.2 * S))
    s.send(ALL, 98, 20, 20.1)
    s.rows("final-read-end", ALL)[0].update(type="info", error="timeout")
    places = {97: 21, 98: 20}
    for number, sent in enumerate((first, second)):
        s.row("start", READER + number, 0)
        s.row("end", READER + number, 45)
        s.poll(ALL, 20.5 + number, {places[sent]: v(ALL, sent)}, client=READER + number)


@golden("INVALID", {("reordered-send", None): (F, 1), ("unseen", None): (U, 2)})
def later_batch_overtakes_and_is_read_first(s: Story) -> None:
    """Whoever reads one log goes up in it."""
    _read_by_consumers_alone(s, 98, 97)


@golden("UNKNOWN", {("unseen", None): (U, 2)})
def what_lay_above_was_read_first(s: Story) -> None:
    """Near miss: it may have been lost, and the other written to the log that was left."""
    _read_by_consumers_alone(s, 97, 98)


@golden("INVALID", {("reordered-send", None): (F, 1)})
def one_in_flight_and_still_reordered(s: Story) -> None:
    """Where the next batch leaves only after the answer, nothing can overtake."""
    s.plan["workload"]["max_in_flight"] = 1
    later_batch_overtakes(s)


@golden("VALID", {("reordered-send", None): (P, 1)})
def unacknowledged_sends_reordered(s: Story) -> None:
    """acks=0 acknowledges no offsets; the log's order tells."""
    s.send(NONE, 97, None, 20.0)
    s.send(NONE, 98, None, 20.1)
    s.read_in_the_end(NONE, 20, v(NONE, 98))
    s.read_in_the_end(NONE, 21, v(NONE, 97))


@golden("VALID")
def two_producers_interleave(s: Story) -> None:
    """Near miss of a reordering: order holds per producer only."""
    s.row("start", 99, 0)
    s.send(ALL, 0, 21, 20.0, client=99, value=value(99, 1), complete_ns=round(20.2 * S))
    s.send(ALL, 97, 20, 20.1)
    s.read_in_the_end(ALL, 20, v(ALL, 97))
    s.read_in_the_end(ALL, 21, value(99, 1))
    s.row("end", 99, 61)


@golden("VALID", {("lost-write", "tail"): (P, 1)})
def lost_send_had_a_higher_offset(s: Story) -> None:
    """Near miss of a reordering: the earlier send has no place in the log any more."""
    s.send(ONE, 98, 24, 9.5)
    s.send(ONE, 99, 20, 20.0)
    s.read_in_the_end(ONE, 20, v(ONE, 99))


def _nobody_reads_on(s: Story, topic: str) -> None:
    """The final read ended at offset 20, and the log goes on."""
    s.rows("final-read-end", topic)[0].update(type="info")


CLAIMED = ("inconsistent-offset", "acknowledged")
BACK = ("reordered-send", "acknowledged")


@golden("INVALID", {CLAIMED: (F, 1), ("unseen", None): (U, 2)})
def offset_is_acknowledged_twice(s: Story) -> None:
    """Two clients were told of one offset, and nobody read that far."""
    s.row("start", 99, 0)
    s.send(ALL, 97, 24, 20)
    s.send(ALL, 98, 24, 21, client=99, value=value(99, 1))
    s.row("end", 99, 61)
    _nobody_reads_on(s, ALL)


@golden("INVALID", {CLAIMED: (F, 1), ("unseen", None): (U, 1)})
def acknowledged_offset_was_polled_with_another_value(s: Story) -> None:
    """A consumer found another record there, and the final read did not get that far."""
    s.send(ALL, 97, 20, 20)
    s.send(ALL, 98, None, 20.1, type="info")
    s.poll(ALL, 21, {20: v(ALL, 98)})
    _nobody_reads_on(s, ALL)


@golden("UNKNOWN", {("unseen", None): (U, 2)})
def two_clients_are_told_of_two_offsets(s: Story) -> None:
    """Near miss: of two clients, and the later one's is the lower."""
    s.row("start", 99, 0)
    s.send(ALL, 97, 25, 20)
    s.send(ALL, 98, 24, 21, client=99, value=value(99, 1))
    s.row("end", 99, 61)
    _nobody_reads_on(s, ALL)


@golden("UNKNOWN", {CLAIMED: (P, 1), BACK: (P, 1), ("unseen", None): (U, 3)})
def offset_of_a_deposed_leader_is_acknowledged_again(s: Story) -> None:
    """acks=1: the first two went with the deposed leader's tail."""
    s.send(ONE, 96, 20, 9.3)
    s.send(ONE, 97, 21, 9.4)
    s.send(ONE, 98, 20, 20.0)
    _nobody_reads_on(s, ONE)


@golden("INVALID", {BACK: (F, 1), ("unseen", None): (U, 2)})
def acknowledged_offsets_go_back(s: Story) -> None:
    """One client's later send has the lower offset, and nobody read that far."""
    s.send(ALL, 97, 25, 20)
    s.send(ALL, 98, 24, 21)
    _nobody_reads_on(s, ALL)


@golden("INVALID", {BACK: (F, 1), ("unseen", None): (U, 1)})
def acknowledged_offset_goes_back_below_what_was_read(s: Story) -> None:
    """The later send was read at the end of all that was, the earlier lies beyond."""
    s.send(ALL, 97, 25, 20)
    s.send(ALL, 98, 20, 21)
    s.read_in_the_end(ALL, 20, v(ALL, 98))
    s.rows("final-read-end", ALL)[0].update(type="info", offset=21)


@golden("UNKNOWN", {("unseen", None): (U, 2)})
def acknowledged_offsets_go_on(s: Story) -> None:
    """Near miss: in the order of sending, whichever was answered first."""
    s.send(ALL, 97, 24, 20, complete_ns=30 * S)
    s.send(ALL, 98, 25, 21)
    _nobody_reads_on(s, ALL)
