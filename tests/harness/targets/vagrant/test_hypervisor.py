"""Machines that are switched off and on by the hypervisor's tool."""

from pathlib import Path

import pytest

from harness.targets.clean import UNDO
from harness.targets.vagrant import hypervisor
from harness.targets.vagrant.hypervisor import VirtualMachine, power_commands
from harness.targets.vagrant.output import VagrantError

# As libvirt's: the state is a file beside it; a machine that is off cannot be destroyed.
VIRSH = """\
#!/bin/sh
cd "$(dirname "$0")" && echo "$*" >>asked
[ "$1 $2 $3" = "--quiet --connect qemu:///test" ] || exit 9
state=$(cat "state-$5" 2>/dev/null) || { echo "error: no domain $5" >&2; exit 1; }
case "$4 $state" in
domstate*) printf '%s\\n\\n' "$state" ;;
"destroy running") echo "shut off" >"state-$5" ;;
"start shut off") echo running >"state-$5" ;;
*) printf 'error: Requested operation is not valid\\nerror: %s\\n' "$state" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def virsh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a false `virsh` with one machine that runs, `one`."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "virsh").write_text(VIRSH)
    (place / "virsh").chmod(0o755)
    (place / "state-one").write_text("running")
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setenv("LIBVIRT_DEFAULT_URI", "qemu:///test")
    return place


@pytest.fixture
def machine(tmp_path: Path, virsh: Path) -> VirtualMachine:
    """Node 1's, as Vagrant keeps it."""
    kept = tmp_path / ".vagrant/machines/n1/libvirt"
    kept.mkdir(parents=True)
    (kept / "id").write_text("one\n")
    return VirtualMachine.of(tmp_path, 1)


def test_a_machine_is_switched_off_and_on(machine: VirtualMachine, virsh: Path) -> None:
    """It is destroyed, not shut down; switching it on twice is no error."""
    assert not machine.is_off()
    machine.switch_off()
    assert machine.is_off()
    for _ in range(2):
        machine.switch_on()
        assert not machine.is_off()
    commands = [line.split()[3] for line in (virsh / "asked").read_text().splitlines()]
    assert [word for word in commands if word != "domstate"] == ["destroy", "start"]


def test_errors_of_the_hypervisor_are_reported(
    machine: VirtualMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its own text."""
    machine.switch_off()
    with pytest.raises(VagrantError, match=r"destroy one failed: .*not valid error: shut off"):
        machine.switch_off()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(VagrantError, match="apt-get install libvirt-cli"):
        machine.is_off()


def test_a_machine_without_answer_of_its_hypervisor_has_no_power_switch(
    machine: VirtualMachine, virsh: Path, tmp_path: Path
) -> None:
    """So the journal has no record that nobody could undo."""
    (virsh / "state-one").unlink()
    with pytest.raises(VagrantError, match="no domain one"):
        VirtualMachine.of(tmp_path, 1)


def test_a_machine_of_another_provider_has_no_power_switch(tmp_path: Path) -> None:
    """A container is a process of the harness's own machine."""
    (tmp_path / ".vagrant/machines/n1/docker").mkdir(parents=True)
    (tmp_path / ".vagrant/machines/n1/docker/id").write_text("c0ffee")
    with pytest.raises(VagrantError, match="machine n1 was made neither by libvirt nor"):
        VirtualMachine.of(tmp_path, 1)
    with pytest.raises(VagrantError, match="provider docker have no power switch"):
        power_commands("docker", "c0ffee", "")


def test_virtualbox_has_its_own_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is one line among many."""
    (tmp_path / ".vagrant/machines/n2/virtualbox").mkdir(parents=True)
    (tmp_path / ".vagrant/machines/n2/virtualbox/id").write_text("two")
    monkeypatch.setattr(hypervisor, "_run", lambda _: "")
    machine = VirtualMachine.of(tmp_path, 2)
    commands = power_commands("virtualbox", "two", "")
    assert commands.off == ("VBoxManage", "controlvm", "two", "poweroff")
    assert commands.on == ("VBoxManage", "startvm", "two", "--type", "headless")
    for line, out in (('VMState="poweroff"', True), ('VMState="running"', False)):
        monkeypatch.setattr(hypervisor, "_run", lambda _, line=line: f'name="two"\n{line}\n')
        assert machine.is_off() == out


def test_undo_of_a_running_machine_does_nothing(machine: VirtualMachine) -> None:
    """`clean` knows the record's kind."""
    assert UNDO[machine.kind]({"kind": machine.kind, **machine.record}) is None
