"""Which replicas lost acknowledged records at the same time.

A node loses its unflushed data by a power loss, and anything by a lost or damaged disk. A
partition is concerned only if the node was then one of its in-sync replicas, or an eligible leader
replica (KIP-966: the node left the ISR while the ISR was smaller than min.insync.replicas, so the
node has every committed record), or about to join the ISR with what it had fetched. The loss lasts
until the node has left the ISR and joined it again: from then on it has all records that still
exist. Replicas whose losses overlap in time lack records together.

`StateLoss.all_copies_lost` says how many losses it takes until an acknowledged record may be gone.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any, Final, NamedTuple

from checkers.causes.lookup import IntervalIndex
from checkers.history.recorded_faults import Fault, LogName, LostState, seconds
from checkers.history.settings import FOREVER_NS, Settings

VIEW_SLACK_NS = 250_000_000
"""A node may report an epoch in its metadata a moment before its replicas act on it, and a change
of the in-sync replicas may be recorded a moment after it."""

STAMPED_EARLY_NS = 2_000_000_000
"""How much too early a controller's clock that is behind can date a decision at most. The recorder
believes no earlier time: it asks the quorum's leader again and again how long the log is."""


class AllCopiesLost(StrEnum):
    """Why the replicas that lost state may have held all copies of a record."""

    POWER = "as many in-sync replicas as min.insync.replicas lost power"
    LAST_STANDING = "no in-sync replica was left that had kept its records"
    DISKS = "no in-sync replica was left whose disk was intact"


class Moment(NamedTuple):
    """When something was decided, and its offset in the metadata log, if it is from that log."""

    at_ns: int
    log_offset: int | None

    def precedes(self, other: "Moment") -> bool:
        """Compare by the offset where both have one: the times of the metadata log are whole
        milliseconds, and may go back."""
        if self.log_offset is None or other.log_offset is None:
            return self.at_ns < other.at_ns
        return self.log_offset < other.log_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLoss:
    """One replica that lost state between from_ns and at_ns. registered: when the controllers knew
    that its node is back. back_ns: when the replica was in sync again. early_ns: how much too early
    decisions right after from_ns may be dated."""

    node: int
    from_ns: int
    at_ns: int
    registered: Moment
    back_ns: int
    fault: Fault
    early_ns: int = 0

    @property
    def dated_from_ns(self) -> int:
        """The earliest date of a decision that was made after the loss."""
        return self.from_ns - self.early_ns

    @property
    def lost(self) -> LostState:
        """What the replica lost."""
        assert self.fault.loses is not None
        return self.fault.loses


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLoss:
    """Replicas of a partition that lacked records at the same time.

    in_sync, eligible: the replicas right before the last loss, or until its node was back. leader:
    who led next; None if an earlier leader may be missing in the record, or who was in sync.
    """

    losses: tuple[ReplicaLoss, ...]
    in_sync: frozenset[int]
    eligible: frozenset[int]
    leader: int | None = None

    @property
    def first_ns(self) -> int:
        """All of these replicas can only have lost writes that came before all losses."""
        return min(loss.at_ns for loss in self.losses)

    def gone(self, settings: Settings) -> frozenset[int]:
        """Return the nodes that may lack acknowledged records. With a flush before each
        acknowledgement these are only the nodes with a lost or damaged disk."""
        return frozenset(
            loss.node
            for loss in self.losses
            if loss.lost is LostState.DISK or not settings.flush_before_ack
        )

    def all_copies_lost(self, settings: Settings) -> AllCopiesLost | None:
        """Return why acks=all does not protect earlier writes; None when it does.

        Power that others lost takes nothing from a leader that was in sync or eligible and kept
        its records: it has all that was acknowledged, and the others follow it.
        """
        gone = self.gone(settings)
        damaged = {loss.node for loss in self.losses if loss.lost is LostState.DISK}
        standing = self.in_sync - gone
        if settings.eligible_leader_replicas:
            standing |= self.eligible - gone
        least = settings.min_insync_replicas
        if least > 1 and len(gone - damaged) >= least and self.leader not in standing:
            return AllCopiesLost.POWER
        if not gone or standing:
            return None
        if damaged:
            return AllCopiesLost.DISKS
        if least <= 1 or not settings.eligible_leader_replicas:
            return AllCopiesLost.LAST_STANDING
        return None

    def describe(self) -> str:
        """Sentences: which nodes lost what, when, by which fault, and which replicas did not."""
        by_fault: dict[int, list[ReplicaLoss]] = {}
        for loss in self.losses:
            by_fault.setdefault(loss.fault.fault_id, []).append(loss)
        lost = " ".join(
            f"{_nodes(each.node for each in losses)} {losses[0].lost} by "
            f"{seconds(losses[0].at_ns)}, because of {losses[0].fault.describe()}."
            for losses in by_fault.values()
        )
        others = sorted(self.in_sync - {loss.node for loss in self.losses})
        if not others:
            return f"{lost} No other replica was in sync."
        return f"{lost} {_nodes(others)}, in sync, kept all records."


