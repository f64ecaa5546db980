"""The recorded faults: which nodes each one affected, when, and which state the nodes lost."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from checkers.history.settings import FOREVER_NS

OTHER_BYTES = ("disk.bit-flip", "disk.misdirected")
"""Faults that leave bytes which no node wrote there."""
POWER_LOSSES = ("power-loss", "machine-power-loss")
DISK_FAULTS = (*OTHER_BYTES, "disk.lost", "disk.cut-tail", "disk.stale-copy")
WHOLE_DISKS = ("disk.lost",)
"""Faults that remove everything from a disk, the metadata log included."""
_KEEPING_DOWN = ("kill", *POWER_LOSSES, *DISK_FAULTS)
NOT_INJECTED = "not injected"
"""How the error of a fault without any effect begins."""
_CLOCKS = "clock."
CLIENTS = 0
"""The number of the clients' machine in the targets of faults."""
_PROCESSES = ("kill", "restart", "rolling-restart", "crash-loop", "kill-during-recovery")
_HOLDING = (
    "pause", "disk.slow", "disk.stall", "link.slow", "link.limited", "link.lossy", "link.bad",
    "request-delayed",
)  # fmt: skip
_DELAYING = (*_HOLDING, "link.reordered", "link.duplicated")
_LINKS = ("cuts", "drops", "links")
"""The keys of targets that have links: [from, to, ...]."""
LONGEST_PAUSE_NS = 120_000_000_000
"""The longest pause before TCP sends a packet again (RFC 6298; TCP_RTO_MAX of Linux)."""
LATE_NS = 5_000_000_000
"""How long a busy node or client may need, once nothing holds a request up any more."""
FIRST_ZOOKEEPER = 101
"""The number of the first ZooKeeper node, as in `nemesis.hosts`; brokers have lower numbers."""
METADATA_FILE = "metadata-log"
"""The kind of file that is a node's copy of the metadata log."""
LOGS = "log"
"""The only kind of file whose damage loses records."""


LogName = tuple[str, int]
"""Topic and partition."""
_LOG_PATH = re.compile(r"(?:.*/)?([^/]+)-(\d+)/\d+\.log")


class LostState(StrEnum):
    """What a node loses for good by a fault."""

    UNFLUSHED = "lost power"
    """Everything that was not fsynced."""
    DISK = "suffered disk loss or damage"
    """Anything, fsynced or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that took effect. aimed: the nodes it was aimed at. cut: nodes cut off from others.

    effective_ns: when its effect was proven, which is soon after the effect. kind: its name in the
    catalogue. proven: its effect was measured. of_links: it affected links between machines.
    client_links: the nodes whose links with clients it affected.
    """

    fault_id: int
    label: str
    aimed: frozenset[int]
    cut: frozenset[int]
    started_ns: int
    healed_ns: int  # FOREVER_NS: never healed
    effective_ns: int = 0
    loses: LostState | None = None
    kind: str = ""
    proven: bool = True
    of_links: bool = False
    client_links: frozenset[int] = frozenset()
    whole_disk: bool = False
    """Everything on the disk is gone, the metadata log included."""
    damaged: Mapping[int, frozenset[LogName]] = field(default_factory=dict, hash=False)
    """The partitions in whose logs the fault changed bytes, by node. Of a node that is missing here
    it may have changed all."""

    def losing(self, topic: str | None, partition: int | None) -> frozenset[int]:
        """Return the nodes that lost state of the partition. partition None: of one of the topic;
        topic None: of any."""
        if self.loses is None:
            return frozenset()
        return frozenset(node for node in self.aimed if self._hits(node, topic, partition))

    def _hits(self, node: int, topic: str | None, partition: int | None) -> bool:
        if topic is None or node not in self.damaged:
            return True
        return any(
            name == topic and partition in (None, number) for name, number in self.damaged[node]
        )

    def may_lose_sends_to(self, node: int) -> bool:
        """Whether client requests to the node may get lost, on their way or in its process. A fault
        that cuts nodes off from each other lets clients pass."""
        return node in (self.client_links if self.of_links else self.aimed)

    @property
    def only_delays(self) -> bool:
        """Whether affected requests get through in the end, unless another fault affects them."""
        return self.kind in _DELAYING

    @property
    def holds_up(self) -> bool:
        """Whether client requests may wait for the end of the fault, on their way or unread."""
        return self.kind in _HOLDING or (self.of_links and not self.only_delays)

    @property
    def ends_processes(self) -> bool:
        """Whether requests that waited before the fault are gone after it."""
        return self.of_process or self.kind in POWER_LOSSES

    @property
    def keeps_down(self) -> bool:
        """Whether no process of the nodes runs once the effect is proven, until the heal."""
        return self.kind in _KEEPING_DOWN

    @property
    def of_process(self) -> bool:
        """Whether the fault ends processes and does nothing else."""
        return self.kind in _PROCESSES

    def describe(self) -> str:
        """Such as `fault 3 (pause node 2, 10.000 s to 14.000 s)`. The report turns `fault 3 (` into
        a link."""
        until = "never healed" if self.healed_ns >= FOREVER_NS else f"to {seconds(self.healed_ns)}"
        unproven = "" if self.proven else ", its effect not proven"
        lasted = f"{seconds(self.started_ns)} {until}{unproven}"
        return f"fault {self.fault_id} ({self.label}, {lasted})"


