"""What clients of the coordinators were promised, to be compared with what is there later.

An offset may be any of the values that were sent since the last answer. The offsets of a
transaction count as soon as its records do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.simulation.invariants.transactions import End, Transaction, Transactions

NOTHING: Final = -1
"""As OffsetFetch says that a group committed no offset of a partition."""

OffsetKey = tuple[str, int]
"""A group, and a partition of the topic."""


@dataclass
class Promises:
    """See the module. Transactions of one id follow each other, and so does everything else."""

    offsets: dict[OffsetKey, list[int]] = field(default_factory=dict)
    """The values that each offset may have."""
    expiring: set[OffsetKey] = field(default_factory=set)
    """The offsets that are removed at some time after their commit."""
    transactions: Transactions = field(default_factory=Transactions)
    open: dict[str, Transaction] = field(default_factory=dict)
    """The transaction of each transactional id whose end nobody was told."""
    _staged: dict[int, dict[OffsetKey, int]] = field(default_factory=dict)

    # -- offsets

    def may_be(self, group: str, offsets: Mapping[int, int]) -> None:
        """The group asks for these offsets, by partition."""
        for partition, offset in offsets.items():
            self.offsets.setdefault((group, partition), [NOTHING]).append(offset)

    def must_be(self, group: str, offsets: Mapping[int, int]) -> None:
        """The group was told that these are committed."""
        for partition, offset in offsets.items():
            expires = (group, partition) in self.expiring and offset != NOTHING
            self.offsets[group, partition] = [offset, NOTHING] if expires else [offset]

    def found(self, group: str, offsets: Mapping[int, int]) -> None:
        """Compare all offsets of a group. Raises AssertionError."""
        known = {partition for name, partition in self.offsets if name == group}
        for partition in known | set(offsets):
            offset = offsets.get(partition, NOTHING)
            allowed = self.offsets.get((group, partition), [NOTHING])
            assert offset in allowed, f"{group}-{partition} is at {offset}, not at {allowed}"
        self.must_be(group, {partition: offsets.get(partition, NOTHING) for partition in known})

    # -- transactions

    def begin(self, name: str) -> Transaction:
        """The producer of a transactional id begins the next transaction."""
        assert name not in self.open
        self.open[name] = begun = self.transactions.begin()
        self._staged[begun.number] = {}
        return begun

    def stage(self, name: str, group: str, offsets: Mapping[int, int]) -> None:
        """The transaction commits these offsets."""
        staged = self._staged[self.open[name].number]
        staged.update({(group, partition): offset for partition, offset in offsets.items()})

    def deciding(self, name: str, *, commit: bool) -> None:
        """The producer asks for the end."""
        if commit:
            self.open[name].end = End.UNKNOWN

    def decided(self, name: str, *, commit: bool) -> None:
        """The producer was told that the transaction ended so, or that it is fenced (an abort)."""
        transaction = self.open.pop(name)
        transaction.end = End.COMMITTED if commit else End.ABORTED
        self._apply(transaction)

    def _apply(self, transaction: Transaction) -> None:
        staged = self._staged.pop(transaction.number)
        if transaction.end is End.COMMITTED:
            for key, offset in staged.items():
                self.offsets[key] = [offset]

    def seen(self, numbers: Mapping[int, Sequence[int]]) -> None:
        """Compare what is committed in each partition; every transaction has ended.

        Raises InvariantBroken.
        """
        self.transactions.check(numbers)
        everywhere: Iterable[int] = [number for each in numbers.values() for number in each]
        for name, transaction in list(self.open.items()):
            committed = transaction.end is End.UNKNOWN and transaction.number in everywhere
            self.decided(name, commit=committed)
