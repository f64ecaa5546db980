"""Where the replicas of a broker go that leaves."""

import pytest

from harness.admin.errors import AdminError
from harness.admin.model import Partition, Reassignment, Topic
from harness.moving_out import evacuated
from nodes.ids import TopicPartition


def topic(*placed: tuple[int, ...]) -> Topic:
    """Topic t with these replicas."""
    return Topic(
        name="t",
        topic_id=None,
        internal=False,
        partitions=tuple(
            Partition(name=TopicPartition("t", n), leader=r[0], replicas=r, isr=r)
            for n, r in enumerate(placed)
        ),
    )


def test_the_emptiest_broker_takes_its_place() -> None:
    """In the same place of the order; partitions without it stay as they are."""
    found = evacuated(1, [2, 3, 4], [topic((1, 2), (2, 1), (3, 4))], {})
    assert found == {TopicPartition("t", 0): (3, 2), TopicPartition("t", 1): (2, 4)}


def test_what_is_on_its_way_counts_as_there() -> None:
    """A move away from the broker is not ordered twice; a move to it is turned away."""
    at = [TopicPartition("t", n) for n in (0, 1)]
    ongoing = {
        at[0]: Reassignment(replicas=(2, 3, 1), adding=(3,), removing=(1,)),
        at[1]: Reassignment(replicas=(2, 1, 3), adding=(1,), removing=(3,)),
    }
    known = [topic((2, 3, 1), (2, 1, 3))]
    assert evacuated(1, [2, 3, 4], known, ongoing) == {at[1]: (2, 4)}


def test_a_partition_on_every_broker_has_nowhere_to_go() -> None:
    """That is said, and nothing is ordered."""
    with pytest.raises(AdminError, match="t-0 on broker 1 has nowhere to go"):
        evacuated(1, [2, 3], [topic((1, 2, 3))], {})
