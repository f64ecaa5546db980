"""When records came into the metadata log, whatever their writers' clocks said."""

import random
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from harness.systems.monitoring.quorum_times import DEPOSED_NS, QuorumTimes, Stamp

S = 1_000_000_000


def watched(*answers: tuple[int, int, float], epoch: int = 1) -> QuorumTimes:
    """What was seen: (log end, high watermark, moment in s); every answer takes 10 ms."""
    times = QuorumTimes()
    for log_end, high_watermark, at_s in answers:
        asked_ns = round(at_s * S)
        times.record(
            epoch=epoch,
            log_end=log_end,
            high_watermark=high_watermark,
            asked_ns=asked_ns,
            answered_ns=asked_ns + S // 100,
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
def test_timestamp_between_two_observations_is_used(
    offset: int, stamped_s: float, placed_s: float
) -> None:
    """Otherwise the moment when the record was seen is used."""
    stamp = Stamp(offset, 1, round(stamped_s * S))
    assert watched(*SEEN).place([stamp]) == [round(placed_s * S)]


def test_timestamps_are_used_without_observations() -> None:
    """The times never decrease."""
    stamps = [Stamp(n, 1, at_ns) for n, at_ns in enumerate((5, 9, 7, 8))]
    assert QuorumTimes().place(stamps) == [5, 7, 7, 8]


def test_answers_of_a_replaced_leader_do_not_discredit_timestamps() -> None:
    """For a while its log does not grow while its successor's does."""
    times = watched((10, 10, 1.0), (10, 10, 2.0))
    times.record(epoch=2, log_end=12, high_watermark=12, asked_ns=3 * S, answered_ns=3 * S)
    times.record(epoch=1, log_end=10, high_watermark=10, asked_ns=9 * S, answered_ns=9 * S)
    assert times.place([Stamp(11, 2, round(1.5 * S))]) == [round(1.5 * S)]
    long_before = 2 * S - DEPOSED_NS - 1
    assert times.place([Stamp(11, 2, long_before)]) == [3 * S]


def test_log_end_that_was_never_committed_does_not_date_later_records() -> None:
    """A new leader's log may be shorter than its predecessor's."""
    times = watched((30, 10, 1.0))
    times.record(epoch=2, log_end=12, high_watermark=12, asked_ns=2 * S, answered_ns=2 * S)
    times.record(epoch=2, log_end=40, high_watermark=40, asked_ns=3 * S, answered_ns=3 * S)
    assert times.place([Stamp(20, 2, 0)]) == [3 * S]


@pytest.mark.parametrize("skew_s", [-3600, -2, 0, 2, 3600])
def test_wrong_clock_moves_a_record_at_most_between_two_observations(skew_s: int) -> None:
    """At most half a second in a random log, and not at all with right clocks."""
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
def test_current_since_is_when_the_whole_log_was_committed(
    since_s: float, current_s: float | None
) -> None:
    """The log is the one of the first request after `since_s`."""
    found = watched((10, 10, 1.0), (20, 15, 3.0), (20, 20, 4.0)).current_since(round(since_s * S))
    assert found == (None if current_s is None else round(current_s * S))


def test_current_since_is_unknown_while_an_append_is_uncommitted() -> None:
    """It is never before `since_ns`, even if everything was committed then."""
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
        times.record_answer(each, asked_ns=at_s * S, answered_ns=at_s * S)
    return times


def test_node_has_what_its_own_fetches_proved() -> None:
    """Later commits of the others do not count, and neither do uncommitted records; observers
    count."""
    first = answer({1: 12, 2: 10, 3: 9}, hw=10, observers={4: 8})
    then = answer({1: 40, 2: 40, 3: 9}, hw=40, observers={4: 40})
    assert heard(first).committed_by_node == {1: 10, 2: 10, 3: 9, 4: 8}
    assert heard(first, then).committed_by_node == {1: 40, 2: 40, 3: 9, 4: 40}


def test_answers_of_a_new_or_replaced_leader_are_no_proof() -> None:
    """A new leader has had no fetch yet, and a replaced one is out of date."""
    first = answer({1: 10, 2: 10, 3: 9}, hw=10)
    then = answer({2: 20, 1: -1, 3: -1}, hw=20, epoch=2, leader=2)
    assert heard(first, then).committed_by_node == {1: 10, 2: 20, 3: 9}
    assert heard(first, then, answer({1: 30, 2: 30, 3: 30}, hw=30)).committed_by_node == {
        1: 10,
        2: 20,
        3: 9,
    }


def test_node_on_a_new_disk_has_only_what_it_fetched_again() -> None:
    """Its old directory may still be listed as a voter, but the data is lost."""
    first = answer({1: 10, 2: 10, 3: 10}, hw=10)
    then = answer({1: 12, 2: 12, 3: 10}, hw=12, observers={3: 4})
    assert heard(first, then).committed_by_node == {1: 12, 2: 12, 3: 4}
