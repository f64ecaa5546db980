"""The controller's rules: registration, fencing, elections, take-over."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.controller import elections
from nodes.controller.controller import PRODUCER_ID_BLOCK
from nodes.controller.features import METADATA_VERSION
from nodes.controller.topics import create_topics
from nodes.ids import NO_NODE, BrokerEpoch, Epoch, Offset
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import (
    RECOVERED,
    RECOVERING,
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
)
from tests.support.nodes.controller_cluster import (
    CLUSTER_ID,
    SESSION_MS,
    Cluster,
    endpoint,
    node,
    nodes,
    refused,
    state_of,
)

# --- registration


def test_a_new_broker_is_fenced_under_the_offset_of_its_registration() -> None:
    """The broker epoch is the record's offset: unique, and it tells what to catch up with."""
    cluster = Cluster()
    before = cluster.image.offset
    assert cluster.register(1) == before + 1
    broker = cluster.image.brokers[node(1)]
    assert (broker.epoch, broker.fenced, broker.endpoints) == (before + 1, True, endpoint(1))


def test_the_same_incarnation_keeps_epoch_and_state(cluster: Cluster) -> None:
    """A registration that was sent twice is answered twice, and written once."""
    epoch = cluster.epochs[node(1)]
    assert cluster.register(1) == epoch
    assert cluster.written == []
    assert cluster.image.active(node(1))


def test_the_same_incarnation_may_change_its_registration(cluster: Cluster) -> None:
    """A changed rack or listener is written, under the old epoch, without fencing."""
    result = cluster.controller.register_broker(
        broker_id=node(1),
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=1),
        endpoints=endpoint(7),
        rack="b",
        now_ms=cluster.now_ms,
    )
    assert cluster.take(result) == cluster.epochs[node(1)]
    broker = cluster.image.brokers[node(1)]
    assert (broker.endpoints, broker.rack, broker.fenced) == (endpoint(7), "b", False)
    assert state_of(cluster.partition()) == (1, nodes(1, 2, 3), 0)


def test_another_incarnation_waits_for_the_session_to_end(cluster: Cluster) -> None:
    """Two processes under one id never take turns."""
    with refused(ErrorCode.duplicate_broker_registration):
        cluster.register(1, incarnation=11)
    cluster.lose(1)
    epoch = cluster.register(1, incarnation=11)
    assert epoch > max(cluster.epochs[node(2)], cluster.epochs[node(3)])
    assert cluster.image.brokers[node(1)].fenced


def test_a_new_incarnation_is_in_no_isr_even_before_the_old_one_is_fenced(
    cluster: Cluster,
) -> None:
    """Registered in the moment between the session's end and the tick that would fence."""
    cluster.wait(SESSION_MS - 50, 2, 3)
    cluster.now_ms += 50
    epoch = cluster.register(1, incarnation=11)
    assert int(epoch) == cluster.image.offset
    assert state_of(cluster.partition()) == (2, nodes(2, 3), 1)


def test_a_fenced_process_still_holds_its_id(cluster: Cluster) -> None:
    """A broker that asked to be fenced lives on; another incarnation is a duplicate."""
    cluster.beat(1, want_fence=True)
    with refused(ErrorCode.duplicate_broker_registration):
        cluster.register(1, incarnation=11)


@pytest.mark.parametrize(
    ("cluster_id", "incarnation", "endpoints", "code"),
    [
        ("other", UUID(int=4), endpoint(4), ErrorCode.inconsistent_cluster_id),
        (CLUSTER_ID, None, endpoint(4), ErrorCode.invalid_registration),
        (CLUSTER_ID, UUID(int=4), (), ErrorCode.invalid_registration),
    ],
)
def test_invalid_registrations_are_refused(
    cluster: Cluster,
    cluster_id: str,
    incarnation: UUID | None,
    endpoints: tuple[BrokerEndpoint, ...],
    code: ErrorCode,
) -> None:
    """A foreign cluster, a process without identity, a broker that nobody could reach."""
    with refused(code):
        cluster.controller.register_broker(
            broker_id=node(4),
            cluster_id=cluster_id,
            incarnation_id=incarnation,
            endpoints=endpoints,
            now_ms=cluster.now_ms,
        )


