"""AlterPartition: which ISRs the controller accepts from a leader."""

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller.isr import AlterIsrRequest
from nodes.ids import BrokerEpoch, Epoch
from nodes.metadata.records import RECOVERING, PartitionChangeRecord
from tests.support.nodes.controller_cluster import SESSION_MS, Cluster, node, nodes, refused


def test_the_leader_shrinks_and_grows_its_isr(cluster: Cluster) -> None:
    """Only the partition epoch rises; the answer is the state after the change."""
    answer = cluster.alter(1, [1, 3])
    assert answer.partition == cluster.partition()
    assert cluster.partition().isr == nodes(1, 3)
    assert (cluster.partition().leader_epoch, cluster.partition().partition_epoch) == (0, 1)
    cluster.alter(1, [1, 3, 2])
    assert set(cluster.partition().isr) == set(nodes(1, 2, 3))
    assert (cluster.partition().leader_epoch, cluster.partition().partition_epoch) == (0, 2)


def test_the_same_isr_writes_nothing(cluster: Cluster) -> None:
    """A repeated request is answered with the state as it is, in whatever order it lists it."""
    answer = cluster.alter(1, [3, 2, 1])
    assert answer.error is None
    assert answer.partition == cluster.partition()
    assert cluster.written == []


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"topic_id": None}, ErrorCode.unknown_topic_id),
        ({"partition": 9}, ErrorCode.unknown_topic_or_partition),
        ({"leader_epoch": Epoch(-1)}, ErrorCode.fenced_leader_epoch),
        ({"leader_epoch": Epoch(1)}, ErrorCode.not_controller),
        ({"partition_epoch": 2}, ErrorCode.invalid_update_version),
        ({"partition_epoch": 4}, ErrorCode.not_controller),
        ({"leader_recovery_state": RECOVERING}, ErrorCode.invalid_request),
    ],
)
def test_requests_with_wrong_epochs_or_names_are_refused(
    cluster: Cluster, other: dict[str, Any], code: ErrorCode
) -> None:
    """Each staleness has Kafka's error, and changes nothing."""
    for isr in ([1, 2], [1, 2, 3], [1, 2]):
        cluster.alter(1, isr)
    assert cluster.partition().partition_epoch == 3
    answer = cluster.alter(1, [1], **other)
    assert answer.error is not None
    assert answer.error.code is code
    assert answer.partition is None
    assert cluster.written == []


@pytest.mark.parametrize("isr", [[2, 3], [], [1, 2, 2], [1, 4]])
def test_invalid_isrs_are_refused(cluster: Cluster, isr: list[int]) -> None:
    """The ISR holds the leader, and distinct replicas only."""
    cluster.register(4)
    cluster.beat(4)
    answer = cluster.alter(1, isr)
    assert answer.error is not None
    assert answer.error.code is ErrorCode.invalid_request


def test_only_the_leader_may_change_the_isr(cluster: Cluster) -> None:
    """A follower that knows the right epochs is still not the leader."""
    answer = cluster.alter(2, [2, 1])
    assert answer.error is not None
    assert answer.error.code is ErrorCode.invalid_request


def test_a_fenced_member_is_ineligible(cluster: Cluster) -> None:
    """A fenced follower may fetch for a while, but counts for nothing."""
    cluster.lose(3)
    answer = cluster.alter(1, [1, 2, 3])
    assert answer.error is not None
    assert answer.error.code is ErrorCode.ineligible_replica
    assert "fenced" in answer.error.message


def test_a_member_that_shuts_down_is_ineligible(cluster: Cluster) -> None:
    """Or controlled shutdown would never end."""
    cluster.beat(3, want_shut_down=True)
    answer = cluster.alter(1, [1, 2, 3])
    assert answer.error is not None
    assert answer.error.code is ErrorCode.ineligible_replica
    assert "shutting down" in answer.error.message


