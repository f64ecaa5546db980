"""Undo each kind of kernel object that the journal records.

Every function takes the fields of one record, removes the object that the record names, and returns
in a few words what it removed, or None. The text begins with the kind ("process 7"), by which the
caller counts. A second call is no error, and neither is a half-made object.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from harness.targets.base import TargetError
from harness.targets.linux import clocks, kernel, processes, wall_clock
from harness.targets.linux.disks import throttles, volumes
from harness.targets.linux.network import firewall, namespaces, network
from harness.targets.linux.processes import ProcessId

Fields = Mapping[str, object]
Undo = Callable[[Fields], str | list[str] | None]


def _netns(fields: Fields) -> str | None:
    path = Path(str(fields["path"]))
    # Every process in the run's namespace belongs to the run, journalled or not.
    inside = [found for pid in namespaces.processes_in(path) if (found := processes.identify(pid))]
    _end(inside)
    for process in inside:
        clocks.remove_shared_memory(process.pid)
    ended = f" and {len(inside)} processes in it" if inside else ""
    return f"namespace {path.name}{ended}" if namespaces.delete(path) else None


def _link(fields: Fields) -> str | None:
    name = str(fields["name"])
    return f"interface {name}" if network.remove_link(name) else None


def _process(fields: Fields) -> str | None:
    process = process_of(fields)
    alive = processes.is_alive(process)
    if alive:
        _end([process])
    if process.world == processes.world():
        clocks.remove_shared_memory(process.pid)
    if not alive:
        return None
    return f"process {process.pid}"


def _volume(fields: Fields) -> str | None:
    mountpoint, image = Path(str(fields["mountpoint"])), Path(str(fields["image"]))
    return f"volume {mountpoint}" if volumes.remove(mountpoint, image) else None


def _freeze(fields: Fields) -> str | None:
    mountpoint = Path(str(fields["mountpoint"]))
    if fields.get("hurried") and not kernel.can_expedite_rcu():
        kernel.expedite_rcu(on=False)
    return f"freeze of {mountpoint}" if volumes.thaw(mountpoint) else None


def _throttle(fields: Fields) -> str | None:
    group = throttles.ControlGroup(
        directory=Path(str(fields["directory"])), unified=bool(fields["unified"])
    )
    device, image = str(fields["device"]), Path(str(fields["image"]))
    # The device may belong to another run by now, and the limit too.
    backing = Path(f"/sys/dev/block/{device}/loop/backing_file")
    ours = not backing.exists() or Path("/dev", backing.resolve().parts[-3]) in kernel.loops_over(
        image
    )
    if not ours or not group.directory.exists() or not group.limits(device):
        return None
    group.set(device, bytes_per_s=0, operations_per_s=0)
    return f"limit of device {device}"


def _ballast(fields: Fields) -> str | None:
    path = Path(str(fields["path"]))
    try:
        path.unlink()
    except OSError:
        return None  # never made, or its file system is gone
    return f"ballast {path}"


def _clock(fields: Fields) -> str | None:
    file = Path(str(fields["file"]))
    skewed = clocks.is_skewed(file)
    clocks.remove(file)
    return f"clock {file}" if skewed else None


def _rules(fields: Fields) -> str | None:
    table = str(fields["table"])
    removed = firewall.remove(namespaces.OWN, table)
    return f"ruleset {table}" if removed else None


UNDO: Mapping[str, Undo] = {
    "local.netns": _netns,
    "local.link": _link,
    "local.process": _process,
    "local.volume": _volume,
    "local.freeze": _freeze,
    "local.clock": _clock,
    "local.throttle": _throttle,
    "local.ballast": _ballast,
    "local.probe": _process,
    "local.rules": _rules,
    wall_clock.KIND: wall_clock.undo,
}

FAULTS: Final = frozenset(
    {
        "local.freeze",
        "local.clock",
        "local.throttle",
        "local.ballast",
        "local.probe",
        "local.rules",
        wall_clock.KIND,
    }
)
"""The kinds of records that faults make; the other kinds are machines and their parts."""

_FIRST = ("local.freeze", "local.throttle")


def undo_records(
    records: Iterable[Fields], undo: Mapping[str, Undo]
) -> tuple[list[str], list[str]]:
    """Undo the records, latest first; return (removed objects, problems).

    Frozen and slow disks are released before everything else, because a process that waits for a
    disk cannot be killed. Records of unknown kinds are skipped.
    """
    ours = [record for record in reversed(list(records)) if record["kind"] in undo]
    removed, problems = [], []
    for record in sorted(ours, key=lambda record: record["kind"] not in _FIRST):
        kind = str(record["kind"])
        try:
            done = undo[kind](record)
        except Exception as error:  # whatever failed, the rest must still be undone
            problems.append(f"{kind} {dict(record)}: {error}")
        else:
            removed += [done] if isinstance(done, str) else done or []
    return removed, problems


def process_of(fields: Fields) -> ProcessId:
    """Return the process that a "local.process" record names."""
    return ProcessId(
        pid=int(str(fields["pid"])),
        start_ticks=int(str(fields["start_ticks"])),
        world=str(fields["world"]),
    )


def _end(running: list[ProcessId]) -> None:
    if left := processes.end(running):
        raise TargetError(
            f"processes {[process.pid for process in left]} have not ended after SIGKILL"
        )
