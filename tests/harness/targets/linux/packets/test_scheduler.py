"""The scheduler of a degraded link delays, reorders and drops packets as its layers say."""

import random

from hypothesis import given
from hypothesis import strategies as st

from harness.targets.linux.packets.scheduler import BACKLOG_S, Layer, PacketScheduler

layers = st.builds(
    Layer,
    delay_ms=st.floats(0, 1000),
    jitter_ms=st.floats(0, 500),
    reordered=st.just(0.0),
    bytes_per_s=st.sampled_from([0, 1000, 10_000]),
)
packets = st.lists(st.tuples(st.floats(0, 0.5), st.integers(20, 2000)), max_size=50)
"""(seconds since the last one, bytes)"""


def scheduler(*given: Layer) -> PacketScheduler:
    """A scheduler with these layers."""
    made = PacketScheduler(random.Random(1))
    made.layers.update({str(number): layer for number, layer in enumerate(given)})
    return made


@given(st.lists(layers, max_size=3), packets)
def test_without_overtaking_packets_keep_their_order(given: list[Layer], sent: object) -> None:
    """None goes before it came or before one that came earlier, whatever the layers."""
    subject, now_s, last_s = scheduler(*given), 0.0, 0.0
    assert isinstance(sent, list)
    for pause_s, size_bytes in sent:
        now_s += pause_s
        due_s = subject.schedule(now_s, size_bytes)
        if due_s is not None:
            assert due_s >= max(now_s, last_s)
            last_s = due_s


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=4))
def test_delays_of_layers_add_up(delays_ms: list[float]) -> None:
    """A lone packet is late by the sum of what the layers ask."""
    due_s = scheduler(*(Layer(delay_ms=each) for each in delays_ms)).schedule(10.0, 100)
    assert due_s is not None
    assert abs(due_s - 10.0 - sum(delays_ms) / 1e3) < 1e-6


def test_jitter_stays_within_its_bounds() -> None:
    """Up and down from the delay, never below nothing."""
    subject = scheduler(Layer(delay_ms=10, jitter_ms=30))
    dues = [subject.schedule(second, 100) or 0.0 for second in range(1000)]
    delays_ms = [1e3 * (due_s - second) for second, due_s in enumerate(dues)]
    assert min(delays_ms) == 0
    assert 35 < max(delays_ms) <= 40.001


def test_the_lowest_rate_holds_and_a_full_queue_loses() -> None:
    """1,000 bytes at 1,000 bytes/s take a second each; who would wait longer than that is lost."""
    subject = scheduler(Layer(bytes_per_s=1000), Layer(bytes_per_s=5000))
    assert [subject.schedule(0.0, 1000) for _ in range(4)] == [1.0, 2.0, None, None]
    assert subject.counts.lost == 2
    assert BACKLOG_S == 1.0
    assert subject.schedule(1.5, 1000) == 3.0


def test_who_overtakes_goes_at_once_and_is_counted() -> None:
    """Only past packets that are being delayed: the first one cannot overtake anybody."""
    subject = scheduler(Layer(delay_ms=100, reordered=1.0))
    assert [subject.schedule(0.0, 100) for _ in range(3)] == [0.1, 0.0, 0.0]
    assert subject.counts.reordered == 2
    assert subject.schedule(0.2, 100) == 0.30000000000000004


def test_what_went_on_is_counted_with_its_delay() -> None:
    """By the time at which it really went, not by the planned one."""
    subject = scheduler(Layer(delay_ms=100))
    subject.record_departure(1.0, 1.25)
    subject.record_departure(2.0, 2.25)
    assert (subject.counts.delayed, subject.counts.delayed_s) == (2, 0.5)


def test_after_a_flush_nobody_waits_for_those_who_are_gone() -> None:
    """A wire whose packets were let go is as good as new."""
    subject = scheduler(Layer(delay_ms=60_000))
    subject.schedule(0.0, 100)
    subject.layers.clear()
    subject.flushed(1.0)
    assert subject.schedule(1.0, 100) == 1.0
