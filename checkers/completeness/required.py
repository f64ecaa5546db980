"""The table of the evidence that a run must contain. docs/evidence.md shows it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from checkers.completeness import documents, files, rows
from checkers.completeness.collected import Collected
from checkers.completeness.kinds import ANY, DEPLOYED, RUN_HERE, kind_of
from checkers.frames.frames import Frames
from checkers.verdict import Assumption

Lacks = Callable[[Collected], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One line of the table. of: the kinds of runs that need it. lacks: yields what is missing."""

    group: str
    must: str
    of: frozenset[str]
    lacks: Lacks


PLAN, RUN, CLIENTS, ROWS, AGREE, FILES = (
    "the plan says what was tested",
    "the run came to its end",
    "every client's rows are there",
    "every topic's rows are there",
    "plan, run and rows agree",
    "every replica's files were read",
)

REQUIRED: Final = tuple(
    Requirement(group=group, must=must, of=of, lacks=lacks)
    for group, must, of, lacks in (
        (PLAN, "the plan names the system under test", ANY, documents.system),
        (PLAN, "the plan names topics, with acks and partitions", ANY, documents.topics),
        (RUN, "run.json names the finished phases", RUN_HERE, documents.run_file),
        (RUN, "the final reads and the collection were finished", RUN_HERE, documents.phases),
        (
            RUN,
            "run.json does not say that the cluster had not settled",
            RUN_HERE,
            documents.settled,
        ),
        (RUN, "run.json does not say that final reads were cut short", RUN_HERE, documents.read),
        (CLIENTS, "every client has a start and an end row", RUN_HERE, rows.starts),
        (CLIENTS, "as many clients started as the plan has", RUN_HERE, rows.enough_clients),
        (CLIENTS, "the monitor asked for end offsets", RUN_HERE, rows.asked),
        (ROWS, "consumers returned records of every topic that has any", RUN_HERE, rows.polled),
        (ROWS, "consumers were assigned every partition", RUN_HERE, rows.assigned),
        (AGREE, "plan.json is the plan that was run", ANY, documents.same_plan),
        (AGREE, "sends have the acks of their topic", ANY, rows.acks),
        (AGREE, "rows are about the plan's partitions", ANY, rows.known_partitions),
        (AGREE, "successful operations name their partition", RUN_HERE, rows.placed),
        (AGREE, "leaders are recorded only for the plan's partitions", RUN_HERE, rows.leaders),
        (AGREE, "every epoch had a leader", DEPLOYED, rows.epochs),
        (AGREE, "every operation number is used once", RUN_HERE, rows.numbers),
        (AGREE, "the numbers of operations have no gaps", RUN_HERE, rows.no_gaps),
        (AGREE, "no client completed anything after its end", RUN_HERE, rows.ended),
        (AGREE, "nothing happened after the run's end", RUN_HERE, rows.times),
        (AGREE, "faults begin, take effect and end in this order", RUN_HERE, rows.fault_times),
        (AGREE, "successful operations have completed", RUN_HERE, rows.completed),
        (
            AGREE,
            "no files were read of nodes that highwater did not start",
            ANY - DEPLOYED,
            files.no_files,
        ),
        (FILES, "every assigned replica was read", DEPLOYED, files.replica_ends),
        (FILES, "as many replicas were read as the plan has", DEPLOYED, files.enough_replicas),
        (FILES, "every node's metadata log was read", DEPLOYED, files.metadata),
        (FILES, "a replica's batches reach from its start to its end", DEPLOYED, files.whole),
        (FILES, "some replica has all that the final reads returned", DEPLOYED, files.ends_reached),
        (
            FILES,
            "the final reads returned all that a replica knows to be committed",
            DEPLOYED,
            files.committed_read,
        ),
    )
)
"""The evidence that a run must contain, by kinds of runs. docs/evidence.md shows this table."""


def examined(frames: Frames) -> list[Assumption]:
    """Return one assumption for each group of the table that concerns the run; all are decisive."""
    collected = Collected(frames)
    kind = kind_of(frames.plan.get("system"))
    found: dict[str, list[str]] = {}
    for each in REQUIRED:
        if kind in each.of or each.group == PLAN:
            found.setdefault(each.group, []).extend(each.lacks(collected))
    return [
        Assumption(name=group, holds=not lacks, detail="; ".join(lacks), decisive=True)
        for group, lacks in found.items()
    ]
