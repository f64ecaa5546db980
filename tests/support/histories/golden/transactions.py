"""Transactions of unknown outcome: all of one was written, or nothing."""

from tests.support.histories.golden.base import F, U, golden
from tests.support.histories.story import ALL, Story, v


def _torn(s: Story, *, read: int, lost: int, offset: int | None, **more: object) -> None:
    """Two sends of one transaction, of which the client was told nothing; one of them is read, the
    other is not."""
    first = s.send(ALL, 97, None if read == 97 else offset, 20, type="info", **more)
    second = s.send(ALL, 98, None if read == 98 else offset, 20.01, type="info", **more)
    first["txn"] = second["txn"] = first["op"]
    s.read_in_the_end(ALL, 21, v(ALL, read))
    s.send(ALL, 99, 22, 22)
    s.read_in_the_end(ALL, 22, v(ALL, 99))


def _cut_at(s: Story, offset: int) -> None:
    """The final read of ALL came this far, and the log goes on."""
    s.rows("final-read-end", ALL)[0].update(type="info", offset=offset)


@golden("INVALID", {("lost-write", "middle"): (F, 1)})
def transaction_is_torn(s: Story) -> None:
    """Acknowledged or not: half of it is there, at 21, and the other half, at 20, is not."""
    _torn(s, read=98, lost=97, offset=20)


@golden("INVALID", {("lost-write", None): (F, 1)})
def transaction_is_torn_nobody_knows_where(s: Story) -> None:
    """All of the log was read, and the other half is not in it."""
    _torn(s, read=97, lost=98, offset=None)


@golden("INVALID", {("lost-write", None): (F, 1)}, because="1 lost-write in all-0")
def transaction_is_torn_before_what_was_read(s: Story) -> None:
    """Nobody knows the first half's offset; the second, which was read, lies behind it."""
    _torn(s, read=98, lost=97, offset=None)
    _cut_at(s, 23)


@golden("UNKNOWN", {("unseen", None): (U, 1)})
def other_half_may_lie_beyond_the_final_read(s: Story) -> None:
    """Near miss: the log was not read to its end, and the missing half was sent last."""
    _torn(s, read=97, lost=98, offset=None)
    _cut_at(s, 23)


@golden("VALID")
def transaction_of_unknown_outcome_was_written(s: Story) -> None:
    """Near miss: both halves are there."""
    _torn(s, read=98, lost=97, offset=20)
    s.read_in_the_end(ALL, 20, v(ALL, 97))


@golden("VALID")
def transaction_of_unknown_outcome_was_not_written(s: Story) -> None:
    """Near miss: nothing of it is there, though an offset was told of one half."""
    _torn(s, read=98, lost=97, offset=20)
    s.forget(topic=ALL, values={v(ALL, 98)})


@golden("VALID")
def sends_of_unknown_outcome_stand_alone(s: Story) -> None:
    """Near miss: the two are not of one transaction."""
    _torn(s, read=98, lost=97, offset=20)
    for row in s.rows("send", ALL)[-3:-1]:
        row["txn"] = row["op"]
