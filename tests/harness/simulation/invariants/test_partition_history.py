"""What every replica must agree on: appended and committed batches, leaders, sequences."""

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.partition_history import PartitionHistory, Sequences
from nodes.ids import Epoch
from nodes.log.batch import BatchHeader
from tests.support.simulation.appended import appended, header


def test_equal_logs_share_their_batches() -> None:
    """A batch of several replicas is known once, and any leader may commit it."""
    history = PartitionHistory("t-0")
    here = appended(history, 1, header(0, 0), header(1, 0), header(2, 1))
    there = appended(history, 2, header(0, 0), header(1, 0))
    assert here[:2] == there
    history.commit(here[1], 0, 1)
    history.commit(here[2], 1, 2)
    assert history.last_committed() is here[2]
    assert history.last_committed(1) is here[1]
    assert history.last_committed(0) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([header(0, 0, b"a")], [header(0, 0, b"b")]),
        ([header(0, 0), header(1, 2)], [header(0, 1), header(1, 2)]),
    ],
)
def test_different_batch_at_one_epoch_and_offset_breaks_log_matching(
    one: list[BatchHeader], other: list[BatchHeader]
) -> None:
    """The bytes differ, or the predecessor does."""
    history = PartitionHistory("t-0")
    appended(history, 1, *one)
    with pytest.raises(InvariantBroken, match="log-matching"):
        appended(history, 2, *other)


def test_committed_batch_may_not_be_replaced_or_truncated() -> None:
    """Nothing else is committed at its offset, and no running replica truncates it."""
    history = PartitionHistory("t-0")
    (first,) = appended(history, 1, header(0, 0, b"a"))
    (other,) = appended(history, 2, header(0, 1, b"b"))
    history.commit(first, 0, 1)
    with pytest.raises(InvariantBroken, match="committed-stays"):
        history.commit(other, 1, 2)
    with pytest.raises(InvariantBroken, match="committed-stays"):
        history.removed(1, [first])
    history.removed(2, [other])
    with pytest.raises(InvariantBroken, match="follower-high-watermark"):
        history.follower_committed(2, 1, other, 1)
    history.follower_committed(3, 1, first, 1)


def test_removed_records_may_have_been_others_elsewhere() -> None:
    """Retention removed both, so the logs do not differ any more (seed 94162)."""
    history = PartitionHistory("t-0")
    (first,) = appended(history, 1, header(0, 0, b"a"))
    _, last = appended(history, 2, header(0, 1, b"b"), header(1, 2))
    history.commit(first, 0, 1)
    with pytest.raises(InvariantBroken, match="committed-stays"):
        history.commit(last, 2, 2)
    history.start = 1
    history.commit(last, 2, 2)
    assert history.last_committed() is last


def test_a_log_may_begin_anew_below_what_was_removed() -> None:
    """Its leader lost its disk, and what it commits then is known (seed 94543)."""
    history = PartitionHistory("t-0")
    history.start = 4
    history.reset(None, 2)
    (first,) = appended(history, 1, header(0, 2))
    history.commit(first, 2, 1)
    history.follower_committed(2, 1, first, 2)


def test_followers_of_a_leader_with_an_unreadable_log_are_not_judged() -> None:
    """Nobody knows what it commits. The next leader's followers are judged again."""
    history = PartitionHistory("t-0")
    (first,) = appended(history, 1, header(0, 1))
    history.leader_is_unreadable(1)
    history.follower_committed(1, 1, first, 1)
    with pytest.raises(InvariantBroken, match="follower-high-watermark"):
        history.follower_committed(1, 1, first, 2)


def test_what_an_unreadable_leader_commits_is_not_known() -> None:
    """Until a leader of a later epoch commits, and so all that is below."""
    history = PartitionHistory("t-0")
    first, second = appended(history, 1, header(0, 1), header(1, 1))
    assert history.knows_commits
    history.commit(first, 1, 1)
    assert history.knows_commits
    history.leader_is_unreadable(1)
    assert not history.knows_commits
    history.commit(second, 2, 2)
    assert history.knows_commits
    history.leader_is_unreadable(4)
    history.commit(second, 3, 2)
    assert not history.knows_commits


