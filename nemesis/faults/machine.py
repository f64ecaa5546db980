"""Whole machines that lose their power, as by a pulled plug.

Everything on the machine except the content of its disk is gone: the node, its page cache, and
other faults in force there, which are injected again after the boot. Only machines of our own
hypervisor can lose power; elsewhere `power-loss` does the same to a node's own file system.
"""

from dataclasses import dataclass
from typing import Final

from nemesis.base import NotApplicable
from nemesis.fault_state import TAG, NodeChange
from nemesis.faults.disk.base import describe_lost_bytes
from nemesis.faults.fault import Ability, Fault, Injection, Measurement, node_list
from nemesis.faults.process.base import (
    ProcessFault,
    last_change,
    node_changes,
    present,
    require_running,
    running,
    start,
)
from nemesis.hosts import Boot, Hosts

BOOT_S: Final = 1_500.0
"""How long a boot, and a second one if the first hangs, may take: emulated machines on a busy host
need ten minutes for each boot."""
CUT: Final = "lost its power"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePowerLoss(ProcessFault):
    """The machines of all selected nodes lose power at the same time, and boot at the heal."""

    name: str = "machine-power-loss"
    about: str = "the hypervisor cuts the power of the nodes' whole machines; they boot at the heal"
    needs: frozenset[Ability] = frozenset({Ability.SIGNALS, Ability.MACHINE_POWER})
    heal_timeout_s: float = BOOT_S

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Cut the power. Raises NotApplicable if no node runs or a machine has no power."""
        require_running(hosts, injection)
        if off := [node for node in injection.nodes if hosts.power.is_off(node)]:
            raise NotApplicable(f"the machine of {node_list(off)} has no power already")
        for node in injection.nodes:
            hosts.fault_state.keep_down(injection.detail(TAG), node)
        apart_ms = hosts.power.cut(injection.nodes)
        together = (
            f", {len(injection.nodes)} within {apart_ms:.0f} ms" if len(injection.nodes) > 1 else ""
        )
        for node in injection.nodes:
            hosts.fault_state.add_change(injection.detail(TAG), NodeChange(CUT, node, 0, together))

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the hypervisor reports all machines as off because of this fault."""
        cut = {
            node: last_change(node_changes(hosts, injection, node), CUT) for node in injection.nodes
        }
        off = [node for node, change in cut.items() if change and hosts.power.is_off(node)]
        texts = [
            f"node {node}: its machine is {'off, by its hypervisor' if node in off else 'on'}"
            f"{change.evidence if change else ''}"
            for node, change in cut.items()
        ]
        return Measurement(confirmed=off == list(injection.nodes), evidence="; ".join(texts))

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Boot the machines and start their nodes, unless another fault keeps them down."""
        nodes = present(hosts, injection)
        hosts.power.restore(nodes)
        hosts.fault_state.release(injection.detail(TAG), nodes)
        for node in nodes:
            start(hosts, node)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the nodes run on kernels that booted after the cut; reports lost bytes."""
        nodes = [
            node
            for node in present(hosts, injection)
            if last_change(node_changes(hosts, injection, node), CUT)
        ]
        boots = {node: hosts.power.boot(node) for node in nodes}
        back = running(hosts, injection)
        anew = all(boot is not None and _is_new_boot(boot) for boot in boots.values())
        texts = [f"node {node}: {_describe(boot)}" for node, boot in boots.items()]
        return Measurement(
            confirmed=back.confirmed and anew, evidence="; ".join([back.evidence, *texts])
        )


def _is_new_boot(boot: Boot) -> bool:
    return boot.before != boot.after and boot.up_s < boot.since_cut_s


def _describe(boot: Boot | None) -> str:
    if boot is None:
        return "its machine has not booted"
    ids = f"boot {boot.before[:8]} before, {boot.after[:8]} since"
    if not _is_new_boot(boot):
        return f"its machine did not reboot ({ids}, up {boot.up_s:.0f} s)"
    return (
        f"its machine rebooted ({ids}, up {boot.up_s:.0f} s when it was back, "
        f"{boot.since_cut_s:.0f} s after the cut), and lost {describe_lost_bytes(boot.lost)}"
    )


FAULTS: tuple[Fault, ...] = (MachinePowerLoss(),)
