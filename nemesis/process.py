"""Faults of processes: kill and restart, pause and continue.

`kill` is SIGKILL, so that nothing is flushed or said goodbye to; the page cache survives (losing it
is a power loss, another fault). The node starts again when the fault is healed. `pause` is SIGSTOP,
the long garbage collection or the starved virtual machine: the node's connections stay open and its
idea of the time stands still.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nemesis.base import Ability, Effect, Futile, Hosts, Strike


@dataclass(frozen=True, slots=True)
class _ProcessFault:
    """What kill and pause share: they do the same to every target."""

    name: str
    needs: frozenset[Ability] = frozenset({Ability.SIGNALS})
    min_nodes: int = 1
    default_targets: str = "one"
    aimable: bool = True

    def label(self, strike: Strike) -> str:
        """Such as `kill node 2`."""
        return f"{self.name} {node_list(strike.nodes)}"

    def aim(
        self,
        targets: Sequence[int],
        nodes: Sequence[int],
        rng: random.Random,
        params: Mapping[str, str],
    ) -> Strike:
        """Every target."""
        return Strike(nodes=tuple(targets))


@dataclass(frozen=True, slots=True)
class Kill(_ProcessFault):
    """SIGKILL; the node starts again at the heal."""

    name: str = "kill"

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Kill every target. Raises Futile when none of them is running."""
        if not any(hosts.is_running(node) for node in strike.nodes):
            raise Futile(f"{node_list(strike.nodes)} was not running")
        for node in strike.nodes:
            hosts.kill(node)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The processes are gone."""
        left = [node for node in strike.nodes if hosts.is_running(node)]
        if left:
            return Effect(took=False, evidence=f"{node_list(left)} still runs")
        return Effect(took=True, evidence=f"process of {node_list(strike.nodes)} gone")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Start every target that does not run."""
        for node in strike.nodes:
            if not hosts.is_running(node):
                hosts.start(node)

    def ailing(self, hosts: Hosts, strike: Strike) -> str | None:
        """Which targets do not run."""
        dead = [node for node in strike.nodes if not hosts.is_running(node)]
        return f"{node_list(dead)} did not start again" if dead else None


@dataclass(frozen=True, slots=True)
class Pause(_ProcessFault):
    """SIGSTOP; SIGCONT at the heal."""

    name: str = "pause"

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Stop every target. Raises Futile when none of them is running."""
        if not any(hosts.is_running(node) for node in strike.nodes):
            raise Futile(f"{node_list(strike.nodes)} was not running")
        for node in strike.nodes:
            hosts.pause(node)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The kernel says that the processes are stopped."""
        states = {node: hosts.state(node) for node in strike.nodes}
        evidence = ", ".join(f"node {node} in state {s or 'gone'}" for node, s in states.items())
        return Effect(took=all(s == "T" for s in states.values()), evidence=evidence)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Continue every target that exists."""
        for node in strike.nodes:
            if hosts.is_running(node):
                hosts.resume(node)

    def ailing(self, hosts: Hosts, strike: Strike) -> str | None:
        """Which targets are still stopped."""
        stopped = [node for node in strike.nodes if hosts.state(node) == "T"]
        return f"{node_list(stopped)} is still stopped" if stopped else None


def node_list(nodes: Sequence[int]) -> str:
    """Such as `node 2` or `nodes 1, 3`."""
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"
