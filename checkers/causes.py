"""Causes: which recorded events can explain that an acknowledged write is gone.

A permission to lose a write holds only where its cause is in the record. The causes are

- an *election*: another replica became leader of the partition and its leader epoch starts, in the
  final log, at some offset. Whatever the deposed leader had at or above that offset was cut off
  (KIP-101, KIP-279). The deposed leader may go on acknowledging acks=1 writes until it learns of
  its deposition, so the election reaches until that moment: the first time the node itself
  reported the new epoch, else the end of the fault that kept it from learning, else its election.
  Elections after the final read (of a shutdown, say) explain nothing.
- a *state loss*: replicas in sync lost what they had (their power, their disk), and the next
  leader, perhaps one of them, began its epoch at some offset. It reaches back from the first loss.
- a *quorum loss*: a majority of the controllers' voters lost their disks together, and with them
  leaders, epochs and in-sync replicas. It explains whatever was lost of what was written until a
  majority was whole again.
- a *fault* that touched the leader in power: explains acks=0 sends that no one ever asked about.

Who led when is enough for what is explained by time alone (an end that goes back, a producer that
is not known any more). Where nobody led in the end, an epoch's start in the final log was not read:
its cause explains nothing by offset.

Elections and faults are few beside a history, so this part is plain Python over aggregates; losses
are joined with the result inside the engine. Whether a cause permits a loss is the contract's.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import pyarrow as pa

from checkers.engine import Engine, Frame
from checkers.lookup import LeastFrom, Spans
from checkers.quorum_loss import QuorumLoss, learn_quorum_losses
from checkers.recorded_faults import Fault, read_fault, seconds, touching
from checkers.settings import FOREVER_NS, Settings
from checkers.state_loss import VIEW_SLACK_NS, Members, StateLoss, lacking, losses_of

SLACK_NS = 2_000_000_000
"""How long after its fault's end, or after an election nobody resisted, a deposed leader may need
to learn of it, where nobody saw it learn; and a client to find the new leader."""

LAST_EPOCH = 1 << 20
"""More leader epochs than a partition has in any run."""

NO_LEADER = -1

SettingsOf = Callable[[str], Settings]
"""The least that was ever promised to the topic of this name."""

Partition = tuple[str, int]


class CauseKind(StrEnum):
    """What kind of event explains a loss."""

    ELECTION = "election"
    STATE_LOSS = "state-loss"
    QUORUM_LOSS = "quorum-loss"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One event of one partition that can explain losses.

    from_ns .. near_until_ns: when clients may have felt it. start_offset: everything at or above
    it that the deposed leader held was cut; None where that was not read. until_ns: the last moment
    at which the deposed leader may have accepted a write. left_isr: the new leader was not in the
    in-sync replicas; sole_isr: they were the deposed leader alone. vanished_ns: since when a
    deposed leader, or after an election from outside the in-sync replicas whoever it was, led of
    whose epochs the final log has no record: whatever was accepted is gone, even below the next
    epoch's start, where an older tail took its place (KIP-279). lost: of a
    state loss. chain: the last epoch that begins at start_offset in the final log; causes that
    share it cannot be told apart by offset.
    strength: the least of it explains the loss of an acks=all write best. strength_alone: of those
    that cannot be told apart, the least explains best that of a write which its leader alone had.
    """

    kind: CauseKind
    topic: str
    partition: int
    text: str
    from_ns: int
    near_until_ns: int
    epoch: int | None = None
    leader: int | None = None
    deposed: int | None = None
    start_offset: int | None = None
    elected_ns: int | None = None
    until_ns: int | None = None
    left_isr: bool = False
    sole_isr: bool = False
    vanished_ns: int | None = None
    lost: StateLoss | None = None
    chain: int = LAST_EPOCH
    strength: int = 3
    strength_alone: int = 0

    @property
    def of_state(self) -> bool:
        """Replicas lost what they had, however long they had had it."""
        return self.lost is not None or self.kind is CauseKind.QUORUM_LOSS

    def took_committed(self, settings: Settings) -> bool:
        """Whether a partition of these settings may have lost committed records by it."""
        if self.kind is CauseKind.QUORUM_LOSS:
            return True
        if self.lost is not None:
            return self.lost.toll(settings) is not None
        return self.left_isr and (
            settings.unclean_election or (settings.min_insync_replicas <= 1 and self.sole_isr)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """All causes in order, elections first; a cause's number is its place.

    led: partitions whose leaders are in the record; elsewhere the absence of a cause means nothing.
    recorded: those of them whose final leader epochs are, too; elsewhere the absence of a cause
    means nothing to what is explained by its offset.
    """

    causes: tuple[Cause, ...]
    led: frozenset[Partition]
    recorded: frozenset[Partition]

    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("number", pa.int32()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("epoch", pa.int32()),
            ("leader", pa.int32()),
            ("start_offset", pa.int64()),
            ("elected_ns", pa.int64()),
            ("until_ns", pa.int64()),
            ("from_ns", pa.int64()),
            ("near_until_ns", pa.int64()),
            ("vanished_ns", pa.int64()),
            ("chain", pa.int32()),
            ("strength", pa.int32()),
            ("strength_alone", pa.int32()),
            ("of_state", pa.bool_()),
        ]
    )

    def rows(self) -> list[dict[str, Any]]:
        """The causes as rows of `schema`, to be joined with losses."""
        names = [name for name in self.schema.names if name != "number"]
        return [
            {"number": number} | {name: getattr(cause, name) for name in names}
            for number, cause in enumerate(self.causes)
        ]


