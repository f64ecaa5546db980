"""The run's network: names, addresses and connections."""

import errno
import socket
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from harness.targets.base import CLIENTS, Unsupported
from harness.targets.linux.network import namespaces, network
from harness.targets.local import LocalTarget
from tests.support.require import require
from tests.support.targets.machine import local_target


def can_connect(target: LocalTarget, src: int, dst: int) -> bool:
    """Whether a TCP connection can be made from one machine to another."""
    with namespaces.entered(target.network.namespace(dst)):
        server = socket.create_server((target.address(dst), 9092))
    with server, namespaces.entered(target.network.namespace(src)):
        try:
            socket.create_connection((target.address(dst), 9092), timeout=5).close()
        except TimeoutError:
            return False
    return True


def test_names_fit_an_interface_and_addresses_are_in_the_benchmark_range() -> None:
    """For every run id."""
    for run_id in ("a", "0190f0a0-7c3e", "x" * 100, "läuft"):
        planned = network.plan(run_id, [1, 2, 200])
        assert len(planned.uplink) <= 15
        assert planned.subnet.subnet_of(IPv4Network("198.18.0.0/15"))
        everyone = {planned.address(machine) for machine in (1, 2, 200, CLIENTS)}
        assert len(everyone | {planned.uplink_address}) == 5


def test_different_runs_have_different_names() -> None:
    """Names depend on the whole run id, not on its beginning."""
    names = {network.plan(f"2026-01-01T00:00:0{second}", [1]).name for second in range(10)}
    assert len(names) == 10


@pytest.mark.parametrize("nodes", [[], [0], [1, 1], [201]])
def test_node_numbers_without_an_address_are_refused(nodes: list[int]) -> None:
    """0 stands for the clients, and the node's number is a byte of the address."""
    with pytest.raises(Unsupported, match="node numbers"):
        network.plan("run", nodes)


def test_every_machine_reaches_every_other(tmp_path: Path) -> None:
    """Nodes and clients are on one network."""
    require("root", "netns")
    with local_target(tmp_path, nodes=3) as target:
        machines = (*target.node_ids(), CLIENTS)
        for src in machines:
            for dst in machines:
                assert can_connect(target, src, dst), (src, dst)


def test_two_runs_with_the_same_subnet_are_separate(tmp_path: Path) -> None:
    """The same address in another run is another machine."""
    require("root", "netns")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    subnet = "198.18.7.0/24"
    with (
        local_target(here, nodes=2, subnet=subnet) as one,
        local_target(there, nodes=2, subnet=subnet) as two,
    ):
        with namespaces.entered(one.network.namespace(1)):
            server = socket.create_server((one.address(1), 9092))
        with server, namespaces.entered(two.network.namespace(2)), socket.socket() as client:
            assert one.address(1) == two.address(1)
            assert client.connect_ex((one.address(1), 9092)) == errno.ECONNREFUSED


def test_an_uplink_connects_the_host_to_the_nodes(tmp_path: Path) -> None:
    """Without an uplink no process of the host reaches them."""
    require("root", "netns")
    with local_target(tmp_path, uplink=True) as target:
        with namespaces.entered(target.network.namespace(1)):
            server = socket.create_server((target.address(1), 9092))
        with server:
            socket.create_connection((target.address(1), 9092), timeout=5).close()
        assert network.free_subnet("anything") != str(target.network.subnet)
        with IPRoute() as route:
            assert route.link_lookup(ifname=target.network.uplink)
    with IPRoute() as route:
        assert not route.link_lookup(ifname=target.network.uplink)


def test_an_uplink_uses_a_subnet_that_the_host_does_not_use(tmp_path: Path) -> None:
    """Two clusters that would start from the same subnet get different ones."""
    require("root", "netns")
    with local_target(tmp_path, uplink=True) as target:
        number = next(
            str(name)
            for name in range(100_000)
            if network.plan(str(name), [1]).subnet == target.network.subnet
        )
        assert not IPv4Network(network.free_subnet(number)).overlaps(target.network.subnet)
