"""A bound on the bytes that all connections of a node hold together. Pure.

There are two such budgets: for requests (incomplete ones, and those without a response yet), and
for responses (made, but not read by the peer). Above the bound a connection is closed: of the first
budget the one that holds the most, of the second the one that has held bytes for the longest. So a
peer that behaves well is closed last.
"""

from typing import Protocol


class Holder(Protocol):
    """An object that holds bytes for a peer, such as a connection."""

    def shed(self, reason: str) -> None:
        """Release the bytes soon, for instance by closing the connection."""
        ...


class ByteBudget:
    """At most `max_bytes`. Above it, the largest holder is shed first, or else the oldest."""

    def __init__(self, what: str, max_bytes: int, *, largest_first: bool) -> None:
        self.max_bytes = max_bytes
        self.total_bytes = 0
        self._what = what
        self._largest_first = largest_first
        self._held: dict[Holder, int] = {}  # the oldest holder comes first

    @property
    def available_bytes(self) -> int:
        """The bytes that may still be held."""
        return max(self.max_bytes - self.total_bytes, 0)

    def hold(self, holder: Holder, size: int) -> None:
        """`holder` holds `size` bytes now (0: none). This may shed it, or another holder."""
        before = self._held.get(holder, 0)
        if size == before:
            return
        self.total_bytes += size - before
        if size:
            self._held[holder] = size
        elif before:
            del self._held[holder]
        while self.total_bytes > self.max_bytes:
            self._shed_one()

    def _shed_one(self) -> None:
        held = self._held
        holder = max(held, key=held.__getitem__) if self._largest_first else next(iter(held))
        size = held.pop(holder)
        self.total_bytes -= size
        holder.shed(
            f"it holds {size} bytes of {self._what}, and all connections more than the "
            f"{self.max_bytes} allowed"
        )
