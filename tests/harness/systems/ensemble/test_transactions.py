"""Transaction logs of a real server are read, whole and torn."""

from pathlib import Path

import pytest

from harness.systems.ensemble.transactions import TransactionLogError, merged, read_log

GOLDEN = Path(__file__).parents[3] / "support" / "golden_znodes" / "log.1"
"""The log of ZooKeeper 3.8.4 after two brokers registered, one became the controller and made a
topic, and the other one took over."""
STATE = "/brokers/topics/orders/partitions/0/state"


def test_every_transaction_of_a_real_log_is_read_in_order() -> None:
    """Their zxids have no gap, and the log's preallocated end counts for nothing."""
    found = list(read_log(GOLDEN.read_bytes()))
    assert [each.zxid for each in found] == list(range(1, 23))
    assert [each.zxid for each in found if each.closes_session] == [17, 22]
    versions = [c.version for each in found for c in each.changes if c.path == STATE]
    assert versions == [0, 1, 2, 3, 4]


def test_parts_of_a_multi_are_changes_of_one_transaction() -> None:
    """A controller is elected by one: it makes /controller and raises /controller_epoch."""
    found = {each.zxid: each for each in read_log(GOLDEN.read_bytes())}
    assert [(c.path, c.ephemeral) for c in found[9].changes] == [
        ("/controller", True),
        ("/controller_epoch", False),
    ]


def test_refused_multi_changes_nothing() -> None:
    """A zombie's write whose check of the controller's epoch failed is in the log as an error."""
    found = {each.zxid: each for each in read_log(GOLDEN.read_bytes())}
    assert found[14].changes == ()


def test_torn_log_ends_before_its_first_incomplete_transaction() -> None:
    """A killed server leaves a part of a transaction; a damaged one does not match its checksum."""
    data = GOLDEN.read_bytes()
    assert [len(list(read_log(data[:length]))) for length in (0, 16, 40)] == [0, 0, 0]
    assert len(list(read_log(data[:700]))) < len(list(read_log(data[:1500]))) < 22
    changed = data[:120] + b"?" + data[121:]
    assert len(list(read_log(changed))) < 3


def test_other_files_are_refused() -> None:
    """A log that is read as empty would hide what it has."""
    with pytest.raises(TransactionLogError, match="begins with"):
        list(read_log(b"something else entirely"))


def test_servers_complete_each_other() -> None:
    """A server that got a snapshot lacks what others have; equal transactions count once."""
    whole = list(read_log(GOLDEN.read_bytes()))
    assert merged([whole[:9], whole[7:12], whole[15:]]) == [*whole[:12], *whole[15:]]
