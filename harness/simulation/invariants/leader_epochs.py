"""The leader epochs that a log keeps are those of its batches, and its answers follow from them.

Followers truncate to the end offset of an epoch in the leader's log (KIP-101, KIP-279). A leader
with a wrong table, or with a wrong answer from a right one, makes them keep or remove too much.

- From the log's start to its end, each epoch of the table begins with its first batch. After the
  last record at most one more epoch begins: the leader's, which has no records yet.
- `Log.end_offset_for_epoch` answers with the largest epoch not above the requested one, and with
  the start of the next one or the log's end. A response to OffsetForLeaderEpoch says the same.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.log_copy import Copy
from nodes.ids import NO_EPOCH, NO_OFFSET, Epoch, Offset, TopicPartition
from nodes.log.log import Log
from nodes.server.requests.list_offsets import OffsetsHandler

EpochStarts = Sequence[tuple[int, int]]
"""Leader epochs and the offsets of their first records, oldest first."""


class Answer(NamedTuple):
    """What a log answered about the epoch `asked`, with its table and its end at that moment.

    The log may be truncated before the end of the event.
    """

    asked: int
    epoch: int
    end: int
    table: EpochStarts
    log_end: int


class LeaderEpochChecker:
    """Checks the leader epochs of one log. `note` is called when there is an answer to check."""

    def __init__(self, copy: Copy, log: Log, note: Callable[[], None]) -> None:
        self._copy = copy
        self._log = log
        self._note = note
        self._judged: object = None
        self._answers: list[Answer] = []
        self._answer = log.end_offset_for_epoch
        vars(log)["end_offset_for_epoch"] = self._watched

    def _watched(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        found, end = self._answer(epoch)
        self.answered(epoch, found, end)
        return found, end

    def answered(self, asked: int, epoch: int, end: int) -> None:
        """Somebody asked about the epoch `asked`, and was told that `epoch` ends at `end`."""
        log = self._log
        newest = asked == epoch == log._epochs.latest and end == log.end_offset
        if not newest and not log.offline:  # most followers ask about the newest epoch
            self._answers.append(Answer(asked, epoch, end, log.epochs, log.end_offset))
            self._note()

    def check(self) -> None:
        """Check the table if it may have changed, and new answers. Raises InvariantBroken."""
        answers, self._answers = self._answers, []
        copy, log = self._copy, self._log
        name = f"{copy.history.name}: node {copy.node}"
        starts, table = copy.epoch_starts, log.epochs
        beyond = max(0, table[-1][1] - log.end_offset) if table else 0
        looked_at = starts, len(starts), log.start_offset, table, beyond
        if looked_at != self._judged:
            self._judged = looked_at
            wanted = epochs_between(starts, log.start_offset, log.end_offset)
            check_table(name, table, wanted, log.end_offset)
        for answer in answers:
            check_answer(name, answer)


def watch_responses(
    handler: OffsetsHandler, note: Callable[[TopicPartition, int, int, int], None]
) -> None:
    """Call `note` with the partition, the requested epoch, and the epoch and end offset of each
    response to OffsetForLeaderEpoch that is no error.
    """
    respond = handler._epoch_end

    def watched(topic: str, part: Any) -> dict[str, Any]:
        row = respond(topic, part)
        if "error_code" not in row:
            partition = TopicPartition(topic, part.partition)
            note(partition, part.leader_epoch, row["leader_epoch"], row["end_offset"])
        return row

    vars(handler)["_epoch_end"] = watched


def epochs_between(starts: EpochStarts, log_start: int, log_end: int) -> list[tuple[int, int]]:
    """Return the epochs that have records in a log from `log_start` up to `log_end`; the first
    begins at the log's start.
    """
    ends = [start for _, start in starts[1:]] + [log_end]
    return [
        (epoch, max(start, log_start))
        for (epoch, start), end in zip(starts, ends, strict=False)
        if end > log_start and start < log_end
    ]


def check_table(name: str, table: EpochStarts, wanted: EpochStarts, log_end: int) -> None:
    """Check the table of a log that ends at `log_end`, whose batches have the epochs `wanted`."""
    with_records = [entry for entry in table if entry[1] < log_end]
    empty = [(table[-1][0], log_end)] if len(table) > len(with_records) else []
    ascend = all(one[0] < other[0] for one, other in pairwise(table))
    if list(table) != [*wanted, *empty] or not ascend:
        raise InvariantBroken(
            "epochs-match-batches",
            f"{name} keeps the leader epochs {list(table)} for a log that ends at {log_end}, but "
            f"its batches have {list(wanted)}",
        )


def check_answer(name: str, answer: Answer) -> None:
    """Check that an answer follows from the table, which `check_table` judges."""
    expected = end_of_epoch(answer.asked, answer.table, answer.log_end)
    if (answer.epoch, answer.end) != expected:
        raise InvariantBroken(
            "epoch-ends-are-true",
            f"{name} is asked about epoch {answer.asked}, and answers that epoch {answer.epoch} "
            f"ends at {answer.end}. Its epochs begin at {list(answer.table)} and its log ends at "
            f"{answer.log_end}: epoch {expected[0]} ends at {expected[1]}",
        )


def end_of_epoch(asked: int, table: EpochStarts, log_end: int) -> tuple[int, int]:
    """Return the largest epoch not above `asked`, and its end; (-1, -1) if `asked` is newer than
    all epochs. An epoch older than all ends where the first one begins. The rule is that of Kafka's
    `LeaderEpochFileCache.endOffsetFor`.
    """
    if asked < 0 or not table or asked > table[-1][0]:
        return NO_EPOCH, NO_OFFSET
    known = [epoch for epoch, _ in table if epoch <= asked]
    later = [start for epoch, start in table if epoch > asked]
    return (known[-1] if known else asked), (later[0] if later else log_end)
