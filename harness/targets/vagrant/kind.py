"""The Vagrant target as one of the kinds of targets."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.plans.plan import Plan
from harness.targets.ssh.kind import SshKind
from harness.targets.ssh.power import PowerSwitch
from harness.targets.vagrant import machines
from harness.targets.vagrant.hypervisor import VirtualMachine
from harness.targets.vagrant.output import VagrantError
from nemesis.faults.fault import Ability


class VagrantKind(SshKind):
    """Vagrant's machines, reached by SSH. See `harness.targets.kinds.TargetKind`."""

    def __init__(self, plan: Plan) -> None:
        """Ask Vagrant for the machines. Raises TargetError when one does not run."""
        self._where = machines.directory(Path.cwd())
        super().__init__(plan, machines.inventory(self._where, plan.nodes))

    def missing_abilities(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """Return the abilities that a machine, its hypervisor or this machine lacks."""
        names = set(wanted)
        found = super().missing_abilities(names - {Ability.MACHINE_POWER})
        if Ability.MACHINE_POWER not in names:
            return found
        try:
            for node in range(1, self._plan.nodes + 1):
                VirtualMachine.of(self._where, node)
        except VagrantError as error:
            return {**found, Ability.MACHINE_POWER: str(error)}
        return found

    def _power_switches(self) -> Mapping[int, PowerSwitch]:
        """Return the power switches of all machines whose hypervisor answers."""
        found: dict[int, PowerSwitch] = {}
        for host in self._inventory.hosts:
            try:
                found[host.node] = VirtualMachine.of(self._where, host.node)
            except VagrantError:
                continue
        return found
