"""What the rows of clients, of the cluster and of the faults must hold, and agree upon."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from checkers.completeness.collected import Collected, listed, named, some
from checkers.history.history import OP_BITS

FAR_NS: Final = 366 * 24 * 3600 * 10**9
"""Times of the metadata log may be a node's own, whose clock a fault had set; not by a year."""

NOBODY: Final = 0
"""The writer of histories that no harness recorded, such as stories; it may count as it likes."""

OF_PARTITIONS: Final = ("send", "poll", "assign", "watermark", "final-read", "final-read-end")
"""What is done to one partition."""


def starts(e: Collected) -> Iterator[str]:
    """How every client began and ended."""
    for f in ("start", "end"):
        if unknown := sorted(e.clients() - e.clients(f)):
            yield f"{len(unknown)} clients have no {f} row: {some(unknown)}"


def enough_clients(e: Collected) -> Iterator[str]:
    """As many clients as the plan has."""
    wanted = len(e.topics) * (e.planned("producers") + e.planned("consumers"))
    apart = e.clients("watermark", "final-read-end")
    workers = e.clients("start") - apart
    if len(workers) < wanted:
        yield f"the plan has {wanted} producers and consumers, {len(workers)} recorded anything"


def asked(e: Collected) -> Iterator[str]:
    """End offsets that somebody asked for."""
    if not e.clients("watermark"):
        yield "nobody asked for end offsets: the monitor's rows are missing"


def polled(e: Collected) -> Iterator[str]:
    """Records that consumers were given, of each topic that has any."""
    if e.planned("consumers"):
        read = {topic for topic, _ in e.places("poll")}
        held = {topic for topic, _ in e.places("final-read")}
        silent = sorted(name for name in e.topics if name in held and name not in read)
        if silent:
            yield f"consumers returned no record of {some(silent)}"


def assigned(e: Collected) -> Iterator[str]:
    """Where consumers began to read each partition."""
    if e.planned("consumers"):
        missing = [p for p in e.partitions if p not in e.places("assign")]
        if missing:
            yield f"no consumer was assigned {listed(missing)}"


def acks(e: Collected) -> Iterator[str]:
    """Sends with the acks of their topic."""
    for row in e.counts:
        planned = e.topics.get(row["topic"])
        if row["f"] == "send" and planned is not None and planned.get("acks") is not None:
            wanted = -1 if planned["acks"] == "all" else int(planned["acks"])
            if row["acks"] != wanted:
                yield f"sends to {row['topic']} have acks {row['acks']}, the plan says {wanted}"


def known_partitions(e: Collected) -> Iterator[str]:
    """Nothing of partitions that the plan does not have."""
    rows = {(row["topic"], row["partition"]) for row in e.counts if row["topic"] is not None}
    planned = {*e.partitions, *((name, None) for name in e.topics)}
    if strange := sorted(rows - planned, key=str):
        yield f"rows of partitions that the plan does not have: {listed(strange)}"


def placed(e: Collected) -> Iterator[str]:
    """The partition of each operation that succeeded."""
    astray = sum(
        row["rows"]
        for row in e.counts
        if row["f"] in OF_PARTITIONS
        and row["type"] == "ok"
        and None in (row["topic"], row["partition"])
    )
    if astray:
        yield f"{astray} rows of what succeeded name no partition"


def numbers(e: Collected) -> Iterator[str]:
    """Operation numbers that are one operation each."""
    repeated = sum(row["repeated"] for row in e.numbering)
    if repeated:
        yield f"{repeated} sends have the operation number of another"
    F = e.frames.engine.functions
    several = e.frames.polls.where(F.col("invoke_ns") != F.col("latest_ns"))
    if count := e.frames.count(several):
        yield f"{count} operation numbers are those of several polls"


def no_gaps(e: Collected) -> Iterator[str]:
    """Every operation that a writer numbered."""
    for row in e.numbering:
        counted = row["last"] - (row["writer"] << OP_BITS) + 1
        if row["writer"] < 0:
            yield f"{row['numbers']} operation numbers are below 0"
        elif row["writer"] != NOBODY and counted != row["numbers"]:
            lost = counted - row["numbers"]
            yield f"{lost} operations of writer {row['writer']} are not in the history"


def ended(e: Collected) -> Iterator[str]:
    """Nothing that a client did after its end."""
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
    """Who led the plan's partitions, with epochs: a leader is nothing without one."""
    strange = {(topic, p) for _, topic, p in e.led if topic in e.topics} - set(e.partitions)
    if strange:
        said = listed(sorted(strange, key=str))
        yield f"leaders of partitions that the plan does not have: {said}"
    for (kind, topic, partition), row in sorted(e.led.items(), key=str):
        if count := row["rows"] - row["whole"]:
            place = named((topic, partition))
            yield f"{count} rows of kind {kind} of {place} have no epoch or no start"


def epochs(e: Collected) -> Iterator[str]:
    """At the end, only epochs in which somebody led, and that began within the log."""
    for (kind, topic, partition), row in sorted(e.led.items(), key=str):
        led = e.led.get(("leader", topic, partition))
        if kind != "epoch" or row["epoch"] is None:
            continue
        if led is not None and led["epoch"] is not None and row["epoch"] > led["epoch"]:
            yield f"nobody led {named((topic, partition))} in epoch {row['epoch']}, which it has"
        ends = [end["end_offset"] for (_, *at), end in e.ends.items() if at == [topic, partition]]
        if ends and row["start"] is not None and row["start"] > max(ends):
            yield f"an epoch of {named((topic, partition))} begins behind the end of every replica"


def times(e: Collected) -> Iterator[str]:
    """No times after the run had ended."""
    ended_ns = e.run.ended_ns
    if ended_ns is not None:
        if any(row["last_ns"] > ended_ns for row in e.counts):
            yield f"operations were completed after the run had ended, at {ended_ns} ns"
        faults = [row["fault_id"] for row in e.frames.fault_rows if _latest(row) > ended_ns]
        if faults:
            yield f"faults after the run had ended, at {ended_ns} ns: {some(faults)}"
        F = e.frames.engine.functions
        at_ns = F.col("at_ns")
        far = (at_ns > F.lit(ended_ns + FAR_NS)) | (at_ns < F.lit(-FAR_NS))
        if count := e.frames.count(e.frames.cluster.where(far)):
            yield f"{count} rows of what the cluster said are of another year"


def fault_times(e: Collected) -> Iterator[str]:
    """Faults that begin, take effect and end, in this order."""
    for row in e.frames.fault_rows:
        times = _when(row)
        if times != sorted(times) or (times and times[0] < 0):
            yield f"fault {row['fault_id']} was healed, or took effect, before it began"
        if None in (row["started_ns"], row["effective_ns"]) and row["took_effect"]:
            yield f"fault {row['fault_id']} took effect, and nobody knows when"


def _when(fault: Mapping[str, Any]) -> list[int]:
    """The times that a row of faults names, in the order in which they must be."""
    times = (fault[name] for name in ("started_ns", "effective_ns", "healed_ns"))
    return [each for each in times if each is not None]


def _latest(fault: Mapping[str, Any]) -> int:
    return max(_when(fault), default=0)


def completed(e: Collected) -> Iterator[str]:
    """When each operation that succeeded was completed."""
    open_ = sum(row["open"] for row in e.counts if row["type"] == "ok")
    if open_:
        yield f"{open_} operations succeeded and never completed"
