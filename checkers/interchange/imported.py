"""What a run directory is made of, when the run was another tool's.

The detectors and the contract judge an import as any other run. What they take for granted of one
is filled in only where the import itself shows it; the rest stays UNKNOWN.

- What was promised is the importer's to say (`Promises`): no history tells it.
- No cluster, no faults and no replicas were recorded. Their tables are there, and empty, so causes
  are unknown: a loss that needs one to be permitted is UNKNOWN, one that nothing permits INVALID.
- Whether the cluster settled is in none of them: what was read in the end decides (`as_read`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.interchange.as_read import LogAsRead
from checkers.plan_file import IMPORTED

Row = dict[str, Any]
"""A row of one of the tables of checkers.history."""

SUBSCRIBED = "subscribed"
"""The `group` of an assignment by a consumer group, whose name is not in the history."""

SOMEWHERE, BEGINNING = -1, -2
"""Offsets of an assignment that are places and not numbers."""

VALUE_BITS = 32
"""Below them is what another tool calls a value, above them what makes it the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What the imported cluster and its clients were configured to guarantee.

    acks: 0, 1, or -1 for all. The defaults are what Jepsen judges by: nothing may be lost, written
    twice, or written out of order.
    """

    acks: int = -1
    idempotence: bool = True
    min_insync_replicas: int = 2
    unclean_election: bool = False
    max_in_flight: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The history and the plan of an import; all other tables are empty."""

    history: Sequence[Row]
    plan: Mapping[str, Any]


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
    rows: Sequence[Row],
    log: LogAsRead,
    topics: Mapping[str, int],
    promises: Promises,
    origin: Origin,
    *,
    ended: Sequence[int],
) -> Imported:
    """An import of the rows of clients, with the final read that they amount to.

    topics: how many partitions each has. ended: the clients whose records are complete.
    """
    last_ns = max((_last_ns(row) for row in rows), default=0)
    reader = max((row["client"] for row in rows), default=0) + 1
    next_op = max((row["op"] for row in rows), default=0) + 1
    made = [*rows, *log.rows(client=reader, first_op=next_op, at_ns=last_ns)]
    next_op = max((row["op"] for row in made), default=0) + 1
    for number, client in enumerate((*ended, reader)):
        made.append(
            {
                "op": next_op + number,
                "client": client,
                "f": "end",
                "type": "ok",
                "invoke_ns": last_ns,
                "complete_ns": last_ns,
            }
        )
    return Imported(
        history=made,
        plan=_plan(topics, promises, origin, consumers=any(row["f"] == "poll" for row in rows)),
    )


def _last_ns(row: Mapping[str, Any]) -> int:
    complete_ns = row.get("complete_ns")
    return int(row["invoke_ns"] if complete_ns is None else complete_ns)


def _plan(
    topics: Mapping[str, int], promises: Promises, origin: Origin, *, consumers: bool
) -> dict[str, Any]:
    unclean = str(promises.unclean_election).lower()
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
                "configs": {"unclean.leader.election.enable": unclean},
            }
            for topic, partitions in sorted(topics.items())
        ],
        "workload": {"consumers": int(consumers), "max_in_flight": promises.max_in_flight},
        "imported": origin.as_json(),
    }
