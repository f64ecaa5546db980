"""The rows and the plan of a run directory for a run that another tool recorded.

The detectors and the contract judge an import like any other run. Their assumptions are filled in
only if the import itself shows them; the rest stays UNKNOWN.

- The user names the settings (`Promises`), because no history has them.
- The cluster, the faults and the replicas were not recorded. Their tables exist and are empty, so
  causes are unknown: a loss that is permitted only with a cause is UNKNOWN, and a loss that nothing
  permits is INVALID.
- No import says whether the cluster settled: the final reads decide (`as_read`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.history.history import HISTORY
from checkers.history.plan_file import IMPORTED
from checkers.history.settings import MIN_ISR, UNCLEAN
from checkers.interchange.as_read import Known, logs
from checkers.interchange.columns import NONE, UNSAID_COLUMNS, Columns, Entries, Places

Row = dict[str, Any]
"""A row of one of the tables of checkers.history.history."""

SUBSCRIBED = "subscribed"
"""The `group` of an assignment by a consumer group, whose name is not in the history."""

SOMEWHERE, BEGINNING = -1, -2
"""Offsets of an assignment that are places and not numbers."""

VALUE_BITS = 32
"""Below them is what another tool calls a value, above them what makes it the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What the imported cluster and its clients were configured to guarantee.

    acks: 0, 1, or -1 for all. processing: how groups process records, one of PROCESSING; None: they
    promise nothing. group_metadata: offsets are sent to transactions with the member and its
    generation. The defaults are what Jepsen judges by: nothing may be lost, written twice, or
    written out of order.
    """

    acks: int = -1
    idempotence: bool = True
    min_insync_replicas: int = 2
    unclean_election: bool = False
    max_in_flight: int = 5
    processing: str | None = None
    group_metadata: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The plan of an import, and its history as record batches of HISTORY, to be had once; all
    other tables are empty."""

    batches: Callable[[], Iterable[pa.RecordBatch]]
    plan: Mapping[str, Any]

    def table(self) -> pa.Table:
        """The history."""
        return pa.Table.from_batches(self.batches(), HISTORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where an import comes from; kept in its plan.

    tool: jepsen or kafkatest. further: what the way back needs.
    """

    tool: str
    files: tuple[str, ...]
    further: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As plan.json has it."""
        return {"tool": self.tool, "files": list(self.files)} | dict(self.further)


def assemble(
    entries: Entries,
    known: Known,
    unread: Sequence[int],
    places: Places,
    promises: Promises,
    origin: Origin,
    *,
    ended: Sequence[int],
) -> Imported:
    """An import of what clients did, with the final read that it amounts to.

    unread: the partitions that nobody read in the end, by their place in `places`. ended: the
    clients whose records are complete.
    """
    times = entries["complete_ns"]
    times = np.where(times == NONE, entries["invoke_ns"], times)
    last_ns, reader = int(times.max(initial=0)), int(entries["client"].max(initial=0)) + 1
    ops = int(entries.numbered()[0].max(initial=0))
    read = Columns()
    word = read.words.number

    def entry(turn: int, client: int, f: str, type_: str, count: int) -> None:
        first = len(read.values)
        read.entries.extend((turn, 0, client, word(f), word(type_), last_ns, last_ns, 0,
                             NONE, NONE, NONE, first, count, *UNSAID_COLUMNS))  # fmt: skip

    for turn, log in enumerate(logs(known, np.array(unread, np.int64)), 1):
        many = len(log.offsets)
        if many:
            entry(turn, reader, "final-read", "ok", many)
            read.add([log.partition] * many, log.values.tolist(), log.offsets.tolist())
        entry(turn, reader, "final-read-end", "ok" if log.whole else "info", 1)
        read.add((log.partition,), (NONE,), (log.end,))
    for number, client in enumerate((*ended, reader), len(unread) + 1):
        entry(number, client, "end", "ok", 1)
        read.add((NONE,), (NONE,), (NONE,))
    return Imported(
        batches=lambda: chain(entries.batches(places), read.table().batches(places, after_op=ops)),
        plan=_plan(places, promises, origin, consumers=bool(entries.are(f="poll").any())),
    )


def _plan(places: Places, promises: Promises, origin: Origin, *, consumers: bool) -> dict[str, Any]:
    topics = Counter(places.topics.to_pylist())
    unclean = str(promises.unclean_election).lower()
    promised = {"processing": promises.processing, "group_metadata": promises.group_metadata}
    groups = promised if promises.processing is not None else {}
    return {
        "name": f"imported-{origin.tool}",
        "system": IMPORTED,
        "topics": [
            {
                "name": topic,
                "partitions": partitions,
                "acks": promises.acks,
                "idempotence": promises.idempotence,
                "min_insync_replicas": promises.min_insync_replicas,
                "configs": {UNCLEAN: unclean},
            }
            for topic, partitions in sorted(topics.items())
        ],
        "broker": {MIN_ISR: str(promises.min_insync_replicas), UNCLEAN: unclean},
        "workload": {"consumers": int(consumers), "max_in_flight": promises.max_in_flight} | groups,
        "imported": origin.as_json(),
    }
