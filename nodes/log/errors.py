"""The errors of a log.

    LogError
    ├── CorruptBatch          bytes that are not a record batch v2, or fail their CRC32C
    ├── InvalidBatch          an intact batch that breaks a rule of the format
    │   ├── MessageTooLarge
    │   └── KeylessRecords    records without a key, for a compacted log
    ├── OutOfOrderSequence    an idempotent producer's sequence leaves a gap
    │   └── UnknownProducer   ... because this log has never heard of the producer
    ├── InvalidProducerEpoch  a newer epoch of this producer id has written
    ├── InvalidTransactionState  a batch outside of its producer's transaction, or not verified
    ├── CoordinatorFenced     a marker of an older transaction coordinator than the last one's
    ├── OffsetGap             a follower got batches that do not continue its log
    ├── EpochRegression       a batch or leadership of an older epoch than the log's last
    ├── OffsetOutOfRange      a read below the log's start or beyond its end
    ├── LogTruncated          records were truncated before they became durable
    ├── LogCorrupt            the files have damage that a crash cannot explain
    └── LogOffline            an earlier write or sync failed; the content of the disk is unknown

If `append_as_leader` raises anything but LogOffline or the OSError of the write itself, nothing of
the batch is in the log. After those two the outcome is indeterminate.
"""

from collections.abc import Sequence


class LogError(Exception):
    """The root of the tree."""


class CorruptBatch(LogError):
    """The bytes are not a record batch v2, or the CRC32C does not match."""


class InvalidBatch(LogError):
    """An intact batch that breaks a rule: more than one in a produce, a wrong record count."""


class MessageTooLarge(InvalidBatch):
    """The batch is larger than `max.message.bytes`."""


class KeylessRecords(InvalidBatch):
    """Records without a key, for a compacted log: `numbers` in the batch, the first thousand."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__(f"the topic is compacted, and {len(numbers)} records have no key")
        self.numbers = tuple(numbers[:1000])


class OutOfOrderSequence(LogError):
    """The sequence does not follow the producer's last one, and is not a known duplicate."""


class UnknownProducer(OutOfOrderSequence):
    """The first batch of a producer has a sequence other than 0: an earlier one is in flight or
    lost.

    The broker answers with the error of an out-of-order sequence (KIP-890), which clients retry
    while earlier requests are in flight; UNKNOWN_PRODUCER_ID would mean that the state expired.
    """


class InvalidProducerEpoch(LogError):
    """The producer was fenced by a newer epoch of its id."""


class InvalidTransactionState(LogError):
    """A transactional batch that no transaction is known to include, or another batch in between.

    The broker answers INVALID_TXN_STATE.
    """


class CoordinatorFenced(LogError):
    """A marker of a transaction coordinator that is not the coordinator any more."""


class OffsetGap(LogError):
    """The first batch for a follower is not at its log's end, or the batches have a gap."""


class EpochRegression(LogError):
    """A leader epoch is older than the log's last; the log and its source have diverged."""


class OffsetOutOfRange(LogError):
    """The offset is not between the log's start and end."""


class LogTruncated(LogError):
    """The awaited records were truncated, and perhaps replaced by others."""


class LogCorrupt(LogError):
    """Damage that an interrupted write does not explain; the replica must not serve this log."""


class LogOffline(LogError):
    """A write or sync failed before, so the log refuses every change (KAFKA-10778)."""
