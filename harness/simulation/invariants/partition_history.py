"""Everything that was ever appended to one partition, on any replica, and what is committed.

Pure: it is called with the headers of batches, and raises InvariantBroken where they contradict
each other. It serves partitions and the metadata log.

- A leader epoch and a base offset identify a batch. All replicas of a batch have the same bytes (by
  CRC) behind the same predecessor; so, by induction, logs that agree on one batch agree on
  everything before it (the log matching property).
- What was once below a leader's high watermark is committed, and stays: no other batch is ever
  committed at its offset, and the leader of each later epoch has it.
- An epoch has one leader.
- A producer's sequences follow each other without a gap or a repetition (KIP-98).
- What is below the start of a replica's log is gone by retention: a replica that is behind may
  remove it, or keep there what others never had.

`reset` is for losses that the configuration permits.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import Entry
from nodes.log.batch import MAX_SEQUENCE, BatchHeader

NEVER: Final = -1


class Sent(NamedTuple):
    """The producer and the sequences of an idempotent producer's batch."""

    producer: int
    epoch: int
    first: int
    last: int
    timestamp_ms: int
    """The largest of its records, in milliseconds since 1970."""


@dataclass(slots=True, eq=False)
class Batch:
    """One batch, the same on all replicas that have it; compared by identity."""

    base: int
    end: int
    """The offset after the batch's last record."""
    epoch: int
    crc: int
    before: "Batch | None"
    """The batch before this one; None while it is unknown."""
    sent: Sent | None = None
    entries: tuple[Entry, ...] | None = None
    """Its records as they were appended, if the log is compacted."""

    def __str__(self) -> str:
        return f"the batch at {self.base} of epoch {self.epoch}"


