"""Finds transactions that ZooKeeper acknowledged and lost later. Pure.

Each version of a znode is written once. If the servers' logs have it twice, the ensemble went on
without the first of the two. If a client read a change that no log has, the servers truncated it.
ZooKeeper before 3.9.3 does both after unlucky kills (ZOOKEEPER-3911, -4394, -4643, -4646, -4685),
3.9.3 itself too (ZOOKEEPER-4925). Brokers have then acted on decisions that were taken back, which
is no mistake of theirs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.systems.ensemble.transactions import Change, Transaction


def lost_transactions(transactions: Sequence[Transaction], read: Mapping[int, str]) -> list[str]:
    """Return what was lost, a sentence each.

    `transactions` has those of all servers, by zxid. `read` has the znodes that a client read
    during the run, by the zxid of their last change.
    """
    known = {each.zxid for each in transactions}
    return [
        *_written_twice(transactions),
        *(
            f"a client read {path} as transaction {zxid:#x} left it, and no server's log has that "
            "transaction"
            for zxid, path in sorted(read.items())
            if zxid not in known
        ),
    ]


def _written_twice(transactions: Iterable[Transaction]) -> Iterator[str]:
    newest: dict[str, tuple[int, int]] = {}  # path -> version, zxid
    for transaction in transactions:
        for change in transaction.changes:
            version, zxid = newest.get(change.path, (-1, 0))
            if _replaces(change, version):
                yield (
                    f"transaction {transaction.zxid:#x} wrote version {change.version} of "
                    f"{change.path}, which had version {version} since transaction {zxid:#x}"
                )
            if change.data is None:
                newest.pop(change.path, None)
            else:
                newest[change.path] = change.version, transaction.zxid


def _replaces(change: Change, version: int) -> bool:
    """Whether a change of a znode with this version contradicts it. The end of a session deletes
    ephemeral znodes without a change of their own."""
    if change.data is None or change.ephemeral:
        return False
    return change.version <= version
