"""The kinds of anomalies that are losses of acknowledged writes."""

from typing import Final

LOST_WRITE: Final = "lost-write"
LOST_KEY: Final = "lost-key"
"""The last acknowledged record of a key of a compacted topic is gone, and no later one is there."""
RESURRECTED: Final = "resurrected-key"
"""The same of a deletion, and an older record is there."""
MISSING_KEY: Final = "missing-key"
"""Two passes that began after a record was acknowledged were given neither it nor a later one of
its key."""
REVERTED_KEY: Final = "reverted-key"
"""A pass was given a record, and later passes neither it nor a later one of its key."""
LOSSES: Final = (LOST_WRITE, LOST_KEY, RESURRECTED)
