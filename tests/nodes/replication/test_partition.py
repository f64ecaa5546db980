"""The replication rules of one partition, each with the bug that it prevents."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.ids import BrokerEpoch, Epoch, NodeId, Offset
from nodes.replication.partition import (
    IsrProposal,
    PartitionRegistration,
    PartitionState,
    ProduceStatus,
    Role,
)

LEADER, B, C = NodeId(1), NodeId(2), NodeId(3)
REPLICAS = (LEADER, B, C)


def assignment(
    *, isr: tuple[int, ...] = (1, 2, 3), leader: int = 1, epoch: int = 5, partition_epoch: int = 10
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=REPLICAS,
        isr=tuple(NodeId(n) for n in isr),
        leader=NodeId(leader),
        leader_epoch=Epoch(epoch),
        partition_epoch=partition_epoch,
    )


def leader(
    *, log_end: int = 100, hw: int = 90, min_isr: int = 2, isr: tuple[int, ...] = (1, 2, 3)
) -> PartitionState:
    state = PartitionState(LEADER, Offset(hw), min_isr)
    state.apply(assignment(isr=isr), Offset(log_end), now_ms=0)
    return state


def fetch(
    state: PartitionState, replica: NodeId, offset: int, end: int = 100, now_ms: float = 1
) -> bool:
    return state.record_fetch(replica, Offset(offset), BrokerEpoch(7), Offset(end), now_ms)


def anyone(_: NodeId) -> bool:
    return True


def test_high_watermark_is_the_smallest_end_in_the_isr() -> None:
    """Records are committed once every in-sync replica has them, and not before."""
    state = leader()
    assert not fetch(state, B, 100)
    assert state.high_watermark == 90
    assert fetch(state, C, 95)
    assert state.high_watermark == 95


def test_late_fetch_of_the_same_incarnation_takes_nothing_back() -> None:
    """The follower names an idle partition once in a fetch session, so no later fetch would
    correct it: the high watermark would wait, or the follower would leave the ISR.
    """
    state = leader(hw=100)
    fetch(state, B, 101, end=101, now_ms=1)
    fetch(state, B, 100, end=101, now_ms=2)
    assert fetch(state, C, 101, end=101, now_ms=3)
    assert state.high_watermark == 101
    assert not state.followers[B].lags(Offset(101), 1, now_ms=60)


def test_later_incarnation_may_have_less() -> None:
    """It lost what it had not flushed."""
    state = leader(hw=100)
    fetch(state, B, 101, end=101)
    state.record_fetch(B, Offset(100), BrokerEpoch(8), Offset(101), 2)
    fetch(state, C, 101, end=101)
    assert state.high_watermark == 100


def test_a_new_leader_epoch_resets_follower_progress() -> None:
    """A follower may truncate between epochs: only fetches in the current one count."""
    state = leader()
    fetch(state, B, 100)
    fetch(state, C, 100)
    assert state.high_watermark == 100
    state.apply(assignment(epoch=6, partition_epoch=11), Offset(120), now_ms=2)
    assert not state.advance_high_watermark(Offset(120))
    assert state.high_watermark == 100


def test_a_replica_that_is_removed_changes_its_role_in_the_same_leader_epoch() -> None:
    """A reassignment that leaves the leader as it is has no new leader epoch."""
    state = PartitionState(LEADER, Offset(90))
    assert state.apply(assignment(leader=2), Offset(100), now_ms=0)
    assert state.role is Role.FOLLOWER
    without = replace(assignment(leader=2, isr=(2, 3), partition_epoch=11), replicas=(B, C))
    assert state.apply(without, Offset(100), now_ms=1)
    assert state.role is Role.OFFLINE


def test_high_watermark_waits_for_the_maximal_isr() -> None:
    """While a shrink is in flight the dropped member may still be elected (KIP-497)."""
    state = leader(min_isr=1)
    fetch(state, B, 100)
    proposal = state.shrunk_isr(Offset(100), lag_max_ms=10, now_ms=1000)
    assert proposal is not None
    assert [member for member, _ in proposal.isr] == [1, 2]
    assert not state.advance_high_watermark(Offset(100))
    assert state.isr_accepted(proposal, [LEADER, B], 11, Offset(100))
    assert state.high_watermark == 100


def test_high_watermark_waits_for_a_replica_that_is_being_added() -> None:
    """The controller may already have elected the member whose addition is in flight."""
    state = leader(isr=(1, 2))
    fetch(state, B, 100)
    assert state.high_watermark == 100
    fetch(state, C, 100)
    assert state.grown_isr(C, Offset(100), anyone) is not None
    fetch(state, B, 110, end=110)
    assert state.high_watermark == 100
    fetch(state, C, 110, end=110)
    assert state.high_watermark == 110


def test_high_watermark_does_not_advance_below_min_isr() -> None:
    """Nothing becomes visible on too few replicas (KAFKA-15583, KIP-966)."""
    state = leader(isr=(1,), min_isr=2)
    assert not state.advance_high_watermark(Offset(100))
    assert state.high_watermark == 90


def test_high_watermark_never_passes_the_leaders_own_log() -> None:
    """A follower that claims more than the leader has must not commit what the leader lacks."""
    state = leader()
    fetch(state, B, 500)
    fetch(state, C, 500)
    assert state.high_watermark == 100


def test_isr_shrinks_by_the_one_that_lags() -> None:
    """A member that has not caught up for the allowed time is proposed to be dropped, once."""
    state = leader()
    fetch(state, B, 100, now_ms=900)
    assert state.shrunk_isr(Offset(100), lag_max_ms=1000, now_ms=900) is None
    proposal = state.shrunk_isr(Offset(100), lag_max_ms=1000, now_ms=1001)
    assert proposal is not None
    assert [member for member, _ in proposal.isr] == [1, 2]
    assert state.shrunk_isr(Offset(100), lag_max_ms=1000, now_ms=5000) is None


def test_only_a_leader_proposes_an_isr() -> None:
    """Others do not see all fetches: neither one that was deposed, nor one that was removed."""
    state = leader(isr=(1, 2))
    state.apply(assignment(leader=2, isr=(1, 2), epoch=6, partition_epoch=11), Offset(100), 1)
    assert state.shrunk_isr(Offset(100), lag_max_ms=10, now_ms=1000) is None
    assert state.grown_isr(C, Offset(100), anyone) is None
    state = leader(isr=(1, 2))
    fetch(state, C, 100)
    state.retire()
    assert state.shrunk_isr(Offset(100), lag_max_ms=10, now_ms=1000) is None
    assert state.grown_isr(C, Offset(100), anyone) is None


def test_a_follower_that_fetches_and_stays_behind_lags() -> None:
    """It reaches neither the leader's end nor the end at its fetch before."""
    state = leader(isr=(1, 2))
    for step in range(1, 11):
        assert state.shrunk_isr(Offset(200), 1000, now_ms=100 * step) is None
        fetch(state, B, 99 + step, end=200, now_ms=100 * step)
    proposal = state.shrunk_isr(Offset(200), 1000, now_ms=1001)
    assert proposal is not None
    assert [member for member, _ in proposal.isr] == [1]


