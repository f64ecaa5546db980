"""Compares the servers' logs: what they say together, and what was lost or discarded. Pure.

Each version of a znode is written once. If the logs have it twice, a leader began its epoch without
the first of the two, and without all later ones of that epoch. There are two ways to that:

- Nobody had committed them. A leader that is replaced may have proposals that no other server has,
  and keeps them in its log if it later gets a snapshot from the new leader.
- They were committed, and ZooKeeper lost them: ZooKeeper before 3.9.3 does that after unlucky kills
  (ZOOKEEPER-3911, -4394, -4643, -4646, -4685), 3.9.3 itself too (ZOOKEEPER-4925). Then brokers have
  acted on decisions that were taken back, which is no mistake of theirs.

A transaction was committed if a client read its effect, or if most logs have it, and so were all
earlier ones of its epoch. Of other discarded transactions it is not known.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.systems.ensemble.transactions import Transaction, merged


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the logs of an ensemble's servers say together."""

    transactions: Sequence[Transaction]
    """By zxid: all that were committed or may have been, without the discarded ones."""
    lost: Sequence[str]
    """Sentences about transactions that were committed and then lost."""
    discarded: Sequence[str]
    """Sentences about transactions that were discarded, whether or not they had been committed."""


def compare(logs: Sequence[Sequence[Transaction]], read: Mapping[int, str]) -> Comparison:
    """Compare the logs of all servers with each other, and with what a client read meanwhile.

    `read` has the znodes that were read, by the zxid of their last change.
    """
    transactions = merged(logs)
    copies = Counter(each.zxid for log in logs for each in log)
    committed = _ends(
        zxid for zxid, count in copies.items() if zxid in read or 2 * count > len(logs)
    )
    lost = [
        f"a client read {path} as transaction {zxid:#x} left it, and no server's log has that "
        "transaction"
        for zxid, path in sorted(read.items())
        if zxid not in copies
    ]
    discarded: list[str] = []
    begins: dict[int, int] = {}  # epoch -> the first transaction that was discarded
    for zxid, sentence in _overwritten(transactions):
        if zxid <= committed.get(zxid >> 32, 0):
            lost.append(sentence)
        else:
            discarded.append(sentence)
            begins[zxid >> 32] = min(begins.get(zxid >> 32, zxid), zxid)
    kept = [each for each in transactions if each.zxid < begins.get(each.epoch, each.zxid + 1)]
    return Comparison(transactions=kept, lost=lost, discarded=discarded)


def _ends(zxids: Iterable[int]) -> dict[int, int]:
    """Return the last zxid of each epoch."""
    ends: defaultdict[int, int] = defaultdict(int)
    for zxid in zxids:
        ends[zxid >> 32] = max(ends[zxid >> 32], zxid)
    return ends


def _overwritten(transactions: Iterable[Transaction]) -> Iterator[tuple[int, str]]:
    """Yield the transactions whose version of a znode a later one wrote again: zxid, sentence."""
    written: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # version, zxid
    for transaction in transactions:
        for change in transaction.changes:
            versions = written[change.path]
            # The end of a session deletes ephemeral znodes without a change of their own.
            if change.data is None or change.ephemeral:
                versions.clear()
            while versions and versions[-1][0] >= change.version:
                version, zxid = versions.pop()
                yield (
                    zxid,
                    f"transaction {transaction.zxid:#x} wrote version {change.version} of "
                    f"{change.path}, which had version {version} since transaction {zxid:#x}",
                )
            if change.data is not None:
                versions.append((change.version, transaction.zxid))
