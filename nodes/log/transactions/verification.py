"""Verification of the first batch of a transaction in a partition (KIP-890 part 1). Pure.

A producer's first batch of a transaction is appended only after the transaction coordinator has
confirmed that the partition belongs to it. Otherwise a late batch could open a transaction that
nobody ends. A guard is made before the coordinator is asked, and handed in with the append. It is
valid for that one: a marker or a first batch that is written in between ends it (KAFKA-14884), so
that an old confirmation does not count for a later transaction. In transaction version 2 a marker
has the epoch after that of its transaction. So there the marker of the transaction before does not
end the guard: the coordinator confirms the next one as soon as it is written everywhere.

Several batches of a producer may wait for the same guard. The one with the lowest sequence goes
first (KAFKA-14904): otherwise a batch that passed an earlier one of its producer, which then has to
be sent again, would be appended in its place.
"""

from nodes.log.batch import BatchHeader


class VerificationGuard:
    """One question to the coordinator about one producer; its identity is what counts."""

    __slots__ = ("_epoch", "lowest_sequence", "since_ms", "supports_epoch_bump")

    def __init__(self, header: BatchHeader, now_ms: int, *, supports_epoch_bump: bool) -> None:
        """`now_ms` is wall-clock time. `supports_epoch_bump`: the client speaks transaction
        version 2, in which each transaction has an epoch and begins with sequence 0.
        """
        self.since_ms = now_ms
        self.supports_epoch_bump = supports_epoch_bump
        self.lowest_sequence = header.base_sequence
        self._epoch = header.producer_epoch

    def outlives(self, marker_epoch: int) -> bool:
        """Whether a marker of this epoch surely belongs to an earlier transaction."""
        return self.supports_epoch_bump and marker_epoch <= self._epoch

    def joined(self, header: BatchHeader) -> None:
        """Another batch waits for the same guard."""
        if header.producer_epoch > self._epoch:
            self._epoch = header.producer_epoch
            self.lowest_sequence = header.base_sequence
        elif header.producer_epoch == self._epoch:
            self.lowest_sequence = min(self.lowest_sequence, header.base_sequence)


class Verifications:
    """The guards of one log, by producer id."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        self._by_id: dict[int, VerificationGuard] = {}

    def start(
        self, header: BatchHeader, now_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """Return the guard for the batch of `header`; batches of one producer share it."""
        guard = self._by_id.get(header.producer_id)
        if guard is None:
            guard = VerificationGuard(header, now_ms, supports_epoch_bump=supports_epoch_bump)
            self._by_id[header.producer_id] = guard
        else:
            guard.joined(header)
        return guard

    def get(self, producer_id: int) -> VerificationGuard | None:
        """The producer's guard, if there is one."""
        return self._by_id.get(producer_id)

    def end(self, producer_id: int) -> None:
        """A transactional batch of the producer was appended: the guard is void."""
        self._by_id.pop(producer_id, None)

    def marked(self, producer_id: int, marker_epoch: int) -> None:
        """A marker was appended: the guard is void, unless it is for a later transaction."""
        guard = self._by_id.get(producer_id)
        if guard is not None and not guard.outlives(marker_epoch):
            self.end(producer_id)

    def forget_idle(self, now_ms: int, expiration_ms: int) -> None:
        """Remove the guards that are older than `expiration_ms`; nobody waits for them."""
        self._by_id = {
            producer_id: guard
            for producer_id, guard in self._by_id.items()
            if now_ms - guard.since_ms < expiration_ms
        }

    def clear(self) -> None:
        """Remove every guard."""
        self._by_id.clear()
