"""Each mutation changes one place, and is undone."""

import random

import pytest

from harness.simulation.decisions import catalogue, mutations
from harness.simulation.decisions.mutations import Mutation
from nodes.log import retention

RETENTION = mutations.mutations("nodes.log.retention")


def one(operator: str, before: str, after: str) -> Mutation:
    """The first mutation of this kind."""
    wanted = operator, before, after
    return next(e for e in RETENTION if (e.operator, e.before, e.after) == wanted)


def test_names_are_numbers_in_the_order_of_the_source() -> None:
    assert [each.number for each in RETENTION] == list(range(len(RETENTION)))
    assert [each.line for each in RETENTION] == sorted(each.line for each in RETENTION)
    assert all(mutations.named(each.name) == each for each in RETENTION)


def test_every_mutation_changes_its_text() -> None:
    assert all(each.before != each.after for each in RETENTION)
    assert "nodes/log/retention.py:" in RETENTION[0].text()


@pytest.mark.parametrize(
    "name", ["nodes.log.retention:9999", "nodes.nothing:1", "retention", "a:b"]
)
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="write MODULE:NUMBER"):
        mutations.named(name)


def test_a_boundary_moves_and_comes_back() -> None:
    over = "now_ms - first_timestamp > segment_ms"
    undo = mutations.apply(one("relation", over, over.replace(">", ">=")))
    assert retention.rolls_by_age(0, 5, 5)
    undo()
    assert not retention.rolls_by_age(0, 5, 5)


def test_a_dropped_condition_no_longer_decides() -> None:
    both = "first_timestamp >= 0 and now_ms - first_timestamp > segment_ms"
    rest = both.split(" and ")[1]
    undo = mutations.apply(one("dropped condition", both, f"{rest} and {rest}"))
    assert retention.rolls_by_age(-1, 9, 5)
    undo()
    assert not retention.rolls_by_age(-1, 9, 5)


def test_a_tenth_of_all_can_be_applied_and_undone() -> None:
    every = [each for module in catalogue.NAMES for each in mutations.mutations(module)]
    assert len(every) > 3000
    assert len({each.name for each in every}) == len(every)
    for each in random.Random(0).sample(every, len(every) // 10):
        mutations.apply(each)()
