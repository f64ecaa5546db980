"""The SSH target as one of the kinds of targets: it reads the inventory and checks the machines."""

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
from harness.targets.parallel import in_parallel
from harness.targets.request import TargetRequest
from harness.targets.ssh.install import Software
from harness.targets.ssh.inventory import Inventory, load
from harness.targets.ssh.machine import RemoteMachine
from harness.targets.ssh.power import PowerSwitch
from harness.targets.ssh.target import NETWORK, SshOptions, SshTarget
from nemesis.faults.fault import Ability


class SshKind:
    """The machines of the plan's inventory. See `harness.targets.kinds.TargetKind`."""

    def __init__(self, plan: Plan, inventory: Inventory | None = None) -> None:
        """`inventory` is by default the plan's own. Raises PlanError when a node has no host."""
        self._plan = plan
        self._inventory = inventory or _inventory_of(plan)
        self._inventory.check_nodes(plan.nodes)

    def ensure_privileges(self) -> None:
        """Do nothing: without root here, only network faults are missing."""

    def missing_abilities(self, wanted: Iterable[Ability]) -> Mapping[Ability, str]:
        """Return the abilities that a machine lacks, or this one. Connects. Raises SshError."""
        names = sorted(set(wanted))
        hosts = {host.node: host for host in self._inventory.hosts}

        def probe(node: int) -> dict[str, str]:
            machine = RemoteMachine(hosts[node], self._inventory, "")
            with closing(machine.connection):
                machine.connect(_software_for(self._plan))
                return machine.missing_abilities([str(each) for each in names])

        found: dict[Ability, str] = {}
        for node, lacks in in_parallel(range(1, self._plan.nodes + 1), probe).items():
            for name, why in lacks.items():
                found.setdefault(Ability(name), f"{hosts[node].label}: {why}")
        if Ability.PROGRAM_CUTS in names:
            found[Ability.PROGRAM_CUTS] = "the program shares this machine's network with clients"
        network = [each for each in names if each in NETWORK]
        if os.geteuid() != 0:
            why = (
                "network faults also affect packets that arrive at the clients on this machine, "
                "which takes root here: run highwater as root"
            )
            return dict.fromkeys(network, why) | found
        return abilities.missing_abilities(network) | found

    def make(self, request: TargetRequest) -> Target:
        """Return the run's target."""
        if request.uplink:
            raise Unsupported(
                "a cluster on other machines ends with its run, because the machines heal "
                "themselves without a harness: use --target local or docker instead"
            )
        root = os.geteuid() == 0
        options = SshOptions(software=_software_for(self._plan), clocks=request.clocks, root=root)
        return SshTarget(
            request.run_id,
            request.run_dir,
            request.nodes,
            request.journal,
            self._inventory,
            options,
            self._power_switches(),
        )

    def _power_switches(self) -> Mapping[int, PowerSwitch]:
        """Return the power switches by node: none, since SSH cannot switch a machine on."""
        return {}

    def attach(self, run_id: str, run_dir: Path, journal: Journal) -> Target:
        """Raise Unsupported: no run leaves such a cluster."""
        raise Unsupported(f"run {run_id} was on other machines, where a cluster ends with its run")


def _software_for(plan: Plan) -> Software:
    if plan.system == "kafka":
        return Software(
            module=plan.broker_module, files=broker_program_of(plan).required_files(), java=MIN_JAVA
        )
    return Software(module=plan.broker_module)


def _inventory_of(plan: Plan) -> Inventory:
    if plan.inventory is None:
        raise PlanError(
            f"plan {plan.name}: target ssh needs an inventory of machines: give one with "
            "--inventory FILE; docs/ssh.md shows an example"
        )
    return load(Path(plan.inventory).expanduser())