def test_a_later_leader_knows_what_a_leader_with_an_unreadable_log_committed() -> None:
    """It begins with its high watermark there. Its own records are no such ones."""
    history = PartitionHistory("t-0")
    zero, one, own = appended(history, 1, header(0, 0), header(1, 1), header(2, 2))
    history.commit(zero, 0, 1)
    history.commit_again(one, 2, 2)
    assert history.last_committed() is zero
    history.leader_is_unreadable(1)
    history.commit_again(own, 2, 2)
    history.commit_again(one, 1, 1)
    assert history.last_committed() is zero
    history.commit_again(one, 2, 2)
    history.follower_committed(3, 2, one, 2)
    assert history.last_committed() is one
    with pytest.raises(InvariantBroken, match="follower-high-watermark"):
        history.follower_committed(3, 3, own, 2)


def test_leader_with_an_unreadable_log_is_new_before_it_or_a_later_one_commits() -> None:
    """It may hear of its election late."""
    history = PartitionHistory("t-0")
    (first,) = appended(history, 1, header(0, 0))
    assert history.leader_is_unreadable(0)
    assert history.leader_is_unreadable(2)
    assert not history.leader_is_unreadable(2)
    assert not history.leader_is_unreadable(1)
    history.commit(first, 4, 1)
    assert not history.leader_is_unreadable(3)
    assert not history.leader_is_unreadable(4)
    assert history.leader_is_unreadable(5)


def test_reset_permits_other_records_and_ignores_earlier_leaders() -> None:
    """After a reset another record may be committed at the offset."""
    history = PartitionHistory("t-0")
    zero, one = appended(history, 1, header(0, 0), header(1, 0))
    history.commit(one, 0, 1)
    assert history.reset(zero, 2) == 1
    assert history.last_committed() is zero
    _, other = appended(history, 2, header(0, 0), header(1, 2))
    history.commit(other, 2, 2)
    history.commit(one, 0, 1)  # by a leader that does not know
    assert history.last_committed() is other


def test_old_leader_commits_for_itself_after_an_unclean_election() -> None:
    """This holds although the election gave up no record that was known as committed."""
    history = PartitionHistory("t-0")
    zero, one = appended(history, 1, header(0, 0), header(1, 0))
    _, other = appended(history, 2, header(0, 0), header(1, 2))
    history.commit(zero, 0, 1)
    history.ignore_leaders_before(2)
    history.commit(other, 2, 2)
    history.commit(one, 0, 1)
    assert history.last_committed() is other


def test_given_up_record_is_committed_again_by_a_leader_that_has_it() -> None:
    """A second unclean election may bring it back, with its high watermark."""
    history = PartitionHistory("t-0")
    zero, one = appended(history, 1, header(0, 0), header(1, 0))
    history.commit(one, 0, 1)
    history.reset(zero, 3)
    history.commit_again(zero, 5, 1)
    with pytest.raises(InvariantBroken, match="follower-high-watermark"):
        history.follower_committed(2, 2, one, Epoch(5))
    history.commit_again(one, 5, 1)
    history.follower_committed(2, 2, one, Epoch(5))
    assert history.last_committed() is one


def test_given_up_record_comes_again_with_another_epoch_from_a_damaged_disk() -> None:
    """The leader epoch in a batch's header is not covered by its checksum (seed 105070)."""
    history = PartitionHistory("t-0")
    zero, one = appended(history, 1, header(0, 0), header(1, 0))
    _, flipped = appended(history, 3, header(0, 0), header(1, 1 << 24))
    history.commit(one, 0, 1)
    history.commit_again(flipped, 2, 3, damaged=True)
    assert history.last_committed() is one
    history.reset(zero, 2)
    history.commit_again(flipped, 2, 3)
    with pytest.raises(InvariantBroken, match="follower-high-watermark"):
        history.follower_committed(4, 2, flipped, Epoch(2))
    history.commit_again(flipped, 2, 3, damaged=True)
    history.follower_committed(4, 2, flipped, Epoch(2))


