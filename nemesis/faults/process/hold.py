"""Nodes that are gone or stand still for as long as the fault is in force."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.base import BadTargets, Futile
from nemesis.faults.fault import Ability, Effect, FaultBase, Params, Strike, node_list
from nemesis.faults.process.base import SIGNALS, ProcessFault, kill, present, require_running
from nemesis.hosts import CLIENTS, Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(ProcessFault):
    """SIGKILL; the node starts again at the heal."""

    name: str = "kill"
    about: str = "SIGKILL; the node starts again at the heal"

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Kill every target. Raises Futile when none of them is running."""
        require_running(hosts, strike)
        for node in strike.nodes:
            kill(hosts, strike, node, 0)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The processes are gone."""
        left = [node for node in strike.nodes if hosts.processes.is_running(node)]
        if left:
            return Effect(took=False, evidence=f"{node_list(left)} still runs")
        return Effect(took=True, evidence=f"process of {node_list(strike.nodes)} gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(FaultBase):
    """SIGSTOP; SIGCONT at the heal."""

    name: str = "pause"
    about: str = "SIGSTOP, as a long garbage collection or a starved machine; SIGCONT at the heal"
    needs: frozenset[Ability] = SIGNALS

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """Every target, which must be a node."""
        if CLIENTS in targets:
            raise BadTargets("pause is for nodes; for clients there is pause.clients")
        return Strike(nodes=tuple(targets))

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Stop every target. Raises Futile when none of them is running."""
        require_running(hosts, strike)
        for node in strike.nodes:
            if hosts.processes.is_running(node):
                hosts.processes.pause(node)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The kernel says that the processes are stopped."""
        states = {node: hosts.processes.state(node) for node in strike.nodes}
        evidence = ", ".join(f"node {node} in state {s or 'gone'}" for node, s in states.items())
        return Effect(took=all(s == "T" for s in states.values()), evidence=evidence)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Continue every target that exists."""
        for node in present(hosts, strike):
            if hosts.processes.is_running(node):
                hosts.processes.resume(node)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """No target is stopped any more."""
        nodes = present(hosts, strike)
        if stopped := [node for node in nodes if hosts.processes.state(node) == "T"]:
            return Effect(took=False, evidence=f"{node_list(stopped)} is still stopped")
        return Effect(took=True, evidence=f"{node_list(nodes)} goes on" if nodes else "all left")


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseClients(FaultBase):
    """SIGSTOP to the clients: their connections and producer sessions go stale meanwhile."""

    name: str = "pause.clients"
    about: str = "SIGSTOP to all processes of the workload's clients; SIGCONT at the heal"
    needs: frozenset[Ability] = frozenset({Ability.CLIENT_SIGNALS})
    default_targets: str = "clients"
    aimable: bool = False

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Stop them. Raises Futile when there are none."""
        if not hosts.clients.states():
            raise Futile("no process of clients is running")
        hosts.clients.pause()

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The kernel says that all of them are stopped."""
        states = hosts.clients.states()
        stopped = sum(state == "T" for state in states.values())
        evidence = f"{stopped} of {len(states)} processes of clients in state T"
        return Effect(took=bool(states) and stopped == len(states), evidence=evidence)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Continue them, unless another such fault still stops them."""
        if strike.nodes:
            hosts.clients.resume()

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """None is stopped any more."""
        if not strike.nodes:
            return Effect(took=True, evidence="another fault still stops the clients")
        states = hosts.clients.states()
        stopped = sum(state == "T" for state in states.values())
        if stopped:
            return Effect(took=False, evidence=f"{stopped} of {len(states)} are still stopped")
        return Effect(took=True, evidence=f"all {len(states)} processes of clients go on")