def test_a_follower_of_a_busy_leader_is_not_lagging() -> None:
    """Reaching where the leader's end was at the fetch before counts as caught up then."""
    state = leader()
    for step in range(1, 50):
        fetch(state, B, 100 + 10 * (step - 1), end=100 + 10 * step, now_ms=100 * step)
        fetch(state, C, 100 + 10 * step, end=100 + 10 * step, now_ms=100 * step)
        assert state.shrunk_isr(Offset(100 + 10 * step), 300, now_ms=100 * step) is None


def test_isr_grows_only_past_the_epoch_start() -> None:
    """A stale high watermark must not admit a replica that lacks records (KAFKA-7128)."""
    state = leader(isr=(1, 2), log_end=100, hw=90)
    fetch(state, C, 95)
    assert state.grown_isr(C, Offset(100), anyone) is None
    fetch(state, C, 100)
    assert state.grown_isr(C, Offset(100), anyone) is not None


def test_a_member_of_the_isr_is_not_proposed_again() -> None:
    """Each of its fetches would otherwise ask the controller for nothing."""
    state = leader(isr=(1, 2))
    fetch(state, B, 100)
    assert state.grown_isr(B, Offset(100), anyone) is None


def test_isr_does_not_grow_by_a_fenced_broker() -> None:
    """A fenced or stopping broker is not added back from stale metadata (KIP-841)."""
    state = leader(isr=(1, 2))
    fetch(state, C, 100)
    assert state.grown_isr(C, Offset(100), lambda node: node != C) is None


def test_a_late_alter_partition_response_changes_nothing() -> None:
    """An answer that comes after newer metadata must not end the proposal made since."""
    state = leader(isr=(1, 2, 3))
    old = state.shrunk_isr(Offset(100), lag_max_ms=10, now_ms=1000)
    assert old is not None
    state.apply(assignment(isr=(1, 2), partition_epoch=12), Offset(100), now_ms=1000)
    fetch(state, C, 100)
    new = state.grown_isr(C, Offset(100), anyone)
    state.isr_accepted(old, [LEADER], 11, Offset(100))
    assert state.proposal is new
    assert state.isr == {LEADER, B}


def test_repeated_metadata_does_not_end_a_proposal() -> None:
    """The record of a change arrives after its answer; by then another change may be pending."""
    state = leader(isr=(1, 2))
    fetch(state, C, 100)
    pending = state.grown_isr(C, Offset(100), anyone)
    state.apply(assignment(isr=(1, 2)), Offset(100), now_ms=1)
    assert state.proposal is pending


