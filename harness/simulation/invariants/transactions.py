"""A transaction is seen as a whole or not at all, by readers of committed records.

A producer writes the number of its transaction once to each of its partitions. What it was told is
what must be seen in the end: a committed transaction's number once in each, an aborted one's
nowhere. A transaction whose end is not known is seen in all of its partitions or in none.

An end that was acknowledged is acknowledged again when its producer repeats it: the producer asks
again if it got no answer (KIP-890). Only a producer that took over may be in the way. While the
next transaction is open, such a request must not end that one (KAFKA-17754): it is refused. An
earlier coordinator that does not know of its successor, nor of the next transaction, acknowledges
it again. That ends nothing, and is so in Kafka as well. A marker that is sent again in the next
transaction is refused, too.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from kio.schema.errors import ErrorCode

from harness.simulation.invariants.broken import InvariantBroken
from harness.workloads.clients.own.transactions import FENCED

NAME, REPEATED = "transactions-are-whole", "repeated-ends-agree"


class End(Enum):
    """How a transaction ended, as its producer knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "of unknown end"


@dataclass(slots=True)
class Transaction:
    """One transaction; `end` is UNKNOWN from the first attempt to commit until it is known."""

    number: int
    partitions: list[int] = field(default_factory=list)
    end: End = End.ABORTED


class Transactions:
    """All transactions of one topic."""

    def __init__(self) -> None:
        self.begun: list[Transaction] = []

    def begin(self) -> Transaction:
        """Return a new transaction. It counts as aborted until somebody tries to commit it."""
        self.begun.append(Transaction(len(self.begun)))
        return self.begun[-1]

    def count(self, end: End) -> int:
        """How many transactions ended so."""
        return sum(each.end is end for each in self.begun)

    def repeated(self, ended: Transaction, code: ErrorCode) -> None:
        """Judge the answer to an end that was acknowledged before. Raises InvariantBroken."""
        if code is not ErrorCode.none and code not in FENCED:
            raise InvariantBroken(
                REPEATED,
                f"transaction {ended.number}, {ended.end.value}: its end was acknowledged, and is "
                f"answered {code.name.upper()} when it is repeated",
            )

    def late(self, ended: Transaction, code: ErrorCode, ended_another: bool) -> None:
        """Judge the answer to an end of an earlier transaction while the next one is open, in the
        second version of the protocol. Raises InvariantBroken.

        `ended_another`: the answer names another identity than that of the open transaction, so a
        transaction was ended after the earlier one.
        """
        if code is ErrorCode.none and ended_another:
            raise InvariantBroken(
                REPEATED,
                f"the end of transaction {ended.number}, sent again in the next, ended that one",
            )

    def late_marker(self, ended: Transaction, partition: int, code: ErrorCode) -> None:
        """Judge the answer to the marker of an earlier transaction while the next one is open in
        the partition, in the second version of the protocol (KAFKA-19446). Raises InvariantBroken.
        """
        if code is ErrorCode.none:
            raise InvariantBroken(
                REPEATED,
                f"the marker of transaction {ended.number}, sent again in the next, is appended to "
                f"partition {partition}, where it ends that one",
            )

    def check(self, seen: Mapping[int, Sequence[int]]) -> None:
        """Judge the numbers that are seen in each partition. Raises InvariantBroken."""
        counts = {partition: Counter(numbers) for partition, numbers in seen.items()}
        for each in self.begun:
            times = [counts[partition][each.number] for partition in sorted(counts)]
            wanted = [int(partition in each.partitions) for partition in sorted(counts)]
            nowhere = [0] * len(wanted)
            allowed = {
                End.COMMITTED: (wanted,),
                End.ABORTED: (nowhere,),
                End.UNKNOWN: (wanted, nowhere),
            }[each.end]
            if times not in allowed:
                raise InvariantBroken(
                    NAME,
                    f"transaction {each.number}, {each.end.value}, wrote to partitions "
                    f"{each.partitions}; it is seen {times} times in partitions {sorted(counts)}",
                )
