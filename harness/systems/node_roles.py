"""The roles and the rack of each node of a cluster. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from nemesis.hosts import FIRST_ZOOKEEPER

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
COMBINED: Final = "broker,controller"
"""Values of process.roles."""
ZOOKEEPER: Final = "zookeeper"
"""The role of a node that runs a ZooKeeper server, and no broker."""


class LayoutError(ValueError):
    """No cluster can have these roles or racks; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Every node's process.roles, and its broker.rack if it has one."""

    roles: Mapping[int, str]
    racks: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def combined(cls, nodes: Sequence[int], racks: Sequence[str] = ()) -> Self:
        """Make every node broker and controller; give out the racks in turn."""
        return cls(roles=dict.fromkeys(nodes, COMBINED), racks=_in_turn(nodes, racks))

    @classmethod
    def split(cls, *, controllers: int, brokers: int, racks: Sequence[str] = ()) -> Self:
        """Make nodes 1, 2, ... controllers only, and the next ones brokers. Raises LayoutError."""
        if controllers < 1 or brokers < 1:
            raise LayoutError(
                f"{controllers} controllers and {brokers} brokers are no cluster: at least one of "
                "each is needed"
            )
        numbers = range(controllers + 1, controllers + brokers + 1)
        roles = dict.fromkeys(range(1, controllers + 1), CONTROLLER)
        return cls(
            roles={**roles, **dict.fromkeys(numbers, BROKER)}, racks=_in_turn(numbers, racks)
        )

    @classmethod
    def beside_zookeeper(cls, *, brokers: int, zookeepers: int, racks: Sequence[str] = ()) -> Self:
        """Make nodes 1, 2, ... brokers, and nodes 101, 102, ... ZooKeeper servers. Raises
        LayoutError."""
        if brokers < 1 or zookeepers < 1:
            raise LayoutError(
                f"{brokers} brokers and {zookeepers} ZooKeeper nodes are no cluster: at least one "
                "of each is needed"
            )
        numbers = range(1, brokers + 1)
        servers = range(FIRST_ZOOKEEPER, FIRST_ZOOKEEPER + zookeepers)
        roles = {**dict.fromkeys(numbers, BROKER), **dict.fromkeys(servers, ZOOKEEPER)}
        return cls(roles=roles, racks=_in_turn(numbers, racks))

    @property
    def nodes(self) -> tuple[int, ...]:
        """All nodes, ascending."""
        return tuple(sorted(self.roles))

    @property
    def brokers(self) -> tuple[int, ...]:
        """The nodes that hold partitions, ascending."""
        return tuple(node for node in self.nodes if BROKER in self.roles[node])

    @property
    def controllers(self) -> tuple[int, ...]:
        """The voters of the metadata quorum, ascending."""
        return tuple(node for node in self.nodes if CONTROLLER in self.roles[node])

    @property
    def zookeepers(self) -> tuple[int, ...]:
        """The nodes that run a ZooKeeper server, ascending; none beside a metadata quorum."""
        return tuple(node for node in self.nodes if self.roles[node] == ZOOKEEPER)

    @property
    def next_number(self) -> int:
        """The number of the next broker that is added."""
        return max(node for node in self.nodes if self.roles[node] != ZOOKEEPER) + 1

    def with_node(self, node: int, role: str, rack: str | None = None) -> Self:
        """Return the layout with one more node."""
        racks = dict(self.racks) if rack is None else {**self.racks, node: rack}
        return type(self)(roles={**self.roles, node: role}, racks=racks)

    def without(self, node: int) -> Self:
        """Return the layout without a node."""
        return type(self)(
            roles={each: role for each, role in self.roles.items() if each != node},
            racks={each: rack for each, rack in self.racks.items() if each != node},
        )

    def emptiest_rack(self) -> str | None:
        """Return the rack with the fewest brokers, for a new broker; None without racks."""
        names = [self.racks[node] for node in self.brokers if node in self.racks]
        return min(sorted(set(names)), key=names.count, default=None)


def _in_turn(nodes: Sequence[int], racks: Sequence[str]) -> dict[int, str]:
    return {node: racks[turn % len(racks)] for turn, node in enumerate(nodes)} if racks else {}
