"""Target expressions: read at planning, resolved at injection."""

import random

import pytest

from nemesis import conditions, targets
from nemesis.base import BadSchedule, BadTargets, Unresolved
from tests.nemesis.fakes import FakeView

NODES = [1, 2, 3]


def resolve(expression: str, view: FakeView | None = None, seed: int = 1) -> tuple[int, ...]:
    """The nodes that an expression means in the fake cluster."""
    return targets.resolve(expression, NODES, view or FakeView(), random.Random(seed)).nodes


@pytest.mark.parametrize(
    ("expression", "nodes"),
    [
        ("all", (1, 2, 3)),
        ("node:2", (2,)),
        ("controller", (3,)),
        ("leader:a/0", (1,)),
        ("leader:a/1", (2,)),
    ],
)
def test_definite_targets(expression: str, nodes: tuple[int, ...]) -> None:
    """Expressions that leave nothing to chance mean what the view says."""
    assert resolve(expression) == nodes


def test_random_targets_have_their_size_and_their_seed() -> None:
    """Sizes are as named, and one seed gives one choice."""
    assert [len(resolve(e)) for e in ("one", "minority", "majority")] == [1, 1, 2]
    assert all(resolve("majority", seed=s) == resolve("majority", seed=s) for s in range(20))
    assert len({resolve("one", seed=s) for s in range(20)}) == 3


def test_leader_names_the_partition_that_it_chose() -> None:
    """The leader of a random partition is recorded with the partition."""
    found = targets.resolve("leader", NODES, FakeView(), random.Random(1))
    assert found.because in ("leader of a/0", "leader of a/1")


@pytest.mark.parametrize("expression", ["leader", "leader:a/0", "leader:other/0", "controller"])
def test_what_nobody_knows_is_unresolved(expression: str) -> None:
    """A leader that the view does not know may be known later: not an error for good."""
    view = FakeView()
    view.leaders.clear()
    view.active = None
    with pytest.raises(Unresolved):
        resolve(expression, view)


@pytest.mark.parametrize("expression", ["", "two", "node:", "node:x", "leader:", "leader:a", "One"])
def test_nonsense_is_refused_and_the_language_explained(expression: str) -> None:
    """The error lists what can be said."""
    with pytest.raises(BadTargets, match="leader:<topic>/<partition>"):
        targets.parse(expression)


def test_strangers_and_empty_minorities_are_refused() -> None:
    """A node that is not there, and a minority of two nodes, can never be hit."""
    with pytest.raises(BadTargets, match="no node 4"):
        resolve("node:4")
    with pytest.raises(BadTargets, match="no minority"):
        targets.resolve("minority", [1, 2], FakeView(), random.Random(1))


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("leader:a/0 is 1", True),
        ("leader:a/0 is 2", False),
        ("leader:a/0 is-not 2", True),
        ("leader:b/0 is-not 2", False),
        ("isr:a/0 is 3,1,2", True),
        ("isr:a/0 is 1,2", False),
        ("isr:a/0 size 3", True),
        ("isr:a/1 size 3", False),
        ("controller is leader:a/0", False),
        ("controller is-not leader:a/0", True),
        ("controller is leader:a/2", True),
        ("controller is-not leader:a/2", False),
        ("controller is-not leader:b/0", False),
    ],
)
def test_conditions_against_the_view(text: str, holds: bool) -> None:
    """A condition holds only on what the cluster is known to be."""
    view = FakeView()
    view.leaders["a", 2] = 3
    assert conditions.parse(text).holds(view) is holds


@pytest.mark.parametrize(
    "text",
    [
        *("", "leader:a/0", "leader:a/0 size 1", "isr:a/0 is-not 1", "leader:a/0 is 1,2"),
        *("controller is 1", "controller is leader:a", "controller size leader:a/0"),
    ],
)
def test_bad_conditions_are_refused(text: str) -> None:
    """What cannot be evaluated is refused when the plan is read."""
    with pytest.raises(BadSchedule):
        conditions.parse(text)
