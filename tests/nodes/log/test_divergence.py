"""Where logs diverge, by epoch: the published scenarios of KIP-101 and KIP-279."""

import pytest

from nodes.ids import Epoch, Offset
from nodes.log.divergence import EpochEnd, divergence, truncation_offset


class History:
    """Leader epochs as (epoch, start) pairs, with the log's end."""

    def __init__(self, *epochs: tuple[int, int], end: int, start: int = 0) -> None:
        self.epochs = epochs
        self.end = end
        self.start = start

    @property
    def last_epoch(self) -> Epoch:
        has = self.start < self.end
        with_records = [epoch for epoch, start in self.epochs if has and start < self.end]
        return Epoch(with_records[-1] if with_records else -1)

    @property
    def end_offset(self) -> Offset:
        return Offset(self.end)

    def end_offset_for_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        if not self.epochs or epoch > self.epochs[-1][0]:
            return Epoch(-1), Offset(-1)
        below = [number for number, _ in self.epochs if number <= epoch] or [epoch]
        above = [start for number, start in self.epochs if number > epoch]
        return Epoch(below[-1]), Offset(above[0] if above else self.end)


def cut(leader: History, follower: History, last_epoch: int) -> int:
    """Follow the leader's answers until the logs agree; returns where the follower was cut."""
    end, epoch = Offset(follower.end), Epoch(last_epoch)
    for _ in range(10):
        told = divergence(leader, epoch, end)
        if told is None:
            return end
        end = truncation_offset(follower, told)
        kept = [(number, start) for number, start in follower.epochs if start < end]
        follower = History(*kept, end=end)
        epoch = Epoch(kept[-1][0] if kept else -1)
    raise AssertionError("did not converge")


@pytest.mark.parametrize(
    ("leader", "follower", "last_epoch", "expected"),
    [
        # a follower that is merely behind keeps everything
        (History((0, 0), end=10), History((0, 0), end=7), 0, 7),
        # KIP-101 scenario 1: the follower has the record that it acknowledged, and keeps it
        (History((0, 0), end=2), History((0, 0), end=2), 0, 2),
        # KIP-101 scenario 2: a tail of an older epoch, beyond where the new leader began
        (History((0, 0), (1, 1), end=3), History((0, 0), end=2), 0, 1),
        # KIP-279, fast failover: epoch 1's tail was never on the leader, which knows epochs 0 and 2
        (History((0, 0), (2, 10), end=20), History((0, 0), (1, 8), end=15), 1, 8),
        # one epoch further down at each round
        (History((0, 0), (3, 5), end=9), History((0, 0), (1, 6), (2, 7), end=9), 2, 5),
        # nothing in common
        (History((5, 0), end=4), History((1, 0), end=4), 1, 0),
        # retention has removed every record of the leader: the follower keeps what is below its end
        (History((2, 9), end=9, start=9), History((0, 0), end=9), 0, 9),
        (History((2, 9), end=9, start=9), History((0, 0), end=5), 0, 5),
        (History((2, 9), end=9, start=9), History((0, 0), (1, 8), end=12), 1, 9),
        # an empty follower has nothing to cut
        (History((2, 0), end=4), History(end=0), -1, 0),
    ],
)
def test_a_follower_truncates_where_the_logs_diverge(
    leader: History, follower: History, last_epoch: int, expected: int
) -> None:
    """The follower ends with exactly the common prefix."""
    assert cut(leader, follower, last_epoch) == expected


def test_logs_without_a_common_epoch_share_nothing() -> None:
    """A leader without any record as old as the follower's shares nothing with it."""
    told = divergence(History(end=0), Epoch(3), Offset(9))
    assert told == EpochEnd(Epoch(3), Offset(0))
    assert truncation_offset(History((3, 0), end=9), told) == 0


def test_a_fetch_without_an_epoch_does_not_diverge() -> None:
    """Old consumers name no epoch: nothing can be said, so nothing is."""
    assert divergence(History((5, 0), end=9), Epoch(-1), Offset(4)) is None


LEADER = History((0, 0), (2, 5), (4, 8), end=10)
BEGUN = History((0, 0), end=5)
EXPIRED = History((3, 0), end=5, start=5)


@pytest.mark.parametrize(
    ("leader", "last_epoch", "offset", "told"),
    [
        (LEADER, 4, 9, None),
        (LEADER, 4, 10, None),
        (LEADER, 4, 11, (4, 10)),
        (LEADER, 2, 8, None),
        (LEADER, 2, 9, (2, 8)),
        (LEADER, 3, 8, (2, 8)),  # epoch 3 is not here, so its records are not
        (LEADER, 0, 5, None),
        (LEADER, 0, 6, (0, 5)),
        (LEADER, 9, 1, (4, 10)),
        (LEADER, 9, 0, None),
        (LEADER, -1, 7, None),
        (BEGUN, 0, 5, None),
        (BEGUN, 1, 5, (0, 5)),
        (EXPIRED, 3, 5, None),
        (EXPIRED, 9, 4, None),
        (EXPIRED, 9, 6, (9, 5)),
    ],
)
def test_the_leader_tells_where_its_epoch_ends(
    leader: History, last_epoch: int, offset: int, told: tuple[int, int] | None
) -> None:
    """The records of an epoch are all of one leader; so what ends before it ends there is shared.
    An empty log, and one without epochs, have nothing to diverge."""
    found = divergence(leader, Epoch(last_epoch), Offset(offset))
    assert found == (None if told is None else EpochEnd(Epoch(told[0]), Offset(told[1])))


@pytest.mark.parametrize(
    ("told", "kept"),
    [((3, 7), 7), ((3, 20), 9), ((0, 2), 2), ((1, 2), 5), ((2, 9), 5), ((9, 4), 0)],
)
def test_a_follower_keeps_what_the_epochs_share(told: tuple[int, int], kept: int) -> None:
    """It has epoch 0 up to 5 and epoch 3 up to 9. Without the epoch, its older epoch stays whole:
    the next fetch compares that one."""
    follower = History((0, 0), (3, 5), end=9)
    assert truncation_offset(follower, EpochEnd(Epoch(told[0]), Offset(told[1]))) == kept
