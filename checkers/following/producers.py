"""What is kept of the producers of records that were read, and the suspects among the records.

For every producer in a topic the sequences that were read, as intervals; for every producer in a
partition the greatest of them. Each part is bounded and forgets its oldest entries.
"""

from collections.abc import Iterator

import numpy as np

from checkers.detectors.durability import SEQUENCE_BITS
from checkers.following.columns import Flags, Ints, Partition, Piece, groups
from checkers.following.intervals import Intervals
from checkers.following.suspects import Recent, Suspect, of_values

_MASK = (1 << SEQUENCE_BITS) - 1


class ProducerState:
    """The state. producers: how many are kept in a topic and in a partition; intervals: of each."""

    def __init__(self, *, producers: int, intervals: int) -> None:
        self._producers, self._intervals = producers, intervals
        self._seen: dict[str, Recent[int, Intervals]] = {}
        self._last: dict[Partition, Recent[int, int]] = {}

    def size(self) -> int:
        """The number of entries."""
        seen = sum(len(each) for known in self._seen.values() for each in known.values())
        return seen + sum(map(len, self._last.values()))

    def seen(self, topic: str, value: int) -> bool:
        """Whether a value was certainly read."""
        client, sequence = divmod(value, 1 << SEQUENCE_BITS)
        known = self._seen.get(topic)
        return known is not None and client in known and known[client].seen(sequence)

    def all_seen(self, topic: str, values: Ints) -> Flags:
        """The same for many values."""
        seen = np.zeros(len(values), np.bool_)
        for client, rows in groups(values >> SEQUENCE_BITS):
            known = self._seen.get(topic)
            if known is not None and client in known:
                seen[rows] = known[client].all_seen(values[rows] & _MASK)
        return seen

    def read(self, piece: Piece, at: Ints) -> Iterator[Suspect]:
        """Add the records at these rows, each read for the first time at its offset."""
        if not len(at):
            return
        value = piece["value"][at]
        again = self._again(piece, at, value)
        before = self._greatest_before(piece, at, value)
        moved = ~again & (value & _MASK < before)
        suspicious = np.flatnonzero(again | moved)
        for each, row in zip(suspicious, piece.rows(at[suspicious]), strict=True):
            if again[each]:
                yield of_values("duplicate", row, row["value"])
            else:
                client = row["value"] >> SEQUENCE_BITS
                other = client << SEQUENCE_BITS | int(before[each])
                yield of_values("reordered-send", row, row["value"], other)

    def _again(self, piece: Piece, at: Ints, value: Ints) -> Flags:
        """Whether a record was read before, by topic and producer. A producer alternates between
        the partitions of a topic, so its sequences in one partition have gaps."""
        again = np.zeros(len(at), np.bool_)
        words = piece.words["topic"]
        for topic, of_topic in groups(piece["topic"][at]):
            known = self._seen.setdefault(words[topic], Recent(self._producers))
            for client, rows in groups(value[of_topic] >> SEQUENCE_BITS):
                mine = of_topic[rows]
                sequences = known.get(client) or Intervals(self._intervals)
                known[client] = sequences
                again[mine] = sequences.add_all(value[mine] & _MASK)
        return again

    def _greatest_before(self, piece: Piece, at: Ints, value: Ints) -> Ints:
        """The greatest sequence of the producer that was read in the partition before; -1 without
        one."""
        order = np.lexsort((value >> SEQUENCE_BITS, piece.place[at]))
        place, client = piece.place[at][order], value[order] >> SEQUENCE_BITS
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (place[1:] != place[:-1]) | (client[1:] != client[:-1])
        first = np.flatnonzero(begins)
        kept = [
            self._last.setdefault(piece.partitions[each], Recent(self._producers))
            for each in place[first].tolist()
        ]
        clients = client[first].tolist()
        carried = [known.get(each, -1) for known, each in zip(kept, clients, strict=True)]
        line = np.cumsum(begins) - 1
        # The greatest so far in a line: the number of the line stands before the sequence.
        greatest = np.maximum.accumulate(line << SEQUENCE_BITS | value[order] & _MASK) & _MASK
        greatest = np.maximum(greatest, np.array(carried, np.int64)[line])
        before = np.empty(len(order), np.int64)
        before[order[1:]] = greatest[:-1]
        before[order[first]] = carried
        last = greatest[np.append(first[1:], len(order)) - 1].tolist()
        for known, each, sequence in zip(kept, clients, last, strict=True):
            known[each] = sequence
        return before
