"""What a plan for the SSH target needs, before it is started."""

import os
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

from harness.brokers.choose import broker_program_of
from harness.brokers.kafka.home import MIN_JAVA
from harness.plans.plan import Plan, PlanError
from harness.recording.journal import Journal
from harness.targets import abilities
from harness.targets.base import Target, Unsupported
from harness.targets.request import TargetRequest
from harness.targets.ssh import parts
from harness.targets.ssh.install import Software
from harness.targets.ssh.inventory import Inventory, load
from harness.targets.ssh.machine import RemoteMachine
from harness.targets.ssh.power import PowerSwitch
from harness.targets.ssh.target import NETWORK, SshTarget, SshOptions
from nemesis.faults.fault import Ability


class SshKind:
    """The machines of the plan's inventory. See `harness.targets.kinds.Kind`."""

    def __init__(self, plan: Plan, inventory: Inventory | None = None) -> None:
        """Of the plan's own inventory unless one is given. Raises PlanError for one that does not
        serve the plan.
        """
        self._plan = plan
        self._inventory = inventory or _inventory_of(plan)
        self._inventory.check_nodes(plan.nodes)

    def ensure_privileges(self) -> None:
        """None are needed here; without root, links are not broken."""

    def missing_abilities(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """What the machines lack, and this one. Connects. Raises SshError."""
        asked = sorted(set(wanted))
        hosts = {host.node: host for host in self._inventory.hosts}

        def ask(node: int) -> dict[str, str]:
            machine = RemoteMachine(hosts[node], self._inventory, "")
            with closing(machine.connection):
                machine.connect(_software_for(self._plan))
                return machine.missing_abilities([str(each) for each in asked])

        found: dict[Ability, str] = {}
        for node, lacks in parts.in_parallel(range(1, self._plan.nodes + 1), ask).items():
            for name, why in lacks.items():
                found.setdefault(Ability(name), f"{hosts[node].label}: {why}")
        network = [each for each in asked if each in NETWORK]
        if os.geteuid() != 0:
            why = "packets on their way to the clients are dropped here: run highwater as root"
            return dict.fromkeys(network, why) | found
        return abilities.missing_abilities(network) | found

    def make(self, request: TargetRequest) -> Target:
        """Plan the run's target."""
        if request.uplink:
            raise Unsupported("a cluster on other machines ends with the run; it cannot be left")
        root = os.geteuid() == 0
        wanted = SshOptions(software=_software_for(self._plan), clocks=request.clocks, root=root)
        return SshTarget(
            request.run_id,
            request.run_dir,
            request.nodes,
            request.journal,
            self._inventory,
            wanted,
            self._power_switches(),
        )

    def _power_switches(self) -> Mapping[int, PowerSwitch]:
        """Those of machines whose power can be cut: of none that only SSH leads to."""
        return {}

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        """No run leaves one."""
        raise Unsupported("a cluster on other machines ends with its run")


def _software_for(plan: Plan) -> Software:
    if plan.system == "kafka":
        return Software(module=plan.broker_module, files=broker_program_of(plan).required_files(), java=MIN_JAVA)
    return Software(module=plan.broker_module)


def _inventory_of(plan: Plan) -> Inventory:
    if plan.inventory is None:
        raise PlanError(
            f"plan {plan.name}: target ssh needs an inventory of machines: give one with "
            "--inventory; docs/ssh.md shows one"
        )
    return load(Path(plan.inventory).expanduser())
