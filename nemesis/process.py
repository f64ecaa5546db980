"""Faults of processes: kill and restart, pause and continue.

`kill` is SIGKILL, so that nothing is flushed or said goodbye to; the page cache survives (losing it
is a power loss, another fault). The node starts again when the fault is healed. `pause` is SIGSTOP,
the long garbage collection or the starved virtual machine: the node's connections stay open and its
idea of the time stands still.
"""

from dataclasses import dataclass

from nemesis.base import Futile
from nemesis.fault import Ability, Effect, Fault, FaultBase, Strike, node_list
from nemesis.hosts import Hosts

_SIGNALS = frozenset({Ability.SIGNALS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(FaultBase):
    """SIGKILL; the node starts again at the heal."""

    name: str = "kill"
    about: str = "SIGKILL; the node starts again at the heal"
    needs: frozenset[Ability] = _SIGNALS

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Kill every target. Raises Futile when none of them is running."""
        if not any(hosts.processes.is_running(node) for node in strike.nodes):
            raise Futile(f"{node_list(strike.nodes)} was not running")
        for node in strike.nodes:
            hosts.processes.kill(node)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The processes are gone."""
        left = [node for node in strike.nodes if hosts.processes.is_running(node)]
        if left:
            return Effect(took=False, evidence=f"{node_list(left)} still runs")
        return Effect(took=True, evidence=f"process of {node_list(strike.nodes)} gone")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Start every target that does not run."""
        for node in strike.nodes:
            if not hosts.processes.is_running(node):
                hosts.processes.start(node)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The processes are there again."""
        dead = [node for node in strike.nodes if not hosts.processes.is_running(node)]
        if dead:
            return Effect(took=False, evidence=f"{node_list(dead)} did not start again")
        return Effect(took=True, evidence=f"{node_list(strike.nodes)} runs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(FaultBase):
    """SIGSTOP; SIGCONT at the heal."""

    name: str = "pause"
    about: str = "SIGSTOP, as a long garbage collection or a starved machine; SIGCONT at the heal"
    needs: frozenset[Ability] = _SIGNALS

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Stop every target. Raises Futile when none of them is running."""
        if not any(hosts.processes.is_running(node) for node in strike.nodes):
            raise Futile(f"{node_list(strike.nodes)} was not running")
        for node in strike.nodes:
            hosts.processes.pause(node)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The kernel says that the processes are stopped."""
        states = {node: hosts.processes.state(node) for node in strike.nodes}
        evidence = ", ".join(f"node {node} in state {s or 'gone'}" for node, s in states.items())
        return Effect(took=all(s == "T" for s in states.values()), evidence=evidence)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Continue every target that exists."""
        for node in strike.nodes:
            if hosts.processes.is_running(node):
                hosts.processes.resume(node)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """No target is stopped any more."""
        stopped = [node for node in strike.nodes if hosts.processes.state(node) == "T"]
        if stopped:
            return Effect(took=False, evidence=f"{node_list(stopped)} is still stopped")
        return Effect(took=True, evidence=f"{node_list(strike.nodes)} goes on")


FAULTS: tuple[Fault, ...] = (Kill(), Pause())
