"""The catalogue: every fault by its name, also those of other packages."""

import difflib
from collections.abc import Mapping
from types import MappingProxyType

from nemesis.base import UnknownFault
from nemesis.faults import clock, disk, machine, membership, network, plugged, process, program
from nemesis.faults.fault import Fault

_ALL: tuple[Fault, ...] = (
    *network.FAULTS,
    *process.FAULTS,
    *program.FAULTS,
    *disk.FAULTS,
    *machine.FAULTS,
    *clock.FAULTS,
    *membership.FAULTS,
)

OF_OTHERS = plugged.load({fault.name for fault in _ALL})
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {fault.name: fault for fault in (*_ALL, *OF_OTHERS.faults)}
)
"""Every fault by name, in a fixed order."""


def find(name: str) -> Fault:
    """The fault of that name. Raises UnknownFault, which lists all names and the most similar."""
    if name in FAULTS:
        return FAULTS[name]
    near = difflib.get_close_matches(name, FAULTS, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    problems = "".join(f"; {each}" for each in OF_OTHERS.problems)
    raise UnknownFault(
        f"there is no fault {name!r}{hint}; faults are {', '.join(FAULTS)}{problems}"
    )
