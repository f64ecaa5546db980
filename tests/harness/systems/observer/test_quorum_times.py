"""When records came into the metadata log, whatever their writers' clocks said."""

import random
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from harness.systems.observer.quorum_times import DEPOSED_NS, QuorumTimes, Stamp

S = 1_000_000_000


def watched(*answers: tuple[int, int, float], epoch: int = 1) -> QuorumTimes:
    """What was seen: (log end, high watermark, moment in s); every answer takes 10 ms."""
    times = QuorumTimes()
    for log_end, high_watermark, at_s in answers:
        asked_ns = round(at_s * S)
        times.saw(
            epoch=epoch,
            log_end=log_end,
            high_watermark=high_watermark,
            asked_ns=asked_ns,
            told_ns=asked_ns + S // 100,
        )
    return times


SEEN = ((10, 10, 1.0), (10, 10, 2.0), (20, 15, 3.0), (20, 20, 4.0))


@pytest.mark.parametrize(
    ("offset", "stamped_s", "placed_s"),
    [
        (12, 2.5, 2.5),  # not there at 2, there at 3.01
        (12, 3602.5, 3.01),  # an hour ahead
        (12, -3597.5, 3.01),  # an hour behind
        (12, 1.5, 3.01),  # it was not there yet
        (17, 3.5, 3.5),  # there at 3, and committed by 4.01
        (17, 4.5, 4.01),
        (5, 0.5, 0.5),  # before anybody watched
        (5, 7.0, 1.01),
        (25, 5.0, 5.0),  # after everybody had watched
        (25, 1.0, 4.0),
    ],
)
def test_a_stamp_is_believed_between_two_moments(
    offset: int, stamped_s: float, placed_s: float
) -> None:
    """Those when the record was seen to be missing and to be there; else the later one holds."""
    stamp = Stamp(offset, 1, round(stamped_s * S))
    assert watched(*SEEN).place([stamp]) == [round(placed_s * S)]


def test_nobody_watched() -> None:
    """The stamps are all there is, but time does not run backwards."""
    stamps = [Stamp(n, 1, at_ns) for n, at_ns in enumerate((5, 9, 7, 8))]
    assert QuorumTimes().place(stamps) == [5, 7, 7, 8]


def test_a_deposed_leader_that_still_answers_discredits_nobody() -> None:
    """Its log does not grow while its successor's does; for a while, that proves nothing."""
    times = watched((10, 10, 1.0), (10, 10, 2.0))
    times.saw(epoch=2, log_end=12, high_watermark=12, asked_ns=3 * S, told_ns=3 * S)
    times.saw(epoch=1, log_end=10, high_watermark=10, asked_ns=9 * S, told_ns=9 * S)
    assert times.place([Stamp(11, 2, round(1.5 * S))]) == [round(1.5 * S)]
    long_before = 2 * S - DEPOSED_NS - 1
    assert times.place([Stamp(11, 2, long_before)]) == [3 * S]


def test_a_log_that_lost_what_was_never_committed() -> None:
    """What the old leader had beyond its successor's log measures nothing that came there later."""
    times = watched((30, 10, 1.0))
    times.saw(epoch=2, log_end=12, high_watermark=12, asked_ns=2 * S, told_ns=2 * S)
    times.saw(epoch=2, log_end=40, high_watermark=40, asked_ns=3 * S, told_ns=3 * S)
    assert times.place([Stamp(20, 2, 0)]) == [3 * S]


