"""Causes: which recorded events can explain that an acknowledged write is gone.

A permission to lose a write holds only where its cause is recorded. The causes are

- an *election*: another replica became leader of the partition, and its leader epoch starts, in the
  final log, at some offset. The old leader discarded its records at or above that offset (KIP-101,
  KIP-279). The old leader may acknowledge acks=1 writes until it learns of the election, so the
  election explains losses until that moment: the first time the node itself reported the new epoch,
  else the end of the fault that kept the node from learning, else the election. A process that a
  fault ended accepts nothing more, and the next one begins no term without a new epoch.
  Elections after the final read (of a shutdown, say) explain nothing.
- a *state loss*: in-sync replicas lost state (unflushed data, a disk), and the next leader, perhaps
  one of them, began its epoch at some offset. It explains losses of writes before the first loss.
- a *quorum loss*: a majority of the voters lost their disks at the same time, and with them the
  leaders, epochs and in-sync replicas. It explains every loss of a write that was sent before a
  majority was intact again.
- a *fault* that affected the current leader, or the network between clients and the leader, and a
  *refusal* that no client was told of: these two explain only lost acks=0 sends (`acks_zero`).

The leaders alone are enough for an anomaly that is explained by time (an end offset that goes back,
a producer that a broker does not know any more). A partition without a leader in the end, or whose
leader's answer about its epochs is contradicted, has no known epoch starts in the final log: its
causes explain nothing by offset.

Elections and faults are few beside a history, so this part is plain Python over aggregates; losses
are joined with the result inside the engine. The contract decides whether a cause permits a loss.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import pyarrow as pa

from checkers.causes.acks_zero import leader_faults, refusals
from checkers.causes.cause import NO_LEADER, SLACK_NS, STALE_NS, Cause, CauseKind, SettingsOf
from checkers.causes.leadership_terms import (
    LAST_EPOCH,
    Partition,
    PartitionLeadership,
    first_of_each_epoch,
    has_leader,
    last_of_each_epoch,
    read_clock_lags,
    read_cluster,
    read_fencing,
)
from checkers.causes.lookup import IntervalIndex
from checkers.causes.quorum_loss import QuorumLoss, read_quorum_losses
from checkers.causes.state_loss import (
    VIEW_SLACK_NS,
    IsrHistory,
    ReplicaLoss,
    StateLoss,
    replica_losses,
    state_losses_at,
)
from checkers.engines.engine import Engine, Frame
from checkers.history.recorded_faults import (
    FIRST_ZOOKEEPER,
    Fault,
    read_begun,
    read_fault,
    seconds,
    touching,
)
from checkers.history.settings import FOREVER_NS, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """All causes in order, elections first; the number of a cause is its index.

    led: partitions whose leaders are recorded; for other partitions a missing cause means nothing.
    recorded: partitions of `led` whose final leader epochs are recorded too; for other partitions a
    missing cause means nothing for an anomaly that is explained by its offset. contradicted:
    partitions of neither, because the metadata log contradicts an answer about a leader; how.
    """

    causes: tuple[Cause, ...]
    led: frozenset[Partition]
    recorded: frozenset[Partition]
    contradicted: Mapping[Partition, str]

    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("number", pa.int32()),
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("epoch", pa.int32()),
            ("leader", pa.int32()),
            ("deposed", pa.int32()),
            ("start_offset", pa.int64()),
            ("elected_ns", pa.int64()),
            ("until_ns", pa.int64()),
            ("others_until_ns", pa.int64()),
            ("shown_until_ns", pa.int64()),
            ("dead_from_ns", pa.int64()),
            ("from_ns", pa.int64()),
            ("near_until_ns", pa.int64()),
            ("felt_until_ns", pa.int64()),
            ("vanished_ns", pa.int64()),
            ("chain", pa.int32()),
            ("chain_from_ns", pa.int64()),
            ("strength", pa.int32()),
            ("strength_alone", pa.int32()),
            ("of_state", pa.bool_()),
            ("only_delays", pa.bool_()),
            ("returns", pa.bool_()),
        ]
    )

    def rows(self) -> list[dict[str, Any]]:
        """Return the causes as rows of `schema`, to join them with losses."""
        names = [name for name in self.schema.names if name != "number"]
        return [
            {name: getattr(cause, name) for name in names}
            | {"number": number, "felt_until_ns": max(cause.felt_until_ns, cause.near_until_ns)}
            for number, cause in enumerate(self.causes)
        ]


def read_causes(
    engine: Engine,
    cluster: Frame,
    faults: Frame,
    complete: Frame,
    first_offsets: Frame,
    settings: SettingsOf,
    contradicted: Collection[Partition] = (),
) -> Causes:
    """Return all recorded causes.

    cluster, faults: frames of their schemas. complete: topic, partition, end_offset of the final
    log, read_ns: when the log was read (later events explain no loss). first_offsets: topic,
    partition, log_start of the final log, first_read of it (null if it was not read), first_kept
    in the files. contradicted: partitions whose recorded leader epochs are not believed.
    """
    ordered = sorted(engine.rows(faults), key=lambda row: row["fault_id"])
    known = [fault for row in ordered if (fault := read_fault(row)) is not None]
    begun = [fault for row in ordered if (fault := read_begun(row)) is not None]
    in_force = IntervalIndex((f.started_ns, f.healed_ns + SLACK_NS, f) for f in known)
    quorum_losses = read_quorum_losses(engine, cluster, known)
    lost = bool(quorum_losses)
    records = read_cluster(engine, cluster, complete, first_offsets, metadata_lost=lost)
    for partition in contradicted:
        records[partition].starts.clear()
    fencing, clock_lags = read_fencing(engine, cluster), read_clock_lags(engine, cluster)
    elections: list[Cause] = []
    losses: list[Cause] = []
    unacknowledged: list[Cause] = []
    for partition, record in sorted(records.items()):
        changes = _elections(partition, record, in_force)
        elections.extend(_shown(cause, record, in_force) for cause in changes)
        promised = settings(partition[0])
        history = IsrHistory(record.leaders, promised.min_insync_replicas)
        lost_then = replica_losses(history, known, fencing, of=partition, clock_lags=clock_lags)
        found = _state_losses(partition, record, history, lost_then, promised)
        losses.extend(_shown(cause, record, in_force) for cause in found)
        losses.extend(_quorum_loss(partition, record, each) for each in quorum_losses)
        unacknowledged.extend(leader_faults(partition, record, begun))
    unacknowledged.extend(refusals(records, elections, settings))
    led = {p: r for p, r in records.items() if r.leaders and not r.contradiction}
    return Causes(
        causes=(*elections, *losses, *unacknowledged),
        led=frozenset(led),
        recorded=frozenset(p for p, r in led.items() if r.starts),
        contradicted={p: r.contradiction for p, r in records.items() if r.contradiction},
    )


def _quorum_loss(partition: Partition, record: PartitionLeadership, loss: QuorumLoss) -> Cause:
    """Any later leader, from any offset on, may lack all earlier records."""
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
        others_until_ns=loss.back_ns + SLACK_NS,
        chain=0,
        strength=0,
    )


def _elections(
    partition: Partition, record: PartitionLeadership, faults: IntervalIndex[Fault]
) -> Iterable[Cause]:
    """Yield one cause for each leader that replaced another node, or that became leader again
    although it was not allowed to. If epochs between the two are not recorded, a third node may
    have led and accepted writes in them."""
    previous: Mapping[str, Any] | None = None  # the last row of an earlier epoch
    deposed: Mapping[str, Any] | None = None  # the last row that had a leader, of an earlier epoch
    deposed_index = 0  # the index of the deposed leader's epoch in `firsts`
    firsts, lasts = first_of_each_epoch(record.leaders), last_of_each_epoch(record.leaders)
    for number, row in enumerate(firsts):
        elected = has_leader(row)
        if elected and deposed is not None:
            before = map(firsts.__getitem__, reversed(range(number)))
            cause = _election(partition, record, faults, row, deposed, previous or deposed, before)
            if cause is not None:
                unbroken = row["leader_epoch"] - deposed["leader_epoch"] == number - deposed_index
                yield _unbroken(cause, record, faults, deposed) if unbroken else cause
        previous = lasts[row["leader_epoch"]]
        if elected:
            deposed = previous if has_leader(previous) else row
            deposed_index = number


def _unbroken(
    cause: Cause,
    record: PartitionLeadership,
    faults: IntervalIndex[Fault],
    deposed: Mapping[str, Any],
) -> Cause:
    """Return the cause with what follows if nobody else led between the two leaders."""
    dead_from_ns = _dead_from_ns(record, faults, deposed, cause.until_ns or 0)
    return replace(
        cause, others_until_ns=_others_until_ns(cause, record, deposed), dead_from_ns=dead_from_ns
    )


def _shown(cause: Cause, record: PartitionLeadership, faults: IntervalIndex[Fault]) -> Cause:
    """Return the cause with `shown_until_ns`: see `Cause`. Replicas that lost state have nothing to
    show, and the next leader knows that it leads."""
    if not (cause.left_isr or cause.lost) or cause.epoch is None or cause.elected_ns is None:
        return cause
    at_ns, until_ns = cause.elected_ns, cause.near_until_ns if cause.lost else cause.until_ns or 0
    in_force = [*faults.overlapping(at_ns, at_ns)]
    lost = {loss.node for loss in cause.lost.losses} if cause.lost else set()
    for node, term in record.last_terms(cause.epoch).items():
        if node != cause.leader and node not in lost:
            reach = _reach(record, node, term + 1, at_ns, touching(in_force, node))
            until_ns = max(until_ns, reach[0])
    return replace(cause, shown_until_ns=until_ns)


def _others_until_ns(
    cause: Cause, record: PartitionLeadership, deposed: Mapping[str, Any]
) -> int | None:
    """See `Cause`. Until it knew of its own term, the deposed leader may have followed an earlier
    one that did not know of it either, and both have what this one acknowledged with acks=all."""
    if not cause.left_isr or cause.until_ns is None or cause.elected_ns is None:
        return cause.elected_ns
    knew_ns = record.knew_at_ns(deposed["leader"], deposed["leader_epoch"])
    ignorant_until_ns = cause.until_ns if knew_ns is None else min(knew_ns, cause.until_ns)
    return max(cause.elected_ns, ignorant_until_ns)


def _dead_from_ns(
    record: PartitionLeadership,
    faults: IntervalIndex[Fault],
    deposed: Mapping[str, Any],
    until_ns: int,
) -> int | None:
    """Return from when on the deposed leader cannot have accepted anything, nor an earlier leader
    that did not know of its term: its process knew of the term, and then a fault ended it. A broker
    that starts again leads in no epoch from before its start (KIP-631). See `Cause`."""
    node, epoch = deposed["leader"], deposed["leader_epoch"]
    knew_ns = record.knew_at_ns(node, epoch)
    others_ns = record.knew_all_by_ns(epoch, node)
    if knew_ns is None or others_ns is None:
        return None
    ends_ns = [
        fault.effective_ns
        for fault in faults.overlapping(knew_ns, until_ns)
        if fault.keeps_down and node in fault.aimed and fault.effective_ns >= knew_ns
    ]
    return max(min(ends_ns), others_ns) + SLACK_NS if ends_ns else None


def _election(
    partition: Partition,
    record: PartitionLeadership,
    faults: IntervalIndex[Fault],
    row: Mapping[str, Any],
    deposed: Mapping[str, Any],
    previous: Mapping[str, Any],
    before: Iterable[Mapping[str, Any]],
) -> Cause | None:
    """before: the first rows of earlier epochs, the latest first."""
    epoch, leader, old = row["leader_epoch"], row["leader"], deposed["leader"]
    chain, start_offset = record.effective_start(epoch)
    elected_ns = row["at_ns"]
    isr = previous["isr"] or deposed["isr"]
    sole = isr is not None and list(isr) == [old]
    might_lead = isr if (eligible := _eligible(previous)) is None else eligible
    outside = might_lead is not None and leader not in might_lead
    if record.was_read_before(elected_ns) or (leader == old and not outside):
        return None
    blamed = touching([*faults.overlapping(elected_ns, elected_ns)], old)
    until_ns, how = _reach(record, old, epoch, elected_ns, blamed)
    # There may have been no leader in between, and the fault that ended the old term may be over.
    ended_ns = min(elected_ns, record.led_ns(deposed["leader_epoch"] + 1) or elected_ns)
    ending = touching([*faults.overlapping(ended_ns, elected_ns)], old)
    text = " ".join(
        filter(
            None,
            (
                _what_happened(partition, old, leader, epoch, elected_ns),
                _discarded(old, epoch, start_offset),
                how,
                f"{_faults_of(old, ending)}.",
                "" if ending else _faults_of_zookeeper(faults.overlapping(ended_ns, elected_ns)),
                "The new leader was not in sync." if outside else "",
                f"Node {old} was the only in-sync replica." if sole else "",
            ),
        )
    )
    return Cause(
        kind=CauseKind.ELECTION,
        topic=partition[0],
        partition=partition[1],
        text=text,
        from_ns=min([elected_ns - SLACK_NS, *(fault.started_ns for fault in blamed)]),
        near_until_ns=until_ns + SLACK_NS,
        felt_until_ns=max(record.knew_at_ns(leader, epoch) or 0, until_ns) + STALE_NS,
        epoch=epoch,
        leader=leader,
        deposed=old,
        start_offset=start_offset,
        elected_ns=elected_ns,
        until_ns=until_ns,
        others_until_ns=until_ns,
        left_isr=outside,
        sole_isr=sole and outside and leader != old,
        vanished_ns=(
            None if start_offset is None else _vanished_ns(record, None if outside else old, before)
        ),
        chain=chain,
        chain_from_ns=record.led_before_ns(epoch),
        returns=record.had_led(leader, epoch),
        strength=1 if outside else 3,
        strength_alone=1 if leader == old else 0,
        faults=frozenset(fault.fault_id for fault in ending),
    )


def _what_happened(partition: Partition, old: int, leader: int, epoch: int, elected_ns: int) -> str:
    # The report reads nodes, time and epoch out of this sentence again.
    where, when = f"{partition[0]}-{partition[1]}", f"{seconds(elected_ns)} (epoch {epoch})"
    if leader == old:
        return f"In {where}, node {old} became leader again at {when}."
    return f"In {where}, node {leader} replaced node {old} as leader at {when}."


def _discarded(old: int, epoch: int, start_offset: int | None) -> str:
    if start_offset is None:
        return f"The offset where epoch {epoch} starts was not read."
    return f"Writes from offset {start_offset} on that only node {old} had were discarded."


def _faults_of(node: int, faults: Sequence[Fault]) -> str:
    listed = "; ".join(fault.describe() for fault in faults)
    return (
        f"Faults that affected node {node}: {listed}"
        if listed
        else f"No fault affected node {node}"
    )


def _faults_of_zookeeper(faults: Iterable[Fault]) -> str:
    """Return the faults of ZooKeeper's nodes: while these are down, sessions of brokers may end."""
    listed = "; ".join(f.describe() for f in faults if max(f.aimed, default=0) >= FIRST_ZOOKEEPER)
    return f"Faults that affected ZooKeeper: {listed}." if listed else ""


