"""Whether retention allows where a final log starts. Pure.

Retention removes the oldest segments of a log. By size it removes a segment only if at least
`retention.bytes` remain, so the log that is left has as many bytes. By age it removes a segment
only if the newest record in it is older than `retention.ms`, so every removed record is. A log that
fits neither rule was cut too early. (A log only grows after a removal, so a removal that was too
early can look right later, but never the other way round, except after a truncation. Then the
offsets that brokers acknowledged show how far the log once reached.)

Source: the Kafka documentation of `retention.ms` and `retention.bytes`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from checkers.history.recorded_faults import seconds
from checkers.history.settings import UNLIMITED, Settings

SLACK_NS: Final = 1_000_000_000
"""How far the clock of a client may differ from that of a broker, without a fault."""


class Removal(StrEnum):
    """Why the records below the start of a final log are gone."""

    BY_SIZE = "by size"
    BY_SIZE_OF_A_LONGER_LOG = "by size, of a log that a leader change truncated since"
    BY_AGE = "by age"
    BY_A_SHIFTED_CLOCK = "by age, by a clock that a fault had shifted"
    NOT_RECORDED = "not recorded"
    TOO_EARLY = "too early"
    NEVER_DUE = "too early, whichever of them it was"

    @property
    def too_early(self) -> bool:
        """Whether retention forbids it."""
        return self in (Removal.TOO_EARLY, Removal.NEVER_DUE)

    @property
    def allowed(self) -> bool:
        """Whether retention allows it."""
        return self is not Removal.NOT_RECORDED and not self.too_early


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStart:
    """Where a partition's final log starts, and what is known of the records before.

    offset: its first offset. left_bytes: the bytes of the batches in the files of a replica that
    starts there or later; None if no such files were read. once_end: the offset after the last one
    that a broker acknowledged, 0 if it acknowledged none. record_bytes: the bytes of the largest
    record in the files, with its share of the batch's header. newest_ns: when the newest record
    below the start was sent; None if that is not known. read_ns: when the log was read. truncated:
    the leader changed, so that the log may have become shorter. shifted_ns: how far faults shifted
    the clocks of brokers against each other.
    """

    offset: int
    left_bytes: int | None = None
    once_end: int = 0
    record_bytes: int = 0
    newest_ns: int | None = None
    read_ns: int
    truncated: bool = False
    shifted_ns: int = 0
    in_files: bool = False

    @property
    def once_bytes(self) -> int:
        """The most bytes that the records from the start to `once_end` can have had."""
        return max(0, self.once_end - self.offset) * self.record_bytes

    def removal(self, settings: Settings) -> Removal:
        """Return why the records below the start are gone, by the topic's settings."""
        size, age_ns = settings.retention_bytes, settings.retention_ms * 1_000_000
        by_size, by_age = size != UNLIMITED, settings.retention_ms != UNLIMITED
        if by_size and self.left_bytes is not None and self.left_bytes >= size:
            return Removal.BY_SIZE
        if by_size and self.truncated and self.once_bytes >= size:
            return Removal.BY_SIZE_OF_A_LONGER_LOG
        newest_ns = 0 if self.newest_ns is None else self.newest_ns
        age_left_ns = age_ns - SLACK_NS - (self.read_ns - newest_ns)
        if by_age and age_left_ns < self.shifted_ns:
            if self.newest_ns is None:
                return Removal.NOT_RECORDED
            return Removal.BY_AGE if age_left_ns < 0 else Removal.BY_A_SHIFTED_CLOCK
        if by_size and (self.left_bytes is None or self.truncated):
            return Removal.NOT_RECORDED
        due = by_age and age_ns - SLACK_NS - self.read_ns < self.shifted_ns
        return Removal.NEVER_DUE if self.in_files and not due else Removal.TOO_EARLY

    def text(self, settings: Settings) -> str:
        """Return the reason for people."""
        match self.removal(settings):
            case Removal.BY_SIZE:
                why = (
                    f"the rest has {self.left_bytes:,} bytes, and retention.bytes="
                    f"{settings.retention_bytes}"
                )
            case Removal.BY_SIZE_OF_A_LONGER_LOG:
                why = (
                    f"the log reached offset {self.once_end} before a leader change truncated it, "
                    f"with up to {self.once_bytes:,} bytes left, and retention.bytes="
                    f"{settings.retention_bytes}"
                )
            case Removal.BY_AGE:
                why = (
                    f"the newest of them was sent at {seconds(self.newest_ns or 0)}, the log was "
                    f"read at {seconds(self.read_ns)}, and retention.ms={settings.retention_ms}"
                )
            case Removal.BY_A_SHIFTED_CLOCK:
                why = (
                    f"retention.ms={settings.retention_ms}, and faults shifted clocks by "
                    f"{seconds(self.shifted_ns)}"
                )
            case Removal.NOT_RECORDED:
                why = "the record does not show whether retention allowed that"
            case Removal.TOO_EARLY | Removal.NEVER_DUE:
                why = "too early for retention.ms and for retention.bytes"
        return f"The records below offset {self.offset} were removed: {why}."