# --- heartbeats and fencing


def test_a_broker_is_unfenced_once_it_has_read_its_registration() -> None:
    """One record short is not enough."""
    cluster = Cluster()
    epoch = cluster.register(1)
    answer = cluster.beat(1, offset=epoch - 1)
    assert (answer.is_fenced, answer.is_caught_up) == (True, False)
    assert cluster.written == []
    assert cluster.beat(1, offset=epoch, want_fence=True).is_fenced
    answer = cluster.beat(1, offset=epoch)
    assert (answer.is_fenced, answer.is_caught_up) == (False, True)
    assert cluster.image.active(node(1))


def test_heartbeats_of_another_epoch_are_refused(cluster: Cluster) -> None:
    """Unknown brokers and old registrations; the session of the living one is not prolonged."""
    with refused(ErrorCode.stale_broker_epoch):
        cluster.beat(1, epoch=0)
    with refused(ErrorCode.stale_broker_epoch):
        cluster.beat(9, epoch=0)
    cluster.wait(SESSION_MS - 50, 2, 3)
    with refused(ErrorCode.stale_broker_epoch):
        cluster.beat(1, epoch=0)
    cluster.wait(50, 2, 3)
    assert cluster.image.brokers[node(1)].fenced


def test_silence_fences_at_the_session_timeout(cluster: Cluster) -> None:
    """Not a tick earlier; partitions come before the fencing in the batch."""
    cluster.wait(SESSION_MS - 50, 2, 3)
    assert cluster.image.active(node(1))
    cluster.wait(50, 2, 3)
    assert cluster.image.brokers[node(1)].fenced
    assert [type(record) for record in cluster.written] == [
        PartitionChangeRecord,
        BrokerRegistrationChangeRecord,
    ]
    assert state_of(cluster.partition()) == (2, nodes(2, 3), 1)


def test_heartbeats_keep_a_broker_alive(cluster: Cluster) -> None:
    """However long; nothing is written meanwhile."""
    offset = cluster.image.offset
    cluster.wait(5 * SESSION_MS, 1, 2, 3)
    assert cluster.image.offset == offset


def test_a_fenced_follower_leaves_the_isr_without_a_new_leader_epoch(cluster: Cluster) -> None:
    """Only the partition epoch rises when the leader stays."""
    cluster.lose(2)
    assert state_of(cluster.partition()) == (1, nodes(1, 3), 0)
    assert cluster.partition().partition_epoch == 1


def test_a_broker_is_fenced_once(cluster: Cluster) -> None:
    """Its silence goes on; the metadata log does not."""
    cluster.lose(2)
    offset = cluster.image.offset
    cluster.wait(3 * SESSION_MS, 1, 3)
    assert cluster.image.offset == offset


def test_a_fenced_broker_that_returns_waits_to_be_taken_into_the_isr(cluster: Cluster) -> None:
    """Unfencing gives back service, not the ISR: the leader decides about that."""
    cluster.lose(2)
    assert not cluster.beat(2).is_fenced
    assert state_of(cluster.partition()) == (1, nodes(1, 3), 0)


def test_the_first_live_in_sync_replica_in_assignment_order_leads() -> None:
    """Not the order of the ISR, not the lowest id."""
    cluster = Cluster(brokers=4)
    cluster.create("t", nodes(4, 3, 1, 2))
    cluster.alter(4, [4, 2, 1])
    cluster.lose(4)
    assert cluster.partition().leader == 1