def _eligible(row: Mapping[str, Any]) -> Sequence[int] | None:
    """Return the in-sync replicas and the eligible leader replicas (KIP-966): those left an ISR
    that was too small. None if they are not recorded."""
    if not row["isr"] and row["elr"] is None:
        return None
    return [*(row["isr"] or ()), *(row["elr"] or ())]


def _vanished_ns(
    record: PartitionLeadership, old: int | None, before: Iterable[Mapping[str, Any]]
) -> int | None:
    """Return since when `old` led in epochs of which the final log has no record. old=None: any
    leader counts, because a leader from outside the ISR, or with the log of an earlier time, has
    none of the epochs that it missed.
    before: the first rows of the earlier epochs, the latest first."""
    since_ns: int | None = None
    if not record.starts:
        return None  # the epochs were not read
    for row in before:
        others = has_leader(row) and old not in (None, row["leader"])
        if row["leader_epoch"] in record.starts or others:
            break
        if has_leader(row):
            since_ns = row["at_ns"]
    return since_ns


def _state_losses(
    partition: Partition,
    record: PartitionLeadership,
    isr_history: IsrHistory,
    losses: Sequence[ReplicaLoss],
    settings: Settings,
) -> Iterable[Cause]:
    """Yield one cause for each start of a leadership term and each group of replicas that lacked
    state then."""
    lasting = IntervalIndex((loss.dated_from_ns, loss.back_ns, loss) for loss in losses)
    firsts = first_of_each_epoch(record.leaders)
    terms = [(number, row) for number, row in enumerate(firsts) if has_leader(row)]
    for (number_before, before), (number, row) in pairwise(terms):
        at_ns = row["at_ns"]
        unbroken = row["leader_epoch"] - before["leader_epoch"] == number - number_before
        leader = row["leader"] if unbroken and isr_history.exact else None
        decided_ns = record.decided_ns(row["leader_epoch"], at_ns)
        open_then = [*lasting.overlapping(at_ns, at_ns)]
        for lost in state_losses_at(isr_history, open_then, at_ns, decided_ns):
            known = replace(lost, leader=leader)
            earlier = map(firsts.__getitem__, reversed(range(number)))
            cause = _state_loss(partition, record, row, before, known, settings, earlier)
            if cause is not None:
                yield cause