def seconds(at_ns: int) -> str:
    """Format a moment of a run for people."""
    return f"{at_ns / 1e9:.3f} s"


def touching(faults: Sequence[Fault], node: int) -> list[Fault]:
    """Return the faults aimed at `node`; without any, the faults that cut it off from others."""
    return [f for f in faults if node in f.aimed] or [f for f in faults if node in f.cut]


def read_fault(row: Mapping[str, Any]) -> Fault | None:
    """Read a row of the faults' table. Return None when the fault did not take effect, and for
    clock faults: no guarantee of a broker depends on a wall clock, so they explain no loss."""
    return _fault(row) if row["took_effect"] else None


def read_begun(row: Mapping[str, Any]) -> Fault | None:
    """The same, but also return a fault that began without a proven effect: it may have had one."""
    in_vain = (row["error"] or "").startswith(NOT_INJECTED)
    return _fault(row) if row["took_effect"] or not in_vain else None


def _fault(row: Mapping[str, Any]) -> Fault | None:
    if row["started_ns"] is None or row["fault"].startswith(_CLOCKS):
        return None
    healed_ns, effective_ns = row["healed_ns"], row["effective_ns"]
    targets = _parsed(row["targets"])
    aimed, cut = touched_nodes(row["targets"])
    pairs = _pairs(targets)
    return Fault(
        fault_id=row["fault_id"],
        label=row["label"] or row["fault"],
        aimed=aimed,
        cut=cut,
        started_ns=row["started_ns"],
        healed_ns=FOREVER_NS if healed_ns is None else healed_ns,
        effective_ns=row["started_ns"] if effective_ns is None else effective_ns,
        loses=_lost_state(row["fault"], targets),
        kind=row["fault"],
        proven=bool(row["took_effect"]),
        of_links=bool(pairs),
        client_links=frozenset().union(*(pair for pair in pairs if CLIENTS in pair)) - {CLIENTS},
        whole_disk=row["fault"] in WHOLE_DISKS,
        damaged=_damaged_logs(row.get("damaged")),
    )


def _damaged_logs(damaged: str | None) -> Mapping[int, frozenset[LogName]]:
    """Read the column `damaged`: JSON, node -> paths such as log/orders-0/00000000000000000000.log.
    A node is left out if one of its paths is no log of a partition."""
    parsed = _parsed(damaged)
    found = {}
    for node, paths in parsed.items() if isinstance(parsed, dict) else ():
        listed = paths if isinstance(paths, list) else [paths]
        logs = [_LOG_PATH.fullmatch(str(path)) for path in listed]
        if node.isdecimal() and all(logs):
            found[int(node)] = frozenset((log[1], int(log[2])) for log in logs if log)
    return found


