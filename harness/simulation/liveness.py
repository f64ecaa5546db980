"""Must the cluster have settled in the end, and has it?

A cluster must settle after all faults are healed if no fault took a node or a replica for good: all
replicas in sync, everything committed, all logs equal. That holds after power losses, too. In a
simulated run this is a matter of virtual time, so a busy machine cannot break it. What real
processes do not settle stays UNKNOWN, because they may only have been slow.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from checkers.history.history import METADATA_TOPIC
from checkers.history.recorded_faults import DISK_FAULTS, POWER_LOSSES
from harness.simulation.invariants.checker import Invariants
from harness.simulation.invariants.convergence import unconverged
from harness.simulation.recording import Recording
from harness.simulation.world.disk import SimDisk

MAIMING: Final = frozenset({*DISK_FAULTS, "disk.error", "failed-fsync"})
"""Faults after which a replica or a node may be missing for good. A power loss is none of them:
it takes records, and the nodes come back and agree on what is left."""
DAMAGING: Final = frozenset({*MAIMING, *POWER_LOSSES})
"""Faults after which acknowledged records may be missing for good."""
LogEnds = Mapping[tuple[int, str], tuple[int, int]]
"""By disk and directory."""
NOT_TAKEN_BACK: Final = "not taken back"
"""How the note begins of a change to the cluster that the harness could not undo."""


def must_settle(recording: Recording) -> bool:
    """Whether every node and replica must be back: no fault took one for good, and everything is
    healed."""
    return _is_healed(recording) and not _had_any(recording, MAIMING)


def is_undamaged(recording: Recording) -> bool:
    """Whether no fault damaged anything, and everything is healed."""
    return _is_healed(recording) and not _had_any(recording, DAMAGING)


def is_at_rest(recording: Recording) -> bool:
    """Whether the cluster has settled, everything is healed, and no disk has hidden damage."""
    damaged = _had_any(recording, frozenset(DISK_FAULTS))
    return bool(recording.facts.get("settled")) and _is_healed(recording) and not damaged


def _had_any(recording: Recording, faults: frozenset[str]) -> bool:
    return any(row["fault"] in faults for row in recording.faults.named())


def _is_healed(recording: Recording) -> bool:
    rows = recording.faults.named()
    healed = all(row["healed_ns"] is not None for row in rows if row["took_effect"])
    return healed and not any(note.startswith(NOT_TAKEN_BACK) for note in recording.notes)


def log_ends(disks: Iterable[SimDisk]) -> LogEnds:
    """Return where each replica's log ends: the base offset of its last segment and its size. That
    moves on while the replica catches up, whatever retention removes meanwhile."""
    ends: dict[tuple[int, str], tuple[int, int]] = {}
    for number, disk in enumerate(disks):
        for path, size in disk.content.files():
            directory, _, name = path.rpartition("/")
            if name.endswith(".log") and not path.startswith(METADATA_TOPIC):
                at = number, directory
                ends[at] = max(ends.get(at, (0, 0)), (int(name.removesuffix(".log")), size))
    return ends


def moved_on(before: LogEnds, after: LogEnds) -> bool:
    """Whether a log has got longer."""
    return any(end > before.get(at, (0, 0)) for at, end in after.items())


def problem(recording: Recording, invariants: Invariants | None) -> str:
    """Return why the cluster has not settled although it must; an empty text otherwise. Without
    invariants only what clients see counts.

    Call it after the settle phase, while the nodes run.
    """
    if not must_settle(recording):
        return ""
    unsettled = "; ".join(recording.facts.get("unsettled") or [])
    return unsettled or (unconverged(invariants) if invariants is not None else "")