@dataclass
class _Record:
    """What the cluster's table says of one partition."""

    leaders: list[Mapping[str, Any]] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)  # final leader epoch -> start offset
    learned_ns: dict[int, list[tuple[int, int]]] = field(
        default_factory=dict
    )  # node -> (epoch, at)
    end_offset: int | None = None
    read_ns: int | None = None  # when the final read of the partition was over

    @cached_property
    def effective_starts(self) -> LeastFrom[tuple[int, int]]:
        """(start offset, -epoch) by leader epoch: the last epoch that starts there."""
        return LeastFrom((epoch, (start, -epoch)) for epoch, start in self.starts.items())

    @cached_property
    def knew_ns(self) -> dict[int, LeastFrom[int]]:
        """When each node knew of an epoch or of a later one."""
        return {node: LeastFrom(seen) for node, seen in self.learned_ns.items()}


def learn_causes(
    engine: Engine, cluster: Frame, faults: Frame, complete: Frame, settings: SettingsOf
) -> Causes:
    """All causes in the record.

    cluster, faults: frames of their schemas. complete: topic, partition, end_offset of the final
    log, read_ns when it had been read: what happened later explains nothing that was read.
    """
    ordered = sorted(engine.rows(faults), key=lambda row: row["fault_id"])
    known = [fault for row in ordered if (fault := read_fault(row)) is not None]
    in_force = Spans((f.started_ns, f.healed_ns + SLACK_NS, f) for f in known)
    records = _read_cluster(engine, cluster, complete)
    fencing = _read_fencing(engine, cluster)
    forgotten = learn_quorum_losses(engine, cluster, known)
    elections: list[Cause] = []
    losses: list[Cause] = []
    troubles: list[Cause] = []
    for partition, record in sorted(records.items()):
        elections.extend(_elections(partition, record, in_force))
        losses.extend(_state_losses(partition, record, known, fencing, settings(partition[0])))
        losses.extend(_forgotten(partition, record, each) for each in forgotten)
        troubles.extend(_leader_troubles(partition, record, known))
    return Causes(
        causes=(*elections, *losses, *troubles),
        led=frozenset(p for p, r in records.items() if r.leaders),
        recorded=frozenset(p for p, r in records.items() if r.leaders and r.starts),
    )


def _forgotten(partition: Partition, record: _Record, loss: QuorumLoss) -> Cause:
    """Whoever leads since, and from whichever offset on: it may know of nothing before."""
    led = [row["leader"] for row in record.leaders if row["at_ns"] <= loss.from_ns]
    return Cause(
        kind=CauseKind.QUORUM_LOSS,
        topic=partition[0],
        partition=partition[1],
        text=loss.text,
        from_ns=loss.from_ns - SLACK_NS,
        near_until_ns=loss.back_ns + SLACK_NS,
        epoch=LAST_EPOCH,
        leader=NO_LEADER,
        deposed=led[-1] if led else None,
        start_offset=0,
        elected_ns=loss.from_ns,
        until_ns=loss.back_ns + SLACK_NS,
        chain=0,
        strength=0,
    )


