"""What a target can do to its nodes on this machine, and which faults that makes possible.

The one place that says which capabilities of the machine (`harness.targets.doctor`) an ability of
a target
needs. Plans are refused, and the doctor's table of faults is made, from here; nothing is found out
by trying in the middle of a run.
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


def lacking(wanted: Iterable[Ability]) -> dict[Ability, str]:
    """Those of the wanted abilities that the local target lacks here, why, and how to get them.

    Probes only what they need.
    """
    asked = sorted(set(wanted))
    missing = {c.name: c for c in doctor.missing_for({n for a in asked for n in NEEDS[a]})}
    found = {}
    for ability in asked:
        if lacks := [missing[name] for name in NEEDS[ability] if name in missing]:
            found[ability] = "; ".join(f"{c.name}: {c.detail}; {c.how_to_get}" for c in lacks)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Whether one fault can be injected in one way of running."""

    fault: str
    target: str
    """AS_ROOT or WITHOUT_ROOT."""
    available: bool | None
    """None: it cannot be tried from here."""
    missing: tuple[Capability, ...] = ()


def offers() -> list[Offer]:
    """Every fault against every way of running it, in the catalogue's order; tried where it can be.

    Without root nobody knows what root could do: that is said, not guessed.
    """
    names = {name for needed in NEEDS.values() for name in needed}
    ways = doctor.by_privilege(names)
    return [
        _offer(fault, target, ways[rooted])
        for fault in FAULTS.values()
        for target, rooted in ((AS_ROOT, True), (WITHOUT_ROOT, False))
    ]


def _offer(fault: Fault, target: str, found: Mapping[str, Capability] | None) -> Offer:
    if found is None:
        return Offer(fault=fault.name, target=target, available=None)
    names = dict.fromkeys(name for ability in sorted(fault.needs) for name in NEEDS[ability])
    missing = tuple(found[name] for name in names if not found[name].available)
    return Offer(fault=fault.name, target=target, available=not missing, missing=missing)


def as_json(found: Sequence[Offer]) -> list[dict[str, Any]]:
    """One object per fault: its needs, and for each target what there is and what is missing."""
    rows: dict[str, dict[str, Any]] = {}
    for offer in found:
        needs = sorted(FAULTS[offer.fault].needs)
        row = rows.setdefault(offer.fault, {"fault": offer.fault, "needs": needs, "targets": {}})
        row["targets"][offer.target] = {
            "available": offer.available,
            "missing": [asdict(capability) for capability in offer.missing],
        }
    return list(rows.values())


def text(found: Sequence[Offer]) -> str:
    """Faults by ways of running, for the terminal, and how to get what is missing."""
    rows: dict[str, dict[str, str]] = {}
    for offer in found:
        rows.setdefault(offer.fault, {})[offer.target] = _cell(offer)
    cells = [("fault", AS_ROOT, WITHOUT_ROOT)]
    cells += [(name, row[AS_ROOT], row[WITHOUT_ROOT]) for name, row in rows.items()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]
    ways = {c.name: c.how_to_get for offer in found for c in offer.missing}
    return "\n".join([*lines, *(f"to get {name}: {how}" for name, how in ways.items())])


def _cell(offer: Offer) -> str:
    if offer.available is None:
        return "? (sudo highwater doctor tells)"
    missing = ", ".join(capability.name for capability in offer.missing)
    return "yes" if offer.available else f"no: lacks {missing}"
