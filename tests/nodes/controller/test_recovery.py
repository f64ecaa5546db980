"""Which logs are asked for, which answers count, who leads by them."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from nodes.controller.partition_changes import Election, LogEnd
from nodes.controller.recovery import log_queries, logs_of_valid_reports, recover
from nodes.ids import NO_NODE, BrokerEpoch, Epoch, Offset
from nodes.metadata.records import RECOVERING
from tests.nodes.controller.test_configs import SET, TOPIC, alter
from tests.support.nodes.controller_cluster import SESSION_MS, Cluster, node, nodes


def all_lost(*returned: int) -> Cluster:
    """Replicas 1 and 2 ended together, uncleanly; those in `returned` are back."""
    cluster = Cluster(brokers=3, min_isr=2)
    cluster.create("t", nodes(1, 2))
    cluster.wait(SESSION_MS, 3)
    for number in (1, 2):
        cluster.register(number, 10 + number)
    for number in returned:
        cluster.beat(number)
    assert cluster.partition().leader == NO_NODE
    return cluster


def test_both_in_sync_replicas_restarted_uncleanly() -> None:
    """The longer log leads, alone and recovering, although the other led before."""
    cluster = all_lost(1, 2)
    assert cluster.partition().last_known_elr == nodes(1, 2)
    (asked,) = cluster.recover({1: (0, 60), 2: (0, 100)})
    assert asked.candidates == nodes(1, 2)
    after = cluster.partition()
    assert (after.leader, after.isr, after.last_known_elr) == (2, nodes(2), nodes(1))
    assert after.leader_recovery_state == RECOVERING
    assert cluster.recover() == []


def test_an_unclean_recovery_waits_for_all_last_known_replicas() -> None:
    """Nothing is asked before it is back: it may have the most."""
    cluster = all_lost(2)
    assert cluster.recover() == []
    cluster.beat(1)
    cluster.recover({2: (0, 100)})
    assert cluster.partition().leader == NO_NODE
    cluster.recover({1: (0, 101), 2: (0, 100)})
    assert cluster.partition().leader == 1


def test_last_known_replicas_are_kept_until_the_isr_has_its_minimum() -> None:
    """Who was last known stays so until enough are in sync, whoever led in between."""
    cluster = all_lost(1, 2)
    cluster.recover()
    assert cluster.partition().leader == 1
    cluster.wait(SESSION_MS, 2, 3)
    cluster.register(1, 21)
    cluster.beat(1)
    cluster.recover({1: (-1, 0), 2: (0, 100)})
    assert cluster.partition().leader == 2
    cluster.alter(2, [2])
    cluster.alter(2, [1, 2])
    assert cluster.partition().last_known_elr == ()


def test_a_new_min_isr_ends_the_last_known_elr() -> None:
    """Who was in sync under another minimum may lack what is committed under this one."""
    cluster = all_lost(1, 2)
    cluster.recover()
    assert cluster.partition().last_known_elr == nodes(2)
    alter(cluster, TOPIC, ("min.insync.replicas", SET, "1"))
    assert cluster.partition().last_known_elr == ()
    assert cluster.partition().isr == nodes(1)


def test_a_requested_unclean_election_queries_all_live_replicas() -> None:
    """All live replicas are asked, last known or not, for the partitions that are named."""
    cluster = all_lost(2)
    state = cluster.controller.state
    keys = cluster.controller.leaderless
    (asked,) = log_queries(state.image, state.policy, keys, Election.UNCLEAN)
    assert asked.candidates == nodes(2)


BAD_REPORTS: dict[str, dict[str, Any]] = {
    "of an incarnation before this one": {"broker_epoch": BrokerEpoch(2)},
    "of a broker that is not registered": {"node": node(9)},
    "from before it heard that nobody leads": {"leader_epoch": Epoch(0)},
    "of another topic": {"topic_id": UUID(int=77)},
    "of another partition": {"partition": 5},
}


@pytest.mark.parametrize("changed", BAD_REPORTS.values(), ids=BAD_REPORTS)
def test_invalid_log_reports_are_ignored(changed: dict[str, Any]) -> None:
    """What may have changed since does not elect anybody."""
    cluster = all_lost(1, 2)
    state = cluster.controller.state
    asked = log_queries(state.image, state.policy, cluster.controller.leaderless)
    good = [cluster.report(asked[0], number, (0, 50)) for number in (1, 2)]
    bad = [good[0], replace(good[1], **changed)]
    assert recover(state, asked, bad).records == []
    assert len(recover(state, asked, good).records) == 1


def test_log_reports_for_an_older_query_are_ignored() -> None:
    """The partition has changed in between, or is gone; a broker has left."""
    cluster = all_lost(1, 2)
    state = cluster.controller.state
    (asked,) = log_queries(state.image, state.policy, cluster.controller.leaderless)
    reports = [cluster.report(asked, number, (0, 50)) for number in (1, 2)]
    older = replace(asked, partition_epoch=asked.partition_epoch - 1)
    assert logs_of_valid_reports(state.image, [older], reports) == {}
    gone = replace(asked, key=asked.key._replace(topic_id=UUID(int=77)))
    of_gone = [replace(each, topic_id=UUID(int=77)) for each in reports]
    assert logs_of_valid_reports(state.image, [gone], reports) == {}
    assert logs_of_valid_reports(state.image, [gone], of_gone) == {}
    cluster.beat(2, want_fence=True)
    known = logs_of_valid_reports(cluster.image, [asked], reports)
    assert known == {asked.key: {node(1): LogEnd(Epoch(0), Offset(50))}}
    assert recover(cluster.controller.state, [asked], reports).records == []


def test_the_set_of_leaderless_partitions_is_kept_up_to_date() -> None:
    """Through elections, deletions and changes of the controller."""
    cluster = all_lost(1, 2)
    cluster.create("u", nodes(3), nodes(2))
    assert [key.topic for key in cluster.controller.leaderless] == ["t"]
    cluster.lose(3)
    before = list(cluster.controller.leaderless)
    assert [(key.topic, key.partition) for key in before] == [("t", 0), ("u", 0)]
    cluster.take_over()
    assert list(cluster.controller.leaderless) == before
    cluster.recover()
    cluster.beat(3)
    assert list(cluster.controller.leaderless) == []