def _read_fencing(engine: Engine, cluster: Frame) -> list[dict[str, Any]]:
    """Which brokers were fenced and unfenced, in the order of the metadata log."""
    F = engine.functions
    fencing = (F.col("kind") == F.lit("fenced")) | (F.col("kind") == F.lit("unfenced"))
    told = cluster.where(fencing & F.col("log_offset").isNotNull())
    return engine.rows(told.select("kind", "node", "at_ns", "log_offset").orderBy("log_offset"))


def _read_cluster(engine: Engine, cluster: Frame, complete: Frame) -> dict[Partition, _Record]:
    F = engine.functions
    records: dict[Partition, _Record] = defaultdict(_Record)
    named = cluster.where(F.col("topic").isNotNull() & F.col("partition").isNotNull())
    leaders = (
        named.where((F.col("kind") == F.lit("leader")) & F.col("leader_epoch").isNotNull())
        .select(
            "topic", "partition", "leader", "leader_epoch", "partition_epoch", "isr", "elr", "at_ns"
        )
        .orderBy("topic", "partition", "leader_epoch", "partition_epoch", "at_ns")
    )
    for row in engine.rows(leaders):
        records[row["topic"], row["partition"]].leaders.append(row)
    starts = (
        named.where((F.col("kind") == F.lit("epoch")) & F.col("start_offset").isNotNull())
        .groupBy("topic", "partition", "leader_epoch")
        .agg(F.min("start_offset").alias("start_offset"))
    )
    for row in engine.rows(starts):
        record = records[row["topic"], row["partition"]]
        record.starts[row["leader_epoch"]] = row["start_offset"]
    views = (
        named.where((F.col("kind") == F.lit("view")) & F.col("node").isNotNull())
        .groupBy("topic", "partition", "node", "leader_epoch")
        .agg(F.min("at_ns").alias("at_ns"))
        .orderBy("topic", "partition", "node", "at_ns")
    )
    for row in engine.rows(views):
        if row["leader_epoch"] is not None:
            seen = records[row["topic"], row["partition"]].learned_ns
            seen.setdefault(row["node"], []).append((row["leader_epoch"], row["at_ns"]))
    for row in engine.rows(complete):
        record = records[row["topic"], row["partition"]]
        record.end_offset, record.read_ns = row["end_offset"], row["read_ns"]
    return dict(records)


def _elections(partition: Partition, record: _Record, faults: Spans[Fault]) -> Iterable[Cause]:
    """One cause per leader that took over from another node, or leads again and might not."""
    previous: Mapping[str, Any] | None = None  # the last row of an earlier epoch
    deposed: Mapping[str, Any] | None = None  # the last row that had a leader, of an earlier epoch
    firsts, lasts = _first_of_each_epoch(record.leaders), _last_of_each_epoch(record.leaders)
    for number, row in enumerate(firsts):
        elected = _has_leader(row)
        if elected and deposed is not None:
            before = map(firsts.__getitem__, reversed(range(number)))
            cause = _election(partition, record, faults, row, deposed, previous or deposed, before)
            if cause is not None:
                yield cause
        previous = lasts[row["leader_epoch"]]
        if elected:
            deposed = previous if _has_leader(previous) else row


