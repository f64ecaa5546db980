"""Vagrant's output about its machines, and the refusal of missing machines."""

from ipaddress import IPv4Address
from pathlib import Path

import pytest

from harness.targets.vagrant import output
from harness.targets.vagrant.output import VagrantError

STATUS = """\
1795363577,n1,metadata,provider,libvirt
1795363577,n1,provider-name,libvirt
1795363577,n1,state,running
1795363577,n1,state-human-long,The Libvirt domain is running. To stop this machine%!(VAGRANT_COMMA)
1795363577,n10,state,running
1795363577,n2,state,not_created
1795363577,web,state,running
1795363577,,ui,info,Current machine states:\\n\\nn1    running (libvirt)
"""

SSH_CONFIG = """\
Host n10
  HostName 127.0.0.1
  User vagrant
  Port 2222
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  PasswordAuthentication no
  IdentityFile "/home/a b/.vagrant/machines/n10/docker/private_key"
  IdentitiesOnly yes
  LogLevel FATAL

Host n1
  HostName 192.168.121.32
  User vagrant
  Port 22
  IdentityFile /home/ann/.vagrant/machines/n1/libvirt/private_key

Host web
  HostName 192.168.121.33
  User vagrant
  Port 22
"""


def test_states_are_those_of_machines_named_n_and_a_number() -> None:
    """Other machines and human-readable lines are skipped."""
    assert output.states(STATUS) == {1: "running", 2: "not_created", 10: "running"}


def test_spare_machines_may_run() -> None:
    """A fault adds brokers on them."""
    assert output.running(output.states(STATUS), 1) == [1, 10]


@pytest.mark.parametrize(("nodes", "missing"), [(2, "n2 is not created"), (3, "n2 is")])
def test_a_missing_machine_is_named_with_the_command_that_starts_it(
    nodes: int, missing: str
) -> None:
    """For the nodes of the plan."""
    with pytest.raises(VagrantError, match=rf"{missing}.*: NODES={nodes} vagrant up"):
        output.running(output.states(STATUS), nodes)


def test_without_any_machine_the_first_is_missing() -> None:
    """As before the first `vagrant up`."""
    with pytest.raises(VagrantError, match="machine n1 is not created"):
        output.running({}, 3)


def test_hosts_are_sorted_by_their_nodes() -> None:
    """Each with Vagrant's port, user and key."""
    one, ten = output.hosts(SSH_CONFIG)
    assert (one.node, one.host, one.port, one.user) == (1, "192.168.121.32", 22, "vagrant")
    assert one.key == Path("/home/ann/.vagrant/machines/n1/libvirt/private_key")
    assert (ten.node, ten.host, ten.port) == (10, "127.0.0.1", 2222)
    assert ten.key == Path("/home/a b/.vagrant/machines/n10/docker/private_key")


def test_machines_behind_a_proxy_command_need_an_inventory() -> None:
    """With a jump host."""
    text = "Host n1\n  HostName 10.0.0.5\n  ProxyCommand ssh lab -W %h:%p\n"
    with pytest.raises(VagrantError, match=r"ssh lab .*--target ssh"):
        output.hosts(text)


@pytest.mark.parametrize(
    ("answer", "clock"),
    [
        ("192.168.121.32 198.18.250.11 \nnone\n", "machine"),
        ("172.17.0.2 198.19.0.11 fd00::1 \ndocker\n", "process"),
        ("198.18.250.11\n", "process"),
        ("198.18.250.11\nlxc\n", "process"),
    ],
)
def test_a_machine_has_its_own_clock_unless_it_is_a_container(answer: str, clock: str) -> None:
    """Without an answer it counts as a container."""
    traits = output.traits(1, answer)
    assert traits.clock == clock
    assert traits.address in output.NETWORK


def test_a_machine_without_its_second_network_is_refused() -> None:
    """Its node could not reach the others."""
    with pytest.raises(VagrantError, match=r"n2 has no address in 198.18.0.0/15 \(it has 10.0.0.1"):
        output.traits(2, "10.0.0.1 fe80::1\nnone\n")
    with pytest.raises(VagrantError, match="it has none"):
        output.traits(2, "")


def test_the_address_is_that_of_the_second_network() -> None:
    """Not the address that Vagrant connects to."""
    assert output.traits(1, "10.0.2.15 198.18.250.11\nnone\n").address == IPv4Address(
        "198.18.250.11"
    )