@pytest.mark.parametrize("skew_s", [-3600, -2, 0, 2, 3600])
def test_no_clock_moves_a_record_further_than_the_watch_was_blind(skew_s: int) -> None:
    """Within half a second of the truth in a random log, and at the truth with right clocks."""
    rng = random.Random(7)
    true_ns = sorted(rng.randrange(100 * S) for _ in range(300))
    answers = []
    for half_s in range(201):
        length = sum(at_ns <= half_s * S // 2 for at_ns in true_ns)
        answers.append((length, length, half_s / 2))
    stamps = [Stamp(n, 1, at_ns + skew_s * S) for n, at_ns in enumerate(true_ns)]
    placed = watched(*answers).place(stamps)
    assert placed == sorted(placed)
    worst_ns = max(abs(found - truly) for found, truly in zip(placed, true_ns, strict=True))
    assert worst_ns <= (0 if skew_s == 0 else S // 2 + S // 100)


@pytest.mark.parametrize(
    ("since_s", "current_s"),
    [
        (0.5, 1.01),  # what was there at 1 was committed by 1.01
        (2.5, 4.01),  # what was there at 3 only by 4.01
        (4.0, 4.01),  # asked at 4: committed as soon as told
        (4.5, None),  # nobody has asked since
    ],
)
def test_everything_that_was_there_is_committed_by_some_moment(
    since_s: float, current_s: float | None
) -> None:
    """Of the log as it was at the first answer that was asked for after `since_s`."""
    found = watched((10, 10, 1.0), (20, 15, 3.0), (20, 20, 4.0)).current_since(round(since_s * S))
    assert found == (None if current_s is None else round(current_s * S))


def test_an_append_that_no_majority_has_keeps_it_from_being_current() -> None:
    """And a moment before `since_ns` is not given, though all was committed then."""
    assert watched((10, 10, 1.0), (12, 10, 3.0)).current_since(2 * S) is None
    assert watched((10, 10, 1.0), (10, 10, 3.0)).current_since(2 * S) == 2 * S


def answer(
    ends: dict[int, int],
    *,
    hw: int,
    epoch: int = 1,
    leader: int = 1,
    observers: Mapping[int, int] = MappingProxyType({}),
) -> Any:
    """A partition of a DescribeQuorum answer: node -> its log's end, as the leader knows it."""

    def replicas(of: Mapping[int, int]) -> list[Any]:
        return [SimpleNamespace(replica_id=node, log_end_offset=end) for node, end in of.items()]

    return SimpleNamespace(
        leader_epoch=epoch,
        leader_id=leader,
        high_watermark=hw,
        current_voters=replicas(ends),
        observers=replicas(observers),
    )


def heard(*answers: Any) -> QuorumTimes:
    """What was learnt of those."""
    times = QuorumTimes()
    for at_s, each in enumerate(answers):
        times.heard(each, asked_ns=at_s * S, told_ns=at_s * S)
    return times


def test_a_node_has_what_its_own_fetches_proved() -> None:
    """Not what the others committed since it died; nor more than is committed; observers too."""
    first = answer({1: 12, 2: 10, 3: 9}, hw=10, observers={4: 8})
    then = answer({1: 40, 2: 40, 3: 9}, hw=40, observers={4: 40})
    assert heard(first).kept == {1: 10, 2: 10, 3: 9, 4: 8}
    assert heard(first, then).kept == {1: 40, 2: 40, 3: 9, 4: 40}


def test_a_leader_that_does_not_know_says_nothing() -> None:
    """A new leader has heard of nobody, a deposed one is out of date."""
    first = answer({1: 10, 2: 10, 3: 9}, hw=10)
    then = answer({2: 20, 1: -1, 3: -1}, hw=20, epoch=2, leader=2)
    assert heard(first, then).kept == {1: 10, 2: 20, 3: 9}
    assert heard(first, then, answer({1: 30, 2: 30, 3: 30}, hw=30)).kept == {1: 10, 2: 20, 3: 9}


def test_a_node_on_a_new_disk_has_only_what_it_fetched_anew() -> None:
    """Its old self may still be listed as a voter, and what it had is gone."""
    first = answer({1: 10, 2: 10, 3: 10}, hw=10)
    then = answer({1: 12, 2: 12, 3: 10}, hw=12, observers={3: 4})
    assert heard(first, then).kept == {1: 12, 2: 12, 3: 4}
