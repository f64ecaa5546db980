"""Whole machines that lose their power, as by a pulled plug.

Everything on the machine is gone but what its disk has: the node, its page cache, and also what
other faults had made there, which is made again after the boot. Only machines of a hypervisor of
ours have such a plug; `power-loss` is what can be done to a node's own file system anywhere else.
"""

from dataclasses import dataclass
from typing import Final

from nemesis.base import Futile
from nemesis.faults.disk.base import in_bytes
from nemesis.faults.fault import Ability, Effect, Fault, Strike, node_list
from nemesis.faults.process.base import (
    ProcessFault,
    deeds,
    last,
    present,
    require_running,
    running,
    start,
)
from nemesis.hosts import Boot, Hosts
from nemesis.ledger import TAG, Deed

BOOT_S: Final = 1_500.0
"""How long a boot may take, and another when it hangs: emulated machines on a busy one need ten
minutes for each."""
CUT: Final = "lost its power"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePowerLoss(ProcessFault):
    """All targets' machines lose their power at the same time, and boot at the heal."""

    name: str = "machine-power-loss"
    about: str = "the hypervisor takes the nodes' whole machines off; they boot at the heal"
    needs: frozenset[Ability] = frozenset({Ability.SIGNALS, Ability.MACHINE_POWER})
    heal_within_s: float = BOOT_S

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Pull the plugs. Raises Futile when no target runs, or one has no power already."""
        require_running(hosts, strike)
        if off := [node for node in strike.nodes if hosts.power.is_off(node)]:
            raise Futile(f"the machine of {node_list(off)} has no power already")
        for node in strike.nodes:
            hosts.ledger.hold(strike.detail(TAG), node)
        apart_ms = hosts.power.cut(strike.nodes)
        together = (
            f", {len(strike.nodes)} within {apart_ms:.0f} ms" if len(strike.nodes) > 1 else ""
        )
        for node in strike.nodes:
            hosts.ledger.note(strike.detail(TAG), Deed(CUT, node, 0, together))

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The hypervisor says that the machines are off, where this fault took them off."""
        cut = {node: last(deeds(hosts, strike, node), CUT) for node in strike.nodes}
        off = [node for node, deed in cut.items() if deed and hosts.power.is_off(node)]
        told = [
            f"node {node}: its machine is {'off, by its hypervisor' if node in off else 'on'}"
            f"{deed.evidence if deed else ''}"
            for node, deed in cut.items()
        ]
        return Effect(took=off == list(strike.nodes), evidence="; ".join(told))

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Boot the machines and start their nodes, unless another fault keeps them down."""
        nodes = present(hosts, strike)
        hosts.power.restore(nodes)
        hosts.ledger.let_go(strike.detail(TAG), nodes)
        for node in nodes:
            start(hosts, node)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The nodes run, on kernels that began after the cut; what their files lost by it."""
        nodes = [node for node in present(hosts, strike) if last(deeds(hosts, strike, node), CUT)]
        boots = {node: hosts.power.boot(node) for node in nodes}
        back = running(hosts, strike)
        anew = all(boot is not None and _is_anew(boot) for boot in boots.values())
        told = [f"node {node}: {_told(boot)}" for node, boot in boots.items()]
        return Effect(took=back.took and anew, evidence="; ".join([back.evidence, *told]))


def _is_anew(boot: Boot) -> bool:
    return boot.before != boot.after and boot.up_s < boot.since_cut_s


def _told(boot: Boot | None) -> str:
    if boot is None:
        return "its machine has not booted"
    ids = f"boot {boot.before[:8]} before, {boot.after[:8]} since"
    if not _is_anew(boot):
        return f"its machine goes on as if nothing had been ({ids}, up {boot.up_s:.0f} s)"
    return (
        f"its machine booted anew ({ids}, up {boot.up_s:.0f} s when it was back, "
        f"{boot.since_cut_s:.0f} s after the cut), and lost {in_bytes(boot.lost)}"
    )


FAULTS: tuple[Fault, ...] = (MachinePowerLoss(),)
