"""Which holder is shed when all connections together hold too much."""

import pytest

from nodes.wire.budget import ByteBudget


class Peer:
    """A holder that remembers why it had to go."""

    def __init__(self) -> None:
        self.reason = ""

    def shed(self, reason: str) -> None:
        self.reason = reason


@pytest.mark.parametrize(("largest_first", "gone"), [(True, 2), (False, 0)])
def test_largest_or_oldest_holder_is_shed_first(largest_first: bool, gone: int) -> None:
    """One is enough here; its bytes are free again."""
    budget = ByteBudget("things", 100, largest_first=largest_first)
    peers = [Peer() for _ in range(4)]
    for peer, size in zip(peers, (20, 30, 40, 20), strict=True):
        budget.hold(peer, size)
    assert [bool(peer.reason) for peer in peers] == [n == gone for n in range(4)]
    assert "100 allowed" in peers[gone].reason
    assert budget.total_bytes == 110 - (20, 30, 40, 20)[gone]
    assert budget.available_bytes == 100 - budget.total_bytes


def test_age_of_a_holder_counts_from_its_first_byte() -> None:
    """After it held nothing, it counts anew."""
    budget = ByteBudget("things", 100, largest_first=False)
    first, second, third = Peer(), Peer(), Peer()
    budget.hold(first, 40)
    budget.hold(second, 10)
    budget.hold(first, 0)
    budget.hold(first, 50)
    budget.hold(second, 45)
    budget.hold(third, 50)
    assert (bool(first.reason), bool(second.reason), bool(third.reason)) == (False, True, False)
    budget.hold(first, 0)
    budget.hold(third, 0)
    budget.hold(Peer(), 0)
    assert budget.total_bytes == 0