def test_an_earlier_copy_of_a_refused_proposal_is_stale(cluster: Cluster) -> None:
    """It may arrive when the member is in service again, in the same broker epoch. Meanwhile the
    leader has committed without it.
    """
    cluster.alter(1, [1, 2])
    before = cluster.partition()
    cluster.lose(3)
    refused = cluster.alter(1, [1, 2, 3])
    assert refused.error is not None
    assert refused.error.code is ErrorCode.ineligible_replica
    after = cluster.partition()
    assert after == replace(before, partition_epoch=before.partition_epoch + 1)
    cluster.beat(3)
    late = cluster.alter(1, [1, 2, 3], partition_epoch=before.partition_epoch)
    assert late.error is not None
    assert late.error.code is ErrorCode.invalid_update_version
    assert cluster.alter(1, [1, 2, 3]).error is None


def test_an_unregistered_member_is_ineligible(cluster: Cluster) -> None:
    """Nobody vouches for a broker that is not of the cluster."""
    cluster.take(cluster.controller.unregister_broker(node(3)))
    answer = cluster.alter(1, [1, 2, 3])
    assert answer.error is not None
    assert answer.error.code is ErrorCode.ineligible_replica


def test_a_member_known_by_an_older_broker_epoch_is_ineligible(cluster: Cluster) -> None:
    """KIP-903: the follower restarted, maybe empty, since the leader saw it catch up."""
    old = cluster.epochs[node(3)]
    cluster.lose(3)
    cluster.register(3, incarnation=33)
    cluster.beat(3)
    members = ((node(1), cluster.epochs[node(1)]), (node(3), old))
    answer = cluster.alter(1, members=members)
    assert answer.error is not None
    assert answer.error.code is ErrorCode.ineligible_replica
    assert cluster.alter(1, [1, 3]).error is None


def test_an_unknown_broker_epoch_is_not_compared(cluster: Cluster) -> None:
    """-1 stands for a leader that does not know the member's epoch."""
    members = ((node(1), BrokerEpoch(-1)), (node(3), BrokerEpoch(-1)))
    assert cluster.alter(1, members=members).error is None


def test_a_stale_broker_epoch_of_the_leader_refuses_the_whole_request(cluster: Cluster) -> None:
    """The process that asks is not the one that is registered."""
    with refused(ErrorCode.stale_broker_epoch):
        cluster.controller.alter_partition(node(1), BrokerEpoch(0), [])
    with refused(ErrorCode.stale_broker_epoch):
        cluster.controller.alter_partition(node(8), BrokerEpoch(0), [])


def test_two_changes_of_one_partition_in_one_request(cluster: Cluster) -> None:
    """The second is judged on the state after the first."""
    topic = cluster.image.topic("t")
    assert topic is not None
    epochs = cluster.epochs
    request = AlterIsrRequest(
        topic_id=topic.topic_id,
        partition=0,
        leader_epoch=Epoch(0),
        partition_epoch=0,
        isr=((node(1), epochs[node(1)]),),
    )
    first, second = cluster.take(
        cluster.controller.alter_partition(node(1), epochs[node(1)], [request, request])
    )
    assert first.error is None
    assert second.error is not None
    assert second.error.code is ErrorCode.invalid_update_version
    assert len(cluster.written) == 1


def test_a_recovery_ends_before_the_isr_grows() -> None:
    """After an unclean election the leader says when it has recovered; alone until then."""
    cluster = Cluster(brokers=2)
    cluster.create("t", nodes(1, 2), configs={"unclean.leader.election.enable": "true"})
    cluster.alter(1, [1])
    cluster.wait(SESSION_MS, 2)
    assert cluster.partition().leader_recovery_state == RECOVERING
    cluster.register(1, incarnation=11)
    cluster.beat(1)
    answer = cluster.alter(2, [2, 1], leader_recovery_state=RECOVERING)
    assert answer.error is not None
    assert answer.error.code is ErrorCode.invalid_request
    assert cluster.alter(2, [2]).error is None
    (record,) = cluster.written
    assert isinstance(record, PartitionChangeRecord)
    assert (record.isr, record.leader_recovery_state) == (None, 0)
    assert cluster.alter(2, [2, 1]).error is None


def test_one_member_may_replace_another(cluster: Cluster) -> None:
    """An ISR of the same length is another ISR."""
    cluster.alter(1, [1, 2])
    answer = cluster.alter(1, [1, 3])
    assert answer.error is None
    assert set(cluster.partition().isr) == set(nodes(1, 3))
