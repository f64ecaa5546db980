"""The settings of the transaction coordinator, by Kafka's names."""

from dataclasses import dataclass
from typing import Final

DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Times in milliseconds."""

    max_timeout_ms: int = 15 * 60 * 1000
    """transaction.max.timeout.ms: the longest time-out that a producer may ask for."""
    id_expiration_ms: int = 7 * DAY_MS
    """transactional.id.expiration.ms: an id without an open transaction is removed after it."""
    abort_interval_ms: int = 10_000
    """transaction.abort.timed.out.transaction.cleanup.interval.ms"""
    expiration_interval_ms: int = 3600 * 1000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
