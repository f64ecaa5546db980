"""What a compaction of one log may remove, and what it must leave.

Whenever a node has replaced segments of a compacted log, what it has now is compared with what it
had before, and with what was ever appended:

- A record is removed only if a later committed record of its key, which is on the node's disk, is
  in the log, or if its transaction was aborted, or if it is a tombstone and its time is over. What
  is left is what was appended, at its offset.
- A tombstone is the last record of its key when it is removed: no earlier one may come back. It was
  seen with a delete horizon, and is older than delete.retention.ms (KIP-534).
- The marker of a transaction stays as long as a record of the transaction, and until its delete
  horizon.
- Nothing is removed at or above the first open transaction, the high watermark, or what is flushed.
- The last batch of each producer that the broker remembers stays (KAFKA-5490), and a reader of
  committed records is told of each aborted transaction whose records are left (KAFKA-13727). A
  start or a truncation may bring a producer back that the broker had forgotten, or whose later
  batches are lost: what went before that is not judged again.

A replica that lags for longer than delete.retention.ms may never get the marker of a transaction:
its leader has removed it, with the records that this replica still has. Then it cannot know how the
transaction ended. The next marker of the producer ends it here, so an aborted record may supersede
others; or the batch that is left of the marker does, so a committed record may count as aborted.
Kafka has the first limit, too.

The cleaner is not asked: its rules are not used here.
"""

from collections.abc import Callable, Iterator
from typing import NoReturn

from harness.simulation.invariants.broken import InvariantBroken
from harness.simulation.invariants.compacted_log import (
    Ended,
    Entry,
    LogRecord,
    abort_markers,
    aborted_offsets,
    markers_of,
)
from harness.simulation.invariants.log_copy import Content, Copy
from harness.simulation.invariants.partition_history import NEVER
from harness.simulation.invariants.wall_clock import Clock
from nodes.coordinators.machine import ProducerStamp
from nodes.ids import Offset
from nodes.log.batch import BatchHeader
from nodes.log.log import Log

KEEPS, CHANGES = "compaction-keeps-the-latest", "compaction-changes-nothing"
TOMBSTONES, DELETED = "tombstones-stay-for-their-time", "deleted-keys-stay-deleted"
MARKERS, BELOW = "compaction-keeps-markers", "compaction-is-below-the-stable-offset"
PRODUCERS, ABORTED = "compaction-keeps-producers", "compaction-keeps-aborted-transactions"


