"""Everything that was ever appended to one partition, on whichever replica, and what is committed.

Pure: told of batches by their headers, it raises InvariantBroken where they contradict each other.
Used for partitions and for the metadata log alike.

- A batch is known by its leader epoch and base offset. Every replica that has one of these has the
  same bytes (by CRC) behind the same predecessor; so, by induction, logs that agree on one batch
  agree on everything before it (the log matching property).
- What was once below a leader's high watermark is committed, and stays: no other batch is ever
  committed at its offset, and whoever leads a later epoch has it.
- An epoch has one leader.
- A producer's sequences follow each other without a gap or a repetition (KIP-98).

`reset` is for what the configuration permits to be lost: the rest is told that it may be.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.simulation.invariants.broken import InvariantBroken
from nodes.log.batch import MAX_SEQUENCE, BatchHeader

NEVER: Final = -1


class Sent(NamedTuple):
    """Of an idempotent producer's batch: who sent it, and which sequences."""

    producer: int
    epoch: int
    first: int
    last: int


@dataclass(slots=True, eq=False)
class Batch:
    """One batch, as all replicas that have it must have it; compared by identity."""

    base: int
    end: int
    """The offset after its last."""
    epoch: int
    crc: int
    before: "Batch | None"
    """The batch that it follows; None where nobody has said yet."""
    sent: Sent | None = None

    def __str__(self) -> str:
        return f"the batch at {self.base} of epoch {self.epoch}"