def _election(
    partition: Partition,
    record: _Record,
    faults: Spans[Fault],
    row: Mapping[str, Any],
    deposed: Mapping[str, Any],
    previous: Mapping[str, Any],
    before: Iterable[Mapping[str, Any]],
) -> Cause | None:
    """before: the first rows of earlier epochs, the latest first."""
    epoch, leader, old = row["leader_epoch"], row["leader"], deposed["leader"]
    chain, start_offset = _effective_start(record, epoch)
    elected_ns = row["at_ns"]
    isr = previous["isr"] or deposed["isr"]
    sole = isr is not None and list(isr) == [old]
    might_lead = isr if (told := _who_might_lead(previous)) is None else told
    outside = might_lead is not None and leader not in might_lead
    if _too_late(record, elected_ns) or (leader == old and not outside):
        return None
    blamed = touching([*faults.meeting(elected_ns, elected_ns)], old)
    until_ns, how = _reach(record, old, epoch, elected_ns, blamed)
    at = seconds(elected_ns)
    ended = f"leads again from {at}" if leader == old else f"was deposed at {at} by node {leader}"
    text = (
        f"node {old}, leader of {partition[0]}-{partition[1]} in epoch {deposed['leader_epoch']}, "
        f"{ended} in epoch {epoch} {_from(start_offset)}; {how}; "
        + ("; ".join(fault.describe() for fault in blamed) or "no fault touched it")
        + ("; the new leader was not in sync" if outside else "")
        + ("; the old one was the only in-sync replica" if sole else "")
    )
    return Cause(
        kind=CauseKind.ELECTION,
        topic=partition[0],
        partition=partition[1],
        text=text,
        from_ns=min([elected_ns - SLACK_NS, *(fault.started_ns for fault in blamed)]),
        near_until_ns=until_ns + SLACK_NS,
        epoch=epoch,
        leader=leader,
        deposed=old,
        start_offset=start_offset,
        elected_ns=elected_ns,
        until_ns=until_ns,
        left_isr=outside,
        sole_isr=sole and outside and leader != old,
        vanished_ns=(
            None if start_offset is None else _vanished_ns(record, None if outside else old, before)
        ),
        chain=chain,
        strength=1 if outside else 3,
        strength_alone=1 if leader == old else 0,
    )


def _who_might_lead(row: Mapping[str, Any]) -> Sequence[int] | None:
    """Replicas in sync, and those that left an in-sync set too small and are eligible (KIP-966);
    None where the record does not say."""
    if not row["isr"] and row["elr"] is None:
        return None
    return [*(row["isr"] or ()), *(row["elr"] or ())]


def _vanished_ns(
    record: _Record, old: int | None, before: Iterable[Mapping[str, Any]]
) -> int | None:
    """Since when `old` led, as far as the final log has no record of its epochs; None: whoever led,
    since an outsider that is elected brings none of the epochs that it was not there for. before:
    the first rows of the epochs up to then, the latest first."""
    since_ns: int | None = None
    if not record.starts:
        return None  # nobody read the epochs
    for row in before:
        others = _has_leader(row) and old not in (None, row["leader"])
        if row["leader_epoch"] in record.starts or others:
            break
        if _has_leader(row):
            since_ns = row["at_ns"]
    return since_ns


def _too_late(record: _Record, at_ns: int) -> bool:
    """What happened after the final read explains nothing that was read."""
    return record.read_ns is not None and at_ns > record.read_ns


def _state_losses(
    partition: Partition,
    record: _Record,
    faults: Sequence[Fault],
    fencing: Sequence[Mapping[str, Any]],
    settings: Settings,
) -> Iterable[Cause]:
    """One cause per beginning of a reign, and per group of replicas that lacked something then."""
    members = Members(record.leaders, settings.min_insync_replicas)
    losses = losses_of(members, faults, fencing)
    lasting = Spans((loss.from_ns, loss.back_ns, loss) for loss in losses)
    reigns = [row for row in _first_of_each_epoch(record.leaders) if _has_leader(row)]
    for before, row in pairwise(reigns):
        at_ns = row["at_ns"]
        for lost in lacking(members, [*lasting.meeting(at_ns, at_ns)], at_ns):
            cause = _state_loss(partition, record, row, before, lost, settings)
            if cause is not None:
                yield cause


