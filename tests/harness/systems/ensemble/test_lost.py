"""What ZooKeeper acknowledged and lost later is seen in the logs, or by what a client read."""

from harness.systems.ensemble.lost import lost_transactions
from harness.systems.ensemble.transactions import Change, Transaction, read_log
from tests.harness.systems.ensemble.test_transactions import GOLDEN, STATE

WHOLE = list(read_log(GOLDEN.read_bytes()))


def wrote(zxid: int, version: int, path: str = STATE) -> Transaction:
    """A transaction that writes one znode."""
    change = Change(path=path, data=b"{}", version=version, created=version == 0)
    return Transaction(zxid=zxid, at_ms=zxid, session=1, changes=(change,))


def deleted(zxid: int) -> Transaction:
    """A transaction that deletes it."""
    return Transaction(zxid=zxid, at_ms=zxid, session=1, changes=(Change(path=STATE, data=None),))


def test_real_log_lost_nothing() -> None:
    """A topic was made, its state changed, and ephemeral znodes were made again."""
    read = {each.zxid: change.path for each in WHOLE for change in each.changes}
    assert lost_transactions(WHOLE, read) == []


def test_version_that_was_written_twice() -> None:
    """A server became the leader that did not have the transaction of the last epoch, while the
    log of a third one, which was killed, has it."""
    [found] = lost_transactions(
        [wrote(0x200000001, 0), wrote(0x300000003, 1), wrote(0x50000000D, 1)], {}
    )
    assert found == (
        f"transaction 0x50000000d wrote version 1 of {STATE}, which had version 1 since "
        "transaction 0x300000003"
    )


def test_znode_that_was_made_twice() -> None:
    """Only a deletion allows it."""
    assert len(lost_transactions([wrote(1, 0), wrote(2, 0)], {})) == 1
    assert lost_transactions([wrote(1, 0), deleted(2), wrote(3, 0)], {}) == []


def test_ephemeral_znode_is_made_again_after_its_session() -> None:
    """The end of the session deletes it without a change."""
    change = Change(path="/controller", data=b"{}", ephemeral=True, created=True)
    made = [Transaction(zxid=n, at_ms=n, session=n, changes=(change,)) for n in (1, 2)]
    assert lost_transactions(made, {}) == []


def test_change_that_was_read_and_that_no_log_has() -> None:
    """All servers truncated it."""
    [found] = lost_transactions([wrote(1, 0), wrote(3, 1)], {1: STATE, 2: STATE, 3: STATE})
    assert found == (
        f"a client read {STATE} as transaction 0x2 left it, and no server's log has that "
        "transaction"
    )
