"""The quorum's times, as Kafka names and defaults them."""

from dataclasses import dataclass

BACKOFF_BASE_MS = 100.0
CHECK_QUORUM_FACTOR = 1.5
"""A leader waits this many fetch timeouts for a majority's fetches, as Kafka's does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTiming:
    """Milliseconds of the monotonic clock."""

    fetch_timeout_ms: float = 2000
    """controller.quorum.fetch.timeout.ms: how long a silent leader is believed alive."""

    election_timeout_ms: float = 1000
    """controller.quorum.election.timeout.ms: how long a round of votes may take."""

    election_backoff_max_ms: float = 1000
    """controller.quorum.election.backoff.max.ms: the longest pause after a lost round."""

    @property
    def check_quorum_ms(self) -> float:
        """How long a leader leads without the fetches of a majority."""
        return CHECK_QUORUM_FACTOR * self.fetch_timeout_ms

    @property
    def announce_ms(self) -> float:
        """How often a leader announces itself to voters that do not fetch."""
        return self.fetch_timeout_ms / 2