def test_the_last_isr_member_stays_eligible_and_the_partition_waits_for_it(
    cluster: Cluster,
) -> None:
    """Leaderless with ELR [1]: replicas 2 and 3 may lack committed records."""
    cluster.alter(1, [1])
    cluster.lose(1)
    assert state_of(cluster.partition()) == (NO_NODE, (), 1)
    assert cluster.partition().elr == nodes(1)
    cluster.lose(2, 3)
    cluster.beat(2)
    cluster.beat(3)
    assert cluster.partition().leader == NO_NODE
    cluster.beat(1)
    assert state_of(cluster.partition()) == (1, nodes(1), 2)
    assert cluster.partition().leader_recovery_state == RECOVERED
    assert cluster.partition().elr == cluster.partition().last_known_elr == ()


def test_all_members_of_an_isr_that_dies_at_once_are_eligible(cluster: Cluster) -> None:
    """Nothing was committed without any of them; the first to return leads."""
    cluster.wait(2 * SESSION_MS)
    assert state_of(cluster.partition()) == (NO_NODE, (), 1)
    assert cluster.partition().elr == nodes(1, 2, 3)
    cluster.beat(3)
    assert state_of(cluster.partition()) == (3, nodes(3), 2)
    assert cluster.partition().elr == ()


def test_an_unclean_election_happens_only_if_the_topic_allows_it(cluster: Cluster) -> None:
    """The new leader is alone in the ISR, and marked as recovering."""
    cluster.create("u", nodes(1, 2, 3), configs={"unclean.leader.election.enable": "true"})
    for name in ("t", "u"):
        cluster.alter(1, [1], name=name)
    cluster.lose(1)
    cluster.recover()
    assert state_of(cluster.partition("t")) == (NO_NODE, (), 1)
    assert state_of(cluster.partition("u")) == (2, nodes(2), 2)
    assert cluster.partition("u").leader_recovery_state == RECOVERING


def test_an_unclean_election_when_a_stale_replica_returns() -> None:
    """Everybody was gone; the first to return leads where that is allowed, by default too."""
    cluster = Cluster(brokers=2, unclean=True)
    cluster.create("t", nodes(1, 2))
    cluster.create("kept", nodes(1, 2), configs={"unclean.leader.election.enable": "false"})
    for name in ("t", "kept"):
        cluster.alter(1, [1], name=name)
    cluster.lose(1, 2)
    assert cluster.partition().leader == NO_NODE
    cluster.beat(2)
    assert state_of(cluster.partition()) == (2, nodes(2), 2)
    assert cluster.partition("kept").leader == NO_NODE


def test_a_broker_may_ask_to_be_fenced(cluster: Cluster) -> None:
    """It leads nothing afterwards, and comes back when it stops asking."""
    assert cluster.beat(1, want_fence=True).is_fenced
    assert cluster.partition().leader == 2
    assert cluster.beat(1, want_fence=True).is_fenced
    assert not cluster.beat(1).is_fenced


def test_a_stall_of_the_controller_fences_nobody(cluster: Cluster) -> None:
    """It did not read heartbeats while it did not run; a real silence afterwards counts."""
    cluster.now_ms += 5 * SESSION_MS
    cluster.tick()
    assert cluster.image.active(node(1))
    cluster.wait(SESSION_MS, 2, 3)
    assert cluster.image.brokers[node(1)].fenced
    assert cluster.image.active(node(2))


# --- the rest


def test_an_unregistered_broker_leaves_every_isr_and_leadership(cluster: Cluster) -> None:
    """Its replicas stay assigned; its heartbeats are stale."""
    cluster.take(cluster.controller.unregister_broker(node(1)))
    assert node(1) not in cluster.image.brokers
    assert state_of(cluster.partition()) == (2, nodes(2, 3), 1)
    assert cluster.partition().replicas == nodes(1, 2, 3)
    with refused(ErrorCode.stale_broker_epoch):
        cluster.beat(1)
    with refused(ErrorCode.broker_id_not_registered):
        cluster.controller.unregister_broker(node(1))