class CompactionChecker:
    """Checks the compactions of one log of one incarnation."""

    def __init__(self, copy: Copy, log: Log, clock: Callable[[], Clock]) -> None:
        self._copy = copy
        self._log = log
        self._clock = clock
        self._judged: Content | None = None

    def check(self) -> None:
        """Check what was removed since the last check; the copy was read before. Raises
        InvariantBroken.
        """
        copy = self._copy
        now, before = copy.content, copy.earlier_content
        if before is None or now is self._judged or not copy.history.compacted:
            return
        at_start, self._judged = self._judged is None, now
        known = [each for batch in copy.batches.values() for each in batch.entries or ()]
        if any(batch.entries is None for batch in copy.batches.values()):
            return  # the topic was not compacted when they were appended
        self._check_content(now, known)
        if copy.history.reset_epoch == NEVER and copy.lost_before is None:
            self._check_removed(before, now, known)
        if not at_start:  # what was removed by then, other producers were remembered for
            self._check_producers(before, now, known)
        self._check_aborted(now, known)

    def _check_content(self, now: Content, known: list[Entry]) -> None:
        """What is there is what was appended there."""
        appended = {each.offset: each for each in known}
        for offset, entry in now.entries.items():
            if not _same(entry, appended.get(Offset(offset))):
                self._broken(CHANGES, f"{entry} was appended as {appended.get(Offset(offset))}")

    def _check_removed(self, before: Content, now: Content, known: list[Entry]) -> None:
        copy, log = self._copy, self._log
        end = copy.end
        gone = [
            entry
            for offset, entry in before.entries.items()
            if log.start_offset <= offset < end and offset not in now.entries
        ]
        if not gone:
            return
        limit = self._limit(before, known)
        aborted = aborted_offsets(known)
        last: dict[bytes, LogRecord] = {}
        for each in known:
            if isinstance(each, LogRecord) and each.offset < limit and each.offset not in aborted:
                last[each.key] = each
        left = {each.key for each in now.entries.values() if isinstance(each, LogRecord)}
        unmarked = _last_unmarked(before, now, known)
        for entry in gone:
            if entry.offset >= limit:
                self._broken(BELOW, f"it removed {entry}; only what is below {limit} is stable")
            if isinstance(entry, Ended):
                self._check_marker(entry, before, now, known)
            elif entry.offset not in aborted and entry.offset > unmarked.get(entry.key, NEVER):
                latest = last[entry.key]
                if latest.value is not None and latest.offset not in before.entries:
                    # Its leader had removed it: a later record, not on the disk here, follows.
                    latest = _last_here(entry, before, limit, aborted)
                self._check_record(entry, latest, before, now, left)

    def _limit(self, there: Content, known: list[Entry]) -> int:
        """Everything below is committed, part of no open transaction that has a record there, and
        on the disk. What a leader with an unreadable log commits is not known: it may be all that
        the log has.
        """
        history, committed = self._copy.history, self._copy.end
        if history.knows_commits:
            top = history.last_committed()
            committed = 0 if top is None else top.end
        # A record that is not there, its leader removed: there its transaction was decided.
        left = [each for each in known if isinstance(each, Ended) or each.offset in there.entries]
        return min(first_undecided(left, committed), self._copy.flushed)

    def _check_record(
        self, entry: LogRecord, last: LogRecord, before: Content, now: Content, left: set[bytes]
    ) -> None:
        """Judge that a record, which was not aborted, is gone; `last` is the last one of its key.

        `left` are the keys of all records that are left.
        """
        if last.offset in now.entries:
            return
        if last.value is not None:
            self._broken(KEEPS, f"it removed {entry}, but {last} is the last of its key")
        if last is not entry and last.offset not in before.entries:
            return  # the tombstone was removed before, and its leader had removed it
        if entry.key in left:
            at = [each for each in now.entries.values() if getattr(each, "key", None) == entry.key]
            if any(each.offset < last.offset for each in at):
                self._broken(DELETED, f"it removed {last}, and {at[0]} is still there")
        if last is entry:
            self._check_time(TOMBSTONES, entry, before)

    def _check_time(self, name: str, entry: Entry, before: Content) -> None:
        """Judge that a tombstone or a marker is gone: its delete horizon is over."""
        base = max((base for base in before.headers if base <= entry.offset), default=None)
        header = None if base is None else before.headers[base]
        clock = self._clock()
        if header is None or not header.has_delete_horizon:
            self._broken(name, f"it removed {entry}, which had no delete horizon yet")
        # A cleaning goes by the clock at its beginning; a fault may have set that back since.
        if not clock.changed and header.base_timestamp > clock.shown_ms:
            self._broken(
                name,
                f"it removed {entry} at {clock.shown_ms} ms, before its delete horizon "
                f"{header.base_timestamp}",
            )
        config = self._log.config.compaction
        if config is None or clock.changed:
            return
        age_ms = clock.shown_ms - entry.timestamp
        if age_ms < config.delete_retention_ms:
            self._broken(name, f"it removed {entry}, which was {age_ms} ms old")

    def _check_marker(
        self, marker: Ended, before: Content, now: Content, known: list[Entry]
    ) -> None:
        for offset in _of_transaction(marker, known):
            if offset in now.entries:
                self._broken(MARKERS, f"it removed {marker}, but not {now.entries[offset]}")
        self._check_time(MARKERS, marker, before)

    def _check_producers(self, before: Content, now: Content, known: list[Entry]) -> None:
        """What is gone tells the state of no producer: its last batch does, or the marker that
        tells its epoch.
        """
        log, end = self._log, self._copy.end
        ends = _last_offsets(before, end) - _last_offsets(now, end)
        markers = _marked_epochs(before, end) - _marked_epochs(now, end)
        written = {each.producer for each in known if isinstance(each, Ended)}
        for producer_id, producer in log.producers.items():
            epoch = producer_id, producer.epoch
            if producer.batches:
                last = producer.batches[-1].last_offset
                if last >= log.start_offset and (producer_id, last) in ends:
                    what = f"the last batch of producer {producer_id}, at {last}"
                    self._broken(PRODUCERS, f"it removed {what}")
            elif ProducerStamp(*epoch) in written and epoch in markers:
                what = f"the marker with epoch {producer.epoch} of producer {producer_id}"
                self._broken(PRODUCERS, f"it removed {what}")

    def _check_aborted(self, now: Content, known: list[Entry]) -> None:
        stable = self._limit(now, known)
        for offset, marker in sorted(abort_markers(known).items()):
            entry = now.entries.get(offset)
            if not isinstance(entry, LogRecord) or offset >= stable:
                continue
            if marker not in now.entries:
                continue  # its leader had removed it with the records: see `_check_marker`
            assert entry.producer is not None
            told = self._log.aborted_transactions(offset, Offset(offset + 1))
            ids = {each.producer_id for each in told if each.first_offset <= offset}
            if entry.producer.producer_id not in ids:
                self._broken(ABORTED, f"readers are not told that {entry} was aborted")

    def _broken(self, name: str, sentence: str) -> NoReturn:
        copy = self._copy
        raise InvariantBroken(
            name, f"{copy.history.name}: node {copy.node} compacted its log: {sentence}"
        )


