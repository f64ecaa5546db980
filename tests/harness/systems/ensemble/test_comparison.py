"""What ZooKeeper lost or discarded is seen in the logs, or by what a client read."""

from harness.systems.ensemble.comparison import compare
from harness.systems.ensemble.transactions import Change, Transaction, read_log
from tests.harness.systems.ensemble.test_transactions import GOLDEN, STATE

WHOLE = list(read_log(GOLDEN.read_bytes()))
FIRST, OLD, LATER, NEW = 0x200000001, 0x300000003, 0x300000004, 0x50000000D


def wrote(zxid: int, version: int, path: str = STATE) -> Transaction:
    """A transaction that writes one znode."""
    change = Change(path=path, data=b"{}", version=version, created=version == 0)
    return Transaction(zxid=zxid, at_ms=zxid, session=1, changes=(change,))


def deleted(zxid: int) -> Transaction:
    """A transaction that deletes it."""
    return Transaction(zxid=zxid, at_ms=zxid, session=1, changes=(Change(path=STATE, data=None),))


KEPT = [wrote(FIRST, 0), wrote(NEW, 1)]
"""What every server has in the end."""
OLDER = [wrote(FIRST, 0), wrote(OLD, 1), wrote(LATER, 2), wrote(NEW, 1)]
"""What one server has, which got a snapshot."""
SENTENCE = (
    f"transaction {NEW:#x} wrote version 1 of {STATE}, which had version 1 since transaction "
    f"{OLD:#x}"
)


def test_real_log_lost_nothing() -> None:
    """A topic was made, its state changed, and ephemeral znodes were made again."""
    read = {each.zxid: change.path for each in WHOLE for change in each.changes}
    found = compare([WHOLE, WHOLE, WHOLE], read)
    assert (found.transactions, found.lost, found.discarded) == (WHOLE, [], [])


def test_proposals_of_a_replaced_leader_are_no_part_of_the_history() -> None:
    """Nobody read them, and only its own log has them. They may have been committed or not."""
    found = compare([KEPT, KEPT, OLDER], {FIRST: STATE})
    assert found.transactions == KEPT
    assert found.lost == []
    assert len(found.discarded) == 2
    assert SENTENCE in found.discarded


def test_transaction_that_was_read_was_lost() -> None:
    """It stays in the history, because brokers acted on it. Of the later one nothing is known."""
    found = compare([KEPT, KEPT, OLDER], {OLD: STATE})
    assert [each.zxid for each in found.transactions] == [FIRST, OLD, NEW]
    assert found.lost == [SENTENCE]
    assert len(found.discarded) == 1


def test_what_is_older_than_a_committed_transaction_was_committed() -> None:
    """Of one epoch. The later one is on two of three servers."""
    found = compare([KEPT, [wrote(LATER, 2)], OLDER], {})
    assert SENTENCE in found.lost
    assert (len(found.lost), found.discarded) == (2, [])


def test_znode_that_was_made_twice() -> None:
    """Only a deletion allows it."""
    assert len(compare([[wrote(1, 0), wrote(2, 0)]], {}).lost) == 1
    found = compare([[wrote(1, 0), deleted(2), wrote(3, 0)]], {})
    assert (found.lost, found.discarded) == ([], [])


def test_ephemeral_znode_is_made_again_after_its_session() -> None:
    """The end of the session deletes it without a change."""
    change = Change(path="/controller", data=b"{}", ephemeral=True, created=True)
    made = [Transaction(zxid=n, at_ms=n, session=n, changes=(change,)) for n in (1, 2)]
    found = compare([made], {})
    assert (found.lost, found.discarded) == ([], [])


def test_change_that_was_read_and_that_no_log_has() -> None:
    """All servers truncated it."""
    [found] = compare([[wrote(1, 0), wrote(3, 1)]], {1: STATE, 2: STATE, 3: STATE}).lost
    assert found == (
        f"a client read {STATE} as transaction 0x2 left it, and no server's log has that "
        "transaction"
    )
