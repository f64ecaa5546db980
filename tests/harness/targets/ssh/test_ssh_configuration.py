"""How a machine is reached: by the inventory, the ssh configuration, and the defaults of ssh."""

import getpass
from pathlib import Path

import pytest

from harness.targets.ssh.connection import Connection
from harness.targets.ssh.inventory import Host, Inventory

CONFIG = """\
Host lab-1
  HostName 10.0.0.11
  User admin
  Port 2222
  IdentityFile {keys}/lab
  IdentityFile {keys}/missing
  ProxyJump gate

Host proxied
  ProxyCommand nc %h %p

Host *.example
  ProxyJump bastion.example
"""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A directory with private keys."""
    for name in ("lab", "mine"):
        (tmp_path / name).touch()
    return tmp_path


def connection(keys: Path, host: str, **more: object) -> Connection:
    """The planned connection to a host of the configuration."""
    (keys / "config").write_text(CONFIG.format(keys=keys))
    found = Host.model_validate({"node": 1, "host": host, **more})
    return Connection(found, Inventory(hosts=(found,), ssh_config=keys / "config"))


def test_the_configuration_is_used(keys: Path) -> None:
    """Missing files of keys are ignored, as by ssh."""
    ssh = connection(keys, "lab-1").ssh
    assert (ssh.host, ssh.port, ssh.user) == ("10.0.0.11", 2222, "admin")
    assert ssh.connect_kwargs["key_filename"] == [f"{keys}/lab"]
    assert not ssh.connect_kwargs["look_for_keys"]
    assert ssh.gateway.host == "gate"


def test_the_inventory_has_priority_over_the_configuration(keys: Path) -> None:
    """Key by key."""
    ssh = connection(keys, "lab-1", user="root", key=keys / "mine", jump="none").ssh
    assert (ssh.user, ssh.port, ssh.gateway) == ("root", 2222, False)
    assert ssh.connect_kwargs["key_filename"] == [f"{keys}/mine"]


def test_a_host_without_configuration_has_the_defaults_of_ssh(keys: Path) -> None:
    """The present user, and the keys of ssh-agent and ~/.ssh."""
    ssh = connection(keys, "other").ssh
    assert (ssh.host, ssh.port, ssh.user) == ("other", 22, getpass.getuser())
    assert ssh.connect_kwargs["look_for_keys"]
    assert not ssh.gateway


def test_jump_hosts_are_used_from_left_to_right(keys: Path) -> None:
    """With the machine's key, unless the configuration has one for the jump host."""
    last = connection(keys, "other", key=keys / "mine", jump="lab-1,me@second:2200").ssh.gateway
    assert (last.host, last.user, last.port) == ("second", "me", 2200)
    assert last.connect_kwargs["key_filename"] == [f"{keys}/mine"]
    first = last.gateway
    assert (first.host, first.user) == ("10.0.0.11", "admin")
    assert first.connect_kwargs["key_filename"] == [f"{keys}/lab"]
    assert first.gateway.host == "gate"


def test_a_proxy_command_is_used(keys: Path) -> None:
    """A jump host of the inventory has priority."""
    assert connection(keys, "proxied").ssh.gateway.startswith("nc ")
    assert connection(keys, "proxied", jump="gate").ssh.gateway.host == "gate"


def test_a_jump_host_is_not_its_own_jump_host(keys: Path) -> None:
    """When a pattern of the configuration matches both."""
    ssh = connection(keys, "a.example").ssh
    assert ssh.gateway.host == "bastion.example"
    assert not ssh.gateway.gateway