def test_producer_ids_come_in_blocks_that_never_overlap(cluster: Cluster) -> None:
    """To registered brokers only."""
    blocks = [
        cluster.take(cluster.controller.allocate_producer_ids(node(n), cluster.epochs[node(n)]))
        for n in (1, 2, 1)
    ]
    assert blocks == [
        range(start, start + PRODUCER_ID_BLOCK)
        for start in range(0, 3 * PRODUCER_ID_BLOCK, PRODUCER_ID_BLOCK)
    ]
    with refused(ErrorCode.stale_broker_epoch):
        cluster.controller.allocate_producer_ids(node(1), BrokerEpoch(0))


def test_leaderships_return_to_preferred_replicas_at_the_interval() -> None:
    """Once the replica is live and back in the ISR, and not before the time."""
    cluster = Cluster(brokers=3, leader_imbalance_check_interval_ms=10_000)
    cluster.create("t", nodes(1, 2, 3))
    cluster.create("u", nodes(1, 2, 3))
    cluster.lose(1)
    cluster.beat(1)
    cluster.alter(2, [2, 3, 1])
    assert [cluster.partition(name).leader for name in "tu"] == list(nodes(2, 2))
    cluster.wait(5_000, 1, 2, 3)
    assert cluster.partition().leader == 2
    cluster.wait(5_000, 1, 2, 3)
    assert (cluster.partition("t").leader, cluster.partition("t").leader_epoch) == (1, 2)
    assert cluster.partition("u").leader == 2


def test_preferred_elections_are_bounded_and_wait_for_an_imbalance() -> None:
    """A turn moves so many; the next one the others; little astray is left alone."""
    cluster = Cluster(brokers=2, auto_leader_rebalance=False)
    cluster.create("t", *[nodes(1, 2)] * 5, *[nodes(2, 1)] * 5)
    cluster.lose(1)
    cluster.beat(1)
    for number in range(10):
        cluster.alter(2, [2, 1], number=number)

    def moves(limit: int, percentage: int) -> int:
        policy = cluster.controller.state.policy
        image = cluster.image
        return len(elections.rebalance(image, policy, limit=limit, imbalance_percentage=percentage))

    assert moves(3, 10) == 3
    assert moves(9, 10) == 5
    assert moves(9, 99) == 5
    assert moves(9, 100) == 0


def test_automatic_rebalance_can_be_off() -> None:
    """auto.leader.rebalance.enable=false leaves it to a request."""
    cluster = Cluster(
        brokers=2, leader_imbalance_check_interval_ms=100, auto_leader_rebalance=False
    )
    cluster.create("t", nodes(1, 2))
    cluster.lose(1)
    cluster.beat(1)
    cluster.alter(2, [2, 1])
    cluster.wait(1_000, 1, 2)
    assert cluster.partition().leader == 2


def test_a_new_log_begins_with_its_metadata_version() -> None:
    """As Kafka's tools expect; once only."""
    cluster = Cluster()
    assert cluster.written == [
        FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION),
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1),
        FeatureLevelRecord(name="transaction.version", feature_level=2),
        FeatureLevelRecord(name="group.version", feature_level=1),
        ConfigRecord(resource_type=4, resource_name="", name="min.insync.replicas", value="1"),
    ]
    cluster.tick()
    assert cluster.written == []


