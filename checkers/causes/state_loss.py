"""Which replicas lost what they had acknowledged, together, while it was theirs to keep.

A power loss takes from a node what it had not fsynced, a lost or damaged disk anything. That
matters to a partition only when the node was in its in-sync replicas then, or an eligible leader
replica (KIP-966: it left them while they were fewer than min.insync.replicas, so it has every
committed record), or about to join them by what it had fetched until then. It lasts until the node
is in sync again, having been out of sync: from then on it has everything that still exists.
Replicas that lack something at one time lack it together.

How many it takes until an acknowledged record may be gone is `StateLoss.toll`.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any, NamedTuple

from checkers.history.recorded_faults import Fault, Taken, seconds
from checkers.history.settings import FOREVER_NS, Settings

VIEW_SLACK_NS = 250_000_000
"""A node may report an epoch in its metadata a moment before its replicas act on it, and a change
of the in-sync replicas may be recorded a moment after it."""


class Toll(StrEnum):
    """Why what several replicas lost may have been all that there was of a record."""

    POWER = "as many in-sync replicas as min.insync.replicas lost power"
    LAST_STANDING = "no in-sync replica was left that had kept its records"
    DISKS = "no in-sync replica was left whose disk was whole"


class Moment(NamedTuple):
    """When something was decided, and where that stands in the metadata log, if it is of it."""

    at_ns: int
    log_offset: int | None

    def precedes(self, other: "Moment") -> bool:
        """By the log where both are in it: its times are whole milliseconds, and may go back."""
        if self.log_offset is None or other.log_offset is None:
            return self.at_ns < other.at_ns
        return self.log_offset < other.log_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One replica that lost what it had, between from_ns and at_ns; told: by when the controllers
    were told that its node is back; back in sync at back_ns."""

    node: int
    from_ns: int
    at_ns: int
    told: Moment
    back_ns: int
    fault: Fault

    @property
    def taken(self) -> Taken:
        """What was taken from it."""
        assert self.fault.takes is not None
        return self.fault.takes


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLoss:
    """Replicas of a partition that lacked something together.

    in_sync, eligible: as they were right before the last of the losses, or until its node was back.
    """

    losses: tuple[Loss, ...]
    in_sync: frozenset[int]
    eligible: frozenset[int]

    @property
    def first_ns(self) -> int:
        """Only what was written before all of them can have been lost to all of them."""
        return min(loss.at_ns for loss in self.losses)

    def gone(self, settings: Settings) -> frozenset[int]:
        """The nodes that may lack acknowledged records: with a flush before each acknowledgement
        only those whose disks were lost or damaged."""
        return frozenset(
            loss.node
            for loss in self.losses
            if loss.taken is Taken.DISK or not settings.flush_before_ack
        )

    def toll(self, settings: Settings) -> Toll | None:
        """Why acks=all does not protect what was written before; None when it does."""
        gone = self.gone(settings)
        damaged = {loss.node for loss in self.losses if loss.taken is Taken.DISK}
        standing = self.in_sync - gone
        if settings.eligible_leader_replicas:
            standing |= self.eligible - gone
        least = settings.min_insync_replicas
        if least > 1 and len(gone - damaged) >= least:
            return Toll.POWER
        if not gone or standing:
            return None
        if damaged:
            return Toll.DISKS
        return Toll.LAST_STANDING if least <= 1 or not settings.eligible_leader_replicas else None

    def describe(self) -> str:
        """Who lost what when, and by which fault."""
        by_fault: dict[int, list[Loss]] = {}
        for loss in self.losses:
            by_fault.setdefault(loss.fault.fault_id, []).append(loss)
        told = (
            f"{_nodes(each.node for each in losses)} {losses[0].taken} by "
            f"{seconds(losses[0].at_ns)}, {losses[0].fault.describe()}"
            for losses in by_fault.values()
        )
        others = sorted(self.in_sync - {loss.node for loss in self.losses})
        kept = f"{_nodes(others)} in sync kept its records" if others else "no other was in sync"
        return f"{'; '.join(told)}; {kept}"


def _nodes(nodes: Iterable[int]) -> str:
    listed = sorted(nodes)
    return f"node{'s' if len(listed) > 1 else ''} {', '.join(map(str, listed))}"


@dataclass(frozen=True, slots=True)
class _Members:
    since: Moment
    in_sync: frozenset[int]
    eligible: frozenset[int]

    @property
    def at_ns(self) -> int:
        return self.since.at_ns


