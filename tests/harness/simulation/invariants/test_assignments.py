"""Changes of a partition's assignment that break its ISR are found; permitted ones are not."""

from dataclasses import replace
from uuid import UUID

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.assignments import check_assignment
from harness.simulation.invariants.images import Images
from nodes.ids import NO_NODE, Epoch, NodeId, Offset
from nodes.metadata.image import ClusterImage, PartitionImage, TopicImage


def nodes(*numbers: int) -> tuple[NodeId, ...]:
    return tuple(NodeId(number) for number in numbers)


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    *,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    elr: tuple[int, ...] = (),
    leader: int = 1,
    epoch: int = 0,
) -> PartitionImage:
    return PartitionImage(
        replicas=nodes(*replicas),
        isr=nodes(*isr),
        leader=NodeId(leader),
        leader_epoch=Epoch(0),
        partition_epoch=epoch,
        adding_replicas=nodes(*adding),
        removing_replicas=nodes(*removing),
        elr=nodes(*elr),
    )


MOVING = partition((1, 2, 4, 3), (1, 2, 3), adding=(4,), removing=(3,))
GROWING = partition((1, 2, 3), (1, 2), adding=(3,))
PLAIN = partition((1, 2, 3), (1, 2, 3))


def changed(old: PartitionImage, new: PartitionImage) -> None:
    check_assignment("t-0", Offset(9), old, replace(new, partition_epoch=old.partition_epoch + 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MOVING, partition((1, 2, 4), (1, 2, 4))),
        (MOVING, partition((1, 2, 3), (1, 2, 3))),
        (MOVING, partition((1, 5, 2, 3), (1, 2, 3), adding=(5,), removing=(2, 3))),
        (MOVING, replace(MOVING, isr=nodes(1))),
        (GROWING, partition((1, 2, 3), (1, 2, 3))),
        (GROWING, partition((1, 2), (1, 2))),
        (PLAIN, MOVING),
        (PLAIN, partition((1, 2), (1, 2))),
        (PLAIN, partition((3, 2, 1), (1, 2, 3), leader=3)),
        (PLAIN, replace(PLAIN, isr=nodes(1))),
        (partition((1, 2, 3), (1,)), partition((1, 2, 3), (1,), removing=(3,))),
        (partition((1, 2, 3), (1,), removing=(3,)), partition((1, 2, 3), (1,))),
    ],
    ids=[
        "move is complete",
        "move is cancelled",
        "another move replaces it",
        "ISR shrinks during a move",
        "growth is complete",
        "growth is cancelled",
        "move begins",
        "replica is removed at once",
        "order changes",
        "ISR shrinks",
        "removal waits for a replica",
        "removal is cancelled",
    ],
)
def test_permitted_change_breaks_nothing(old: PartitionImage, new: PartitionImage) -> None:
    """Each may happen in one record."""
    changed(old, new)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (MOVING, partition((1, 2, 4), (1, 4)), "node 2 stays a replica"),
        (MOVING, partition((1, 2, 4), (1, 2)), r"without \[4\] in the ISR"),
        (MOVING, partition((1, 2, 3), (1, 3)), "node 2 stays a replica"),
        (PLAIN, replace(MOVING, isr=nodes(1, 2)), "node 3 stays a replica"),
        (partition((1, 2, 3), (1,)), partition((1, 2), (1,)), r"without \[2\] in the ISR"),
        (GROWING, partition((1, 2, 3), (1, 2)), r"without \[3\] in the ISR"),
        (MOVING, partition((1, 2, 4), (1, 2), adding=(4,)), "before the end"),
    ],
    ids=[
        "completion drops a staying member",
        "completion without the new replica",
        "cancellation drops a staying member",
        "begin drops a member",
        "removal while a staying replica lags",
        "growth without the new replica",
        "replica is dropped too early",
    ],
)
def test_wrong_change_of_the_assignment_breaks_reassigned_in_sync(
    old: PartitionImage, new: PartitionImage, why: str
) -> None:
    """Two images that are one record apart."""
    with pytest.raises(InvariantBroken, match=f"^reassigned-in-sync: .*{why}"):
        changed(old, new)


def test_images_further_apart_are_not_compared() -> None:
    """Between them the replica may have left the ISR for a reason."""
    new = partition((1, 2, 4), (1, 4), epoch=2)
    check_assignment("t-0", Offset(9), MOVING, new)


@pytest.mark.parametrize(
    "wrong",
    [
        partition((1, 2), (1, 3)),
        partition((1, 2), (1,), elr=(3,)),
        replace(partition((1, 2), (1,)), last_known_elr=nodes(3)),
        partition((1, 2), (1,), adding=(3,)),
        partition((1, 2), (1,), removing=(3,)),
        partition((1, 2), (2,)),
    ],
    ids=["ISR", "eligible", "last known", "adding", "removing", "leader"],
)
def test_stranger_among_the_members_breaks_isr_within_replicas(wrong: PartitionImage) -> None:
    """A new partition is judged as well as a changed one."""
    with pytest.raises(InvariantBroken, match=r"^isr-within-replicas: "):
        check_assignment("t-0", Offset(9), None, wrong)


def test_partition_without_leader_and_isr_is_permitted() -> None:
    """The eligible leaders remember who may lead (KIP-966)."""
    check_assignment("t-0", Offset(9), None, partition((1, 2), (), elr=(1, 2), leader=NO_NODE))


def test_new_images_of_a_cluster_are_judged() -> None:
    """The rule is applied to each partition that changed in the newest image."""

    def image(offset: int, found: PartitionImage) -> ClusterImage:
        topic = TopicImage(name="t", topic_id=UUID(int=5), partitions={0: found})
        return ClusterImage(offset=Offset(offset), topics={topic.topic_id: topic})

    images = Images()
    with pytest.raises(InvariantBroken, match="isr-within-replicas"):
        images.seen(1, image(5, partition((1, 2), (1, 3))))
