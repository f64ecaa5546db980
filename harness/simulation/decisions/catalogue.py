"""The modules in which the broker decides: pure functions, without sockets, files or clocks."""

import importlib
from types import ModuleType
from typing import Final

_NAMES: Final = {
    "nodes.replication": "partition progress throttle",
    "nodes.raft": "election_state elections epochs leadership membership positions quorum roles "
    "snapshot timing voters",
    "nodes.controller": "configs controller deletions elections features isr partition_changes "
    "placement reassignments recovery sessions situation topics",
    "nodes.metadata": "broker group_configs image snapshot unused",
    "nodes.log": "appending deletion divergence leader_epochs log producer_snapshots "
    "producer_state producer_state_manager reading recompression record_validation recovery "
    "retention timestamps",
    "nodes.log.transactions": "unstable verification",
}
NAMES: Final = tuple(
    f"{package}.{name}" for package, names in _NAMES.items() for name in names.split()
)


def modules() -> list[ModuleType]:
    """Return the modules, always in the same order."""
    return [importlib.import_module(name) for name in NAMES]
