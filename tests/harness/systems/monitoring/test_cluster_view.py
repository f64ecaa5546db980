"""Whose word counts when nodes see a partition differently, and when a cluster is whole again."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from harness.systems.monitoring.cluster_view import (
    ClusterTracker,
    NodeStatus,
    PartitionView,
    caught_up_voters,
    epoch_starts,
)
from nodes.ids import TopicPartition

P = TopicPartition("t", 0)


def view(leader: int | None, epoch: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionView:
    return PartitionView(leader=leader, leader_epoch=epoch, isr=isr, replicas=(1, 2, 3))


def tracker() -> ClusterTracker:
    return ClusterTracker([1, 2, 3], [P])


def test_view_with_the_highest_leader_epoch_is_the_newest() -> None:
    """A replaced leader that still regards itself as leader does not replace its successor."""
    seen = tracker()
    seen.observe(2, {P: view(2, 5)}, 1)
    seen.observe(1, {P: view(1, 4)}, 2)
    assert seen.newest[P].leader == 2


def test_within_an_epoch_the_leaders_own_view_of_the_isr_counts() -> None:
    """A follower's older view does not change the newest view back."""
    seen = tracker()
    seen.observe(1, {P: view(1, 4, (1, 2))}, 1)
    assert seen.observe(2, {P: view(1, 4, (1, 2, 3))}, 2)[0]["kind"] == "view"
    assert seen.newest[P].isr == (1, 2)
    seen.observe(1, {P: view(1, 4, (1,))}, 3)
    assert seen.newest[P].isr == (1,)


def test_what_the_control_plane_has_goes_before_what_a_leader_says() -> None:
    """The znode changes first, so within an epoch a leader's answer may be older."""
    seen = tracker()
    seen.observe(1, {P: view(1, 4)}, 1)
    [row] = seen.decide({P: view(1, 4, (1, 2))}, 2)
    assert (row["kind"], row["isr"], row["at_ns"]) == ("leader", [1, 2], 2)
    assert seen.decide({P: view(1, 4, (1, 2))}, 3) == []
    seen.observe(1, {P: view(1, 4, (1, 2, 3))}, 4)
    assert seen.newest[P].isr == (1, 2)
    seen.observe(2, {P: view(2, 5)}, 5)
    assert seen.newest[P].leader == 2
    assert seen.decide({P: view(1, 4, (1,))}, 6) == []


def test_only_changes_make_rows() -> None:
    """A changed answer makes a view row, and a leader row if it is the newest view."""
    seen = tracker()
    assert [row["kind"] for row in seen.observe(1, {P: view(1, 4)}, 1)] == ["view", "leader"]
    assert seen.observe(1, {P: view(1, 4)}, 2) == []
    assert [row["kind"] for row in seen.observe(2, {P: view(1, 4)}, 3)] == ["view"]


def test_other_partitions_can_be_watched_from_now_on() -> None:
    """Views of partitions that are watched no longer are forgotten."""
    seen, other = tracker(), TopicPartition("u", 1)
    seen.observe(1, {P: view(1, 4), other: view(2, 1)}, 1)
    assert list(seen.newest) == [P]
    seen.watch([other])
    assert seen.newest == {}
    seen.observe(1, {P: view(1, 5), other: view(2, 1)}, 2)
    assert list(seen.newest) == [other]


def test_only_voters_with_all_committed_records_count() -> None:
    """Voters that lag or are unknown do not count; without a known commit nobody counts."""
    ends = {3: 12, 1: 10, 2: 9, 4: -1}
    voters = [SimpleNamespace(replica_id=n, log_end_offset=end) for n, end in ends.items()]
    for committed, kept in ((10, (1, 3)), (9, (1, 2, 3)), (-1, ())):
        seen = SimpleNamespace(high_watermark=committed, current_voters=voters)
        assert caught_up_voters(seen) == kept


def test_settled_needs_every_node_every_replica_and_equal_views() -> None:
    """Each missing thing is named."""
    seen = tracker()
    seen.observe(1, {P: view(1, 4, (1, 2))}, 10)
    seen.observe(2, {P: view(1, 3)}, 10)
    reasons = seen.unsettled(since_ns=5)
    assert any("node 3 does not answer" in reason for reason in reasons)
    assert any("in-sync replicas [1, 2] of [1, 2, 3]" in reason for reason in reasons)
    assert any("nodes [2, 3] see t-0 differently" in reason for reason in reasons)
    for node in (1, 2, 3):
        seen.observe(node, {P: view(1, 4)}, 20)
    assert seen.unsettled(since_ns=20) == []
    assert seen.unsettled(since_ns=21) == [f"node {n} does not answer" for n in (1, 2, 3)]


def test_ignored_node_is_not_waited_for() -> None:
    """This concerns its answer, its view and its place in the ISR; the other nodes count."""
    seen = tracker()
    for node in (1, 2):
        seen.observe(node, {P: view(1, 4, (1, 2))}, 10)
    seen.stop_waiting_for(3)
    assert seen.unsettled(since_ns=10) == []
    for node in (1, 2):
        seen.observe(node, {P: view(1, 4, (1,))}, 20)
    assert seen.unsettled(since_ns=20) == ["t-0 has in-sync replicas [1] of [1, 2, 3]"]


def test_partition_without_leader_is_not_settled() -> None:
    """This holds for an unknown partition, too."""
    seen = tracker()
    assert "t-0 has no leader" in seen.unsettled(0)
    for node in (1, 2, 3):
        seen.observe(node, {P: view(None, 4)}, 1)
    assert seen.unsettled(0) == ["t-0 has no leader"]


def test_majority_of_answering_brokers_decides_who_is_in_service() -> None:
    """An isolated broker with an old view does not decide; a tie is unknown."""
    status = NodeStatus()
    assert (status.answers(1), status.fenced(1)) == (None, None)
    for node in (1, 2, 3):
        status.answered(node, {1, 2, 3})
    status.answered(9, None)  # a controller, which has no say
    assert status.fenced(3) is False
    status.answered(1, {1, 2})
    assert status.fenced(3) is False
    status.answered(2, {1, 2})
    assert status.fenced(3) is True
    status.did_not_answer(1)
    assert status.fenced(3) is None
    status.did_not_answer(3)
    assert (status.fenced(3), status.answers(3), status.answers(9)) == (True, False, True)
    status.remove(3)
    assert status.answers(3) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), min_size=1, max_size=10))
def test_epochs_follow_each_other_without_a_gap(steps: list[tuple[int, int]]) -> None:
    """The answers for all epochs give back the table of the epochs with records."""
    epochs = sorted({epoch for epoch, _ in steps})
    table, start = [], 0
    for epoch, (_, size) in zip(epochs, steps, strict=False):
        table.append((epoch, start, start + size))
        start += size
    answers = []
    for asked in range(epochs[-1] + 2):
        known = [row for row in table if row[0] <= asked]
        answers.append((known[-1][0], known[-1][2]) if known else (-1, -1))
    assert epoch_starts(answers) == table