class Ledger:
    """See the module. `name` is the partition's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: dict[tuple[int, int], Batch] = {}
        """By leader epoch and base offset."""
        self.committed: dict[int, Batch] = {}
        """By the offset after the batch's last."""
        self.leaders: dict[int, int] = {}
        """By leader epoch."""
        self.reset_epoch = NEVER
        """Leaders of epochs before this one say nothing of what is committed."""
        self._given_up: dict[Batch, None] = {}
        """What was committed and is lost, as it may be, or was said to be by whom nobody has to
        follow any more."""
        self._tops: dict[int, Batch] = {}
        """The last batch that leaders of an epoch have committed, by epoch."""
        self._top_epoch = NEVER

    # -- what is appended

    def met(
        self, node: int, header: BatchHeader, before: Batch | None, last_sent: "Sequences"
    ) -> Batch:
        """A replica has appended a batch behind `before`; the batch as all must have it."""
        key = header.partition_leader_epoch, header.base_offset
        known = self.batches.get(key)
        if known is None:
            known = self.batches[key] = Batch(
                header.base_offset,
                header.base_offset + header.last_offset_delta + 1,
                header.partition_leader_epoch,
                header.crc,
                before,
            )
            if header.producer_id >= 0 and header.base_sequence >= 0:
                self._note_sequence(node, known, header, last_sent)
        elif known.crc != header.crc or known.end != header.next_offset:
            raise InvariantBroken(
                "log-matching",
                f"{self.name}: {known} is another one on node {node}: CRC {header.crc:08x} and "
                f"end {header.next_offset} instead of {known.crc:08x} and {known.end}",
            )
        elif before is not known.before and before is not None:
            if known.before is not None:
                raise InvariantBroken(
                    "log-matching",
                    f"{self.name}: on node {node}, {known} follows {before}, elsewhere "
                    f"{known.before}",
                )
            known.before = before
        return known

    def _note_sequence(
        self, node: int, batch: Batch, header: BatchHeader, last_sent: "Sequences"
    ) -> None:
        batch.sent = sent = Sent(
            header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence
        )
        wrong = last_sent.refuses(sent)
        if wrong:
            raise InvariantBroken(
                "sequences", f"{self.name}: {batch}, appended by node {node}: {wrong}"
            )

    # -- what is committed

    def commit(self, last: Batch, epoch: int, node: int) -> None:
        """`node`, which leads `epoch`, has its high watermark at the end of `last`."""
        if epoch < self.reset_epoch:
            self._given_up[last] = None
            return
        new: list[Batch] = []
        batch: Batch | None = last
        while batch is not None:
            known = self.committed.get(batch.end)
            if known is batch:
                break
            if known is not None:
                raise InvariantBroken(
                    "committed-stays",
                    f"{self.name}: node {node}, leader of epoch {epoch}, commits {batch}, but "
                    f"{known} was committed at that offset",
                )
            new.append(batch)
            batch = batch.before
        for batch in reversed(new):
            self.committed[batch.end] = batch
        top = self._tops.get(epoch)
        if top is None or last.end > top.end:
            self._tops[epoch] = last
        self._top_epoch = max(self._top_epoch, epoch)

    def told(self, node: int, end: int, batch: Batch | None, epoch: int) -> None:
        """`node` follows the leader of `epoch`, and takes everything below `end` for committed.

        `batch` is what it has there, if a batch ends there.
        """
        if epoch >= self.reset_epoch and (batch is None or self.committed.get(end) is not batch):
            raise InvariantBroken(
                "follower-high-watermark",
                f"{self.name}: node {node}, follower in epoch {epoch}, takes everything below "
                f"{end} for committed, but its log has {batch or 'no end of a batch'} there and "
                f"committed is {self.committed.get(end) or 'nothing that ends there'}",
            )

    def top(self, before_epoch: int | None = None) -> Batch | None:
        """The last batch that is committed: by leaders of epochs before that one, if one is given.

        A leader that does not know yet that it was deposed need not have what came later.
        """
        if before_epoch is None or self._top_epoch < before_epoch:
            return max(self._tops.values(), key=_end, default=None)
        tops = (batch for epoch, batch in self._tops.items() if epoch < before_epoch)
        return max(tops, key=_end, default=None)

    def removed(self, node: int, batches: Iterable[Batch]) -> None:
        """A running replica has cut these from its log."""
        for batch in batches:
            if self.committed.get(batch.end) is batch:
                raise InvariantBroken(
                    "committed-stays",
                    f"{self.name}: node {node} cuts {batch}, which is committed",
                )

    def reset(self, last: Batch | None, epoch: int) -> int:
        """What is committed ends with `last` from `epoch` on: the rest was lost, as it may be.

        How many batches that is.
        """
        end = 0 if last is None else last.end
        lost = [each for each in self.committed if each > end]
        for each in lost:
            self._given_up[self.committed.pop(each)] = None
        self._tops = {} if last is None else {epoch - 1: last}
        self._top_epoch = epoch - 1
        self.reset_epoch = epoch
        return len(lost)

    def disregard_before(self, epoch: int) -> None:
        """An unclean election began `epoch`: what leaders of earlier ones commit from now on, which
        have not heard of it, nobody else has to have.
        """
        self.reset_epoch = max(self.reset_epoch, epoch)

    def regain(self, last: Batch | None, epoch: int, node: int) -> None:
        """`node` begins to lead `epoch` with its high watermark at the end of `last`: if that was
        given up, it is committed again. After an unclean election another may bring it back.
        """
        if last in self._given_up:
            self.commit(last, epoch, node)

    # -- who leads

    def led(self, epoch: int, leader: int, witness: int) -> None:
        """`witness` knows `leader` as the leader of `epoch`."""
        known = self.leaders.setdefault(epoch, leader)
        if known != leader:
            raise InvariantBroken(
                "one-leader",
                f"{self.name}: epoch {epoch} is led by node {known}, and by node {leader} as node "
                f"{witness} has it",
            )


class Sequences:
    """The last sequence of each producer in one replica's log."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}

    def note(self, sent: Sent) -> None:
        """A batch was appended."""
        self._last[sent.producer] = sent.epoch, sent.last

    def refuses(self, sent: Sent) -> str:
        """What is wrong with a batch that comes next; empty when nothing is.

        A producer that is not known may have been forgotten (KIP-360): any sequence will do.
        """
        known = self._last.get(sent.producer)
        if known is None:
            return ""
        epoch, last = known
        expected = (last + 1) & MAX_SEQUENCE if sent.epoch == epoch else 0
        if sent.epoch < epoch or sent.first != expected:
            return (
                f"producer {sent.producer} in epoch {sent.epoch} goes on with sequence "
                f"{sent.first}, but {expected} of epoch {max(epoch, sent.epoch)} is next"
            )
        return ""


def _end(batch: Batch) -> int:
    return batch.end
