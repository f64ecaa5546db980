"""Which rows of clients, of the cluster and of faults must exist, and where they must agree."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from checkers.completeness.collected import Collected, listed, named, some
from checkers.history.history import OP_BITS

FAR_NS: Final = 366 * 24 * 3600 * 10**9
"""A time of the metadata log may come from a node's clock that a fault had set, but not by a year.
"""

NO_WRITER: Final = 0
"""The writer of histories that no harness recorded, such as test stories. Its numbers may have
gaps."""

OF_PARTITIONS: Final = ("send", "poll", "assign", "watermark", "final-read", "final-read-end")
"""The operations on one partition."""


def starts(e: Collected) -> Iterator[str]:
    """Every client has a start and an end row."""
    for f in ("start", "end"):
        if unknown := sorted(e.clients() - e.clients(f)):
            yield f"{len(unknown)} clients have no {f} row: {some(unknown)}"


def enough_clients(e: Collected) -> Iterator[str]:
    """As many clients recorded rows as the plan has."""
    wanted = len(e.produced) * (e.planned("producers") + e.planned("consumers"))
    apart = e.clients("watermark", "final-read-end")
    workers = e.clients("start") - apart
    if len(workers) < wanted:
        yield f"the plan has {wanted} producers and consumers, {len(workers)} recorded anything"


def asked(e: Collected) -> Iterator[str]:
    """The monitor asked for end offsets."""
    if not e.clients("watermark"):
        yield "no client asked for end offsets: the monitor's rows are missing"


def polled(e: Collected) -> Iterator[str]:
    """Consumers returned records of each topic that has any."""
    if e.planned("consumers"):
        read = {topic for topic, _ in e.places("poll")}
        held = {topic for topic, _ in e.places("final-read")}
        silent = sorted(name for name in e.produced if name in held and name not in read)
        if silent:
            yield f"consumers returned no record of {some(silent)}"


def assigned(e: Collected) -> Iterator[str]:
    """Some consumer was assigned each partition."""
    if e.planned("consumers"):
        found = e.places("assign")
        missing = [p for p in e.partitions if p[0] in e.produced and p not in found]
        if missing:
            yield f"no consumer was assigned {listed(missing)}"


def acks(e: Collected) -> Iterator[str]:
    """Sends have the acks of their topic."""
    for row in e.counts:
        planned = e.topics.get(row["topic"])
        if row["f"] == "send" and planned is not None and planned.get("acks") is not None:
            wanted = -1 if planned["acks"] == "all" else int(planned["acks"])
            if row["acks"] != wanted:
                yield f"sends to {row['topic']} have acks {row['acks']}, the plan says {wanted}"


def known_partitions(e: Collected) -> Iterator[str]:
    """No row is about a partition that the plan does not have."""
    rows = {(row["topic"], row["partition"]) for row in e.counts if row["topic"] is not None}
    planned = {*e.partitions, *((name, None) for name in e.topics)}
    if strange := sorted(rows - planned, key=str):
        yield f"there are rows about partitions that the plan does not have: {listed(strange)}"


def placed(e: Collected) -> Iterator[str]:
    """Every successful operation on a partition names the partition."""
    astray = sum(
        row["rows"]
        for row in e.counts
        if row["f"] in OF_PARTITIONS
        and row["type"] == "ok"
        and None in (row["topic"], row["partition"])
    )
    if astray:
        yield f"{astray} rows of successful operations name no partition"


def numbers(e: Collected) -> Iterator[str]:
    """Every operation number belongs to one operation."""
    repeated = sum(row["repeated"] for row in e.numbering)
    if repeated:
        yield f"{repeated} sends have the operation number of another"
    F = e.frames.engine.functions
    several = e.frames.polls.where(F.col("invoke_ns") != F.col("latest_ns"))
    if count := e.frames.count(several):
        yield f"{count} operation numbers belong to several polls"


def no_gaps(e: Collected) -> Iterator[str]:
    """Every operation that a writer numbered is in the history."""
    for row in e.numbering:
        counted = row["last"] - (row["writer"] << OP_BITS) + 1
        if row["writer"] < 0:
            yield f"{row['numbers']} operation numbers are below 0"
        elif row["writer"] != NO_WRITER and counted != row["numbers"]:
            lost = counted - row["numbers"]
            yield f"{lost} operations of writer {row['writer']} are not in the history"


def ended(e: Collected) -> Iterator[str]:
    """No client did anything after its end."""
    ends = {row["client"]: row["last_ns"] for row in e.counts if row["f"] == "end"}
    late = sorted(
        {
            row["client"]
            for row in e.counts
            if row["client"] in ends and row["last_ns"] > ends[row["client"]]
        }
    )
    if late:
        yield f"{len(late)} clients completed operations after their end: {some(late)}"


def leaders(e: Collected) -> Iterator[str]:
    """Leaders are recorded with epochs, and only for the plan's partitions."""
    strange = {(topic, p) for _, topic, p in e.led if topic in e.topics} - set(e.partitions)
    if strange:
        names = listed(sorted(strange, key=str))
        yield f"leaders are recorded for partitions that the plan does not have: {names}"
    for (kind, topic, partition), row in sorted(e.led.items(), key=str):
        if count := row["rows"] - row["whole"]:
            place = named((topic, partition))
            yield f"{count} rows of kind {kind} about {place} have no epoch or no start"


