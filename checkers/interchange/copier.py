"""What Kafka's TransactionalMessageCopier prints, and the copies that its output topic proves.

A copier prints how many records it has processed and how many remain. It names no record, topic or
offset. Kafka 4 prints its `transactionalId` and a `stage`; Kafka 3 prints the id as `progress`, and
at the end as `shutdown_complete`. It copies each record unchanged, so:

- The topics that consumers read and no producer wrote are its output. Each record in them is a copy
  of the record that a producer sent with this value.
- If all copiers came to the end of the input, the group committed everything that producers wrote.
  The input must have been complete before. That is known if the copiers began with as many records
  as were acknowledged, or, where a group rebalanced, if they processed as many.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from checkers.interchange.columns import ENTRY, NONE, UNSAID_COLUMNS, Columns
from checkers.interchange.imported import VALUE_BITS

GROUP: Final = "copiers"
"""The group of all copiers; they do not print their own."""
PREFIX: Final = 1 << 30
"""The prefix of the values of copies, beyond all that producers can print."""
LINE: Final = "copier"
"""The name of its lines, which have none."""
_IDS: Final = ("transactionalId", "progress", "shutdown_complete")
_REBALANCED, _ENDED = "RebalanceComplete", "ShutdownComplete"


def id_of(said: Mapping[str, Any]) -> str | None:
    """The name of the field that has the transactional id; None: this is no line of a copier."""
    return None if "name" in said else next((name for name in _IDS if name in said), None)


@dataclass(slots=True)
class Copier:
    """One transactional id: with how many records its processes began at most, how many they
    processed, whether one came to the end of its input, whether a group moved its partitions."""

    began_with: int = 0
    processed: int = 0
    finished: bool = False
    grouped: bool = False


@dataclass(slots=True)
class Copiers:
    """All copiers of a test, by their transactional ids."""

    known: dict[str, Copier] = field(default_factory=dict)
    _processed: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Of each process: its transactional id, and what it has processed."""

    def took(
        self, process: int, transactional_id: str, said: Mapping[str, Any], *, total: int, left: int
    ) -> None:
        """A line of a process. total: the records that it has processed; left: those that remain
        (negative: it read beyond the end that it knew)."""
        copier = self.known.setdefault(transactional_id, Copier())
        grouped = said.get("stage") == _REBALANCED
        ended = said.get("stage") == _ENDED or _IDS[-1] in said
        if process not in self._processed and not grouped and not ended:
            copier.began_with = max(copier.began_with, left)
        copier.grouped |= grouped
        copier.finished |= ended and left <= 0
        _, before = self._processed.get(process, ("", 0))
        self._processed[process] = (transactional_id, max(before, total))
        copier.processed += max(0, total - before)

    def finished(self, acked: int) -> bool:
        """Whether they copied all of the input, of which so many records were acknowledged."""
        copiers = self.known.values()
        if not all(copier.finished for copier in copiers):
            return False
        grouped = any(copier.grouped for copier in copiers)
        counts = (copier.processed if grouped else copier.began_with for copier in copiers)
        return sum(counts) >= acked


def add_copies(columns: Columns, outputs: Iterable[int], client: int, from_ns: int) -> None:
    """Give the records of the output partitions values of their own, and add a send for each, by
    `client`. It began at from_ns or later, and was over when it was first read."""
    partition, value, offset = (
        np.array(column, np.int64)
        for column in (columns.partitions, columns.values, columns.offsets)
    )
    copied = np.isin(partition, np.array([*outputs], np.int64)) & (value != NONE)
    rows = np.stack((partition[copied], offset[copied], value[copied]), axis=1)
    known, which = np.unique(rows, axis=0, return_inverse=True)
    value[copied] = (PREFIX << VALUE_BITS) + which.reshape(-1)
    columns.values = array("q", value.tobytes())
    entries = np.array(columns.entries, np.int64).reshape(-1, len(ENTRY))
    last_ns = int(entries[:, ENTRY.index("complete_ns")].max(initial=from_ns))
    word = columns.words.number
    for number, (place, at, source) in enumerate(known.tolist()):
        first = len(columns.values)
        columns.entries.extend(
            (
                client, number, client, word("send"), word("ok"), from_ns, last_ns, 0,
                word(GROUP), NONE, NONE, first, 1, first + 1, *UNSAID_COLUMNS[1:],
            )
        )  # fmt: skip
        columns.add((place, place), ((PREFIX << VALUE_BITS) + number, source), (at, NONE))


def add_commits(columns: Columns, ends: Mapping[int, int], client: int, at_ns: int) -> None:
    """Add that the group committed these offsets in the end, by partition."""
    if ends:
        word = columns.words.number
        columns.entries.extend(
            (
                client, -1, client, word("final-committed"), word("ok"), at_ns, at_ns, 0,
                word(GROUP), NONE, NONE, len(columns.values), len(ends), *UNSAID_COLUMNS,
            )
        )  # fmt: skip
        columns.add(ends.keys(), [NONE] * len(ends), ends.values())
