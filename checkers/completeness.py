"""What a run must contain, and what lacks of it. It is examined before any detector.

A verdict of VALID says that something was looked at. So what the plan and the assignment promise
is compared with what was collected: clients, kinds of rows for each topic, replicas and their
batches, and whether plan, run.json and rows say the same. `REQUIRED` is the table of all of it;
each line is for some kinds of runs. What lacks makes the verdict UNKNOWN, with the reason.

It leaves to `assumptions` what is no question of completeness: faults, clocks, whether it settled.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from checkers.frames import TP, Frames
from checkers.history import METADATA_TOPIC, OP_BITS
from checkers.plan_file import EXTERNAL, IMPORTED
from checkers.verdict import Assumption

NAMED: Final = 5
"""How many of what lacks a detail names."""

DEPLOYED: Final = frozenset({"nodes", "kafka"})
"""The `system` of plans whose nodes the harness starts, and whose files it reads."""
RUN_HERE: Final = DEPLOYED | {EXTERNAL}
ANY: Final = RUN_HERE | {IMPORTED}

FAR_NS: Final = 366 * 24 * 3600 * 10**9
"""Times of the metadata log may be a node's own, whose clock a fault had set; not by a year."""

NOBODY: Final = 0
"""The writer of histories that no harness recorded, such as stories; it may count as it likes."""

LAST_PHASES: Final[Mapping[str, str]] = {
    "final reads": "run.json does not say that the final reads were finished",
    "collect": "run.json does not say that the nodes' files were collected",
}

Partition = tuple[str, int]


class Collected:
    """What the rows of a run hold, counted; small, whatever the length of the run."""

    def __init__(self, frames: Frames) -> None:
        self.frames = frames
        self.plan = frames.plan
        self.run = frames.sources.run_file

    @cached_property
    def counts(self) -> Sequence[Mapping[str, Any]]:
        """The rows of `Frames.counts`, in their own order."""
        rows = self.frames.engine.rows(self.frames.counts)
        return sorted(rows, key=lambda row: json.dumps(tuple(row.values()), default=str))

    @cached_property
    def numbering(self) -> Sequence[Mapping[str, Any]]:
        """The rows of `Frames.numbering`, by writer."""
        rows = self.frames.engine.rows(self.frames.numbering)
        return sorted(rows, key=lambda row: int(row["writer"]))

    @cached_property
    def topics(self) -> Mapping[str, Mapping[str, Any]]:
        """The plan's topics by name."""
        return {topic["name"]: topic for topic in self.plan.get("topics") or ()}

    @cached_property
    def partitions(self) -> Sequence[Partition]:
        """Every planned partition."""
        return [
            (name, partition)
            for name, topic in self.topics.items()
            for partition in range(int(topic.get("partitions") or 1))
        ]

    def planned(self, name: str) -> int:
        """A number of the plan's workload."""
        return int((self.plan.get("workload") or {}).get(name) or 0)

    def clients(self, *kinds: str) -> frozenset[int]:
        """The clients with rows of these kinds; with any rows, without."""
        return frozenset(row["client"] for row in self.counts if not kinds or row["f"] in kinds)

    def places(self, f: str, type_: str = "ok") -> frozenset[tuple[str | None, int | None]]:
        """The partitions with rows of a kind that ended so."""
        found = (row for row in self.counts if (row["f"], row["type"]) == (f, type_))
        return frozenset((row["topic"], row["partition"]) for row in found)

    @cached_property
    def ends(self) -> Mapping[tuple[int, str, int], Mapping[str, Any]]:
        """The rows of replica_ends by node, topic and partition."""
        rows = self.frames.engine.rows(self.frames.replica_ends)
        return {(row["node"], row["topic"], row["partition"]): row for row in rows}

    @cached_property
    def batches(self) -> Mapping[tuple[int, str, int], Mapping[str, Any]]:
        """first, last, records: of the batches of each replica, by node, topic and partition."""
        F = self.frames.engine.functions
        count = F.col("last_offset") - F.col("base_offset") + F.lit(1)
        found = self.frames.replicas.groupBy("node", *TP).agg(
            F.min("base_offset").alias("first"),
            F.max("last_offset").alias("last"),
            F.sum(count).alias("records"),
        )
        rows = self.frames.engine.rows(found)
        return {(row["node"], row["topic"], row["partition"]): row for row in rows}

    @cached_property
    def assigned(self) -> Mapping[Partition, frozenset[int]]:
        """The replicas of each partition by its last row; those in sync where no row names all."""
        F = self.frames.engine.functions
        rows = self.frames.engine.rows(
            self.frames.cluster.where(
                (F.col("kind") == F.lit("leader")) & F.col("topic").isNotNull()
            ).select(*TP, "partition_epoch", "at_ns", "isr", "replicas")
        )
        last: dict[Partition, tuple[tuple[bool, int, int], Iterable[int]]] = {}
        for row in rows:
            named = row["replicas"] is not None
            epoch = -1 if row["partition_epoch"] is None else row["partition_epoch"]
            order = (named, epoch, row["at_ns"])
            key = row["topic"], row["partition"]
            if key not in last or order > last[key][0]:
                last[key] = order, row["replicas"] if named else row["isr"] or ()
        return {key: frozenset(replicas) for key, (_, replicas) in last.items()}

    @cached_property
    def absent(self) -> frozenset[int]:
        """Nodes whose files nobody could read, as the run itself says."""
        return frozenset(node for node, _ in self.run.refused)


