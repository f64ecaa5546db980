"""The run's network: one namespace per machine, and one for the switch between them.

The switch is a bridge in its own namespace, so that the host's forwarding rules never see the
run's packets. Addresses come from 198.18.0.0/15, the range reserved for benchmarks (RFC 2544),
which no LAN or VPN should use. Names and addresses are functions of the run's id.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from ipaddress import IPv4Network
from pathlib import Path

from pyroute2 import IPRoute

from harness.targets.base import CLIENTS, TargetError, Unsupported
from harness.targets.linux import kernel
from harness.targets.linux.network import namespaces
from harness.targets.linux.recorder import Recorder
from nemesis.hosts import PROGRAM

RANGE = IPv4Network("198.18.0.0/15")
MAX_NODE = 200
_CLIENTS_HOST = 250
_UPLINK_HOST = 254
_LABELS = {CLIENTS: "clients", PROGRAM: "program"}
_BRIDGE = "switch"
INTERFACE = "eth0"
"""The interface of every machine to the switch."""
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Names of namespaces and interfaces, and addresses. Plain data."""

    name: str
    """Prefix of all the run's names: hw-<eight characters>."""
    subnet: IPv4Network
    nodes: tuple[int, ...]
    directory: Path
    """The directory of the namespaces' names."""

    @property
    def switch(self) -> Path:
        """The namespace of the bridge."""
        return self.directory / f"{self.name}-switch"

    @property
    def uplink(self) -> str:
        """The host's interface into the run, if requested: 14 of at most 15 characters."""
        return f"{self.name}-up"

    @property
    def uplink_address(self) -> str:
        """The host's own address in the run's network."""
        return str(self.subnet[_UPLINK_HOST])

    def namespace(self, machine: int) -> Path:
        """The namespace of a node, of the clients, or of the tested program."""
        label = _LABELS.get(machine, f"n{machine}")
        return self.directory / f"{self.name}-{label}"

    def address(self, machine: int) -> str:
        """The address of a node or the tested program (its last byte is the number), or of the
        clients.
        """
        return str(self.subnet[_CLIENTS_HOST if machine == CLIENTS else machine])

    def sources(self, machine: int) -> tuple[str, ...]:
        """The addresses from which a machine's packets come. The host's own programs, which come
        over the uplink, are clients too, and so is a tested program on a machine of its own.
        """
        more = (self.uplink_address, self.address(PROGRAM)) if machine == CLIENTS else ()
        return (self.address(machine), *more)


def plan(run_id: str, nodes: Sequence[int], subnet: str | None = None) -> Network:
    """Name a run's network. `subnet` ("198.18.7.0/24") is derived from the run id unless given.

    Two runs at the same time may have equal subnets, since their namespaces are not connected. Only
    an uplink shows a subnet to the host; `free_subnet` finds one that the host does not use.
    """
    _check(nodes)
    return Network(
        name=name_of(run_id),
        subnet=IPv4Network(subnet) if subnet else _subnet(_digest(run_id)),
        nodes=tuple(sorted(nodes)),
        directory=namespaces.netns_dir(),
    )


def name_of(run_id: str) -> str:
    """Return the prefix of all names of a run: hw-<eight characters>."""
    return f"hw-{_digest(run_id):08x}"


def with_nodes(network: Network, nodes: Sequence[int]) -> Network:
    """Return the network with other nodes. Raises Unsupported for impossible node numbers."""
    _check(nodes)
    return replace(network, nodes=tuple(sorted(nodes)))


def _check(nodes: Sequence[int]) -> None:
    if not nodes or min(nodes) < 1 or max(nodes) > MAX_NODE or len(set(nodes)) != len(nodes):
        raise Unsupported(f"node numbers must be distinct and from 1 to {MAX_NODE}: {list(nodes)}")


