"""Live state is what the log says, whole or compacted, after any sequence of operations."""

import random

import pytest

from tests.support.nodes.group_offsets import FIRST, RETENTION_MS, SECOND, Coordinated

GROUPS = ("a", "b")
PARTITIONS = (("t", 0), ("t", 1), ("u", 0))


def act(rng: random.Random, groups: Coordinated) -> None:
    group, partition = rng.choice(GROUPS), rng.choice(PARTITIONS)
    producer = rng.choice((FIRST, SECOND))
    match rng.randrange(10):
        case 0 | 1 | 2:
            groups.commit(group, {partition: rng.randrange(100)})
        case 3 | 4:
            groups.commit(group, {partition: rng.randrange(100)}, producer=producer)
        case 5:
            groups.driver.end_transaction(producer, commit=rng.random() < 0.7)
        case 6:
            groups.delete_offset(group, *partition)
        case 7:
            groups.delete_group(group)
        case 8:
            groups.topics_deleted(partition[0])
        case _:
            groups.driver.advance(rng.choice((1.0, RETENTION_MS / 2)))


@pytest.mark.parametrize("seed", range(200))
def test_replay_makes_the_live_state(seed: int) -> None:
    """Of every prefix of the log."""
    rng = random.Random(seed)
    groups = Coordinated()
    for _ in range(40):
        act(rng, groups)
        live = groups.driver.machine.offsets
        assert groups.driver.rebuilt().offsets == live
        assert groups.driver.rebuilt(compacted=True).offsets == live
        if rng.random() < 0.05:
            groups.driver.fail_over()
