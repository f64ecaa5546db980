"""The assumptions of a check, examined before any detector.

An assumption that does not hold is not a violation: the history proves less than it should. A
decisive assumption that does not hold keeps a verdict from being VALID.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from checkers.completeness import required
from checkers.detectors.durability import cut_clients
from checkers.detectors.forgotten import with_forgotten_transactions
from checkers.frames.census import Census
from checkers.frames.frames import Frames
from checkers.frames.read_ends import held_up
from checkers.history.history import TP
from checkers.history.plan_file import EXTERNAL, IMPORTED, planned_partitions
from checkers.history.settings import TRANSACTIONS_TOPIC
from checkers.verdict import Assumption

TYPES = ("ok", "fail", "info")
"""How an operation may end."""

NAMED = 5
"""How many offenders an assumption's detail names."""


def examine(frames: Frames, census: Census) -> list[Assumption]:
    """All assumptions."""
    return [
        _tables_present(frames),
        *required.examined(frames),
        *_replicas_read(frames),
        *_zookeeper_lost_nothing(frames),
        _values_sent_once(frames),
        _histories_ended(frames),
        _clocks_monotonic(census),
        _rows_make_sense(census),
        *_faults(frames),
        _something_acknowledged(frames, census),
        _something_polled(frames, census),
        _final_reads_complete(frames),
        _final_commits_read(frames),
        _settled(frames),
        _nobody_refused(frames),
        _nobody_died(frames),
        _epochs_read(frames),
    ]


def _tables_present(frames: Frames) -> Assumption:
    missing = frames.sources.missing
    return Assumption(
        name="every table of the run is there",
        holds=not missing,
        detail=f"missing: {', '.join(missing)}; the run was cut short" if missing else "",
        decisive=True,
    )


def _replicas_read(frames: Frames) -> list[Assumption]:
    """Only for an external cluster: the files of other clusters are read, or reported missing."""
    if frames.plan.get("system") != EXTERNAL:
        return []
    return [
        Assumption(
            name="the replicas' files were compared",
            holds=False,
            detail="the cluster is external: its replicas and the decisions of its controllers "
            "cannot be checked",
            decisive=False,
        )
    ]


def _zookeeper_lost_nothing(frames: Frames) -> list[Assumption]:
    """Only beside ZooKeeper: brokers act on what it acknowledged."""
    if frames.plan.get("control_plane") != "zookeeper":
        return []
    lost = frames.sources.run_file.zookeeper_lost
    return [
        Assumption(
            name="ZooKeeper kept what it had acknowledged",
            holds=not lost,
            detail=f"{_joined(lost)}. This is a fault of ZooKeeper; most of the known ones are "
            "repaired in 3.9.4"
            if lost
            else "",
            decisive=True,
        )
    ]


def _values_sent_once(frames: Frames) -> Assumption:
    count = 0 if frames.sent_twice is None else frames.count(frames.sent_twice)
    return Assumption(
        name="every value was sent once",
        holds=count == 0,
        detail=f"{count} values were sent more than once" if count else "",
        decisive=True,
    )


def _histories_ended(frames: Frames) -> Assumption:
    cut = cut_clients(frames)
    count = frames.count(cut)
    named = frames.engine.rows(cut.orderBy("client").limit(NAMED))
    streams = frames.sources.cut
    detail = ""
    if count:
        listed = ", ".join(str(row["client"]) for row in named)
        detail = f"{count} clients have no end row ({listed}{', …' if count > NAMED else ''})"
    if streams:
        detail += f"{'; ' if detail else ''}cut streams: {', '.join(streams)}"
    return Assumption(
        name="every history ended in order",
        holds=not count and not streams,
        detail=detail,
        decisive=True,
    )


def _clocks_monotonic(census: Census) -> Assumption:
    found = []
    if census.backwards:
        found.append(f"{census.backwards} operations end before they begin, or before the run")
    if census.astray:
        found.append(f"{census.astray} clients did something before their start or after their end")
    return Assumption(
        name="clocks were monotonic", holds=not found, detail="; ".join(found), decisive=True
    )


def _rows_make_sense(census: Census) -> Assumption:
    strange = sum(rows for (_, type_), rows in census.operations.items() if type_ not in TYPES)
    found = (
        [f"{strange} rows are neither {', '.join(TYPES[:-1])} nor {TYPES[-1]}"] if strange else []
    )
    found += [f"{census.valueless} sends have no value or no topic"] if census.valueless else []
    return Assumption(
        name="every operation can be read", holds=not found, detail="; ".join(found), decisive=True
    )


