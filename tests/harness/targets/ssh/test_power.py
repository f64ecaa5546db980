"""The power loss of a machine: its processes and mounts end, its files stay.

The hosts are namespaces of this machine, so a boot is the start of an SSH server, and page caches
are not lost. Everything that is made again after a boot is the same as on a virtual machine.
"""

import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from harness.recording import journal as journals
from harness.recording.journal import Journal
from harness.targets.base import TargetError, Unsupported
from harness.targets.linux.network import firewall, network
from harness.targets.ssh import power
from harness.targets.ssh.connection import Connection, SshError
from harness.targets.ssh.target import SshTarget
from nemesis.hosts import Cut
from tests.support.require import require
from tests.support.targets import ssh_doomed, traffic
from tests.support.targets.ssh_hosts import NODES, Hosts, eventually, hosts
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow


@dataclass
class FakePowerSwitch:
    """Kills all processes of a host, and starts it again."""

    lab: Hosts
    node: int
    stuck: bool = False
    kind: str = "test.power"
    record: dict[str, object] = field(init=False)

    def __post_init__(self) -> None:
        self.record = {"plug_of": self.node}

    def switch_off(self) -> None:
        if self.stuck:
            raise TargetError("the switch is stuck")
        self.lab.target.kill(self.node)
        rules = self.lab.target.network.namespace(self.node)
        firewall.remove(rules, network.name_of(ssh_doomed.RUN_ID))

    def switch_on(self) -> None:
        if self.is_off():
            self.lab.target.start(self.node)

    def is_off(self) -> bool:
        return not self.lab.target.is_running(self.node)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three hosts."""
    require("root", "netns", "loop", "sshd")
    with hosts(tmp_path_factory.mktemp("h")) as made:
        yield made


@pytest.fixture
def switches(lab: Hosts) -> dict[int, FakePowerSwitch]:
    """One for each of them."""
    return {node: FakePowerSwitch(lab, node) for node in NODES}


@pytest.fixture
def target(lab: Hosts, switches: dict[int, FakePowerSwitch]) -> Iterator[SshTarget]:
    """Up, with a process on each node that writes to its disk; in the end nothing is left."""
    run = lab.place / ssh_doomed.RUN_ID
    run.mkdir()
    path = run / "journal.jsonl"
    registry = lab.place / ssh_doomed.REGISTRY
    with Journal.create(path, run_id=ssh_doomed.RUN_ID, registry=registry) as journal:
        made = ssh_doomed.target_of(lab.place, journal, switches)
        try:
            ssh_doomed.begin(made)
            yield made
        finally:
            made.down()
            journal.finish()
            shutil.rmtree(run)


def beat(target: SshTarget, node: int) -> bytes:
    """What the node's process wrote last."""
    return target.disks.read(node, "beat", 0, 100)


def writes(target: SshTarget, node: int) -> bool:
    """Whether it goes on."""
    before = beat(target, node)
    time.sleep(0.5)
    return beat(target, node) != before


@at_turn(0, 2, "harness/targets/ssh/test_power.py::test_a_boot_that_hangs_can_be_tried_again")
def test_a_booted_machine_has_its_disk_and_the_faults_in_force(
    lab: Hosts, target: SshTarget
) -> None:
    """Its command is known, its partition is made before the node starts, and a partition that
    ended meanwhile is not. Other machines are not affected.
    """
    assert "machine-power" in target.abilities
    target.links.block(Cut(2, 1), Cut(3, 1))
    eventually("the node writes", partial(writes, target, 1))
    last = beat(target, 1)
    target.power.cut([1])
    assert target.power.is_off(1)
    assert not target.is_running(1)
    assert target.exit_code(1) is None
    assert writes(target, 2)
    target.links.unblock(Cut(3, 1))
    target.power.restore([1])
    assert not target.power.is_off(1)
    assert not target.is_running(1)
    assert beat(target, 1) >= last
    assert traffic.blocked(lab.target, 2, 1)
    assert traffic.passes(lab.target, 3, 1)
    target.start(1)
    eventually("the node writes again", partial(writes, target, 1))
    target.links.unblock(Cut(2, 1))
    assert traffic.passes(lab.target, 2, 1)
    target.kill(1)
    assert target.exit_code(1) == -signal.SIGKILL
    boot = target.power.boot(1)
    assert boot is not None
    assert boot.before == boot.after, "namespaces do not boot"
    assert boot.up_s > boot.since_cut_s > 0


@at_turn(
    1, 2, "harness/targets/ssh/test_power.py::test_undo_switches_on_a_machine_of_a_dead_harness"
)
def test_down_boots_machines_without_power(
    target: SshTarget,
) -> None:
    """The fixture calls `down`, and the hosts check what is left."""
    target.power.cut(NODES)
    assert not any(map(target.is_running, NODES))


@at_turn(0, 2, "harness/targets/ssh/test_power.py::test_a_boot_that_hangs_can_be_tried_again")
def test_a_failed_power_cut_leaves_the_machine_running(
    target: SshTarget, switches: dict[int, FakePowerSwitch]
) -> None:
    """The error is reported, and the running agent is used again."""
    switches[2].stuck = True
    with pytest.raises(TargetError, match="the switch is stuck"):
        target.power.cut([2])
    target.power.restore([2])
    assert writes(target, 2)


@at_turn(
    1, 2, "harness/targets/ssh/test_power.py::test_a_failed_power_cut_leaves_the_machine_running"
)
def test_a_boot_that_hangs_can_be_tried_again(
    target: SshTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault's heal does so."""
    target.power.cut([2])
    with monkeypatch.context() as hanging:
        hanging.setattr(power, "BOOT_TIMEOUT_S", 0.0)
        hanging.setattr(Connection, "open", refuse)
        with pytest.raises(SshError, match="lets nobody in"):
            target.power.restore([2])
    assert target.power.is_off(2)
    target.power.restore([2])
    assert beat(target, 2)


def refuse(_: Connection) -> None:
    """As a machine whose kernel hangs."""
    raise SshError("it lets nobody in")


@at_turn(0, 2, "harness/targets/ssh/test_power.py::test_down_boots_machines_without_power")
def test_undo_switches_on_a_machine_of_a_dead_harness(
    lab: Hosts,
    target: SshTarget,
    switches: dict[int, FakePowerSwitch],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The record is written with the agent's, so it does not matter who switched the machine off.
    Afterwards SSH reaches the machine, and what its agent left can be undone.
    """
    records = journals.read(lab.place / ssh_doomed.RUN_ID / "journal.jsonl")
    [record] = [each for each in records if each.get("plug_of") == 3]
    [agent] = [each for each in records if each["kind"] == "ssh.machine" and each["node"] == 3]
    assert records.index(record) > records.index(agent), "the latest is undone first"
    target.power.cut([3])
    undone = power.undo(switches[3], record)
    assert undone == "outage of node 3's host " + lab.target.address(3)
    assert "has no power: it is switched on" in caplog.text
    assert lab.run(3, "hostname").strip() == "host-3"
    assert power.undo(switches[3], record) is None


def test_without_power_switches_a_power_cut_is_refused(lab: Hosts, tmp_path: Path) -> None:
    """As for all machines of an inventory."""
    with Journal.create(
        tmp_path / "j", run_id=ssh_doomed.RUN_ID, registry=lab.place / ssh_doomed.REGISTRY
    ) as journal:
        made = ssh_doomed.target_of(lab.place, journal)
        with pytest.raises(Unsupported, match="no hypervisor that"):
            made.power.cut([1])
        journal.finish()
