"""Everything a log can refuse, as one tree.

    LogError
    ├── CorruptBatch          bytes that are no record batch v2, or fail their CRC32C
    ├── InvalidBatch          an intact batch that breaks a rule of the format
    │   └── MessageTooLarge
    ├── OutOfOrderSequence    an idempotent producer's sequence leaves a gap
    │   └── UnknownProducer   ... because this log has never heard of the producer
    ├── InvalidProducerEpoch  a newer epoch of this producer id has written
    ├── OffsetGap             a follower was handed batches that do not continue its log
    ├── EpochRegression       a batch or leadership of an older epoch than the log's last
    ├── OffsetOutOfRange      a read below the log's start or beyond its end
    ├── LogTruncated          what was to become durable was cut off before it was
    ├── LogCorrupt            the files are damaged where a crash cannot have damaged them
    └── LogOffline            an earlier write or sync failed; what is on disk is not known

Whatever `append_as_leader` raises, except LogOffline and the OSError of the write itself, means
that nothing of the batch is in the log. After those two it may be: the outcome is indeterminate.
"""


class LogError(Exception):
    """The root of the tree."""


class CorruptBatch(LogError):
    """Bytes that are no record batch v2, or whose CRC32C does not match."""


class InvalidBatch(LogError):
    """An intact batch that breaks a rule: more than one in a produce, a wrong record count."""


class MessageTooLarge(InvalidBatch):
    """The batch is larger than `max.message.bytes`."""


class OutOfOrderSequence(LogError):
    """The sequence does not follow the producer's last one, and is no remembered duplicate."""


class UnknownProducer(OutOfOrderSequence):
    """A first batch whose sequence is not 0: an earlier one is still under way, or was lost.

    Answered as an out-of-order sequence (KIP-890), which clients retry while earlier requests are
    in flight; UNKNOWN_PRODUCER_ID would tell them that the state had expired.
    """


class InvalidProducerEpoch(LogError):
    """The producer was fenced by a newer epoch of its id."""


class OffsetGap(LogError):
    """The first batch handed to a follower is not at its log's end, or they do not adjoin."""


class EpochRegression(LogError):
    """Leader epochs never go back along a log; the log and its source have diverged."""


class OffsetOutOfRange(LogError):
    """The offset is not within the log's start and end."""


class LogTruncated(LogError):
    """The records that were waited for were cut off; what replaced them is another matter."""


class LogCorrupt(LogError):
    """Damage that an interrupted write does not explain; the replica must not serve this log."""


class LogOffline(LogError):
    """A write or sync failed before; the log refuses to go on as if it had not (KAFKA-10778)."""