def _state_loss(
    partition: Partition,
    record: _Record,
    row: Mapping[str, Any],
    before: Mapping[str, Any],
    lost: StateLoss,
    settings: Settings,
) -> Cause | None:
    chain, start_offset = _effective_start(record, row["leader_epoch"])
    if _too_late(record, row["at_ns"]):
        return None
    text = (
        f"{lost.describe()}; node {row['leader']} leads {partition[0]}-{partition[1]} from "
        f"{seconds(row['at_ns'])} on in epoch {row['leader_epoch']} {_from(start_offset)}, "
        f"without what was lost beyond"
    )
    return Cause(
        kind=CauseKind.STATE_LOSS,
        topic=partition[0],
        partition=partition[1],
        text=text,
        from_ns=min(loss.from_ns for loss in lost.losses) - SLACK_NS,
        near_until_ns=row["at_ns"] + SLACK_NS,
        epoch=row["leader_epoch"],
        leader=row["leader"],
        deposed=before["leader"],
        start_offset=start_offset,
        elected_ns=row["at_ns"],
        until_ns=lost.first_ns,
        lost=lost,
        chain=chain,
        strength=2 if lost.toll(settings) is None else 0,
        strength_alone=0 if before["leader"] in lost.gone(settings) else 1,
    )


def _reach(
    record: _Record, old: int, epoch: int, elected_ns: int, blamed: Sequence[Fault]
) -> tuple[int, str]:
    """Until when the deposed leader may have accepted writes, and how that is known."""
    views = record.knew_ns.get(old)
    learned_ns = None if views is None else views.at(epoch)
    if learned_ns is not None:
        at_ns = max(learned_ns, elected_ns)
        return at_ns + VIEW_SLACK_NS, f"it knew by {seconds(at_ns)}"
    if blamed:
        healed_ns = max(fault.healed_ns for fault in blamed)
        if healed_ns >= FOREVER_NS:
            return FOREVER_NS, "it was never seen to learn of it"
        return healed_ns + SLACK_NS, "nobody saw it learn of it before its fault ended"
    return elected_ns + SLACK_NS, "nobody saw it learn of it"


def _effective_start(record: _Record, epoch: int) -> tuple[int, int | None]:
    """Where an epoch starts in the final log, and the last epoch that starts there: one without
    records starts where the next does, the last at the end."""
    found = record.effective_starts.at(epoch)
    if found is None:
        return LAST_EPOCH, record.end_offset
    return -found[1], found[0]


def _from(start_offset: int | None) -> str:
    return "from where was not read" if start_offset is None else f"from offset {start_offset}"


def _leader_troubles(
    partition: Partition, record: _Record, faults: Sequence[Fault]
) -> Iterable[Cause]:
    """One cause per fault that touched the node then leading the partition."""
    rows = [row for row in _first_of_each_epoch(record.leaders) if _has_leader(row)]
    ends = [*(row["at_ns"] for row in rows[1:]), FOREVER_NS]
    reigns = Spans(
        (row["at_ns"], end_ns, row["leader"]) for row, end_ns in zip(rows, ends, strict=False)
    )  # of nothing there is no end
    for fault in faults:
        leaders = reigns.meeting(fault.started_ns, fault.healed_ns)
        leader = next((node for node in leaders if touching([fault], node)), None)
        if leader is not None:
            yield Cause(
                kind=CauseKind.FAULT,
                topic=partition[0],
                partition=partition[1],
                text=f"{fault.describe()} touched node {leader}, leader of "
                f"{partition[0]}-{partition[1]}",
                from_ns=fault.started_ns - SLACK_NS,
                near_until_ns=fault.healed_ns + SLACK_NS,
            )


def _first_of_each_epoch(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The earliest row of each leader epoch (with a leader, if any has one), epochs ascending."""
    first: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        held = first.get(row["leader_epoch"])
        if held is None or (_has_leader(row), -row["at_ns"]) > (_has_leader(held), -held["at_ns"]):
            first[row["leader_epoch"]] = row
    return [first[epoch] for epoch in sorted(first)]


def _last_of_each_epoch(rows: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """The latest row of each leader epoch: by partition epoch where known, then by time."""
    last: dict[int, Mapping[str, Any]] = {}
    for row in rows:
        held = last.get(row["leader_epoch"])
        if held is None or _place(row) > _place(held):
            last[row["leader_epoch"]] = row
    return last


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return _or_less(row["partition_epoch"]), row["at_ns"]


def _or_less(number: int | None) -> int:
    return -1 if number is None else number


def _has_leader(row: Mapping[str, Any]) -> bool:
    return row["leader"] is not None and row["leader"] >= 0
