"""What is kept of groups while a run goes on, and the suspects that it shows.

For every partition of a group: the offsets that were delivered, as intervals; the values that were
delivered and not copied yet; the last commits and assignments. For every group: the copies that
were read, by the record that they were made from. Each part is bounded and forgets its oldest
entries.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from checkers.following.columns import Ints
from checkers.following.intervals import Intervals, Seen
from checkers.following.suspects import Recent, Row, Suspect, of_offset, of_values
from checkers.history.settings import FOREVER_NS

CALLS = 50
"""How many commits and assignments of one partition are kept."""

Source = tuple[str, str, int, int]
"""Group, topic, partition and offset of a record that was copied."""
Place = tuple[str, int, int]
"""Topic, partition and offset of a copy."""


@dataclass(slots=True)
class _Share:
    """One partition of one group. uncopied: the delivered values by offset. committed: the greatest
    acknowledged offset; due: what it was at the last call of `settle`; checked: up to which offset
    skipped records were looked for."""

    delivered: Intervals
    uncopied: Recent[int, int]
    commits: list[Row] = field(default_factory=list)
    assigned: list[Row] = field(default_factory=list)
    start: int | None = None
    checked: int = 0
    due: int = 0
    committed: int = 0

    def size(self) -> int:
        calls = len(self.commits) + len(self.assigned)
        return len(self.delivered) + len(self.uncopied) + calls


class GroupState:
    """The state; rows come in the order in which their writers recorded them."""

    def __init__(self, *, groups: int, offsets: int, intervals: int) -> None:
        self._offsets, self._intervals = offsets, intervals
        self._shares: Recent[tuple[str, str, int], _Share] = Recent(groups)
        self._sources: Recent[tuple[str, int], Source] = Recent(offsets)
        self._copies: Recent[int, tuple[str, int]] = Recent(offsets)
        self._copied: Recent[tuple[str, int], None] = Recent(offsets)
        """Groups and values of records that they copied."""
        self._visible: Recent[tuple[str, int], int] = Recent(offsets)
        self._lines: Recent[tuple[str, str, int, str, int], tuple[int, int, int, int]] = Recent(
            groups
        )
        self._copiers: Recent[tuple[str, str], int] = Recent(groups)
        """A record that the group copied, by group and topic."""

    def size(self) -> int:
        """The number of entries."""
        copies = len(self._sources) + len(self._copies) + len(self._copied) + len(self._visible)
        shares = sum(each.size() for each in self._shares.values())
        return copies + len(self._lines) + len(self._copiers) + shares

    def _share(self, row: Row) -> _Share:
        key = (row["group"], row["topic"], row["partition"])
        if key not in self._shares:
            self._shares[key] = _Share(Intervals(self._intervals), Recent(self._offsets))
        return self._shares[key]

    def delivered(self, row: Row) -> Iterator[Suspect]:
        """Add a record that a member got."""
        share, offset, value = self._share(row), row["offset"], row["value"]
        share.start = offset if share.start is None else min(share.start, offset)
        if share.delivered.add(offset) is Seen.AGAIN:
            if offset < share.committed:
                yield of_offset("delivered-again", row).about(group=row["group"])
        elif value is not None:
            share.uncopied[offset] = value
            at = (row["group"], row["topic"], row["partition"], offset)
            self._sources[row["group"], value] = at

    def assigned(self, row: Row) -> Iterator[Suspect]:
        """Add an assignment of a partition."""
        share, position = self._share(row), row["offset"]
        share.assigned = [*share.assigned[-(CALLS - 1) :], row]
        if position is not None and position >= 0:
            share.start = position if share.start is None else min(share.start, position)
        for commit in share.commits:
            yield from _compared(row, commit)

    def committed(self, row: Row) -> Iterator[Suspect]:
        """Add an acknowledged commit."""
        share = self._share(row)
        share.commits = [*share.commits[-(CALLS - 1) :], row]
        share.committed = max(share.committed, row["offset"])
        for assigned in share.assigned:
            yield from _compared(assigned, row)

    def settle(self, records: Callable[[str, int], Ints]) -> Iterator[Suspect]:
        """Look for records that were skipped, or not copied, below the offsets that had been
        committed at the last call: by now the rows of all writers up to these commits are there.
        records: returns the offsets that were read in a partition, in ascending order."""
        for (group, topic, partition), share in self._shares.items():
            at = {"group": group, "topic": topic, "partition": partition}
            if share.due > share.checked:
                yield from _skipped(share, at, records(topic, partition))
                yield from self._uncopied(share, at)
                share.checked = share.due
            share.due = share.committed

    def _uncopied(self, share: _Share, at: Row) -> Iterator[Suspect]:
        example = self._copiers.get((at["group"], at["topic"]))
        if example is None:
            return
        for offset in [each for each in share.uncopied if each < share.due]:
            value = share.uncopied.pop(offset)
            if (at["group"], value) not in self._copied:
                yield of_values("uncopied", at, value, example).about(group=at["group"])

    def copied(self, row: Row, *, seen: bool) -> Iterator[Suspect]:
        """Add a send that names the record from which it was made. seen: its value was read."""
        copied = (row["group"], row["copies"])
        if (source := self._sources.get(copied)) is not None:
            self._copiers[row["group"], source[1]] = row["copies"]
        self._copied[copied] = None
        self._copies[row["value"]] = copied
        if seen:
            yield from self._shown(row, copied)

    def copies(self) -> list[int]:
        """The values of copies."""
        return [*self._copies]

    def read(self, row: Row) -> Iterator[Suspect]:
        """Add a record that was read for the first time."""
        if (copied := self._copies.get(row["value"])) is not None:
            yield from self._shown(row, copied)

    def _shown(self, row: Row, copied: tuple[str, int]) -> Iterator[Suspect]:
        """Handle a copy that is in the log."""
        group, input_value = copied
        first = self._visible.get(copied)
        if first is not None and first != row["value"]:
            found = of_values("copied-twice", row, first, row["value"], input_value)
            yield found.about(group=group)
            return
        self._visible[copied] = row["value"]
        source = self._sources.get(copied)
        if source is None or row["offset"] is None:
            return
        line = (group, source[1], source[2], row["topic"], row["partition"])
        here = (row["offset"], source[3], row["value"], input_value)
        last = self._lines.get(line)
        if last is not None and (last[0] < here[0]) != (last[1] < here[1]):
            found = of_values("copied-out-of-order", row, *last[2:], *here[2:])
            yield found.about(group=group)
        self._lines[line] = here if last is None else max(last, here)


def _skipped(share: _Share, at: Row, records: Ints) -> Iterator[Suspect]:
    if share.start is None:
        return
    first, last = np.searchsorted(
        records, (max(share.start, share.checked, share.delivered.floor), share.due)
    )
    within = records[first:last]
    for offset in within[~share.delivered.all_seen(within)].tolist():
        yield of_offset("skipped-record", at, offset).about(group=at["group"])


def _compared(assigned: Row, commit: Row) -> Iterator[Suspect]:
    """Compare an assignment with an acknowledged commit."""
    position, group = assigned["offset"], commit["group"]
    if _over_ns(commit) < assigned["invoke_ns"]:
        if position is not None and 0 <= position < commit["offset"]:
            yield of_offset("lost-commit", assigned).about(group=group)
    elif _over_ns(assigned) < commit["invoke_ns"]:
        generations = (commit["generation"], assigned["generation"])
        older = None not in generations and generations[0] < generations[1]
        if older and commit["client"] != assigned["client"]:
            yield of_offset("stale-commit", commit).about(group=group)


def _over_ns(row: Row) -> int:
    return FOREVER_NS if row["complete_ns"] is None else int(row["complete_ns"])