def _nodes(nodes: Iterable[int]) -> str:
    listed = sorted(nodes)
    return f"Node{'s' if len(listed) > 1 else ''} {', '.join(map(str, listed))}"


@dataclass(frozen=True, slots=True)
class _IsrState:
    since: Moment
    in_sync: frozenset[int]
    eligible: frozenset[int]

    @property
    def at_ns(self) -> int:
        return self.since.at_ns


class IsrHistory:
    """The in-sync replicas and the eligible leader replicas of a partition, over time. exact: the
    controller said so; what nodes say when they are asked is late."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], min_isr: int) -> None:
        """rows: kind leader of one partition. Rows with partition epochs come from the controller
        and are complete; without any of them, the polled rows count."""
        with_isr = [row for row in rows if row["isr"] is not None]
        exact = [row for row in with_isr if row["partition_epoch"] is not None]
        self.exact = bool(exact)
        self._steps: list[_IsrState] = []
        before: frozenset[int] = frozenset()
        eligible: frozenset[int] = frozenset()
        for row in sorted(exact or with_isr, key=lambda row: int(row["at_ns"])):
            isr = frozenset(row["isr"])
            eligible = (eligible | before) - isr if len(isr) < min_isr else frozenset()
            self._steps.append(_IsrState(_moment(row), isr, eligible))
            before = isr
        self._at_ns = [step.at_ns for step in self._steps]

    def between(self, from_ns: int, until_ns: int) -> list[_IsrState]:
        """Return every state that was in force at some moment of the time span."""
        first = max(0, bisect_left(self._at_ns, from_ns, min(1, len(self._at_ns))) - 1)
        return self._steps[first : bisect_right(self._at_ns, until_ns)]

    def back_ns(self, node: int, after_ns: int) -> int:
        """Return when the node was first in sync again, after it was out of sync."""
        out = False
        for place in range(bisect_right(self._at_ns, after_ns), len(self._steps)):
            step = self._steps[place]
            if out and node in step.in_sync:
                return step.at_ns
            out = out or node not in step.in_sync
        return FOREVER_NS


def _moment(row: Mapping[str, Any]) -> Moment:
    return Moment(row["at_ns"], row.get("log_offset"))


class _Fencing:
    """When brokers were fenced and unfenced."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
        for row in rows:
            self._rows[row["node"]].append(row)
        # A record may bear an earlier time than one before it.
        self._up_to = {
            node: [*accumulate((row["at_ns"] for row in rows), max)]
            for node, rows in self._rows.items()
        }

    def fenced_ns(self, node: int, fault: Fault) -> int | None:
        """Return when the node was fenced next, for missing heartbeats or by its registration."""
        return next((r["at_ns"] for r in self._after(node, fault) if r["kind"] == "fenced"), None)

    def registered(self, node: int, fault: Fault) -> Moment:
        """Return when the controllers knew that the node is back, which may be long after its
        return: its registration always fences it, and then it is unfenced."""
        registered = Moment(fault.healed_ns, None)
        for row in self._after(node, fault):
            if row["kind"] == "unfenced":
                break
            if row["at_ns"] >= registered.at_ns:
                registered = _moment(row)
        return registered

    def _after(self, node: int, fault: Fault) -> Iterator[Mapping[str, Any]]:
        rows = self._rows.get(node, [])
        first = bisect_right(self._up_to.get(node, []), fault.effective_ns)
        later = map(rows.__getitem__, range(first, len(rows)))
        return (row for row in later if row["at_ns"] > fault.effective_ns)