class PartitionHistory:
    """See the module. `name` is the partition's name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: dict[tuple[int, int], Batch] = {}
        """Batches by leader epoch and base offset."""
        self.compacted = False
        """Whether the log is compacted: then batches may come back without some of their records,
        and empty batches may stand for others."""
        self._by_end: dict[tuple[int, int], Batch] = {}
        """Batches by leader epoch and end, if the log is compacted."""
        self.committed: dict[int, Batch] = {}
        """Committed batches by the offset after their last record."""
        self.leaders: dict[int, int] = {}
        """Leaders by leader epoch."""
        self.start = 0
        """The greatest start of any replica's log."""
        self.reset_epoch = NEVER
        """Leaders of epochs before this one do not decide what is committed."""
        self._given_up: dict[Batch, None] = {}
        """Batches that were committed and may be lost, or that a leader committed whom nobody has
        to follow."""
        self._unread: set[int] = set()
        """Epochs whose leader has an unreadable log: what it commits is not known."""
        self._tops: dict[int, Batch] = {}
        """The last batch that a leader of an epoch committed, by epoch."""
        self._top_epoch = NEVER

    def compact(self) -> None:
        """Record that the log is compacted."""
        if not self.compacted:
            self.compacted = True
            self._by_end = {(each.epoch, each.end): each for each in self.batches.values()}

    # -- appended batches

    def appended(
        self, node: int, header: BatchHeader, before: Batch | None, last_sent: "Sequences"
    ) -> Batch:
        """Record that a replica appended a batch behind `before`; return the batch as all replicas
        must have it.
        """
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
            if self.compacted:
                self._by_end[known.epoch, known.end] = known
            if header.producer_id >= 0 and header.base_sequence >= 0:
                self._note_sequence(node, known, header, last_sent)
        elif known.crc != header.crc or known.end != header.next_offset:
            raise InvariantBroken(
                "log-matching",
                f"{self.name}: {known} differs on node {node}: CRC {header.crc:08x} and "
                f"end {header.next_offset} instead of {known.crc:08x} and {known.end}",
            )
        else:
            self._check_order(node, known, before)
        return known

    def cleaned(self, node: int, header: BatchHeader, before: Batch | None) -> list[Batch]:
        """Return the batches that a batch of a compacted log stands for; nothing if it is one as it
        was appended, or a new one.
        """
        epoch, end = header.partition_leader_epoch, header.next_offset
        same = self.batches.get((epoch, header.base_offset))
        if same is not None and (same.crc, same.end) == (header.crc, end):
            return []
        last = self._by_end.get((epoch, end))
        if last is None or not (header.is_filler or last is same):
            return []
        found = [last]
        while found[-1].base > header.base_offset:
            earlier = found[-1].before
            if earlier is None or earlier.epoch != epoch:
                break
            found.append(earlier)
        first = found[-1]
        if first.base != header.base_offset and before is not None:
            raise InvariantBroken(
                "log-matching",
                f"{self.name}: on node {node}, an empty batch from {header.base_offset} to {end} "
                f"begins inside of {first}",
            )
        self._check_order(node, first, before)
        return found[::-1]

    def _check_order(self, node: int, batch: Batch, before: Batch | None) -> None:
        """Check that the batch follows `before`, as elsewhere."""
        if before is batch.before or before is None or before.end <= self.start:
            return
        if batch.before is not None:
            raise InvariantBroken(
                "log-matching",
                f"{self.name}: on node {node}, {batch} follows {before}, elsewhere {batch.before}",
            )
        batch.before = before

    def _note_sequence(
        self, node: int, batch: Batch, header: BatchHeader, last_sent: "Sequences"
    ) -> None:
        batch.sent = sent = Sent(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            header.max_timestamp,
        )
        wrong = last_sent.refuses(sent)
        if wrong:
            raise InvariantBroken(
                "sequences", f"{self.name}: {batch}, appended by node {node}: {wrong}"
            )

    # -- committed batches

    def commit(self, last: Batch, epoch: int, node: int) -> None:
        """Record that `node`, the leader of `epoch`, has its high watermark at the end
        of `last`. What retention or DeleteRecords removed may have been another batch here.
        """
        if epoch < self.reset_epoch:
            self._give_up(last)
            return
        new: list[Batch] = []
        batch: Batch | None = last
        while batch is not None:
            known = self.committed.get(batch.end)
            if known is batch or (known is not None and batch.end <= self.start):
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

    def _give_up(self, last: Batch) -> None:
        """Give up a batch, and all before it that are not committed. One move of a high watermark
        may commit several batches.
        """
        batch: Batch | None = last
        while batch is not None and batch not in self._given_up:
            if self.committed.get(batch.end) is batch:
                return
            self._given_up[batch] = None
            batch = batch.before

    def leader_is_unreadable(self, epoch: int) -> bool:
        """Record that the log of the leader of `epoch` is damaged and cannot be read. Return
        whether the epoch is new: neither this leader nor a later one is known to have committed.
        """
        new = epoch > max(self._top_epoch, *self._unread, NEVER)
        self._unread.add(epoch)
        return new

    @property
    def knows_commits(self) -> bool:
        """Whether all that leaders committed is known: a leader with a readable log has committed
        something since the last unreadable one.
        """
        return not self._unread or max(self._unread) < self._top_epoch

    def follower_committed(self, node: int, end: int, batch: Batch | None, epoch: int) -> None:
        """Check a follower: `node` follows the leader of `epoch`, and believes that everything
        below `end` is committed.

        `batch` is the batch of its log that ends there, if there is one.
        """
        if epoch in self._unread:
            return
        if epoch >= self.reset_epoch and (batch is None or self.committed.get(end) is not batch):
            raise InvariantBroken(
                "follower-high-watermark",
                f"{self.name}: node {node}, follower in epoch {epoch}, believes that everything "
                f"below {end} is committed. But its log has {batch or 'no end of a batch'} there, "
                f"and committed is {self.committed.get(end) or 'no batch that ends there'}",
            )

    def last_committed(self, before_epoch: int | None = None) -> Batch | None:
        """Return the last committed batch; with `before_epoch`, the last one by a leader of an
        earlier epoch.

        A deposed leader that does not know about its successor need not have what came later.
        """
        if before_epoch is None or self._top_epoch < before_epoch:
            return max(self._tops.values(), key=_end, default=None)
        tops = (batch for epoch, batch in self._tops.items() if epoch < before_epoch)
        return max(tops, key=_end, default=None)

    def removed(self, node: int, batches: Iterable[Batch], epoch: int = NEVER) -> None:
        """Record that a running replica, which knows the leader epoch `epoch`, truncated these
        batches. It may follow a leader whom nobody has to follow any more.
        """
        if NEVER < epoch < self.reset_epoch:
            return
        for batch in batches:
            if batch.end > self.start and self.are_committed([batch]):
                raise InvariantBroken(
                    "committed-stays",
                    f"{self.name}: node {node} truncates {batch}, which is committed",
                )

    def are_committed(self, batches: Iterable[Batch]) -> bool:
        """Return whether all of these batches are committed."""
        return all(self.committed.get(each.end) is each for each in batches)

    def reset(self, last: Batch | None, epoch: int) -> int:
        """Let the committed records end with `last` from `epoch` on: the rest may be lost. Return
        the number of lost batches.
        """
        end = 0 if last is None else last.end
        lost = [each for each in self.committed if each > end]
        for each in lost:
            self._given_up[self.committed.pop(each)] = None
        self._tops = {} if last is None else {epoch - 1: last}
        self._top_epoch = epoch - 1
        self.reset_epoch = epoch
        return len(lost)

    def ignore_leaders_before(self, epoch: int) -> None:
        """Ignore what leaders of earlier epochs commit from now on: an unclean election began
        `epoch`, and those leaders have not heard of it.
        """
        self.reset_epoch = max(self.reset_epoch, epoch)

    def commit_again(
        self, last: Batch | None, epoch: int, node: int, *, damaged: bool = False
    ) -> None:
        """Commit given-up batches again: `node` begins to lead `epoch` with its high watermark at
        the end of `last`. After an unclean election another one may bring records back.

        Commit, too, what a leader with an unreadable log may have committed: nobody knew it then.
        If the leader's disk was `damaged`, the header of a given-up batch may have another epoch
        now, which no checksum covers: then it is another batch here.
        """
        if last is None:
            return
        unread = any(last.epoch <= each < epoch for each in self._unread)
        changed = damaged and self.committed.get(last.end) is None
        if unread or changed or last in self._given_up:
            self.commit(last, epoch, node)

    # -- leaders

    def leader_known(self, epoch: int, leader: int, witness: int) -> None:
        """Record that `witness` knows `leader` as the leader of `epoch`."""
        known = self.leaders.setdefault(epoch, leader)
        if known != leader:
            raise InvariantBroken(
                "one-leader",
                f"{self.name}: epoch {epoch} has the leader {known}, but the leader {leader} "
                f"according to node {witness}",
            )


