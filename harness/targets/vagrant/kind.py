"""What a plan for Vagrant's machines needs, before it is started."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.plans.plan import Plan
from harness.targets.ssh.kind import SshKind
from harness.targets.ssh.power import Plug
from harness.targets.vagrant import machines
from harness.targets.vagrant.hypervisor import VirtualMachine
from harness.targets.vagrant.output import VagrantError
from nemesis.faults.fault import Ability


class VagrantKind(SshKind):
    """The machines that `vagrant up` made, reached by SSH. See `harness.targets.kinds.Kind`."""

    def __init__(self, plan: Plan) -> None:
        """Raises TargetError when they are not there."""
        self._where = machines.directory(Path.cwd())
        super().__init__(plan, machines.inventory(self._where, plan.nodes))

    def lacking(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """What the machines lack, and this one, and who gives them their power."""
        asked = set(wanted)
        found = super().lacking(asked - {Ability.MACHINE_POWER})
        if Ability.MACHINE_POWER not in asked:
            return found
        try:
            for node in range(1, self._plan.nodes + 1):
                VirtualMachine.of(self._where, node)
        except VagrantError as error:
            return {**found, Ability.MACHINE_POWER: str(error)}
        return found

    def _plugs(self) -> Mapping[int, Plug]:
        """Those of the machines whose hypervisor answers, spare ones too."""
        found: dict[int, Plug] = {}
        for host in self._inventory.hosts:
            try:
                found[host.node] = VirtualMachine.of(self._where, host.node)
            except VagrantError:
                continue
        return found
