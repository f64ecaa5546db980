"""What is kept of groups while a run goes on, and the suspects that it shows.

For every partition of a group: the offsets that were delivered, as intervals; the last commits and
assignments; and the values that were delivered and not judged yet (`copies` has what became of
them). Each part is bounded and forgets its oldest entries.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from checkers.following.columns import MISSING, Flags, Ints, Partition, Piece, groups
from checkers.following.copies import CopyState
from checkers.following.intervals import Intervals
from checkers.following.producers import ProducerState
from checkers.following.suspects import Recent, Suspect, of_offset, of_values
from checkers.frames.ownership import ASSIGNED
from checkers.history.settings import FOREVER_NS

CALLS: Final = 50
"""How many commits and assignments of one partition are kept."""

_CALL: Final = ("offset", "invoke_ns", "complete_ns", "client", "generation")
"""What is kept of a commit or an assignment: a column of a matrix for each."""


def _no_rows(columns: int) -> Ints:
    return np.zeros((0, columns), np.int64)


@dataclass(slots=True)
class _Share:
    """One partition of one group. uncopied: offset and value of delivered records. committed: the
    greatest acknowledged offset; due: what it was at the last call of `settle`; checked: up to
    which offset skipped records were looked for."""

    delivered: Intervals
    uncopied: Ints = field(default_factory=lambda: _no_rows(2))
    commits: Ints = field(default_factory=lambda: _no_rows(len(_CALL)))
    assigned: Ints = field(default_factory=lambda: _no_rows(len(_CALL)))
    start: int | None = None
    checked: int = 0
    due: int = 0
    committed: int = 0

    def size(self) -> int:
        calls = len(self.commits) + len(self.assigned)
        return len(self.delivered) + len(self.uncopied) + calls

    def begin(self, offsets: Ints) -> None:
        """Somebody was given these offsets, or began there."""
        if len(offsets):
            first = int(offsets.min())
            self.start = first if self.start is None else min(self.start, first)


class GroupState:
    """The state; rows come in the order in which their writers recorded them. Within a piece the
    rows of members count as earlier than those of producers and of other readers."""

    def __init__(self, *, groups: int, offsets: int, intervals: int) -> None:
        self._offsets, self._intervals = offsets, intervals
        self._shares: Recent[tuple[str, str, int], _Share] = Recent(groups)
        self._copies = CopyState(groups=groups, offsets=offsets)

    def size(self) -> int:
        """The number of entries."""
        return self._copies.size() + sum(each.size() for each in self._shares.values())

    def take(self, piece: Piece, new: Flags, producers: ProducerState) -> Iterator[Suspect]:
        """Add the rows of a piece. new: records that were read for the first time at their offset;
        producers: as they were before this piece."""
        members = (piece.place >= 0) & piece.having("type", "ok") & piece.known("group")
        assigned = members & piece.having("f", ASSIGNED)
        committed = members & piece.having("f", "offset-commit") & piece.known("offset")
        delivered = members & piece.having("f", "poll") & piece.known("offset")
        at = np.flatnonzero(assigned | committed | delivered)
        fresh = np.zeros(len(piece), np.bool_)
        for key, rows in groups(piece["group"][at] << 32 | piece.place[at]):
            mine = at[rows]
            group, place = piece.words["group"][key >> 32], piece.partitions[key & 0xFFFF_FFFF]
            share = self._share(group, place)
            got, commits, begins = (mine[kind[mine]] for kind in (delivered, committed, assigned))
            yield from self._deliver(piece, share, got, commits, fresh)
            compared = _compared(share, _calls(piece, commits), _calls(piece, begins))
            named = {"topic": place[0], "partition": place[1]}
            yield from (of_offset(kind, named, at).about(group=group) for kind, at in compared)
        yield from self._copies.take(piece, np.flatnonzero(fresh), new, producers)
        for (group, _, _), share in self._shares.items():
            copied = self._copies.known(group, share.uncopied[:, 1])
            share.uncopied = share.uncopied[~copied][-self._offsets :]
        self._copies.forget()

    def _share(self, group: str, at: Partition) -> _Share:
        key = (group, *at)
        if key not in self._shares:
            self._shares[key] = _Share(Intervals(self._intervals))
        return self._shares[key]

    def _deliver(
        self, piece: Piece, share: _Share, at: Ints, commits: Ints, fresh: Flags
    ) -> Iterator[Suspect]:
        """Add the records that members got, and mark those that they got for the first time."""
        offset = piece["offset"][at]
        share.begin(offset)
        greatest = np.maximum.accumulate([share.committed, *piece["offset"][commits].tolist()])
        again = share.delivered.add_all(offset)
        repeated = again & (offset < greatest[np.searchsorted(commits, at)])
        for row in piece.rows(at[repeated]):
            yield of_offset("delivered-again", row).about(group=row["group"])
        share.committed = int(greatest[-1])
        kept = at[~again & (piece["value"][at] != MISSING)]
        fresh[kept] = True
        uncopied = np.column_stack((piece["offset"][kept], piece["value"][kept]))
        share.uncopied = np.concatenate((share.uncopied, uncopied))

    def settle(self, records: Callable[[str, int], Ints]) -> Iterator[Suspect]:
        """Look for records that were skipped, or not copied, below the offsets that had been
        committed at the last call: by now the rows of all writers up to these commits are there.
        records: returns the offsets that were read in a partition, in ascending order."""
        for (group, topic, partition), share in self._shares.items():
            if share.due > share.checked:
                at = {"topic": topic, "partition": partition}
                for offset in _skipped(share, records(topic, partition)):
                    yield of_offset("skipped-record", at, offset).about(group=group)
                if (example := self._copies.example(group, topic)) is not None:
                    due = share.uncopied[:, 0] < share.due
                    for value in share.uncopied[due, 1].tolist():
                        yield of_values("uncopied", at, value, example).about(group=group)
                    share.uncopied = share.uncopied[~due]
                share.checked = share.due
            share.due = share.committed


def _skipped(share: _Share, records: Ints) -> list[int]:
    """The offsets of records that no member got."""
    if share.start is None:
        return []
    least = max(share.start, share.checked, share.delivered.floor)
    first, last = np.searchsorted(records, (least, share.due))
    within = records[first:last]
    skipped: list[int] = within[~share.delivered.all_seen(within)].tolist()
    return skipped


def _compared(share: _Share, commits: Ints, assigned: Ints) -> Iterator[tuple[str, int]]:
    """Add acknowledged commits and assignments, and compare each of them with those of the other
    kind that are known: yield kinds of suspects, and offsets."""
    share.begin(assigned[:, 0][assigned[:, 0] >= 0])
    kept = (len(share.assigned), len(share.commits))
    share.assigned = np.concatenate((share.assigned, assigned))
    share.commits = np.concatenate((share.commits, commits))
    # A row for each assignment, a column for each commit.
    position, began_ns, had_ns, member, generation = share.assigned.T[:, :, np.newaxis]
    offset, sent_ns, over_ns, client, older = share.commits.T[:, np.newaxis, :]
    fresh = np.ones((len(share.assigned), len(share.commits)), np.bool_)
    fresh[: kept[0], : kept[1]] = False
    before = over_ns < began_ns
    lost = fresh & before & (position >= 0) & (position < offset)
    stale = fresh & ~before & (had_ns < sent_ns) & (client != member)
    stale &= (older != MISSING) & (older < generation)
    yield from (("lost-commit", int(at)) for at in share.assigned[np.nonzero(lost)[0], 0])
    yield from (("stale-commit", int(at)) for at in share.commits[np.nonzero(stale)[1], 0])
    share.assigned, share.commits = share.assigned[-CALLS:], share.commits[-CALLS:]


def _calls(piece: Piece, at: Ints) -> Ints:
    """The calls at these rows, by _CALL; what was never over is over at the end of time."""
    calls = np.column_stack([piece[name][at] for name in _CALL])
    over_ns = calls[:, 2]
    over_ns[over_ns == MISSING] = FOREVER_NS
    return calls
