"""Reassignments: begun, listed, completed by the leader's ISR, replaced, cancelled, refused."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller.reassignments import (
    Reassignment,
    ReassignmentResult,
    alter_reassignments,
    list_reassignments,
)
from nodes.ids import NO_NODE
from tests.support.nodes.controller_cluster import Cluster, node, nodes


@pytest.fixture
def cluster() -> Cluster:
    """Five brokers and a topic with its one partition on the first three."""
    cluster = Cluster(brokers=5, min_isr=2)
    cluster.create("t", nodes(1, 2, 3))
    return cluster


def reassign(cluster: Cluster, *replicas: int, **values: Any) -> ReassignmentResult:
    """Ask for new replicas of t-0, or cancel when none are given."""
    request = Reassignment(topic="t", partition=0, replicas=nodes(*replicas) or None)
    (answer,) = cluster.take(alter_reassignments(cluster.controller.state, [request], **values))
    return answer


def refusal(answer: ReassignmentResult) -> tuple[ErrorCode, str]:
    """The error of an answer that must have one."""
    assert answer.error is not None
    return answer.error.code, answer.error.message


def test_a_reassignment_completes(cluster: Cluster) -> None:
    """New replicas are added at once, old ones go when the new are in sync, the leader last."""
    assert reassign(cluster, 4, 5, 3).error is None
    is_reassigning = cluster.partition()
    assert is_reassigning.replicas == nodes(4, 5, 3, 1, 2)
    assert (is_reassigning.adding_replicas, is_reassigning.removing_replicas) == (
        nodes(4, 5),
        nodes(1, 2),
    )
    assert (is_reassigning.leader, is_reassigning.isr) == (node(1), nodes(1, 2, 3))
    (listed,) = list_reassignments(cluster.image)
    assert (listed.replicas, listed.adding) == (nodes(4, 5, 3, 1, 2), nodes(4, 5))
    assert cluster.alter(1, [1, 2, 3, 4]).error is None
    assert len(cluster.partition().replicas) == 5
    answer = cluster.alter(1, [1, 2, 3, 4, 5])
    assert answer.error is not None
    assert answer.error.code is ErrorCode.new_leader_elected
    done = cluster.partition()
    assert (done.replicas, done.isr, done.leader) == (nodes(4, 5, 3), nodes(3, 4, 5), node(4))
    assert done.leader_epoch == is_reassigning.leader_epoch + 1
    assert not list(list_reassignments(cluster.image))


def test_a_remaining_leader_gets_a_new_epoch_when_replicas_are_removed(cluster: Cluster) -> None:
    """It answers under a new leader epoch, though it leads as before."""
    reassign(cluster, 1, 2, 4)
    before = cluster.partition()
    answer = cluster.alter(1, [1, 2, 3, 4])
    assert answer.partition == cluster.partition()
    assert (answer.partition.leader, answer.partition.isr) == (node(1), nodes(1, 2, 4))
    assert answer.partition.leader_epoch == before.leader_epoch + 1


def test_a_reassignment_without_new_replicas_completes_at_once(cluster: Cluster) -> None:
    """Fewer replicas, and another order of them; the leader stays if it may."""
    assert reassign(cluster, 3, 2, 1).error is None
    assert cluster.partition().replicas == nodes(3, 2, 1)
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (node(1), 0)
    assert reassign(cluster, 3, 2).error is None
    assert cluster.partition().isr == nodes(2, 3)
    assert (cluster.partition().leader, cluster.partition().leader_epoch) == (node(3), 1)
    assert reassign(cluster, 3, 2).error is None
    assert cluster.written == []


def test_a_cancelled_reassignment_restores_the_original_replicas(cluster: Cluster) -> None:
    """Added replicas go, in sync or not; those to be removed stay."""
    before = cluster.partition()
    reassign(cluster, 4, 5, 3)
    cluster.alter(1, [1, 2, 3, 4])
    assert reassign(cluster).error is None
    after = cluster.partition()
    assert set(after.replicas) == set(before.replicas)
    assert set(after.isr) == set(before.isr)
    assert (after.adding_replicas, after.removing_replicas) == ((), ())
    assert after.leader == before.leader
    assert refusal(reassign(cluster)) == (
        ErrorCode.no_reassignment_in_progress,
        "No partition reassignment is in progress.",
    )


def test_a_second_reassignment_is_relative_to_the_original_replicas(cluster: Cluster) -> None:
    """What the first target had added goes; what it was to remove may stay."""
    reassign(cluster, 4, 5, 3)
    cluster.alter(1, [1, 2, 3, 4])
    reassign(cluster, 1, 5, 3)
    after = cluster.partition()
    assert after.replicas == nodes(1, 5, 3, 2)
    assert (after.adding_replicas, after.removing_replicas) == (nodes(5), nodes(2))
    assert after.isr == nodes(1, 2, 3)
    reassign(cluster)
    assert set(cluster.partition().replicas) == set(nodes(1, 2, 3))


def test_a_cancellation_that_would_lose_the_leader_is_refused(cluster: Cluster) -> None:
    """Only added replicas are alive: the old ones may lack what these have committed."""
    reassign(cluster, 4, 5)
    cluster.alter(1, [1, 2, 4])
    cluster.lose(2, 3)
    cluster.lose(1)
    assert cluster.partition().leader == node(4)
    code, message = refusal(reassign(cluster))
    assert code is ErrorCode.invalid_replica_assignment
    assert "would require an unclean leader election" in message
    assert cluster.partition().leader == node(4)


def only_an_added_replica_is_left(cluster: Cluster) -> None:
    """Nodes 4 and 5 are added; 4 alone is in sync, and 1 is back without all that it had."""
    reassign(cluster, 4, 5)
    cluster.alter(1, [1, 2, 3, 4])
    cluster.lose(2, 3)
    cluster.lose(1)
    cluster.register(1, incarnation=11)


@pytest.mark.parametrize(("replacement", "allowed"), [((), False), ((6, 2), False), ((), True)])
def test_added_replicas_that_alone_have_what_is_committed_stay(
    replacement: tuple[int, ...], *, allowed: bool
) -> None:
    """An original replica is back without all that it had: it would lead, and the others would
    truncate. Where unclean elections are allowed, so is this.
    """
    cluster = Cluster(brokers=6, min_isr=2, unclean=allowed)
    cluster.create("t", nodes(1, 2, 3))
    only_an_added_replica_is_left(cluster)
    cluster.beat(1)
    before = cluster.partition()
    assert (before.leader, before.isr, before.elr) == (node(4), nodes(4), ())
    assert node(1) in before.last_known_elr
    answer = reassign(cluster, *replacement)
    assert (answer.error is None) is allowed
    if not allowed:
        assert cluster.partition() == before


def test_leaderless_partition_keeps_an_added_replica_that_alone_is_eligible(
    cluster: Cluster,
) -> None:
    """Its log would be removed when it is back, with the only copy of what was committed."""
    only_an_added_replica_is_left(cluster)
    cluster.lose(4)
    before = cluster.partition()
    assert (before.leader, before.isr, before.elr) == (NO_NODE, (), nodes(4))
    code, message = refusal(reassign(cluster))
    assert code is ErrorCode.invalid_replica_assignment
    assert "would require an unclean leader election" in message
    assert cluster.partition() == before


def test_a_cancellation_may_elect_an_eligible_replica(cluster: Cluster) -> None:
    """Below the minimum nothing was committed since they were in sync."""
    reassign(cluster, 4, 5)
    cluster.alter(1, [1, 2, 4])
    cluster.alter(1, [1, 4])
    cluster.beat(1, want_fence=True)
    assert cluster.partition().elr == nodes(1)
    cluster.beat(1)
    assert (cluster.partition().leader, cluster.partition().elr) == (node(4), nodes(1))
    assert reassign(cluster).error is None
    after = cluster.partition()
    assert (after.leader, after.isr) == (node(1), nodes(1))
    assert after.leader_recovery_state == 0
    assert after.leader != NO_NODE


@pytest.mark.parametrize(
    ("replicas", "values", "code", "words"),
    [
        ((9,), {}, ErrorCode.invalid_replica_assignment, "broker 9, but no such broker"),
        ((1, 1), {}, ErrorCode.invalid_replica_assignment, "the broker 1 more than once"),
        (
            (1, 2),
            {"allow_factor_change": False},
            ErrorCode.invalid_replication_factor,
            "The replication factor is changed from 3 to 2",
        ),
    ],
)
def test_invalid_reassignments_are_refused(
    cluster: Cluster,
    replicas: tuple[int, ...],
    values: dict[str, Any],
    code: ErrorCode,
    words: str,
) -> None:
    """Kafka's codes and words, and nothing is written."""
    found, message = refusal(reassign(cluster, *replicas, **values))
    assert found is code
    assert words in message
    assert cluster.written == []


def test_each_reassignment_has_its_own_result(cluster: Cluster) -> None:
    """In one batch, unknown partitions beside known ones; an empty list is no assignment."""
    wanted = [
        Reassignment(topic="none", partition=0, replicas=nodes(1)),
        Reassignment(topic="t", partition=7, replicas=nodes(1)),
        Reassignment(topic="t", partition=0, replicas=()),
        Reassignment(topic="t", partition=0, replicas=nodes(1, 2, 4)),
    ]
    answers = cluster.take(alter_reassignments(cluster.controller.state, wanted))
    assert [a.error and a.error.code for a in answers] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_replica_assignment,
        None,
    ]
    assert len(list(list_reassignments(cluster.image, {"t": [0], "u": [1]}))) == 1
    assert not list(list_reassignments(cluster.image, {"t": [1]}))
