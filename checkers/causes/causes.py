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
- a *fault* that befell the leader in power, or the clients' way to it, and a *refusal* that nobody
  was told of: these explain acks=0 sends alone (`unasked`).

Who led when is enough for what is explained by time alone (an end that goes back, a producer that
is not known any more). Where nobody led in the end, an epoch's start in the final log was not read:
its cause explains nothing by offset.

Elections and faults are few beside a history, so this part is plain Python over aggregates; losses
are joined with the result inside the engine. Whether a cause permits a loss is the contract's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import pyarrow as pa

from checkers.causes.acks_zero import leader_troubles, refusals
from checkers.causes.cause import NO_LEADER, SLACK_NS, STALE_NS, Cause, CauseKind, SettingsOf
from checkers.causes.leadership_terms import (
    LAST_EPOCH,
    Partition,
    Record,
    first_of_each_epoch,
    has_leader,
    last_of_each_epoch,
    read_cluster,
    read_fencing,
)
from checkers.causes.lookup import Spans
from checkers.causes.quorum_loss import QuorumLoss, learn_quorum_losses
from checkers.causes.state_loss import VIEW_SLACK_NS, Members, StateLoss, lacking, losses_of
from checkers.engines.engine import Engine, Frame
from checkers.history.recorded_faults import Fault, read_begun, read_fault, seconds, touching
from checkers.history.settings import FOREVER_NS, Settings


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
            ("deposed", pa.int32()),
            ("start_offset", pa.int64()),
            ("elected_ns", pa.int64()),
            ("until_ns", pa.int64()),
            ("others_until_ns", pa.int64()),
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
        """The causes as rows of `schema`, to be joined with losses."""
        names = [name for name in self.schema.names if name != "number"]
        return [
            {name: getattr(cause, name) for name in names}
            | {"number": number, "felt_until_ns": max(cause.felt_until_ns, cause.near_until_ns)}
            for number, cause in enumerate(self.causes)
        ]


def learn_causes(
    engine: Engine, cluster: Frame, faults: Frame, complete: Frame, settings: SettingsOf
) -> Causes:
    """All causes in the record.

    cluster, faults: frames of their schemas. complete: topic, partition, end_offset of the final
    log, read_ns when it had been read: what happened later explains nothing that was read.
    """
    ordered = sorted(engine.rows(faults), key=lambda row: row["fault_id"])
    known = [fault for row in ordered if (fault := read_fault(row)) is not None]
    begun = [fault for row in ordered if (fault := read_begun(row)) is not None]
    in_force = Spans((f.started_ns, f.healed_ns + SLACK_NS, f) for f in known)
    records = read_cluster(engine, cluster, complete)
    fencing = read_fencing(engine, cluster)
    forgotten = learn_quorum_losses(engine, cluster, known)
    elections: list[Cause] = []
    losses: list[Cause] = []
    troubles: list[Cause] = []
    for partition, record in sorted(records.items()):
        elections.extend(_elections(partition, record, in_force))
        losses.extend(_state_losses(partition, record, known, fencing, settings(partition[0])))
        losses.extend(_forgotten(partition, record, each) for each in forgotten)
        troubles.extend(leader_troubles(partition, record, begun))
    troubles.extend(refusals(records, elections, settings))
    return Causes(
        causes=(*elections, *losses, *troubles),
        led=frozenset(p for p, r in records.items() if r.leaders),
        recorded=frozenset(p for p, r in records.items() if r.leaders and r.starts),
    )


def _forgotten(partition: Partition, record: Record, loss: QuorumLoss) -> Cause:
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
        others_until_ns=loss.back_ns + SLACK_NS,
        chain=0,
        strength=0,
    )


def _elections(partition: Partition, record: Record, faults: Spans[Fault]) -> Iterable[Cause]:
    """One cause per leader that took over from another node, or leads again and might not. Where
    epochs between are not in the record, another may have led and accepted until then."""
    previous: Mapping[str, Any] | None = None  # the last row of an earlier epoch
    deposed: Mapping[str, Any] | None = None  # the last row that had a leader, of an earlier epoch
    reign = 0  # its place among the first rows of each epoch
    firsts, lasts = first_of_each_epoch(record.leaders), last_of_each_epoch(record.leaders)
    for number, row in enumerate(firsts):
        elected = has_leader(row)
        if elected and deposed is not None:
            before = map(firsts.__getitem__, reversed(range(number)))
            cause = _election(partition, record, faults, row, deposed, previous or deposed, before)
            if cause is not None:
                unbroken = row["leader_epoch"] - deposed["leader_epoch"] == number - reign
                yield replace(cause, others_until_ns=cause.elected_ns) if unbroken else cause
        previous = lasts[row["leader_epoch"]]
        if elected:
            deposed = previous if has_leader(previous) else row
            reign = number


