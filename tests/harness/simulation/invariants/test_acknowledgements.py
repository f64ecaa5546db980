"""What is acknowledged with acks=all is committed."""

import pytest

from harness.simulation.invariants import InvariantBroken
from harness.simulation.invariants.acknowledgements import check_acknowledged
from harness.simulation.invariants.images import Partition
from tests.support.simulation.appended import appended, header


def partition() -> Partition:
    """Three records in the log of node 2, the last one of epoch 4; the first is committed."""
    made = Partition("t-0")
    batches = appended(made.history, 2, header(0, 0), header(1, 0), header(2, 4))
    made.copy(2).batches = {each.end: each for each in batches}
    made.history.commit(batches[0], 0, 2)
    return made


def test_an_uncommitted_record_may_not_be_acknowledged() -> None:
    """The committed one may."""
    found = partition()
    check_acknowledged(found, 2, 1)
    with pytest.raises(InvariantBroken, match=r"acknowledged-is-committed.*below 1"):
        check_acknowledged(found, 2, 2)
    found.copy(2).unreadable = True
    check_acknowledged(found, 2, 2)


def test_after_an_unclean_election_records_of_later_epochs_are_judged() -> None:
    """What earlier leaders have committed is not known, nor what the log does not have."""
    found = partition()
    found.history.ignore_leaders_before(4)
    check_acknowledged(found, 2, 2)
    check_acknowledged(found, 2, 5)
    with pytest.raises(InvariantBroken, match="acknowledged-is-committed"):
        check_acknowledged(found, 2, 3)
    found.history.start = 3
    check_acknowledged(found, 2, 3)
    found.history.start = 0
    found.history.commit(found.copy(2).batches[3], 4, 2)
    check_acknowledged(found, 2, 3)
