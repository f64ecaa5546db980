"""A token bucket that limits a byte rate; it holds at most the bytes of one second.

For throttled replication (KIP-73). The size of a transfer is known only afterwards, and may exceed
the tokens; then nothing may be sent until the debt is paid. Pure; times are monotonic milliseconds.
"""


class TokenBucket:
    """A bucket that is full at first. `bytes_per_s` is above zero."""

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
        """Whether the bucket is empty: nothing may be sent now."""
        self._fill(now_ms)
        return self._tokens <= 0

    def ready_ms(self, now_ms: float) -> float:
        """When something may be sent again: now, or when the debt is paid."""
        self._fill(now_ms)
        return now_ms + max(0.0, 1 - self._tokens) * 1000 / self.bytes_per_s
