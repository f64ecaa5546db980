"""The record of faults, read back: whom each touched, when, and what it took from them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from checkers.history.settings import FOREVER_NS

_OTHER_BYTES = ("disk.bit-flip", "disk.misdirected")
"""Faults that leave bytes which nobody wrote there."""
POWER_LOSSES = ("power-loss", "machine-power-loss")
DISK_FAULTS = (*_OTHER_BYTES, "disk.lost", "disk.cut-tail", "disk.stale-copy")
WHOLE_DISKS = ("disk.lost",)
"""Faults that take all that is on a disk, the metadata log included."""
NOT_INJECTED = "not injected"
"""How the error of a fault begins that did nothing."""
_CLOCKS = "clock."
CLIENTS = 0
"""The number of the clients' machine in the targets of faults."""
_PROCESSES = ("kill", "restart", "rolling-restart", "crash-loop", "kill-during-recovery")
_HOLDING = (
    "pause", "disk.slow", "disk.stall", "link.slow", "link.limited", "link.lossy", "link.bad",
)  # fmt: skip
_DELAYING = (*_HOLDING, "link.reordered", "link.duplicated")
_LINKS = ("cuts", "drops", "links")
"""Where targets name links: [from, to, ...]."""
METADATA_FILE = "metadata-log"
"""The kind of file that is a node's copy of the metadata log."""
_LOGS = "log"
"""The kind of file whose damage takes records; another kind's takes none."""


class Taken(StrEnum):
    """What a fault takes from a node for good."""

    UNFLUSHED = "lost power"
    """Everything that was not fsynced."""
    DISK = "had its disk lost or damaged"
    """Anything, fsynced or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault that took effect: the nodes it was aimed at, and those it cut from any other.

    effective_ns: when its effect was proven, which is soon after it was. kind: its name in the
    catalogue. proven: its effect was measured. of_links: it was done to links between machines.
    way: the nodes whose links with clients it was done to.
    """

    fault_id: int
    label: str
    aimed: frozenset[int]
    cut: frozenset[int]
    started_ns: int
    healed_ns: int  # FOREVER_NS: never healed
    effective_ns: int = 0
    takes: Taken | None = None
    kind: str = ""
    proven: bool = True
    of_links: bool = False
    way: frozenset[int] = frozenset()
    whole_disk: bool = False
    """Everything that was on the disk is gone, the metadata log included."""

    def is_in_the_way_to(self, node: int) -> bool:
        """Whether what clients send to the node may get lost by it on its way, or in its process;
        what cuts nodes from each other lets clients pass."""
        return node in (self.way if self.of_links else self.aimed)

    @property
    def only_delays(self) -> bool:
        """Whether what it befalls gets through in the end, if nothing else befalls it."""
        return self.kind in _DELAYING

    @property
    def holds_up(self) -> bool:
        """Whether what clients send may wait for its end, on the way or unread."""
        return self.kind in _HOLDING or (self.of_links and not self.only_delays)

    @property
    def ends_processes(self) -> bool:
        """Whether nothing that had waited before is left after it."""
        return self.of_process or self.kind in POWER_LOSSES

    @property
    def of_process(self) -> bool:
        """Whether it ends processes, and nothing else."""
        return self.kind in _PROCESSES

    def describe(self) -> str:
        """Such as `fault 3 (pause node 2, 10.000 s to 14.000 s)`."""
        until = "never healed" if self.healed_ns >= FOREVER_NS else f"to {seconds(self.healed_ns)}"
        unproven = "" if self.proven else ", its effect not proven"
        lasted = f"{seconds(self.started_ns)} {until}{unproven}"
        return f"fault {self.fault_id} ({self.label}, {lasted})"


def seconds(at_ns: int) -> str:
    """A moment of a run for people."""
    return f"{at_ns / 1e9:.3f} s"


def touching(faults: Sequence[Fault], node: int) -> list[Fault]:
    """The faults aimed at `node`; where there is none, those that cut it from another node."""
    return [f for f in faults if node in f.aimed] or [f for f in faults if node in f.cut]


def read_fault(row: Mapping[str, Any]) -> Fault | None:
    """A row of the faults' table; None when the fault did not take effect, or was one of clocks:
    nothing that a broker promises depends on one that can be set, so they explain no loss."""
    return _fault(row) if row["took_effect"] else None


def read_begun(row: Mapping[str, Any]) -> Fault | None:
    """The same, also of a fault that was begun and whose effect was not proven: it may have had
    one."""
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
        takes=_taken(row["fault"], targets),
        kind=row["fault"],
        proven=bool(row["took_effect"]),
        of_links=bool(pairs),
        way=frozenset().union(*(pair for pair in pairs if CLIENTS in pair)) - {CLIENTS},
        whole_disk=row["fault"] in WHOLE_DISKS,
    )


def _taken(fault: str, targets: Any) -> Taken | None:
    if fault in POWER_LOSSES:
        return Taken.UNFLUSHED
    return Taken.DISK if fault in DISK_FAULTS and _file(targets) == _LOGS else None


def may_take(row: Mapping[str, Any]) -> bool:
    """Whether a fault of this kind takes something for good, if it takes effect."""
    return row["fault"] in DISK_FAULTS or row["fault"] in POWER_LOSSES


def taken_in_doubt(row: Mapping[str, Any]) -> bool:
    """Whether a fault may have taken something for good without a proof that it did: it failed
    half-way, or the record ended first."""
    if row["took_effect"] or row["started_ns"] is None:
        return False
    error = row["error"] or ""
    if _taken(row["fault"], _parsed(row["targets"])) is None or error.startswith(NOT_INJECTED):
        return False
    return bool(error) or row["effect"] is None


def with_changed_bytes(rows: Iterable[Mapping[str, Any]], file: str = _LOGS) -> list[int]:
    """The nodes in whose files of a kind a recorded fault flipped bits, or put others' bytes; who
    knows who read them."""
    struck = [row for row in rows if row["fault"] in _OTHER_BYTES]
    struck = [row for row in struck if _file(_parsed(row["targets"])) == file]
    flips = [fault for row in struck if (fault := read_fault(row)) is not None]
    return sorted({node for fault in flips for node in fault.aimed})


def _file(targets: Any) -> str:
    """Which kind of file a fault was aimed at."""
    details = targets.get("details") if isinstance(targets, dict) else None
    return str(details.get("file", _LOGS)) if isinstance(details, dict) else _LOGS


def touched_nodes(targets: str | None) -> tuple[frozenset[int], frozenset[int]]:
    """The nodes in a fault's resolved targets, aimed at and cut off: a JSON list of nodes, or an
    object with `nodes` and `cuts` ([from, to, port], packets dropped; `drops` in earlier runs)."""
    parsed = _parsed(targets)
    if not isinstance(parsed, dict):
        return frozenset(_integers(parsed)), frozenset()
    pairs = [*(parsed.get("cuts") or ()), *(parsed.get("drops") or ())]
    cut = [pair[:2] for pair in pairs if isinstance(pair, list)]
    return frozenset(_integers(parsed.get("nodes"))), frozenset(_integers(cut))


def _pairs(targets: Any) -> list[frozenset[int]]:
    """The machines at both ends of each link that a fault cut, or made worse."""
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
