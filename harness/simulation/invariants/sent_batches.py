"""Valid batches are in the log as they were sent, and wrong ones are refused.

One producer alone writes to a partition. A batch that was acknowledged is there once, at the offset
of the answer, with the same records; one without an answer is there once or not at all. Nothing
else is there. A wrong batch is refused by the error that says what is wrong, unless the broker
could not look at it, because it does not lead, say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from harness.simulation.batch_forms import Wrong
from harness.simulation.invariants.broken import InvariantBroken
from nodes.ids import NO_OFFSET
from nodes.log.batch import Record

REFUSED, KEPT = "wrong-batches-are-refused", "valid-batches-stay"

NOT_LOOKED_AT: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
    }
)
"""Errors of a broker that has not looked at the batch."""


def check_refusal(wrong: Wrong, code: ErrorCode) -> None:
    """Judge the answer to a wrong batch. Raises InvariantBroken."""
    if code in wrong.errors or code in NOT_LOOKED_AT:
        return
    wanted = " or ".join(sorted(each.name.upper() for each in wrong.errors))
    raise InvariantBroken(
        REFUSED,
        f"a batch with {wrong.name} is answered {code.name.upper()}, and not {wanted}",
    )


@dataclass(slots=True)
class SentBatch:
    """A valid batch. `offset`: the first record's, if an answer had one."""

    records: Sequence[Record]
    acknowledged: bool = False
    offset: int | None = None


class SentBatches:
    """The valid batches for one partition."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._sent: list[SentBatch] = []

    @property
    def next_number(self) -> int:
        """The number of the next batch, which the value of its first record begins with."""
        return len(self._sent)

    def begin(self, records: Sequence[Record]) -> SentBatch:
        """Return a batch that is about to be sent."""
        self._sent.append(SentBatch(records))
        return self._sent[-1]

    @property
    def acknowledged(self) -> int:
        """How many batches were acknowledged."""
        return sum(each.acknowledged for each in self._sent)

    def check(self, found: Sequence[Record]) -> None:
        """Judge all records of the partition. Raises InvariantBroken."""
        begins = {each.records[0].value: each for each in self._sent}
        at = 0
        while at < len(found):
            batch = begins.pop(found[at].value, None)
            if batch is None:
                raise self._broken(f"a record at offset {found[at].offset} that nobody sent")
            stored = found[at : at + len(batch.records)]
            if [*map(_content, stored)] != [*map(_content, batch.records)]:
                raise self._broken(f"other records at offset {found[at].offset} than were sent")
            if batch.offset not in (None, found[at].offset):
                raise self._broken(f"at {found[at].offset} what was acknowledged at {batch.offset}")
            at += len(batch.records)
        if missing := [each for each in begins.values() if each.acknowledged]:
            raise self._broken(f"no batch at {missing[0].offset}, which was acknowledged")

    def _broken(self, what: str) -> InvariantBroken:
        return InvariantBroken(KEPT, f"partition {self.partition} has {what}")


def _content(record: Record) -> Record:
    """Return what the producer gave."""
    return Record(
        offset=NO_OFFSET,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )
