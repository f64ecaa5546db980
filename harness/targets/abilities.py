"""The abilities of targets on this machine, and the faults that they make possible.

Only this module says which capabilities of the machine (`harness.targets.doctor`) an ability needs.
A plan with an impossible fault is refused because of this table before the run starts. The doctor's
table of faults comes from here too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from harness.targets import doctor
from harness.targets.doctor import Capability
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability, Fault

NEEDS: Final[Mapping[Ability, tuple[str, ...]]] = {
    Ability.SIGNALS: ("netns",),
    Ability.CLIENT_SIGNALS: ("netns",),
    Ability.PROGRAM_SIGNALS: ("netns",),
    Ability.PROGRAM_CLOCKS: ("faketime",),
    Ability.PROGRAM_CUTS: ("nftables",),
    Ability.PACKET_DROPS: ("nftables",),
    Ability.LINK_QUALITY: ("bad-links",),
    Ability.CONNECTION_RESETS: ("resets",),
    Ability.DISK_STALLS: ("freeze",),
    Ability.DISK_FAULTS: ("loop",),
    Ability.DISK_READ_ONLY: ("loop",),
    Ability.FAILED_SYNCS: ("failed-syncs",),
    Ability.DISK_SPEED: ("loop", "disk-limits"),
    Ability.POWER_LOSS: ("loop",),
    Ability.MACHINE_POWER: ("hypervisor",),
    Ability.FILES: ("netns",),
    Ability.CLOCKS: ("faketime",),
    Ability.ADMINISTRATION: ("netns",),
}
"""The capabilities of the machine without which the local target lacks an ability."""

AS_ROOT: Final = "local as root"
WITHOUT_ROOT: Final = "local without root"


def missing_abilities(wanted: Iterable[Ability]) -> dict[Ability, str]:
    """Return the wanted abilities that the local target lacks here, with the reason and the fix.

    Only the capabilities that they need are probed.
    """
    abilities = sorted(set(wanted))
    names = {name for ability in abilities for name in NEEDS[ability]}
    missing = {c.name: c for c in doctor.missing_capabilities(names)}
    found = {}
    for ability in abilities:
        if lacks := [missing[name] for name in NEEDS[ability] if name in missing]:
            found[ability] = "; ".join(f"{c.name}: {c.detail}; {c.how_to_get}" for c in lacks)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultAvailability:
    """Whether one fault can be injected as root, or without root."""

    fault: str
    target: str
    """AS_ROOT or WITHOUT_ROOT."""
    available: bool | None
    """None when this user cannot probe it."""
    missing: tuple[Capability, ...] = ()


def fault_availability() -> list[FaultAvailability]:
    """Return the availability of every fault as root and without, in the catalogue's order.

    What cannot be probed by this user has the value None.
    """
    names = {name for needed in NEEDS.values() for name in needed}
    found = doctor.by_privilege(names)
    return [
        _availability(fault, target, found[as_root])
        for fault in FAULTS.values()
        for target, as_root in ((AS_ROOT, True), (WITHOUT_ROOT, False))
    ]


def _availability(
    fault: Fault, target: str, found: Mapping[str, Capability] | None
) -> FaultAvailability:
    if found is None:
        return FaultAvailability(fault=fault.name, target=target, available=None)
    names = dict.fromkeys(name for ability in sorted(fault.needs) for name in NEEDS[ability])
    missing = tuple(found[name] for name in names if not found[name].available)
    return FaultAvailability(
        fault=fault.name, target=target, available=not missing, missing=missing
    )


def as_json(found: Sequence[FaultAvailability]) -> list[dict[str, Any]]:
    """Return one object per fault: its needs, and its availability on each target."""
    rows: dict[str, dict[str, Any]] = {}
    for each in found:
        needs = sorted(FAULTS[each.fault].needs)
        row = rows.setdefault(each.fault, {"fault": each.fault, "needs": needs, "targets": {}})
        row["targets"][each.target] = {
            "available": each.available,
            "missing": [asdict(capability) for capability in each.missing],
        }
    return list(rows.values())


def text(found: Sequence[FaultAvailability]) -> str:
    """Return a table of the faults for the terminal, and how to get missing capabilities."""
    rows: dict[str, dict[str, str]] = {}
    for each in found:
        rows.setdefault(each.fault, {})[each.target] = _cell(each)
    cells = [("fault", AS_ROOT, WITHOUT_ROOT)]
    cells += [(name, row[AS_ROOT], row[WITHOUT_ROOT]) for name, row in rows.items()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    fixes = {c.name: c.how_to_get for each in found for c in each.missing}
    return "\n".join([*lines, *(f"to get {name}: {how}" for name, how in fixes.items())])


def _cell(availability: FaultAvailability) -> str:
    if availability.available is None:
        return "? (run: sudo highwater doctor)"
    missing = ", ".join(capability.name for capability in availability.missing)
    return "yes" if availability.available else f"no: lacks {missing}"
