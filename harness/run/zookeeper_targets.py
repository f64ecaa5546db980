"""Which faults may hit ZooKeeper nodes. Pure.

Faults of processes, networks, disks and clocks know nothing of Kafka, so they hit any node. Faults
that change a broker's files, the cluster's members or Kafka's own requests need a broker.
"""

from collections.abc import Iterable
from typing import Final

from nemesis.base import BadSelector
from nemesis.faults.fault import Ability, Fault
from nemesis.hosts import FIRST_ZOOKEEPER
from nemesis.selectors import Selector

OF_BROKERS: Final = frozenset({Ability.FILES, Ability.ADMINISTRATION, Ability.PROGRAM_SIGNALS})
NEED_KAFKA: Final = frozenset({"request-delayed", "disk.lost", "rolling-restart"})
"""Faults of any ability that read Kafka's requests or expect a broker to be back in service."""


def check(fault: Fault, target: Selector, servers: int, nodes: Iterable[int] = ()) -> None:
    """Raise BadSelector when the fault cannot hit the ZooKeeper nodes that are meant.

    `servers` is the number of ZooKeeper nodes of the cluster. `nodes` are meant by number.
    """
    named = [node for node in (*target.nodes, *nodes) if node >= FIRST_ZOOKEEPER]
    if target.kind != "zookeeper" and not named:
        return
    if not servers:
        raise BadSelector(
            "there are no ZooKeeper nodes: the control plane is a metadata quorum (control_plane = "
            '"zookeeper" makes them)'
        )
    numbers = [node - FIRST_ZOOKEEPER + 1 for node in named]
    numbers += [int(target.key)] if target.key.isdecimal() else []
    if beyond := [number for number in numbers if not 1 <= number <= servers]:
        raise BadSelector(f"there is no ZooKeeper node {beyond[0]}, only 1 to {servers}")
    if fault.needs & OF_BROKERS or fault.name in NEED_KAFKA:
        raise BadSelector(f"{fault.name} is for brokers and cannot hit a ZooKeeper node")
