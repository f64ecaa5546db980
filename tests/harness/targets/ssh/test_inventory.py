"""The inventory: its defaults, and the refusal of a wrong one."""

from pathlib import Path

import pytest

from harness.plans.plan import PlanError
from harness.targets.ssh.inventory import load

GOOD = """\
user = "admin"
key = "~/keys/lab"

[[hosts]]
node = 1
host = "lab-1"
address = "192.168.7.11"

[[hosts]]
node = 2
host = "10.0.0.12"
port = 2222
user = "root"
clock = "machine"
"""


def write(tmp_path: Path, text: str) -> Path:
    """As a file."""
    path = tmp_path / "lab.toml"
    path.write_text(text)
    return path


def test_keys_at_the_top_are_defaults_for_all_hosts(tmp_path: Path) -> None:
    """A host's own key has priority."""
    one, two = load(write(tmp_path, GOOD)).hosts
    assert (one.user, two.user) == ("admin", "root")
    assert one.key == two.key == Path.home() / "keys/lab"
    assert (one.port, two.port) == (None, 2222)
    assert str(one.address) == "192.168.7.11"
    assert (one.clock, two.clock) == ("process", "machine")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hosts = [", "is no valid TOML"),
        ("user = 'x'", "hosts: is missing"),
        ("[[hosts]]\nhost = 'a'", "hosts.0.node: is missing"),
        ("[[hosts]]\nnode = 1\nhost = 'a'\nprot = 22", "hosts.0.prot: there is no such key"),
        ("[[hosts]]\nnode = 1\nhost = 'a'\naddress = 'here'", "hosts.0.address: "),
        (GOOD.replace("node = 2", "node = 1"), "node 1 is on two hosts"),
    ],
)
def test_a_wrong_inventory_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file, the key, and the error."""
    path = write(tmp_path, text)
    with pytest.raises(PlanError) as refused:
        load(path)
    assert str(refused.value).startswith(f"inventory {path}: ")
    assert message in str(refused.value)


def test_a_plan_with_more_nodes_than_hosts_is_refused(tmp_path: Path) -> None:
    """The message names the node."""
    inventory = load(write(tmp_path, GOOD))
    inventory.check_nodes(2)
    with pytest.raises(PlanError, match="no host for node 3"):
        inventory.check_nodes(3)


def test_a_missing_inventory_is_refused(tmp_path: Path) -> None:
    """The message names the documentation."""
    with pytest.raises(PlanError, match=r"docs/ssh\.md"):
        load(tmp_path / "nowhere.toml")
