"""The kinds of anomalies that are losses of acknowledged writes."""

from typing import Final

LOST_WRITE: Final = "lost-write"
LOST_KEY: Final = "lost-key"
"""The last acknowledged record of a key of a compacted topic is gone, and no later one is there."""
RESURRECTED: Final = "resurrected-key"
"""The same of a deletion, and an older record is there."""
LOSSES: Final = (LOST_WRITE, LOST_KEY, RESURRECTED)