def _lost_state(fault: str, targets: Any) -> LostState | None:
    if fault in POWER_LOSSES:
        return LostState.UNFLUSHED
    return LostState.DISK if fault in DISK_FAULTS and _file(targets) == LOGS else None


def delays(rows: Iterable[Mapping[str, Any]]) -> tuple[tuple[int, int], ...]:
    """Return the time spans (from_ns, until_ns), one after the other, in which faults may have made
    requests late.

    A request that a fault holds up is let go at the end of the fault. A packet that a link lost is
    sent again, after pauses that double: it may arrive as late again as the fault lasted. If the
    next fault begins before, that packet may be lost again, and both count as one fault.
    """
    faults = [fault for row in rows if (fault := _delaying(row)) is not None]
    spans: list[tuple[int, int]] = []
    healed_ns = 0
    for fault in sorted(faults, key=lambda fault: fault.started_ns):
        from_ns = fault.started_ns
        if spans and from_ns <= spans[-1][1]:
            from_ns, _ = spans.pop()
        else:
            healed_ns = 0
        healed_ns = max(healed_ns, fault.healed_ns)
        again_ns = min(healed_ns - from_ns, LONGEST_PAUSE_NS)
        spans.append((from_ns, healed_ns + again_ns + LATE_NS))
    return tuple(spans)


def may_delay(row: Mapping[str, Any]) -> bool:
    """Whether a fault may have made requests late."""
    return _delaying(row) is not None


def _delaying(row: Mapping[str, Any]) -> Fault | None:
    fault = read_begun(row)
    return fault if fault is not None and (fault.only_delays or fault.of_links) else None


def may_lose_state(row: Mapping[str, Any]) -> bool:
    """Whether nodes lose state for good by a fault of this kind, if it takes effect."""
    return row["fault"] in DISK_FAULTS or row["fault"] in POWER_LOSSES


def may_have_lost_state(row: Mapping[str, Any]) -> bool:
    """Whether nodes may have lost state by a fault, without a proof: the fault failed half-way, or
    the record ended first."""
    if row["took_effect"] or row["started_ns"] is None:
        return False
    error = row["error"] or ""
    lost = _lost_state(row["fault"], _parsed(row["targets"]))
    if lost is None or error.startswith(NOT_INJECTED):
        return False
    return bool(error) or row["effect"] is None


def kind_of_file(targets: str | None) -> str:
    """Return the kind of file that a fault with these resolved targets was aimed at."""
    return _file(_parsed(targets))


def _file(targets: Any) -> str:
    details = targets.get("details") if isinstance(targets, dict) else None
    return str(details.get("file", LOGS)) if isinstance(details, dict) else LOGS


def touched_nodes(targets: str | None) -> tuple[frozenset[int], frozenset[int]]:
    """Return the nodes in a fault's resolved targets: aimed at, and cut off. targets: a JSON list
    of nodes, or an object with `nodes` and `cuts` ([from, to, port], packets dropped; `drops` in
    earlier runs)."""
    parsed = _parsed(targets)
    if not isinstance(parsed, dict):
        return frozenset(_integers(parsed)), frozenset()
    pairs = [*(parsed.get("cuts") or ()), *(parsed.get("drops") or ())]
    cut = [pair[:2] for pair in pairs if isinstance(pair, list)]
    return frozenset(_integers(parsed.get("nodes"))), frozenset(_integers(cut))


def _pairs(targets: Any) -> list[frozenset[int]]:
    """Return the two ends of each link that a fault cut, or made worse."""
    named = (targets.get(name) or () for name in _LINKS) if isinstance(targets, dict) else ()
    return [
        frozenset(_integers(pair[:2]))
        for pairs in named
        for pair in pairs
        if isinstance(pair, list)
    ]


def _parsed(targets: str | None) -> Any:
    try:
        return json.loads(targets) if targets else []
    except (ValueError, RecursionError):
        return []


def _integers(value: Any) -> Iterable[int]:
    match value:
        case bool():
            return
        case int():
            yield value
        case list():
            for item in value:
                yield from _integers(item)