def epochs(e: Collected) -> Iterator[str]:
    """Every final epoch had a leader, and begins within the log."""
    for (kind, topic, partition), row in sorted(e.led.items(), key=str):
        led = e.led.get(("leader", topic, partition))
        if kind != "epoch" or row["epoch"] is None:
            continue
        if led is not None and led["epoch"] is not None and row["epoch"] > led["epoch"]:
            yield f"no leader is recorded for epoch {row['epoch']} of {named((topic, partition))}"
        ends = [end["end_offset"] for end in e.ends_of.get((topic, partition), {}).values()]
        if ends and row["start"] is not None and row["start"] > max(ends):
            yield f"an epoch of {named((topic, partition))} begins behind the end of every replica"


def times(e: Collected) -> Iterator[str]:
    """No time is later than the end of the run."""
    ended_ns = e.run.ended_ns
    if ended_ns is not None:
        if any(row["last_ns"] > ended_ns for row in e.counts):
            yield f"operations completed after the end of the run at {ended_ns} ns"
        faults = [row["fault_id"] for row in e.frames.fault_rows if _latest(row) > ended_ns]
        if faults:
            yield f"there are faults after the end of the run at {ended_ns} ns: {some(faults)}"
        F = e.frames.engine.functions
        at_ns = F.col("at_ns")
        far = (at_ns > F.lit(ended_ns + FAR_NS)) | (at_ns < F.lit(-FAR_NS))
        if count := e.frames.count(e.frames.cluster.where(far)):
            yield f"{count} rows of the cluster's table have a time in another year"


def fault_times(e: Collected) -> Iterator[str]:
    """Faults begin, take effect and end, in this order."""
    for row in e.frames.fault_rows:
        times = _when(row)
        if times != sorted(times) or (times and times[0] < 0):
            yield f"fault {row['fault_id']} was healed, or took effect, before it began"
        if None in (row["started_ns"], row["effective_ns"]) and row["took_effect"]:
            yield f"fault {row['fault_id']} took effect at an unknown time"


def _when(fault: Mapping[str, Any]) -> list[int]:
    """Return the times of a fault, in the order in which they must be."""
    times = (fault[name] for name in ("started_ns", "effective_ns", "healed_ns"))
    return [each for each in times if each is not None]


def _latest(fault: Mapping[str, Any]) -> int:
    return max(_when(fault), default=0)


def completed(e: Collected) -> Iterator[str]:
    """Every successful operation has completed."""
    open_ = sum(row["open"] for row in e.counts if row["type"] == "ok")
    if open_:
        yield f"{open_} operations succeeded but never completed"
