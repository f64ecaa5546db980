"""Whose word counts when nodes see a partition differently, and when a cluster is whole again."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from harness.systems.observer.cluster_view import (
    ClusterTracker,
    PartitionView,
    Standing,
    epoch_starts,
    votes_of,
)
from nodes.ids import TopicPartition

P = TopicPartition("t", 0)


def view(leader: int | None, epoch: int, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionView:
    return PartitionView(leader=leader, leader_epoch=epoch, isr=isr, replicas=(1, 2, 3))


def tracker() -> ClusterTracker:
    return ClusterTracker([1, 2, 3], [P])


def test_the_highest_leader_epoch_is_the_newest_view() -> None:
    """A deposed leader that still believes in itself does not displace its successor."""
    seen = tracker()
    seen.observe(2, {P: view(2, 5)}, 1)
    seen.observe(1, {P: view(1, 4)}, 2)
    assert seen.newest[P].leader == 2


def test_within_an_epoch_the_leaders_own_isr_counts() -> None:
    """A follower's older idea of the ISR does not flap the newest view."""
    seen = tracker()
    seen.observe(1, {P: view(1, 4, (1, 2))}, 1)
    assert seen.observe(2, {P: view(1, 4, (1, 2, 3))}, 2)[0]["kind"] == "view"
    assert seen.newest[P].isr == (1, 2)
    seen.observe(1, {P: view(1, 4, (1,))}, 3)
    assert seen.newest[P].isr == (1,)


def test_rows_are_changes_only() -> None:
    """An unchanged answer makes no row; a changed one makes a view row, and a leader row if new."""
    seen = tracker()
    assert [row["kind"] for row in seen.observe(1, {P: view(1, 4)}, 1)] == ["view", "leader"]
    assert seen.observe(1, {P: view(1, 4)}, 2) == []
    assert [row["kind"] for row in seen.observe(2, {P: view(1, 4)}, 3)] == ["view"]


def test_only_voters_that_have_what_is_committed_count() -> None:
    """Not who lags, nor who was never heard; nor anybody of a leader that knows of no commit."""
    ends = {3: 12, 1: 10, 2: 9, 4: -1}
    voters = [SimpleNamespace(replica_id=n, log_end_offset=end) for n, end in ends.items()]
    for committed, kept in ((10, (1, 3)), (9, (1, 2, 3)), (-1, ())):
        seen = SimpleNamespace(high_watermark=committed, current_voters=voters)
        assert votes_of(seen) == kept


def test_settled_needs_every_node_every_replica_and_one_opinion() -> None:
    """Each thing that is missing is named; nothing is missing when all agree on a full ISR."""
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


def test_who_is_excused_is_not_waited_for() -> None:
    """Neither its answer, nor its view, nor its place among the in-sync replicas; others' are."""
    seen = tracker()
    for node in (1, 2):
        seen.observe(node, {P: view(1, 4, (1, 2))}, 10)
    seen.excuse(3)
    assert seen.unsettled(since_ns=10) == []
    for node in (1, 2):
        seen.observe(node, {P: view(1, 4, (1,))}, 20)
    assert seen.unsettled(since_ns=20) == ["t-0 has in-sync replicas [1] of [1, 2, 3]"]


def test_a_partition_without_leader_is_not_settled() -> None:
    """No leader, or never heard of: not settled."""
    seen = tracker()
    assert "t-0 has no leader" in seen.unsettled(0)
    for node in (1, 2, 3):
        seen.observe(node, {P: view(None, 4)}, 1)
    assert seen.unsettled(0) == ["t-0 has no leader"]


def test_most_brokers_that_answer_say_who_is_in_service() -> None:
    """A broker that is cut off and holds on to what was does not decide; at odds is not known."""
    standing = Standing()
    assert (standing.answers(1), standing.fenced(1)) == (None, None)
    for node in (1, 2, 3):
        standing.heard(node, {1, 2, 3})
    standing.heard(9, None)  # a controller, which has no say
    assert standing.fenced(3) is False
    standing.heard(1, {1, 2})
    assert standing.fenced(3) is False
    standing.heard(2, {1, 2})
    assert standing.fenced(3) is True
    standing.silent(1)
    assert standing.fenced(3) is None
    standing.silent(3)
    assert (standing.fenced(3), standing.answers(3), standing.answers(9)) == (True, False, True)
    standing.remove(3)
    assert standing.answers(3) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50)), min_size=1, max_size=10))
def test_epochs_follow_each_other_without_gap(steps: list[tuple[int, int]]) -> None:
    """From the answers for every epoch asked, the table of those that have records comes back."""
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