def free_subnet(run_id: str) -> str:
    """Return a /24 that contains no address of the host; the run's own subnet is tried first."""
    with IPRoute() as route:
        taken = [
            IPv4Network((attribute, message["prefixlen"]), strict=False)
            for message in route.get_addr(family=2)
            if (attribute := message.get_attr("IFA_ADDRESS"))
        ]
    first = _digest(run_id)
    for step in range(RANGE.num_addresses // 256):
        subnet = _subnet(first + step)
        if not any(subnet.overlaps(other) for other in taken):
            return str(subnet)
    raise Unsupported(
        f"this machine uses addresses in every subnet of {RANGE}, so none is left to connect it to "
        "the cluster: remove the address of another cluster (highwater cluster down)"
    )


def build(network: Network, journal: Recorder) -> None:
    """Make the switch, without connections. Raises OSError, NetlinkError."""
    journal.record("local.netns", path=str(network.switch))
    namespaces.create(network.switch)
    with namespaces.entered(network.switch), IPRoute() as route:
        _set_up(route, "lo")
        route.link("add", ifname=_BRIDGE, kind="bridge", br_stp_state=0, state="up")


def connect(network: Network, machines: Sequence[int]) -> None:
    """Connect existing machines to the switch. Raises OSError, NetlinkError, TargetError."""
    with namespaces.entered(network.switch), IPRoute() as route:
        for machine in machines:
            port = network.namespace(machine).name.rpartition("-")[2]
            mac = _mac(network.address(machine))
            _await_absence(route, port)
            _veth(route, port, INTERFACE, network.namespace(machine), mac)
            _join_bridge(route, port)
    for machine in machines:
        with namespaces.entered(network.namespace(machine)), IPRoute() as route:
            _set_up(route, "lo")
            _configure(route, INTERFACE, network.address(machine), network.subnet)
    # Only now does each link have both ends.
    for machine in machines:
        with namespaces.entered(network.namespace(machine)), IPRoute() as route:
            _await_carrier(route, INTERFACE)


def add_uplink(network: Network, journal: Recorder) -> None:
    """Connect the namespace of the calling thread to the run's switch."""
    journal.record("local.link", name=network.uplink)
    port = "uplink"
    with IPRoute() as route:
        _veth(route, network.uplink, port, network.switch)
        _configure(route, network.uplink, network.uplink_address, network.subnet)
    with namespaces.entered(network.switch), IPRoute() as route:
        _join_bridge(route, port)
    with IPRoute() as route:
        _await_carrier(route, network.uplink)


def remove_link(name: str) -> bool:
    """Remove an interface and its peer. Return False when there is no such interface."""
    with IPRoute() as route:
        found = route.link_lookup(ifname=name)
        for index in found:
            route.link("del", index=index)
    return bool(found)


def _veth(
    route: IPRoute, name: str, peer: str, peer_namespace: Path, peer_mac: str | None = None
) -> None:
    descriptor = os.open(peer_namespace, os.O_RDONLY)
    other = {"ifname": peer, "net_ns_fd": descriptor}
    if peer_mac is not None:
        other["address"] = peer_mac
    try:
        route.link("add", ifname=name, kind="veth", peer=other)
    finally:
        os.close(descriptor)


def _join_bridge(route: IPRoute, port: str) -> None:
    bridge = route.link_lookup(ifname=_BRIDGE)[0]
    route.link("set", index=route.link_lookup(ifname=port)[0], master=bridge, state="up")


def _set_up(route: IPRoute, interface: str) -> int:
    index: int = route.link_lookup(ifname=interface)[0]
    route.link("set", index=index, state="up")
    return index


def _await_absence(route: IPRoute, interface: str) -> None:
    # A removed machine's link ends with its namespace, which the kernel removes with a delay.
    if not kernel.wait_until(lambda: not route.link_lookup(ifname=interface), _TIMEOUT_S):
        raise TargetError(f"interface {interface} is still there after {_TIMEOUT_S} s")


def _await_carrier(route: IPRoute, interface: str) -> None:
    # The kernel notices a new link's other end with a delay, and drops packets until then.
    index = route.link_lookup(ifname=interface)[0]

    def is_up() -> bool:
        return bool(route.get_links(index)[0].get_attr("IFLA_OPERSTATE") == "UP")

    if not kernel.wait_until(is_up, _TIMEOUT_S):
        raise TargetError(f"interface {interface} has no link after {_TIMEOUT_S} s")


def _configure(route: IPRoute, interface: str, address: str, subnet: IPv4Network) -> None:
    index = _set_up(route, interface)
    route.addr("add", index=index, address=address, prefixlen=subnet.prefixlen)


def _mac(address: str) -> str:
    """Return a hardware address derived from the IPv4 address. A machine that is removed and made
    again keeps its old one, so that its neighbours' ARP caches stay correct.
    """
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x00, *map(int, address.split("."))))


def _digest(run_id: str) -> int:
    return int.from_bytes(blake2b(run_id.encode(), digest_size=4).digest(), "big")


def _subnet(number: int) -> IPv4Network:
    size = RANGE.num_addresses // 256
    return IPv4Network((int(RANGE.network_address) + 256 * (number % size), 24))