def test_old_leader_that_leads_again_brings_its_commits_back() -> None:
    """Another unclean election elects it, with its log and its high watermark."""
    history = PartitionHistory("t-0")
    zero, one = appended(history, 1, header(0, 0), header(1, 0))
    history.commit(zero, 0, 1)
    history.ignore_leaders_before(2)
    history.commit(one, 0, 1)
    history.reset(zero, 4)
    history.commit_again(one, 4, 1)
    history.follower_committed(2, 2, one, Epoch(4))


def test_a_past_leader_may_commit_several_batches_at_once() -> None:
    """Its follower may know of the first only, and lead later."""
    history = PartitionHistory("t-0")
    zero, one, two, three = appended(
        history, 1, header(0, 0), header(1, 0), header(2, 0), header(3, 0)
    )
    history.commit(zero, 0, 1)
    history.ignore_leaders_before(2)
    history.commit(two, 0, 1)
    history.reset(zero, 4)
    history.commit_again(one, 4, 2)
    history.follower_committed(3, 2, one, Epoch(4))
    assert history.last_committed() is one
    history.commit_again(three, 4, 2)
    with pytest.raises(InvariantBroken, match="follower-high-watermark"):
        history.follower_committed(3, 4, three, Epoch(4))


def test_follower_of_a_past_leader_may_truncate_what_is_committed() -> None:
    """The leader was deposed by an unclean election. From its epoch on, nobody may."""
    history = PartitionHistory("t-0")
    _, one = appended(history, 1, header(0, 0), header(1, 0))
    history.commit(one, 0, 1)
    history.ignore_leaders_before(4)
    history.removed(3, [one], 3)
    for epoch in (4, -1):  # the metadata log has no leader epochs here
        with pytest.raises(InvariantBroken, match="committed-stays"):
            history.removed(3, [one], epoch)


def test_second_leader_of_an_epoch_breaks_one_leader() -> None:
    """Any node may report the second leader."""
    history = PartitionHistory("t-0")
    history.leader_known(1, 1, 1)
    history.leader_known(1, 1, 3)
    with pytest.raises(InvariantBroken, match="one-leader"):
        history.leader_known(1, 2, 2)


@pytest.mark.parametrize(
    ("epoch", "sequence", "wrong"), [(0, 1, False), (0, 2, True), (0, 0, True), (1, 0, False)]
)
def test_producer_sequences_have_no_gap_and_no_repetition(
    epoch: int, sequence: int, *, wrong: bool
) -> None:
    """The next sequence, a gap, a repetition, a new epoch."""
    history = PartitionHistory("t-0")
    first = header(0, 0, producer_id=7, producer_epoch=0, base_sequence=0)
    second = header(1, 0, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
    if wrong:
        with pytest.raises(InvariantBroken, match="sequences"):
            appended(history, 1, first, second)
    else:
        appended(history, 1, first, second)


@pytest.mark.parametrize("forgotten", [True, False])
def test_forgotten_producer_may_begin_in_an_earlier_epoch(*, forgotten: bool) -> None:
    """A late batch of it comes when nobody knows the later epoch any more (seed 81693)."""
    history, sequences = PartitionHistory("t-0"), Sequences(lambda at_ms: forgotten)
    first = header(0, 0, producer_id=7, producer_epoch=5, base_sequence=0)
    late = header(1, 0, producer_id=7, producer_epoch=4, base_sequence=0)
    one = history.appended(1, first, None, sequences)
    assert one.sent is not None
    sequences.note(one.sent)
    if forgotten:
        history.appended(1, late, one, sequences)
    else:
        with pytest.raises(InvariantBroken, match="sequences"):
            history.appended(1, late, one, sequences)