Forgets = Callable[[int], bool]
"""Whether a broker may have forgotten a producer whose last batch has this timestamp (ms)."""


def forgets_nobody(_: int) -> bool:
    """Return that the producer is remembered."""
    return False


class Sequences:
    """The last sequence of each producer in one replica's log."""

    def __init__(self, forgets: Forgets = forgets_nobody) -> None:
        self._last: dict[int, Sent] = {}
        self._forgets = forgets

    def note(self, sent: Sent) -> None:
        """Record an appended batch."""
        self._last[sent.producer] = sent

    def refuses(self, sent: Sent) -> str:
        """Return what is wrong with the next batch; empty if nothing is.

        A producer that is unknown or forgotten may begin in any epoch, with any sequence (KIP-360).
        """
        known = self._last.get(sent.producer)
        if known is None or self._forgets(known.timestamp_ms):
            return ""
        expected = (known.last + 1) & MAX_SEQUENCE if sent.epoch == known.epoch else 0
        if sent.epoch < known.epoch or sent.first != expected:
            return (
                f"producer {sent.producer} in epoch {sent.epoch} continues with sequence "
                f"{sent.first}, but {expected} of epoch {max(known.epoch, sent.epoch)} is next"
            )
        return ""


def _end(batch: Batch) -> int:
    return batch.end
