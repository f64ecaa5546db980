"""Up to where a cleaning may go if the log of the leader is damaged and cannot be read: then nobody
knows what it commits, and its followers clean what they learn of it."""

import pytest

from harness.simulation.invariants.broken import InvariantBroken
from tests.support.nodes.cleaning import keyed, pairs_of
from tests.support.simulation.cleanings import (
    EPOCH,
    Judged,
    append,
    compacted_partition,
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
