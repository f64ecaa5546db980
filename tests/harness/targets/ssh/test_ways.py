"""How a machine is reached: the inventory's word, then the ssh configuration's, then ssh's own."""

import io
from pathlib import Path

import paramiko
import pytest

from harness.targets.ssh.connection import jump_of, way_of

CONFIG = """\
Host lab-1
  HostName 10.0.0.11
  User admin
  Port 2222
  IdentityFile /keys/lab
  ProxyJump gate
"""


@pytest.fixture
def config() -> paramiko.SSHConfig:
    """An ssh configuration."""
    return paramiko.SSHConfig.from_file(io.StringIO(CONFIG))


def test_the_configuration_is_used(config: paramiko.SSHConfig) -> None:
    """As ssh would."""
    way = way_of("lab-1", config)
    assert (way.host, way.port, way.user) == ("10.0.0.11", 2222, "admin")
    assert way.keys == ("/keys/lab",)
    assert way.jump == "gate"
    assert way.known_as == "[10.0.0.11]:2222"


def test_the_inventory_has_the_first_word(config: paramiko.SSHConfig) -> None:
    """Key by key."""
    way = way_of("lab-1", config, user="root", key=Path("/keys/mine"), jump="none")
    assert (way.user, way.port, way.keys, way.jump) == ("root", 2222, ("/keys/mine",), None)


def test_unknown_hosts_are_taken_by_name(
    config: paramiko.SSHConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the user who asks."""
    monkeypatch.setenv("USER", "me")
    way = way_of("other", config)
    assert (way.host, way.port, way.user, way.known_as) == ("other", 22, "me", "other")


def test_jumps_are_made_one_after_the_other(config: paramiko.SSHConfig) -> None:
    """With the host's own key, unless the configuration has one."""
    way = jump_of("first,me@second:2200", config, Path("/keys/mine"))
    assert (way.host, way.user, way.port, way.jump) == ("second", "me", 2200, "first")
    assert way.keys == ("/keys/mine",)
    assert jump_of("lab-1", config, Path("/keys/mine")).keys == ("/keys/lab",)
