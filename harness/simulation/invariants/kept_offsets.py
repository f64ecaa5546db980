"""What one client alone commits and deletes of a group is what it reads.

The client makes one step after the other, so it knows the offset of each partition. A committed
offset counts by its place in the log: one that was sent in a transaction does not replace one that
was committed after it, whenever the transaction ends. A deletion removes what is pending, too.

A reader that asks for stable offsets is told none that an open transaction may change (KIP-447).

A replica that lags for longer than delete.retention.ms misses the tombstones and the markers that
were compacted away meanwhile. When it leads, what they removed may be back; Kafka has the same
limit. So if deletions do not stay for the whole run, a partition without an offset may have any of
its earlier ones, and one with an offset those of aborted transactions that came after it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.commits import NOTHING

NAME, STABLE = "commits-stay", "stable-offsets-stay"


class KeptOffsets:
    """The offsets of one group.

    may_have_expired: whether offsets may have been removed without a request by now, because of
    their age. deletions_stay: no tombstone and no end of a transaction is compacted away in this
    run.
    """

    def __init__(
        self, group: str, *, may_have_expired: Callable[[], bool], deletions_stay: bool = True
    ) -> None:
        self.group = group
        self._may_have_expired = may_have_expired
        self._deletions_stay = deletions_stay
        self._committed: dict[int, int] = {}
        self._pending: dict[int, int] = {}
        self._superseded: set[int] = set()
        """The partitions with a pending offset that got another one after it."""
        self._told: dict[int, int] = {}
        """What readers were told of partitions that have an offset pending."""
        self._written: dict[int, set[int]] = defaultdict(set)
        """All offsets that each partition ever had, committed or pending."""
        self._aborted: dict[int, set[int]] = defaultdict(set)
        """Those of aborted transactions that came after the committed offset."""

    @property
    def partitions(self) -> Collection[int]:
        """The partitions with an offset, committed or pending."""
        return sorted({*self._committed, *self._pending})

    def committed(self, partition: int, offset: int) -> None:
        """A commit was acknowledged."""
        self._superseded.add(partition)
        self._written[partition].add(offset)
        self._commit(partition, offset)

    def _commit(self, partition: int, offset: int) -> None:
        self._committed[partition] = offset
        self._aborted.pop(partition, None)

    def sent(self, partition: int, offset: int) -> None:
        """The open transaction has an offset."""
        self._pending[partition] = offset
        self._superseded.discard(partition)
        self._written[partition].add(offset)

    def deleted(self, *partitions: int) -> None:
        """The offsets of these partitions were deleted."""
        for partition in partitions:
            self._committed.pop(partition, None)
            self._pending.pop(partition, None)

    def ended(self, *, commit: bool) -> None:
        """The end of the transaction was acknowledged. Raises InvariantBroken."""
        told = {p: offset for p, offset in self._told.items() if p in self._pending}
        for partition, offset in self._pending.items():
            if partition in self._superseded:
                continue
            if commit:
                self._commit(partition, offset)
            else:
                self._aborted[partition].add(offset)
        self._pending, self._told = {}, {}
        self._superseded.clear()
        if commit and told:
            raise InvariantBroken(
                STABLE,
                f"group {self.group}: a reader of stable offsets was told {told} by partition, and "
                "a transaction that had others pending is committed afterwards",
            )

    def decides(self, partition: int, offset: int) -> bool:
        """Whether a read of this offset may show that something is wrong, now or later."""
        return partition in self._pending or offset != self._committed.get(partition, NOTHING)

    def read(self, partition: int, offset: int) -> None:
        """Judge the answer to a read of stable offsets. Raises InvariantBroken."""
        if partition in self._pending:
            self._told[partition] = offset
            return
        known = self._committed.get(partition, NOTHING)
        if offset == NOTHING and self._may_have_expired():
            self._committed.pop(partition, None)
        elif offset != known and not self._may_be_back(partition, offset):
            raise InvariantBroken(
                NAME,
                f"group {self.group}, partition {partition}: the committed offset is {offset}, and "
                f"its only client committed {known}",
            )

    def _may_be_back(self, partition: int, offset: int) -> bool:
        """Whether a replica that lagged may have this offset."""
        if self._deletions_stay:
            return False
        removed = partition not in self._committed or self._may_have_expired()
        return offset in (self._written if removed else self._aborted)[partition]