def _last_unmarked(before: Content, now: Content, known: list[Entry]) -> dict[bytes, Offset]:
    """The last record of each key that this replica had without the marker of its transaction,
    though its log has the place of that.
    """
    found: dict[bytes, Offset] = {}
    for offset, marker in markers_of(known).items():
        entry = before.entries.get(offset)
        there = marker.offset in before.entries or marker.offset in now.entries
        if isinstance(entry, LogRecord) and not there:
            found[entry.key] = max(offset, found.get(entry.key, offset))
    return found


def _last_offsets(content: Content, end: int) -> set[tuple[int, int]]:
    """The producer and the last offset of each batch below `end`: what is above was truncated."""
    return {(each.producer_id, each.last_offset) for each in _of_producers(content, end)}


def _marked_epochs(content: Content, end: int) -> set[tuple[int, int]]:
    """The producer and the epoch of each marker below `end`."""
    there = _of_producers(content, end)
    return {(each.producer_id, each.producer_epoch) for each in there if each.is_control}


def _of_producers(content: Content, end: int) -> list[BatchHeader]:
    headers = content.headers.values()
    return [each for each in headers if not each.is_filler and each.next_offset <= end]


def _last_here(entry: LogRecord, before: Content, limit: int, aborted: set[Offset]) -> LogRecord:
    """The last record of the key that this replica had, of those that may supersede others."""
    found = entry
    for each in before.entries.values():
        if not isinstance(each, LogRecord) or each.key != entry.key:
            continue
        if found.offset < each.offset < limit and each.offset not in aborted:
            found = each
    return found


def _same(one: Entry, other: Entry | None) -> bool:
    """Whether a marker or a record is the one that was appended."""
    if isinstance(one, Ended) and isinstance(other, Ended):
        return (one.offset, one.producer, one.committed) == (
            other.offset,
            other.producer,
            other.committed,
        )
    return one == other


def first_undecided(known: list[Entry], committed: int) -> int:
    """Return the first offset of the first transaction whose marker is not below `committed`; or
    `committed`.
    """
    begun: dict[int, int] = {}
    for each in known:
        if each.producer is None or each.offset >= committed:
            continue
        if isinstance(each, Ended):
            begun.pop(each.producer.producer_id, None)
        else:
            begun.setdefault(each.producer.producer_id, each.offset)
    return min([committed, *begun.values()])


def _of_transaction(marker: Ended, known: list[Entry]) -> Iterator[Offset]:
    """Yield the offsets of the records of the transaction that `marker` ended."""
    found: list[Offset] = []
    for each in known:
        if each.producer is None or each.producer.producer_id != marker.producer.producer_id:
            continue
        if each.offset == marker.offset:
            yield from found
            return
        if isinstance(each, Ended):
            found = []
        else:
            found.append(each.offset)