def _state_loss(
    partition: Partition,
    record: PartitionLeadership,
    row: Mapping[str, Any],
    before: Mapping[str, Any],
    lost: StateLoss,
    settings: Settings,
    earlier: Iterable[Mapping[str, Any]],
) -> Cause | None:
    """earlier: the first rows of earlier epochs, the latest first."""
    chain, start_offset = record.effective_start(row["leader_epoch"])
    if record.was_read_before(row["at_ns"]):
        return None
    text = (
        f"{lost.describe()} Node {row['leader']} became leader of {partition[0]}-{partition[1]} at "
        f"{seconds(row['at_ns'])} (epoch {row['leader_epoch']}), {_without(start_offset)}."
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
        elected_ns=max(row["at_ns"], *(loss.from_ns for loss in lost.losses)),
        until_ns=lost.first_ns,
        others_until_ns=lost.first_ns,
        lost=lost,
        vanished_ns=None if start_offset is None else _vanished_ns(record, None, earlier),
        chain=chain,
        chain_from_ns=record.led_before_ns(row["leader_epoch"]),
        returns=record.had_led(row["leader"], row["leader_epoch"]),
        strength=2 if lost.all_copies_lost(settings) is None else 0,
        strength_alone=0 if before["leader"] in lost.gone(settings) else 1,
        faults=frozenset(each.fault.fault_id for each in lost.losses),
    )


def _reach(
    record: PartitionLeadership, old: int, epoch: int, elected_ns: int, blamed: Sequence[Fault]
) -> tuple[int, str]:
    """Return until when the old leader may have accepted writes, and a sentence on how that is
    known."""
    learned_ns = record.knew_at_ns(old, epoch)
    if learned_ns is not None:
        at_ns = max(learned_ns, elected_ns)
        return at_ns + VIEW_SLACK_NS, f"Node {old} noticed by {seconds(at_ns)}."
    if blamed:
        healed_ns = max(fault.healed_ns for fault in blamed)
        if healed_ns >= FOREVER_NS:
            return FOREVER_NS, f"Node {old} was never seen to notice."
        return healed_ns + SLACK_NS, f"Node {old} was not seen to notice before its fault ended."
    return elected_ns + SLACK_NS, f"Node {old} was not seen to notice."


def _without(start_offset: int | None) -> str:
    if start_offset is None:
        return "at an offset that was not read, without the lost records"
    return f"without the records that were lost from offset {start_offset} on"
