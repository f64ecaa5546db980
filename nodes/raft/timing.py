"""The quorum's times, with Kafka's names and defaults."""

import random
from dataclasses import dataclass

BACKOFF_BASE_MS = 100.0
MAX_DOUBLINGS = 10
CHECK_QUORUM_FACTOR = 1.5
"""A leader waits this many fetch timeouts for a majority's fetches, as Kafka's does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumTiming:
    """Milliseconds of the monotonic clock."""

    fetch_timeout_ms: float = 2000
    """controller.quorum.fetch.timeout.ms: how long a silent leader counts as alive."""

    election_timeout_ms: float = 1000
    """controller.quorum.election.timeout.ms: how long a round of votes may take."""

    election_backoff_max_ms: float = 1000
    """controller.quorum.election.backoff.max.ms: the longest pause after a lost round."""

    @property
    def check_quorum_ms(self) -> float:
        """How long a leader stays leader without fetches from a majority."""
        return CHECK_QUORUM_FACTOR * self.fetch_timeout_ms

    @property
    def announce_ms(self) -> float:
        """How often a leader announces itself to voters that do not fetch."""
        return self.fetch_timeout_ms / 2

    def election_wait_ms(self, rng: random.Random) -> float:
        """How long a voter without a leader waits before an election: one to two timeouts."""
        return self.election_timeout_ms * (1 + rng.random())

    def backoff_ms(self, rng: random.Random, lost_rounds: int) -> float:
        """The pause after so many lost rounds in a row: random, longer each time, bounded."""
        pause = BACKOFF_BASE_MS * rng.uniform(0.5, 2.0 ** min(lost_rounds, MAX_DOUBLINGS))
        return min(pause, self.election_backoff_max_ms * rng.uniform(0.5, 1.0))

    def succession_ms(self, rng: random.Random, place: int) -> float:
        """How long the successor at `place` waits after a leader resigned; the first not at all."""
        pause = place * BACKOFF_BASE_MS * (1 + rng.random())
        return min(pause, self.election_backoff_max_ms)