def _faults(frames: Frames) -> list[Assumption]:
    """A random mix may have faults without effect. A script shows nothing unless each of its steps
    took effect."""
    rows = sorted(frames.fault_rows, key=lambda row: int(row["fault_id"]))
    nemesis = frames.plan.get("nemesis") or {}
    scripted = bool(nemesis.get("events"))
    planned = bool(rows or scripted or nemesis.get("faults") or nemesis.get("mix"))
    futile = [row for row in rows if not row["took_effect"]]
    took = len(rows) - len(futile)
    open_ = [row for row in rows if row["took_effect"] and row["healed_ns"] is None]
    return [
        Assumption(
            name="a planned fault took effect",
            holds=took > 0 or not planned,
            detail=f"{took} of {len(rows)} faults took effect" if planned else "none was planned",
            decisive=True,
        ),
        Assumption(
            name="every fault took effect",
            holds=not futile,
            detail=f"no effect: {_named(futile)}" if futile else "",
            decisive=scripted,
        ),
        Assumption(
            name="every fault was healed",
            holds=not open_,
            detail=f"not healed: {_named(open_)}" if open_ else "",
            decisive=False,
        ),
    ]


def _named(rows: Sequence[Mapping[str, Any]]) -> str:
    """Name faults with their errors."""
    return _joined(
        [
            f"fault {row['fault_id']} ({row['label'] or row['fault']})"
            + (f": {row['error']}" if row["error"] else "")
            for row in rows
        ]
    )


def _joined(sentences: Sequence[str]) -> str:
    """Join the first few sentences, and count the others."""
    listed = "; ".join(sentences[:NAMED])
    return listed + (f"; and {len(sentences) - NAMED} more" if len(sentences) > NAMED else "")


def _something_acknowledged(frames: Frames, census: Census) -> Assumption:
    planned = [topic.get("name") for topic in frames.plan.get("topics") or ()]
    silent = [topic for topic in planned if topic not in census.acked_topics]
    empty = not census.acked_topics
    detail = "no write was acknowledged" if empty else f"none in {', '.join(map(str, silent))}"
    return Assumption(
        name="writes were acknowledged in every topic",
        holds=not empty and not silent,
        detail=detail if empty or silent else "",
        decisive=True,
    )


def _something_polled(frames: Frames, census: Census) -> Assumption:
    planned = (frames.plan.get("workload") or {}).get("consumers", 0)
    polled = census.rows("poll", "ok")
    return Assumption(
        name="consumers read",
        holds=bool(polled) or not planned,
        detail="" if polled else "no consumer returned a record",
        decisive=True,
    )


def _final_reads_complete(frames: Frames) -> Assumption:
    rows = frames.engine.rows(frames.complete.select(*TP))
    reached = {(row["topic"], row["partition"]) for row in rows}
    sent = frames.engine.rows(
        frames.sends.where(frames.engine.functions.col("topic").isNotNull()).select(*TP).distinct()
    )
    wanted = {(row["topic"], row["partition"]) for row in sent}
    wanted |= planned_partitions(frames.plan).keys()
    missing = sorted(wanted - reached)
    stopped = _held_up(frames) if missing else {}
    names = (f"{topic}-{p}{stopped.get((topic, p), '')}" for topic, p in missing[:NAMED])
    listed = ", ".join(names)
    return Assumption(
        name="final reads are complete",
        holds=bool(reached) and not missing,
        detail=f"{len(missing)} partitions were not read to the end: {listed}"
        + ("; …" if len(missing) > NAMED else "")
        if missing
        else "",
        decisive=True,
    )


def _final_commits_read(frames: Frames) -> Assumption:
    F = frames.engine.functions
    unread = (F.col("f") == F.lit("final-committed")) & (F.col("type") != F.lit("ok"))
    rows = frames.engine.rows(frames.rare_rows.where(unread).select("group", "error").distinct())
    named = sorted((row["group"] or "", row["error"] or "no answer") for row in rows)
    groups = ", ".join(f"{group} ({error})" for group, error in named[:NAMED])
    more = "; …" if len(named) > NAMED else ""
    return Assumption(
        name="final commits are read",
        holds=not named,
        detail=f"nobody told what these groups have committed: {groups}{more}" if named else "",
        decisive=True,
    )


def _held_up(frames: Frames) -> dict[tuple[str, int], str]:
    """Return why the final read ended in each partition with an open transaction, in words."""
    reads = held_up(frames.engine, frames.other_rows, frames.cluster, frames.replica_ends)
    reads = with_forgotten_transactions(frames, frames.engine.materialize(reads))
    return {
        (row["topic"], row["partition"]): (
            f" (readers of committed records stop at offset {row['offset']}: a transaction is open"
            f"{_why_open(frames, row.get('cause_id'))})"
        )
        for row in frames.engine.rows(reads)
    }