def test_partitions_without_a_leader_are_examined_once_in_an_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not in each tick: a cluster may have a hundred thousand partitions."""
    cluster = Cluster(brokers=1, leader_imbalance_check_interval_ms=10_000)
    times_ms = []
    elect = elections.elect_leaderless

    def noted(*given: Any) -> Any:
        times_ms.append(cluster.now_ms)
        return elect(*given)

    monkeypatch.setattr(elections, "elect_leaderless", noted)
    cluster.wait(35_000, 1)
    first, *rest = times_ms
    assert [each - first for each in rest] == [10_000, 20_000, 30_000]


def test_changes_of_many_partitions_need_not_be_one_batch(cluster: Cluster) -> None:
    """A batch has a limit, and a broker may have any number of replicas. After each record the
    cluster is valid, so another controller can go on from there."""
    controller = cluster.controller
    assert not controller.tick(cluster.now_ms).atomic
    assert not controller.alter_partition(node(1), cluster.epochs[node(1)], []).atomic
    assert not controller.unregister_broker(node(2)).atomic
    assert create_topics(controller.state, []).atomic


def test_a_log_without_one_of_the_features_gets_it() -> None:
    """A log of Kafka 3.x has its metadata version, and knows nothing of eligible replicas."""
    cluster = Cluster()
    known = FeatureLevelRecord(name="metadata.version", feature_level=19)
    cluster.controller.on_inactive()
    image = ClusterImage().apply([known], Offset(0), Epoch(1))[0]
    cluster.controller.on_active(Epoch(2), image, 0.0, {})
    assert list(cluster.controller.tick(0.0).records)[:1] == [
        FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    ]


def test_a_transaction_without_an_end_is_aborted_before_all_else() -> None:
    """Kafka's controller may have died within one; what is decided must not go with it."""
    controller = Cluster().controller
    image = ClusterImage().apply([BeginTransactionRecord()], Offset(0), Epoch(1))[0]
    controller.on_active(Epoch(2), image, 0.0, {})
    (abort,) = controller.abort_open_transaction()
    assert isinstance(abort, AbortTransactionRecord)
    assert list(controller.tick(0.0).records) == [abort]
    controller.appended([abort], Offset(1))
    assert controller.abort_open_transaction() == []
    assert not any(isinstance(r, AbortTransactionRecord) for r in controller.tick(0.0).records)


# --- take-over


def test_a_new_controller_gives_every_broker_a_full_session(cluster: Cluster) -> None:
    """It does not know when the old one last heard of them."""
    cluster.wait(SESSION_MS - 100, 2, 3)
    cluster.take_over()
    cluster.wait(SESSION_MS - 50, 2, 3)
    assert cluster.image.active(node(1))
    cluster.wait(50, 2, 3)
    assert cluster.image.brokers[node(1)].fenced


def test_the_previous_leaders_session_counts_from_its_last_contact(cluster: Cluster) -> None:
    """A node that led quorum and partitions is fenced one session after its death."""
    died_ms = cluster.now_ms
    cluster.wait(600, 2, 3)
    heard = {node(1): died_ms}
    cluster.take_over(heard)
    cluster.wait(SESSION_MS - 600 - 50, 2, 3)
    assert cluster.image.active(node(1))
    cluster.wait(50, 2, 3)
    assert cluster.image.brokers[node(1)].fenced


def test_uncommitted_changes_are_discarded_with_the_leadership(cluster: Cluster) -> None:
    """The image after a loss of leadership is the committed one, not the speculative one."""
    committed = cluster.replayed
    cluster.lose(1)
    cluster.controller.on_inactive()
    assert not cluster.controller.active
    cluster.controller.on_active(Epoch(2), committed, cluster.now_ms, {})
    assert cluster.controller.image is committed
    assert cluster.controller.image.active(node(1))


def test_fencing_a_broker_of_ten_thousand_partitions_takes_three_ticks() -> None:
    """A killed broker that led a third of them costs a small record for each partition."""
    cluster = Cluster(brokers=3)
    cluster.create("big", partitions=10_000, replication_factor=3)
    led = sum(1 for _, p in cluster.image.partitions() if p.leader == 1)
    cluster.lose(1)
    written = [len(cluster.written)]
    for _ in range(2):
        cluster.tick()
        written.append(len(cluster.written))
    assert written == [4_000, 4_000, 2_001]
    assert led in range(3_300, 3_400)
    assert all(p.leader in (2, 3) for _, p in cluster.image.partitions())


def test_an_idle_log_gets_a_record_after_each_interval() -> None:
    """So brokers can distinguish an idle log from a dead one; other records begin it anew."""
    cluster = Cluster(brokers=1, max_idle_interval_ms=500.0)
    cluster.tick()
    ends = []
    for _ in range(6):
        cluster.now_ms += 250
        cluster.beat(1)
        cluster.tick()
        ends.append(cluster.written == [NoOpRecord()])
    assert ends == [False, True, False, False, True, False]