class Members:
    """Who was in sync with a partition, and who eligible, over time."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], min_isr: int) -> None:
        """rows: kind leader of one partition. Those with partition epochs are the controller's own
        and say all; what was polled counts where there are none."""
        told = [row for row in rows if row["isr"] is not None]
        exact = [row for row in told if row["partition_epoch"] is not None]
        self._steps: list[_Members] = []
        before: frozenset[int] = frozenset()
        eligible: frozenset[int] = frozenset()
        for row in sorted(exact or told, key=lambda row: int(row["at_ns"])):
            isr = frozenset(row["isr"])
            eligible = (eligible | before) - isr if len(isr) < min_isr else frozenset()
            self._steps.append(_Members(_moment(row), isr, eligible))
            before = isr
        self._at_ns = [step.at_ns for step in self._steps]

    def between(self, from_ns: int, until_ns: int) -> list[_Members]:
        """Every state that was in force at some moment of the stretch."""
        first = max(0, bisect_left(self._at_ns, from_ns, min(1, len(self._at_ns))) - 1)
        return self._steps[first : bisect_right(self._at_ns, until_ns)]

    def back_ns(self, node: int, after_ns: int) -> int:
        """When the node was first in sync again, after it was not."""
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
        """When the node was fenced next, for its silence or by its registration."""
        return next((r["at_ns"] for r in self._after(node, fault) if r["kind"] == "fenced"), None)

    def told(self, node: int, fault: Fault) -> Moment:
        """When the controllers were told that the node is back, which may be long after it was: its
        registration fences it, whatever it was before, and is followed by its being unfenced."""
        told = Moment(fault.healed_ns, None)
        for row in self._after(node, fault):
            if row["kind"] == "unfenced":
                break
            if row["at_ns"] >= told.at_ns:
                told = _moment(row)
        return told

    def _after(self, node: int, fault: Fault) -> Iterator[Mapping[str, Any]]:
        rows = self._rows.get(node, [])
        first = bisect_right(self._up_to.get(node, []), fault.effective_ns)
        later = map(rows.__getitem__, range(first, len(rows)))
        return (row for row in later if row["at_ns"] > fault.effective_ns)


def losses_of(
    members: Members, faults: Sequence[Fault], fencing: Sequence[Mapping[str, Any]] = ()
) -> list[Loss]:
    """What nodes lost while they were in sync or eligible, or about to be, in the order of time.

    fencing: rows of the kinds fenced and unfenced, in the order of the metadata log.
    """
    found, told = [], _Fencing(fencing)
    for fault in faults:
        if fault.takes is None:
            continue
        for node in sorted(fault.aimed):
            # Whoever joins before it is fenced had caught up before it lost anything.
            until_ns = told.fenced_ns(node, fault) or fault.effective_ns
            steps = members.between(fault.started_ns - VIEW_SLACK_NS, until_ns)
            held = [each for each in steps if node in each.in_sync | each.eligible]
            if not held:
                continue
            found.append(
                Loss(
                    node=node,
                    from_ns=fault.started_ns,
                    at_ns=fault.effective_ns,
                    told=told.told(node, fault),
                    back_ns=members.back_ns(node, max(fault.started_ns, held[-1].at_ns)),
                    fault=fault,
                )
            )
    return sorted(found, key=lambda loss: (loss.at_ns, loss.node))


def lacking(members: Members, losses: Sequence[Loss], at_ns: int) -> Iterable[StateLoss]:
    """What lacked together at a moment: first all of it, then what is left of it for writes that
    came after the first loss, and so on; each with who was in sync beside it, at first and later.
    """
    open_then = [loss for loss in losses if loss.from_ns <= at_ns <= loss.back_ns]
    if not open_then:
        return
    beside = _beside(members, open_then, at_ns)
    for first_ns in sorted({loss.at_ns for loss in open_then}):
        late = tuple(loss for loss in open_then if loss.at_ns >= first_ns)
        for in_sync, eligible in beside:
            yield StateLoss(losses=late, in_sync=in_sync, eligible=eligible)


def _beside(
    members: Members, losses: Sequence[Loss], until_ns: int
) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Who was in sync, and who eligible, right before the last loss, and then while no node that
    had lost something, and was in sync still, had registered again: nobody knows yet what these
    lack, so that the others may leave them the only ones. Whoever keeps one in sync that has said
    so is wrong.
    """
    last = losses[-1]
    told = {loss.node: loss.told for loss in losses}
    held = members.between(last.from_ns, last.from_ns)
    at_first = (
        frozenset(node for each in held for node in each.in_sync),
        frozenset(node for each in held for node in each.eligible),
    )
    later = []
    for each in members.between(last.from_ns, until_ns):
        lacking = each.in_sync & told.keys()
        unknown = all(each.since.precedes(told[node]) for node in lacking)
        if last.from_ns < each.at_ns and lacking and unknown:
            later.append((each.in_sync, each.eligible))
    return list(dict.fromkeys((at_first, *later)))
