"""Where readers of committed records may read to: the last stable offset (LSO) of each replica.

- log start <= LSO <= high watermark.
- Below the LSO every transaction has ended, by a marker below the high watermark. A marker from
  before a start or a truncation may be above it: a snapshot of producers does not tell that, as in
  Kafka.
- The LSO is not lower than that, unless records that were deleted, or removed by a cleaner, may
  have begun a transaction, of which a damaged disk may have lost the marker, too.
- While a leader leads in one epoch, its LSO never goes back.

The transactions are those in the headers of the log's batches, not those of the broker's own
memory. So an LSO that is too high, or one that is stuck below what is open, is found.
"""

from harness.simulation.invariants.broken import InvariantBroken
from nodes.ids import NO_EPOCH, Epoch
from nodes.log.batch import BatchHeader
from nodes.replication.partition import Role
from nodes.server.replicas.replica import Replica

BOUNDS, RISES = "last-stable-offset", "last-stable-offset-rises"


class LogTransactions:
    """The transactions of one log, from the headers of its batches in order."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, int]] = {}
        """The first offset and the epoch of each open transaction, by producer id."""
        self._ended: list[tuple[int, int]] = []
        """First offset and marker's offset of transactions whose marker may not be committed."""
        self._cleaned_from: int | None = None
        """The first offset whose record a cleaner has removed."""
        self._perhaps: list[tuple[int, int]] = []
        """As `_ended`, of transactions whose records a cleaner may have removed."""
        self.witnessed_from = 0
        """From this offset on the markers were appended while the node looked."""
        self.damaged = False
        """Whether the disk may have lost markers whose transactions a cleaner had removed."""

    def append(self, header: BatchHeader) -> None:
        """Add the next batch. A marker without its record, which was cleaned, ends a transaction
        of its own epoch or an earlier one.
        """
        producer_id, epoch = header.producer_id, header.producer_epoch
        if self._cleaned_from is None and header.record_count <= header.last_offset_delta:
            self._cleaned_from = header.base_offset
        if not header.is_transactional or producer_id < 0:
            return
        first, begun_in = self._open.get(producer_id, (None, epoch))
        if not header.is_control:
            self._open.setdefault(producer_id, (header.base_offset, epoch))
        elif first is not None and (header.record_count or epoch >= begun_in):
            del self._open[producer_id]
            self._ended.append((first, header.base_offset))
        elif first is None and self._cleaned_from is not None:
            self._perhaps.append((self._cleaned_from, header.base_offset))

    def open_epoch(self, producer_id: int) -> int | None:
        """The epoch of the producer's open transaction; None if none is open."""
        return self._open.get(producer_id, (0, None))[1]

    def bounds(self, high_watermark: int) -> tuple[int, int]:
        """The lowest and the highest LSO that this log may have with this high watermark."""
        if not (self._open or self._ended or self._perhaps or self.damaged):
            return high_watermark, high_watermark
        self._ended = [each for each in self._ended if each[1] >= high_watermark]
        self._perhaps = [each for each in self._perhaps if each[1] >= high_watermark]
        witnessed = [first for first, marker in self._ended if marker >= self.witnessed_from]
        opened = [first for first, _ in self._open.values()]
        highest = min([high_watermark, *opened, *witnessed])
        begun = [self._begun(first, marker) for first, marker in self._ended]
        begun += [self._begun(first, first) for first in opened]
        begun += [first for first, _ in self._perhaps]
        if self.damaged and self._cleaned_from is not None:
            begun.append(self._cleaned_from)  # its begin stands in the snapshot of producers
        return min([highest, *begun]), highest

    def _begun(self, first: int, last: int) -> int:
        """The lowest offset at which a transaction may have begun. What ended, by a marker that was
        committed, may have been cleaned. A start may take the high watermark back below the marker,
        and an unclean leader may remove it."""
        if self._cleaned_from is None or last >= self.witnessed_from:
            return first
        return min(first, self._cleaned_from)


class StableOffsetChecker:
    """Checks one Replica of one incarnation."""

    def __init__(self, replica: Replica, node: int) -> None:
        self._replica = replica
        self._node = node
        self._epoch: Epoch = NO_EPOCH
        self._stable = -1

    def check(self, transactions: LogTransactions) -> None:
        """Check what may have changed; `transactions` are those of the log. Raises
        InvariantBroken.
        """
        state, log = self._replica.state, self._replica.log
        stable = self._replica.last_stable_offset
        lowest, highest = transactions.bounds(state.high_watermark)
        lowest = log.start_offset or lowest
        highest = max(highest, log.start_offset)
        if not lowest <= stable <= highest:
            raise InvariantBroken(
                BOUNDS,
                f"{self._named()}: its last stable offset is {stable}, and by its log, with the "
                f"high watermark {state.high_watermark}, it is from {lowest} to {highest}",
            )
        epoch = state.leader_epoch if state.role is Role.LEADER else NO_EPOCH
        if epoch >= 0 and epoch == self._epoch and stable < self._stable:
            raise InvariantBroken(
                RISES,
                f"{self._named()}: its last stable offset goes back from {self._stable} to "
                f"{stable}",
            )
        self._epoch, self._stable = epoch, stable

    def _named(self) -> str:
        epoch = self._replica.state.leader_epoch
        return f"{self._replica.partition}, node {self._node}, leader epoch {epoch}"
