"""What coordinators forget, against plain Python, and Kafka's hash."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkers.causes.causes import Causes
from checkers.causes.coordinators import java_hash, partition_of
from checkers.check import check
from checkers.engines.engine import DuckDbEngine
from checkers.history.settings import OFFSETS_TOPIC
from nodes.coordinators import partitioning
from tests.support.histories.golden.groups import FIRST, HERE, SECOND
from tests.support.histories.golden.state_losses import led, taken
from tests.support.histories.story import ONE, S, Story, healthy, v

TENTHS = st.integers(min_value=10, max_value=130)
"""Moments between 1 s and 13 s."""


@pytest.mark.parametrize(("text", "value"), [("", 0), ("Aa", 2112), ("BB", 2112), ("é", 233)])
def test_hash_is_that_of_java(text: str, value: int) -> None:
    """As String.hashCode says."""
    assert java_hash(text) == value


@given(text=st.text(max_size=40))
def test_hash_is_that_of_the_broker(text: str) -> None:
    """The broker has the rule again, and neither knows the other."""
    assert java_hash(text) == partitioning.java_hash(text)


def test_partition_is_unknown_without_leaders() -> None:
    """The number of partitions is that of the recorded leaders."""
    none = Causes(causes=(), led=frozenset(), recorded=frozenset(), contradicted={})
    assert partition_of(none, OFFSETS_TOPIC, "readers") is None
    led_by = frozenset((OFFSETS_TOPIC, number) for number in range(50))
    some = Causes(causes=(), led=led_by, recorded=frozenset(), contradicted={})
    assert partition_of(some, OFFSETS_TOPIC, "readers") == partitioning.partition_for("readers", 50)
    # Its hash is the least number, whose absolute value Java does not have.
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert partition_of(some, OFFSETS_TOPIC, "polygenelubricants") == 0


def _told(committed: int, seen: int, lost: int, nodes: Sequence[int], isr: Sequence[int]) -> Story:
    """Times in tenths of a second. The in-sync replicas of the internal topic are `isr` until some
    nodes lose power; the first of the in-sync replicas leads again half a second later."""
    story = healthy()
    back = lost / 10 + 0.5
    led(
        story, OFFSETS_TOPIC,
        (0, isr[0], 0, isr), (back, isr[0], 1, isr[:1]), (back + 3, isr[0], 1, isr),
    )  # fmt: skip
    taken(story, *nodes, by_s=lost / 10)
    # The controllers know that the nodes are back before one of them leads.
    story.faults[-1]["healed_ns"] = round((lost / 10 + 0.2) * S)
    story.row("offset-commit", FIRST, committed / 10, offset=7, generation=1, **HERE)
    story.row("assigned", SECOND, seen / 10, offset=5, generation=2, **HERE)
    records = {offset: v(ONE, offset + 1) for offset in (5, 6)}
    story.poll(ONE, seen / 10 + 1, records, client=SECOND, group=HERE["group"])
    return story


@settings(max_examples=12, deadline=None)
@given(
    committed=TENTHS, seen=TENTHS, lost=TENTHS,
    nodes=st.sets(st.sampled_from((1, 2, 3)), min_size=1),
    isr=st.permutations((1, 2, 3)), size=st.integers(min_value=1, max_value=3),
)  # fmt: skip
@example(committed=60, seen=100, lost=20, nodes={1, 2, 3}, isr=[1, 2, 3], size=3)
@example(committed=20, seen=100, lost=60, nodes={1, 2, 3}, isr=[1, 2, 3], size=3)
@example(committed=20, seen=50, lost=60, nodes={1, 2, 3}, isr=[1, 2, 3], size=3)
def test_loss_of_power_excuses_what_it_may_have_taken(
    committed: int, seen: int, lost: int, nodes: set[int], isr: list[int], size: int
) -> None:
    """The commit was in memory only, every in-sync replica lost that, and then one of them led
    before the loss was seen. Moments that are too close to tell apart are left out."""
    isr = isr[:size]
    back = lost + 5
    if committed >= seen or abs(committed - lost) < 5 or abs(seen - back) < 5:
        return
    story = _told(committed, seen, lost, sorted(nodes), isr)
    engine = DuckDbEngine()
    try:
        verdict = check(story.sources(), story.plan, engine)
    finally:
        engine.close()
    [anomaly] = [each for each in verdict.anomalies if each.kind == "lost-commit"]
    excused = set(isr) <= nodes and committed < lost and back < seen
    assert anomaly.judgement.value == ("permitted" if excused else "forbidden")