def _why_open(frames: Frames, cause_id: int | None) -> str:
    if cause_id is None:
        return ""
    lost = frames.explanations[cause_id].judged
    why = "which its coordinator may have forgotten"
    if lost.topic != TRANSACTIONS_TOPIC:
        why = "and its marker may be lost"
    return f", {why}: {lost.topic}-{lost.partition} lost records"


def _nobody_refused(frames: Frames) -> Assumption:
    """Not decisive: a node is right to refuse files that a fault damaged, and the records of the
    other nodes can be judged without it."""
    refused = [text for _, text in frames.sources.run_file.refused]
    return Assumption(
        name="no node refused its files",
        holds=not refused,
        detail="; ".join(refused),
        decisive=False,
    )


def _nobody_died(frames: Frames) -> Assumption:
    """Not decisive: a cluster must survive it, and other assumptions require what a verdict needs:
    the cluster settled, the final reads are complete, the files were read. A node that refused its
    files has an assumption of its own."""
    run_file = frames.sources.run_file
    refused = {node for node, _ in run_file.refused}
    died = [text for node, text in run_file.deaths if node not in refused]
    return Assumption(
        name="no node died by itself",
        holds=not died,
        detail=_joined(died),
        decisive=False,
    )


def _epochs_read(frames: Frames) -> Assumption:
    """Not decisive: the epochs matter only for losses, and there the contract asks for them."""
    F = frames.engine.functions
    rows = frames.cluster.where(F.col("kind") == F.lit("epoch")).select(*TP).distinct()
    read = {(row["topic"], row["partition"]) for row in frames.engine.rows(rows)}
    names = [f"{topic}-{p}" for topic, p in sorted(planned_partitions(frames.plan).keys() - read)]
    why = dict.fromkeys(frames.sources.run_file.why_epochs_unread(name) for name in names)
    return Assumption(
        name="the final leader epochs were read",
        holds=not names,
        detail=f"not read for {_some(names)}: {'; '.join(why)}" if names else "",
        decisive=False,
    )


def _some(names: Sequence[str]) -> str:
    """Return the first few names."""
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


def _settled(frames: Frames) -> Assumption:
    """Every planned partition had its complete ISR and a leader when the final reads began, except
    for nodes that refused their files."""
    name = "the cluster settled"
    if frames.plan.get("system") == IMPORTED:
        detail = "unknown for an import; the final reads decide"
        return Assumption(name=name, holds=True, detail=detail, decisive=True)
    finished = frames.sources.run_file.finished
    unsettled = _unsettled(frames)
    detail = ""
    if finished is not None and "settle" not in finished:
        detail = "the run did not finish its settle phase"
    elif unsettled:
        detail = f"not every replica was in sync: {', '.join(unsettled[:NAMED])}"
    return Assumption(name=name, holds=not detail, detail=detail, decisive=True)


def _unsettled(frames: Frames) -> list[str]:
    F = frames.engine.functions
    began = frames.engine.rows(
        frames.history.where(F.col("f").isin("final-read", "final-read-end")).agg(
            F.min("invoke_ns").alias("at_ns")
        )
    )[0]["at_ns"]
    if began is None:
        return ["no final read began"]
    rows = frames.cluster.where(
        (F.col("kind") == F.lit("leader")) & (F.col("at_ns") <= F.lit(began))
    ).select(*TP, "leader", "leader_epoch", "partition_epoch", "isr", "at_ns")
    order = frames.engine.window.partitionBy(*TP).orderBy(
        F.coalesce("leader_epoch", F.lit(-1)).desc(),
        F.coalesce("partition_epoch", F.lit(-1)).desc(),
        F.col("at_ns").desc(),
    )
    last = rows.withColumn("rank", F.row_number().over(order)).where(F.col("rank") == F.lit(1))
    state = {(row["topic"], row["partition"]): row for row in frames.engine.rows(last)}
    refused = {node for node, _ in frames.sources.run_file.refused}
    found = []
    for (topic, partition), factor in sorted(planned_partitions(frames.plan).items()):
        row = state.get((topic, partition))
        if row is None:
            found.append(f"{topic}-{partition} (nothing recorded)")
        elif row["leader"] is None or row["leader"] < 0:
            found.append(f"{topic}-{partition} (no leader)")
        elif factor is not None and len(refused.union(row["isr"] or ())) < factor:
            found.append(f"{topic}-{partition} (ISR {row['isr']})")
    return found
