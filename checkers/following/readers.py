"""The positions of consumers while a run goes on, in every partition that they read.

A consumer's position is the offset behind the last record that it was given, or where an assignment
let it begin. At most so many consumers of a partition are kept as the limit says.
"""

from collections.abc import Iterator

import numpy as np

from checkers.following.columns import MISSING, Flags, Ints, Partition, Piece, groups
from checkers.following.suspects import Recent, Suspect, finding


class Positions:
    """Position and operation that set it, by partition and consumer."""

    def __init__(self, *, consumers: int) -> None:
        self._consumers = consumers
        self._of: dict[Partition, Recent[int, tuple[int, int]]] = {}

    def size(self) -> int:
        """The number of entries."""
        return sum(map(len, self._of.values()))

    def read(self, piece: Piece, polled: Flags, assigned: Flags) -> tuple[Ints, Iterator[Suspect]]:
        """Add the records `polled` and the assignments `assigned`. Return the position before every
        row, MISSING if it is unknown, and the consumers that went back."""
        before = np.full(len(piece), MISSING)
        by = np.full(len(piece), MISSING)
        at = np.flatnonzero(polled | assigned)
        offset = piece["offset"]
        begins = np.where(offset >= 0, offset, MISSING)
        after = np.where(polled, offset + 1, begins)
        for key, rows in groups(piece.place[at] << 32 | piece["client"][at]):
            mine = at[rows]
            known = self._of.setdefault(piece.partitions[key >> 32], Recent(self._consumers))
            client = key & 0xFFFF_FFFF
            before[mine[0]], by[mine[0]] = known.get(client, (MISSING, MISSING))
            before[mine[1:]], by[mine[1:]] = after[mine[:-1]], piece["op"][mine[:-1]]
            known[client] = (int(after[mine[-1]]), int(piece["op"][mine[-1]]))
        # The records of one poll are ordered by offset.
        back = np.flatnonzero(polled & (offset < before) & (piece["op"] != by))
        return before, _went_back(piece, back, before, by)


def _went_back(piece: Piece, back: Ints, before: Ints, by: Ints) -> Iterator[Suspect]:
    for at, row in zip(back, piece.rows(back), strict=True):
        evidence = {**row, "other_offset": int(before[at]), "other_op": int(by[at])}
        yield finding("nonmonotonic-poll", evidence)