def _election(
    partition: Partition,
    record: Record,
    faults: Spans[Fault],
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
    might_lead = isr if (told := _who_might_lead(previous)) is None else told
    outside = might_lead is not None and leader not in might_lead
    if record.was_read_before(elected_ns) or (leader == old and not outside):
        return None
    blamed = touching([*faults.meeting(elected_ns, elected_ns)], old)
    until_ns, how = _reach(record, old, epoch, elected_ns, blamed)
    # Between the two nobody may have led, and what ended the reign be over.
    ended_ns = min(elected_ns, record.led_ns(deposed["leader_epoch"] + 1) or elected_ns)
    ending = touching([*faults.meeting(ended_ns, elected_ns)], old)
    at = seconds(elected_ns)
    ended = f"leads again from {at}" if leader == old else f"was deposed at {at} by node {leader}"
    text = (
        f"node {old}, leader of {partition[0]}-{partition[1]} in epoch {deposed['leader_epoch']}, "
        f"{ended} in epoch {epoch} {_from(start_offset)}; {how}; "
        + ("; ".join(fault.describe() for fault in ending) or "no fault touched it")
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


def _who_might_lead(row: Mapping[str, Any]) -> Sequence[int] | None:
    """Replicas in sync, and those that left an in-sync set too small and are eligible (KIP-966);
    None where the record does not say."""
    if not row["isr"] and row["elr"] is None:
        return None
    return [*(row["isr"] or ()), *(row["elr"] or ())]


def _vanished_ns(
    record: Record, old: int | None, before: Iterable[Mapping[str, Any]]
) -> int | None:
    """Since when `old` led, as far as the final log has no record of its epochs; None: whoever led,
    since an outsider that is elected brings none of the epochs that it was not there for. before:
    the first rows of the epochs up to then, the latest first."""
    since_ns: int | None = None
    if not record.starts:
        return None  # nobody read the epochs
    for row in before:
        others = has_leader(row) and old not in (None, row["leader"])
        if row["leader_epoch"] in record.starts or others:
            break
        if has_leader(row):
            since_ns = row["at_ns"]
    return since_ns


def _state_losses(
    partition: Partition,
    record: Record,
    faults: Sequence[Fault],
    fencing: Sequence[Mapping[str, Any]],
    settings: Settings,
) -> Iterable[Cause]:
    """One cause per beginning of a reign, and per group of replicas that lacked something then."""
    members = Members(record.leaders, settings.min_insync_replicas)
    losses = losses_of(members, faults, fencing)
    lasting = Spans((loss.from_ns, loss.back_ns, loss) for loss in losses)
    reigns = [row for row in first_of_each_epoch(record.leaders) if has_leader(row)]
    for before, row in pairwise(reigns):
        at_ns = row["at_ns"]
        for lost in lacking(members, [*lasting.meeting(at_ns, at_ns)], at_ns):
            cause = _state_loss(partition, record, row, before, lost, settings)
            if cause is not None:
                yield cause


def _state_loss(
    partition: Partition,
    record: Record,
    row: Mapping[str, Any],
    before: Mapping[str, Any],
    lost: StateLoss,
    settings: Settings,
) -> Cause | None:
    chain, start_offset = record.effective_start(row["leader_epoch"])
    if record.was_read_before(row["at_ns"]):
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
        others_until_ns=lost.first_ns,
        lost=lost,
        chain=chain,
        chain_from_ns=record.led_before_ns(row["leader_epoch"]),
        returns=record.had_led(row["leader"], row["leader_epoch"]),
        strength=2 if lost.toll(settings) is None else 0,
        strength_alone=0 if before["leader"] in lost.gone(settings) else 1,
        faults=frozenset(each.fault.fault_id for each in lost.losses),
    )


def _reach(
    record: Record, old: int, epoch: int, elected_ns: int, blamed: Sequence[Fault]
) -> tuple[int, str]:
    """Until when the deposed leader may have accepted writes, and how that is known."""
    learned_ns = record.knew_at_ns(old, epoch)
    if learned_ns is not None:
        at_ns = max(learned_ns, elected_ns)
        return at_ns + VIEW_SLACK_NS, f"it knew by {seconds(at_ns)}"
    if blamed:
        healed_ns = max(fault.healed_ns for fault in blamed)
        if healed_ns >= FOREVER_NS:
            return FOREVER_NS, "it was never seen to learn of it"
        return healed_ns + SLACK_NS, "nobody saw it learn of it before its fault ended"
    return elected_ns + SLACK_NS, "nobody saw it learn of it"


def _from(start_offset: int | None) -> str:
    return "from where was not read" if start_offset is None else f"from offset {start_offset}"
