"""What Vagrant says of its machines, and how machines that are not there are refused."""

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


def test_states_are_those_of_numbered_machines() -> None:
    """Other machines of a Vagrantfile are not ours, and neither is what is written for people."""
    assert output.states(STATUS) == {1: "running", 2: "not_created", 10: "running"}


def test_spare_machines_may_run_too() -> None:
    """A fault adds brokers on them."""
    assert output.running(output.states(STATUS), 1) == [1, 10]


@pytest.mark.parametrize(("nodes", "missing"), [(2, "n2 is not created"), (3, "n2 is")])
def test_a_machine_that_is_not_up_is_named_with_the_command_that_starts_it(
    nodes: int, missing: str
) -> None:
    """Of the nodes that the plan has."""
    with pytest.raises(VagrantError, match=rf"{missing}.*: NODES={nodes} vagrant up"):
        output.running(output.states(STATUS), nodes)


def test_without_any_machine_the_first_is_missing() -> None:
    """As before the first `vagrant up`."""
    with pytest.raises(VagrantError, match="machine n1 is not created"):
        output.running({}, 3)


def test_hosts_are_read_in_the_order_of_their_nodes() -> None:
    """Each with the port, the user and the key that Vagrant gave it."""
    one, ten = output.hosts(SSH_CONFIG)
    assert (one.node, one.host, one.port, one.user) == (1, "192.168.121.32", 22, "vagrant")
    assert one.key == Path("/home/ann/.vagrant/machines/n1/libvirt/private_key")
    assert (ten.node, ten.host, ten.port) == (10, "127.0.0.1", 2222)
    assert ten.key == Path("/home/a b/.vagrant/machines/n10/docker/private_key")


def test_machines_of_another_machines_hypervisor_need_an_inventory() -> None:
    """Vagrant reaches them by a command, which an inventory says as a jump host."""
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
def test_a_machine_has_a_clock_of_its_own_unless_it_is_a_container(answer: str, clock: str) -> None:
    """What does not say that it is none is taken for one: the clock may be the harness's own."""
    traits = output.traits(1, answer)
    assert traits.clock == clock
    assert traits.address in output.NETWORK


def test_a_machine_without_its_second_network_is_named() -> None:
    """The nodes could not reach each other."""
    with pytest.raises(VagrantError, match=r"n2 has no address in 198.18.0.0/15 \(it has 10.0.0.1"):
        output.traits(2, "10.0.0.1 fe80::1\nnone\n")
    with pytest.raises(VagrantError, match="it has none"):
        output.traits(2, "")


def test_the_address_is_that_of_the_second_network() -> None:
    """Not the one that Vagrant reaches it by."""
    assert output.traits(1, "10.0.2.15 198.18.250.11\nnone\n").address == IPv4Address(
        "198.18.250.11"
    )
