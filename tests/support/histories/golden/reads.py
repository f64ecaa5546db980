"""What was read and should not have been: cut off, aborted, sent by nobody."""

from tests.support.histories.golden.base import INFO, F, P, U, golden
from tests.support.histories.story import ALL, ONE, PRODUCER, Story, v


@golden("INVALID", {("truncated-read", None): (F, 1), ("lost-write", "tail"): (F, 1)})
def consumer_read_what_was_cut(s: Story) -> None:
    """The consumer was given offset 19, and the final log ends before it."""
    s.forget(topic=ALL, values={v(ALL, 20)}, but_polls=True)


@golden("INVALID", {("truncated-read", None): (F, 1), ("lost-write", "tail"): (P, 1)})
def consumer_read_a_dirty_tail(s: Story) -> None:
    """Losing an acks=1 write may be permitted; showing it to a consumer first is not."""
    s.send(ONE, 99, 20, 9.4)
    s.poll(ONE, 18, {20: v(ONE, 99)})


@golden("UNKNOWN", {("unseen", None): (U, 1)})
def consumer_read_beyond_the_final_read(s: Story) -> None:
    """Near miss: the final read did not get there."""
    s.forget(topic=ALL, values={v(ALL, 20)}, but_polls=True)
    (end,) = s.rows("final-read-end", ALL)
    end.update(type="info", error="timeout")


@golden("INVALID", {("aborted-read", None): (F, 1)})
def failed_send_was_read(s: Story) -> None:
    """The client was told that it surely did not happen."""
    s.send(ALL, 99, None, 20, type="fail", error="MSG_SIZE_TOO_LARGE")
    s.read_in_the_end(ALL, 20, v(ALL, 99))


@golden("VALID")
def failed_send_was_not_read(s: Story) -> None:
    """Near miss: it failed, and that was that."""
    s.send(ALL, 99, None, 20, type="fail", error="MSG_SIZE_TOO_LARGE")


@golden("INVALID", {("phantom", "unsent"): (F, 1)})
def record_that_nobody_sent(s: Story) -> None:
    """A well-formed value of a client that recorded all it did."""
    s.read_in_the_end(ALL, 20, v(ALL, 77))


@golden("INVALID", {("phantom", "checksum"): (F, 1)})
def record_whose_checksum_is_wrong(s: Story) -> None:
    """Corruption."""
    s.read_in_the_end(ALL, 20, None, error="checksum")


@golden("INVALID", {("phantom", "foreign"): (F, 1)})
def record_of_another_run(s: Story) -> None:
    """No payload of this run."""
    s.read_in_the_end(ALL, 20, None, error="foreign")


@golden("INVALID", {("phantom", "unsent"): (F, 1), ("lost-write", "tail"): (F, 1)})
def record_in_the_wrong_topic(s: Story) -> None:
    """It was sent, but to another topic."""
    s.forget(topic=ALL, values={v(ALL, 20)})
    s.read_in_the_end(ONE, 20, v(ALL, 20))


@golden(
    "UNKNOWN",
    {("unrecorded", None): (INFO, 1)},
    because="failed check: every history ended in order",
)
def record_of_a_client_that_was_cut(s: Story) -> None:
    """Near miss of a phantom: the send was in flight when its recorder was killed."""
    s.history = [r for r in s.history if (r["f"], r["client"]) != ("end", PRODUCER[ALL])]
    s.read_in_the_end(ALL, 20, v(ALL, 21))


@golden("INVALID", {("phantom", "unsent"): (F, 1)})
def old_record_of_a_client_that_was_cut(s: Story) -> None:
    """Near miss of an excuse: its neighbours' sends were recorded long before the cut."""
    s.history = [r for r in s.history if (r["f"], r["client"]) != ("end", PRODUCER[ALL])]
    s.send(ALL, 30, 21, 55)
    s.read_in_the_end(ALL, 20, v(ALL, 0))
    s.read_in_the_end(ALL, 21, v(ALL, 30))
