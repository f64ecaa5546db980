"""Valid batches and wrong ones: what may be in the log, and how a wrong one is refused."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from kio.schema.errors import ErrorCode

from harness.simulation.batch_forms import WRONG
from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.sent_batches import SentBatches, check_refusal
from nodes.ids import Offset
from nodes.log.batch import Record

CHECKSUM = WRONG[0]


def records(number: int, count: int = 2) -> list[Record]:
    """The records of a batch."""
    return [Record(timestamp=1, value=b"%d.%d" % (number, index)) for index in range(count)]


def stored(*batches: Sequence[Record]) -> list[Record]:
    """The records of a log of these batches."""
    every = [record for batch in batches for record in batch]
    return [replace(record, offset=Offset(offset)) for offset, record in enumerate(every)]


def sent(*, offset: int | None = 2) -> SentBatches:
    """Batch 0 has no answer, and batch 1 is acknowledged at an offset."""
    made = SentBatches(0)
    made.begin(records(0))
    batch = made.begin(records(1))
    batch.acknowledged, batch.offset = True, offset
    return made


def test_what_was_acknowledged_is_there() -> None:
    """A batch without an answer may be there as well."""
    sent().check(stored(records(0), records(1)))
    sent(offset=0).check(stored(records(1)))
    sent(offset=None).check(stored(records(1), records(0)))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (stored(records(0)), "no batch at 2"),
        (stored(records(1), records(0)), "at 0 what was acknowledged at 2"),
        (stored(records(0), records(1), records(1)), "offset 4 that nobody sent"),
        (stored(records(0), records(1), records(9)), "offset 4 that nobody sent"),
        (stored(records(0), records(1, count=1)), "other records at offset 2"),
        (stored(records(0), [*records(1)[:1], replace(records(1)[1], key=b"k")]), "other records"),
    ],
)
def test_everything_else_is_wrong(found: list[Record], why: str) -> None:
    """Missing, elsewhere, twice, unknown, cut, changed."""
    with pytest.raises(InvariantBroken, match=why):
        sent().check(found)


@pytest.mark.parametrize(
    ("code", "right"),
    [
        (ErrorCode.corrupt_message, True),
        (ErrorCode.not_leader_or_follower, True),
        (ErrorCode.none, False),
        (ErrorCode.invalid_record, False),
        (ErrorCode.not_enough_replicas_after_append, False),
        (ErrorCode.request_timed_out, False),
    ],
)
def test_a_wrong_batch_is_refused_by_its_error(code: ErrorCode, right: bool) -> None:
    """A broker that did not look at it may say so. Some errors mean that it was appended."""
    if right:
        check_refusal(CHECKSUM, code)
        return
    with pytest.raises(InvariantBroken, match="another checksum is answered"):
        check_refusal(CHECKSUM, code)
