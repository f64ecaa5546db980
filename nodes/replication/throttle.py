"""A token bucket: bytes that may be spent at a rate, with at most a second's worth in hand.

For throttled replication (KIP-73). What is spent is known only afterwards, and may be more than was
in hand; then nothing may be spent until the debt is paid. Pure; times are monotonic milliseconds.
"""


class TokenBucket:
    """Full at first. `bytes_per_s` is above zero."""

    def __init__(self, bytes_per_s: int, now_ms: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._tokens = float(bytes_per_s)
        self._at_ms = now_ms

    def _fill(self, now_ms: float) -> None:
        earned = (now_ms - self._at_ms) * self.bytes_per_s / 1000
        self._tokens = min(self._tokens + max(earned, 0.0), float(self.bytes_per_s))
        self._at_ms = max(self._at_ms, now_ms)

    def spend(self, size: int, now_ms: float) -> None:
        """`size` bytes were used."""
        self._fill(now_ms)
        self._tokens -= size

    def spent(self, now_ms: float) -> bool:
        """Whether nothing may be used now."""
        self._fill(now_ms)
        return self._tokens <= 0

    def ready_ms(self, now_ms: float) -> float:
        """When something may be used again: now, or when the debt will have been paid."""
        self._fill(now_ms)
        return now_ms + max(0.0, 1 - self._tokens) * 1000 / self.bytes_per_s