@pytest.mark.parametrize(
    ("acks", "isr", "expected"),
    [
        (-1, (1, 2), ProduceStatus.OK),
        (-1, (1,), ProduceStatus.NOT_ENOUGH_REPLICAS),
        (1, (1,), ProduceStatus.OK),
        (0, (1,), ProduceStatus.OK),
    ],
)
def test_check_append_gives_the_expected_status(
    acks: int, isr: tuple[int, ...], expected: ProduceStatus
) -> None:
    """acks=all is refused before the append when the ISR is too small; other modes are not."""
    assert leader(isr=isr).check_append(acks) is expected


def test_a_follower_does_not_append() -> None:
    """Only the leader takes writes."""
    state = PartitionState(LEADER, Offset(0))
    state.apply(assignment(leader=2), Offset(0), now_ms=0)
    assert state.role is Role.FOLLOWER
    assert state.check_append(1) is ProduceStatus.NOT_LEADER


def test_acks_all_is_answered_at_the_high_watermark() -> None:
    """Not by the leader's log alone, not by one follower."""
    state = leader()
    epoch = state.leader_epoch
    assert state.acknowledge(epoch, Offset(100), Offset(100)) is ProduceStatus.PENDING
    fetch(state, B, 100)
    assert state.acknowledge(epoch, Offset(100), Offset(100)) is ProduceStatus.PENDING
    fetch(state, C, 100)
    assert state.acknowledge(epoch, Offset(100), Offset(100)) is ProduceStatus.OK


def test_acks_all_reports_an_isr_that_shrank_below_the_minimum() -> None:
    """After the append, with the ISR below the minimum: an error, not a wait without end."""
    state = leader(min_isr=2)
    epoch = state.leader_epoch
    state.apply(assignment(isr=(1,), partition_epoch=11), Offset(100), now_ms=1)
    assert state.acknowledge(epoch, Offset(100), Offset(100)) is ProduceStatus.NOT_ENOUGH_REPLICAS


def test_acks_all_does_not_outlive_its_leader_epoch() -> None:
    """A leader that lost and regained leadership cannot vouch for what it appended before."""
    state = leader()
    old = state.leader_epoch
    state.apply(assignment(epoch=7, partition_epoch=12), Offset(100), now_ms=1)
    assert state.acknowledge(old, Offset(10), Offset(100)) is ProduceStatus.NOT_LEADER


def test_a_follower_learns_the_high_watermark_up_to_its_own_end() -> None:
    """What a follower lacks it must not expose."""
    state = PartitionState(LEADER, Offset(10))
    state.apply(assignment(leader=2), Offset(20), now_ms=0)
    assert state.follow_high_watermark(Offset(50), Offset(20))
    assert state.high_watermark == 20
    assert not state.follow_high_watermark(Offset(5), Offset(20))
    assert state.high_watermark == 20


def test_a_proposal_carries_broker_epochs() -> None:
    """The controller refuses members of an older incarnation (KIP-903)."""
    state = leader(isr=(1, 2))
    fetch(state, B, 100)
    fetch(state, C, 100)
    proposal = state.grown_isr(C, Offset(100), anyone)
    assert isinstance(proposal, IsrProposal)
    assert proposal.isr == ((1, -1), (2, 7), (3, 7))
    assert (proposal.leader_epoch, proposal.partition_epoch) == (5, 10)


steps = st.lists(
    st.tuples(st.sampled_from([B, C]), st.integers(0, 130), st.integers(0, 20)), max_size=60
)


@given(steps)
def test_high_watermark_invariants(moves: list[tuple[NodeId, int, int]]) -> None:
    """Within an epoch it never goes back, nor beyond any member of the maximal ISR."""
    state = leader(log_end=100, hw=0)
    end, now_ms, last = 100, 0.0, Offset(0)
    for replica, offset, grow in moves:
        end += grow
        now_ms += 50
        fetch(state, replica, min(offset, end), end=end, now_ms=now_ms)
        proposal = state.shrunk_isr(Offset(end), 400, now_ms)
        if proposal is not None and offset % 2:
            members = [member for member, _ in proposal.isr]
            state.isr_accepted(proposal, members, state.partition_epoch + 1, Offset(end))
        assert state.high_watermark >= last
        last = state.high_watermark
    # A member's latest fetch may be lower than an earlier one only if it truncated, which needs a
    # new epoch; so compare with the leader's end, which always bounds it.
    assert last <= end


def test_a_high_watermark_that_is_known_already_is_no_news() -> None:
    """Nothing that waits for an advance may be asked again."""
    state = PartitionState(B, Offset(90), 2)
    state.apply(assignment(), Offset(100), now_ms=0)
    assert not state.follow_high_watermark(Offset(90), Offset(100))
    assert state.follow_high_watermark(Offset(91), Offset(100))
    assert state.high_watermark == 91