NO_LAGS: Final = IntervalIndex[int](())
"""All clocks were right, or ahead."""


def replica_losses(
    isr_history: IsrHistory,
    faults: Sequence[Fault],
    fencing: Sequence[Mapping[str, Any]] = (),
    *,
    of: LogName | tuple[None, None] = (None, None),
    clock_lags: IntervalIndex[int] = NO_LAGS,
) -> list[ReplicaLoss]:
    """Return the state losses of nodes that were in sync or eligible, or about to be, in the order
    of time.

    of: the partition of which they lost state; without one, a loss of any counts. fencing: rows of
    the kinds fenced and unfenced, in the order of the metadata log. clock_lags: how far behind the
    true time the clocks of nodes were, in ns, while they were.
    """
    found, fenced = [], _Fencing(fencing)
    for fault in faults:
        lags = clock_lags.overlapping(fault.started_ns, fault.started_ns + STAMPED_EARLY_NS)
        early_ns = min(STAMPED_EARLY_NS, max(lags, default=0))
        dated_ns = fault.started_ns - early_ns
        for node in sorted(fault.losing(*of)):
            # A node that joins the ISR before it is fenced had caught up before its loss.
            until_ns = fenced.fenced_ns(node, fault) or fault.effective_ns
            steps = isr_history.between(dated_ns - VIEW_SLACK_NS, until_ns)
            held = [each for each in steps if node in each.in_sync | each.eligible]
            if not held:
                continue
            found.append(
                ReplicaLoss(
                    node=node,
                    from_ns=fault.started_ns,
                    at_ns=fault.effective_ns,
                    registered=fenced.registered(node, fault),
                    back_ns=isr_history.back_ns(node, max(dated_ns, held[-1].at_ns)),
                    fault=fault,
                    early_ns=early_ns,
                )
            )
    return sorted(found, key=lambda loss: (loss.at_ns, loss.node))


def state_losses_at(
    isr_history: IsrHistory, losses: Sequence[ReplicaLoss], at_ns: int, until_ns: int | None = None
) -> Iterable[StateLoss]:
    """Yield the state losses that overlap at a moment: first all losses together, then the losses
    that remain for writes after the first loss, and so on. Each comes with the in-sync replicas at
    first and later, until until_ns (default: at_ns). Losses that only a late clock may have put
    before that moment count once, and are left out once."""
    open_then = [loss for loss in losses if loss.dated_from_ns <= at_ns <= loss.back_ns]
    begun = [loss for loss in open_then if loss.from_ns <= at_ns]
    last_ns = at_ns if until_ns is None else until_ns
    yield from _overlapping(isr_history, open_then, last_ns)
    if begun != open_then:
        yield from _overlapping(isr_history, begun, last_ns)


def _overlapping(
    isr_history: IsrHistory, losses: Sequence[ReplicaLoss], until_ns: int
) -> Iterator[StateLoss]:
    if not losses:
        return
    replica_sets = _replica_sets(isr_history, losses, until_ns)
    for first_ns in sorted({loss.at_ns for loss in losses}):
        late = tuple(loss for loss in losses if loss.at_ns >= first_ns)
        for in_sync, eligible in replica_sets:
            yield StateLoss(losses=late, in_sync=in_sync, eligible=eligible)


def _replica_sets(
    isr_history: IsrHistory, losses: Sequence[ReplicaLoss], until_ns: int
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Return the in-sync and the eligible replicas: right before the last loss, and later, while
    some nodes with losses were still in sync and had not registered again. The controllers do not
    know yet what these nodes lack, so the other replicas may leave the ISR to them. A controller
    that keeps such a node in sync after its registration is wrong.
    """
    last = losses[-1]
    registered = {loss.node: loss.registered for loss in losses}
    held = isr_history.between(last.from_ns, last.from_ns)
    at_first = (
        frozenset(node for each in held for node in each.in_sync),
        frozenset(node for each in held for node in each.eligible),
    )
    later = []
    for each in isr_history.between(last.from_ns, until_ns):
        lacking = each.in_sync & registered.keys()
        unknown = all(each.since.precedes(registered[node]) for node in lacking)
        if last.from_ns < each.at_ns and lacking and unknown:
            later.append((each.in_sync, each.eligible))
    return list(dict.fromkeys((at_first, *later)))
