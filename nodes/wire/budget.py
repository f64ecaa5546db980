"""A bound on the bytes that all connections of a node hold together. Pure.

There are two: of requests (whole ones that are not answered yet, and pieces of ones that are not
complete), and of answers (made, and not taken by their reader). Beyond the bound, whoever holds the
most of the one, or is behind for the longest with the other, is told to go; so a peer that behaves
is the last to be hit.
"""

from typing import Protocol


class Holder(Protocol):
    """Somebody who holds bytes for a peer."""

    def shed(self, reason: str) -> None:
        """Let go of them, soon."""
        ...


class ByteBudget:
    """At most `max_bytes`; the largest holder goes first, or the one that holds for the longest."""

    def __init__(self, what: str, max_bytes: int, *, largest_first: bool) -> None:
        self.max_bytes = max_bytes
        self.total_bytes = 0
        self._what = what
        self._largest_first = largest_first
        self._held: dict[Holder, int] = {}  # who holds for the longest comes first

    @property
    def available_bytes(self) -> int:
        """What may still be held."""
        return max(self.max_bytes - self.total_bytes, 0)

    def hold(self, holder: Holder, size: int) -> None:
        """`holder` holds so many bytes now (0: none any more). Somebody may have to go."""
        before = self._held.get(holder, 0)
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
