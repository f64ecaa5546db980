"""Up to where a cleaning may go.

If the log of the leader is damaged and cannot be read, nobody knows what it commits, and its
followers clean what they learn of it. A leader may also have removed the records of a transaction
of which a follower does not have the marker yet.
"""

import pytest

from harness.simulation.invariants.broken import InvariantBroken
from tests.support.nodes.cleaning import keyed, pairs_of
from tests.support.simulation.cleanings import (
    EPOCH,
    Judged,
    append,
    compacted_partition,
    follow,
    mark,
    write,
)

LIMIT, KEEPS = "compaction-is-below-the-stable-offset", "compaction-keeps-the-latest"


def following() -> Judged:
    """A replica with two values of a key and a later segment, of which nothing is known to be
    committed.
    """
    judged = Judged(compacted_partition(), 1)
    for value in (b"1", b"2"):
        append(judged.log, keyed((b"k", value)))
    judged.roll()
    append(judged.log, keyed((b"other", b"1")))
    judged.look()
    return judged


def test_follower_of_an_unreadable_leader_may_clean_what_that_committed() -> None:
    """If the leader is sound, nothing is committed here, and so nothing may go."""
    judged = following()
    judged.history.leader_is_unreadable(EPOCH)
    judged.clean()
    assert [value for _, key, value in pairs_of(judged.log) if key == b"k"] == [b"2"]
    with pytest.raises(InvariantBroken, match=LIMIT):
        following().clean()


def test_follower_of_the_next_leader_is_judged_by_what_that_commits() -> None:
    """It has committed the first record only, which the second one may not supersede."""
    judged = following()
    judged.history.leader_is_unreadable(EPOCH - 1)
    judged.history.commit(judged.copy.batches[1], EPOCH, 2)
    with pytest.raises(InvariantBroken, match=KEEPS):
        judged.clean()


def test_open_transaction_supersedes_nothing_whoever_leads() -> None:
    """Its record is in the log, and may be aborted."""
    judged = following()
    judged.history.leader_is_unreadable(EPOCH)
    write(judged.log, (71, 0), b"other", b"2")
    judged.roll()
    append(judged.log, keyed((b"more", b"1")))
    judged.look()
    with pytest.raises(InvariantBroken, match=KEEPS):
        judged.clean(judged.log.segments.active.base_offset)


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "there"])
def test_record_that_its_leader_removed_keeps_no_transaction_open(removed: bool) -> None:
    """The follower does not have the marker yet, which decides the transaction (seed 96973)."""
    history = compacted_partition()
    leader, follower = Judged(history, 1), Judged(history, 2)
    for value in (b"1", b"2"):
        append(leader.log, keyed((b"k", value)))
    follow(leader.log, follower.log)
    write(leader.log, (71, 0), b"t", b"1")
    append(leader.log, keyed((b"k", b"3")))
    leader.roll()
    append(leader.log, keyed((b"other", b"1")))
    before_marker = leader.log.end_offset
    mark(leader.log, (71, 0), committed=True)
    append(leader.log, keyed((b"t", b"2")))
    leader.roll()
    leader.look(commits=True)
    if removed:
        leader.clean()
    follow(leader.log, follower.log, before_marker)
    follower.roll()
    follower.look()
    if removed:
        follower.clean(follower.log.segments.active.base_offset)
        return
    with pytest.raises(InvariantBroken, match=KEEPS):
        follower.clean(follower.log.segments.active.base_offset)