Lacks = Callable[[Collected], Iterable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One line of the table. of: the runs that it is for; lacks: what a run lacks of it."""

    group: str
    must: str
    of: frozenset[str]
    lacks: Lacks


def _system(e: Collected) -> Iterator[str]:
    if e.plan.get("system") not in ANY:
        yield f"plan.json: system is {e.plan.get('system')!r}, none of {', '.join(sorted(ANY))}"


def _topics(e: Collected) -> Iterator[str]:
    if not e.topics:
        yield "plan.json names no topics"
    for name, topic in e.topics.items():
        if topic.get("acks") is None or not topic.get("partitions"):
            yield f"plan.json: topic {name} has no acks or no partitions"


def _run_file(e: Collected) -> Iterator[str]:
    if e.run.finished is None:
        yield "run.json is missing, or does not say which phases were finished"


def _phases(e: Collected) -> Iterator[str]:
    if e.run.finished is not None:
        yield from (why for phase, why in LAST_PHASES.items() if phase not in e.run.finished)


def _settled(e: Collected) -> Iterator[str]:
    if e.run.settled is False:
        yield "run.json says that the cluster had not settled"


def _read(e: Collected) -> Iterator[str]:
    if e.run.final_reads_complete is False:
        yield "run.json says that the final reads were not complete"


def _starts(e: Collected) -> Iterator[str]:
    unknown = sorted(e.clients() - e.clients("start"))
    if unknown:
        yield f"{len(unknown)} clients have no start row: {_some(unknown)}"


def _enough_clients(e: Collected) -> Iterator[str]:
    wanted = len(e.topics) * (e.planned("producers") + e.planned("consumers"))
    apart = e.clients("watermark", "final-read", "final-read-end")
    workers = e.clients("start") - apart
    if len(workers) < wanted:
        yield f"the plan has {wanted} producers and consumers, {len(workers)} recorded anything"


def _asked(e: Collected) -> Iterator[str]:
    if not any(row["f"] == "watermark" for row in e.counts):
        yield "nobody asked for end offsets: the monitor's rows are missing"


def _polled(e: Collected) -> Iterator[str]:
    if e.planned("consumers"):
        read = {topic for topic, _ in e.places("poll")}
        held = {topic for topic, _ in e.places("final-read")}
        silent = sorted(name for name in e.topics if name in held and name not in read)
        if silent:
            yield f"consumers returned no record of {_some(silent)}"


def _assigned(e: Collected) -> Iterator[str]:
    if e.planned("consumers"):
        missing = [p for p in e.partitions if p not in e.places("assign")]
        if missing:
            yield f"no consumer was assigned {_listed(missing)}"


def _acks(e: Collected) -> Iterator[str]:
    for row in e.counts:
        planned = e.topics.get(row["topic"])
        if row["f"] == "send" and planned is not None and planned.get("acks") is not None:
            wanted = -1 if planned["acks"] == "all" else int(planned["acks"])
            if row["acks"] != wanted:
                yield f"sends to {row['topic']} have acks {row['acks']}, the plan says {wanted}"


def _known_topics(e: Collected) -> Iterator[str]:
    strange = sorted({row["topic"] for row in e.counts if row["topic"] is not None} - set(e.topics))
    if strange:
        yield f"rows of topics that the plan does not have: {_some(strange)}"


def _numbers(e: Collected) -> Iterator[str]:
    repeated = sum(row["repeated"] for row in e.numbering)
    if repeated:
        yield f"{repeated} sends have the operation number of another"
    F = e.frames.engine.functions
    several = e.frames.polls.where(F.col("invoke_ns") != F.col("latest_ns"))
    if count := e.frames.count(several):
        yield f"{count} operation numbers are those of several polls"


def _no_gaps(e: Collected) -> Iterator[str]:
    for row in e.numbering:
        counted = row["last"] - (row["writer"] << OP_BITS) + 1
        if row["writer"] != NOBODY and counted != row["numbers"]:
            lost = counted - row["numbers"]
            yield f"{lost} operations of writer {row['writer']} are not in the history"


def _ended(e: Collected) -> Iterator[str]:
    ends = {row["client"]: row["last_ns"] for row in e.counts if row["f"] == "end"}
    late = sorted(
        {
            row["client"]
            for row in e.counts
            if row["client"] in ends and row["last_ns"] > ends[row["client"]]
        }
    )
    if late:
        yield f"{len(late)} clients completed operations after their end: {_some(late)}"


def _times(e: Collected) -> Iterator[str]:
    ended_ns = e.run.ended_ns
    if ended_ns is not None:
        if any(row["last_ns"] > ended_ns for row in e.counts):
            yield f"operations were completed after the run had ended, at {ended_ns} ns"
        faults = [row["fault_id"] for row in e.frames.fault_rows if _latest(row) > ended_ns]
        if faults:
            yield f"faults after the run ended, at {ended_ns} ns: {_some(faults)}"
        F = e.frames.engine.functions
        at_ns = F.col("at_ns")
        far = (at_ns > F.lit(ended_ns + FAR_NS)) | (at_ns < F.lit(-FAR_NS))
        if count := e.frames.count(e.frames.cluster.where(far)):
            yield f"{count} rows of what the cluster said are of another year"


def _latest(fault: Mapping[str, Any]) -> int:
    """The last time that a row of faults names."""
    times = (fault[name] for name in ("started_ns", "effective_ns", "healed_ns"))
    return max((each for each in times if each is not None), default=0)


def _completed(e: Collected) -> Iterator[str]:
    open_ = sum(row["open"] for row in e.counts if row["type"] == "ok")
    if open_:
        yield f"{open_} operations succeeded and never completed"


def _replica_ends(e: Collected) -> Iterator[str]:
    missing = []
    for partition in e.partitions:
        wanted = e.assigned.get(partition, frozenset()) - e.absent
        missing += [
            f"{_named(partition)} of node {node}"
            for node in sorted(wanted)
            if (node, *partition) not in e.ends
        ]
    if missing:
        yield f"the files of {len(missing)} replicas were not read: {_some(missing)}"


def _enough_replicas(e: Collected) -> Iterator[str]:
    few = []
    for topic, partition in e.partitions:
        factor = int(e.topics[topic].get("replication_factor") or 0)
        nodes = {node for node, *place in e.ends if tuple(place) == (topic, partition)}
        if len(nodes | e.absent) < factor:
            few.append(f"{_named((topic, partition))} ({len(nodes)} of {factor})")
    if few:
        yield f"fewer replicas than the plan has were read: {_some(few)}"


def _metadata(e: Collected) -> Iterator[str]:
    nodes = {node for node, *_ in e.ends}
    copies = {node for node, topic, _ in e.ends if topic == METADATA_TOPIC}
    if without := sorted(nodes - copies):
        yield f"the metadata log of nodes {_some(without)} was not read"


def _whole_logs(e: Collected) -> Iterator[str]:
    torn = []
    for replica, end in e.ends.items():
        batches = e.batches.get(replica)
        if batches is None:
            whole = end["end_offset"] == end["start_offset"]
        else:
            length = batches["last"] + 1 - batches["first"]
            whole = batches["last"] + 1 == end["end_offset"] and batches["records"] == length
        if not whole:
            torn.append(replica)
    torn += [replica for replica in e.batches if replica not in e.ends]
    if torn:
        named = [f"{_named((topic, p))} of node {node}" for node, topic, p in sorted(torn)]
        yield f"the batches of {len(torn)} replicas do not reach to their ends: {_some(named)}"


def _ends_reached(e: Collected) -> Iterator[str]:
    rows = e.frames.engine.rows(e.frames.read_ends)
    short = []
    for row in rows:
        place = row["topic"], row["partition"]
        ends = [end["end_offset"] for (_, *at), end in e.ends.items() if tuple(at) == place]
        if ends and row["reached"] is not None and max(ends) < row["reached"]:
            short.append(place)
    if short:
        yield f"every replica ends before what the final reads returned: {_listed(sorted(short))}"


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
        (PLAN, "the plan names the system under test", ANY, _system),
        (PLAN, "the plan names topics, with acks and partitions", ANY, _topics),
        (RUN, "run.json names the finished phases", RUN_HERE, _run_file),
        (RUN, "the final reads and the collection were finished", RUN_HERE, _phases),
        (RUN, "run.json does not say that the cluster had not settled", RUN_HERE, _settled),
        (RUN, "run.json does not say that final reads were cut short", RUN_HERE, _read),
        (CLIENTS, "every client has a start row", RUN_HERE, _starts),
        (CLIENTS, "as many clients started as the plan has", RUN_HERE, _enough_clients),
        (CLIENTS, "the monitor asked for end offsets", RUN_HERE, _asked),
        (ROWS, "consumers returned records of every topic that has any", RUN_HERE, _polled),
        (ROWS, "consumers were assigned every partition", RUN_HERE, _assigned),
        (AGREE, "sends have the acks of their topic", ANY, _acks),
        (AGREE, "rows are of the plan's topics", ANY, _known_topics),
        (AGREE, "an operation number is one operation's", RUN_HERE, _numbers),
        (AGREE, "the numbers of operations have no gaps", RUN_HERE, _no_gaps),
        (AGREE, "no client completed anything after its end", RUN_HERE, _ended),
        (AGREE, "nothing happened after the run's end", RUN_HERE, _times),
        (AGREE, "what succeeded has completed", RUN_HERE, _completed),
        (FILES, "every assigned replica was read", DEPLOYED, _replica_ends),
        (FILES, "as many replicas were read as the plan has", DEPLOYED, _enough_replicas),
        (FILES, "every node's metadata log was read", DEPLOYED, _metadata),
        (FILES, "the batches of a replica reach from its start to its end", DEPLOYED, _whole_logs),
        (FILES, "some replica reaches to where the final reads came", DEPLOYED, _ends_reached),
    )
)
"""What a run must contain, by kinds of runs. docs/report.md shows this table."""


def examined(frames: Frames) -> list[Assumption]:
    """One assumption for each group of the table that concerns such a run; all are decisive."""
    evidence = Collected(frames)
    system = frames.plan.get("system")
    found: dict[str, list[str]] = {}
    for each in REQUIRED:
        if system in each.of or each.group == PLAN:
            found.setdefault(each.group, []).extend(each.lacks(evidence))
    return [
        Assumption(name=group, holds=not lacks, detail="; ".join(lacks), decisive=True)
        for group, lacks in found.items()
    ]


def _named(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _listed(partitions: Sequence[Partition]) -> str:
    return _some([_named(each) for each in partitions])


def _some(names: Sequence[object]) -> str:
    """The first few of them."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(str, names[:NAMED])) + more
