"""Nodes that are killed or paused for as long as the fault is in force."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.base import BadSelector, NotApplicable
from nemesis.faults.fault import Ability, FaultBase, Injection, Measurement, Params, node_list
from nemesis.faults.process.base import SIGNALS, ProcessFault, kill, present, require_running
from nemesis.hosts import CLIENTS, Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(ProcessFault):
    """SIGKILL; the node starts again at the heal."""

    name: str = "kill"
    about: str = "SIGKILL; the node starts again at the heal"

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Kill every node. Raises NotApplicable if none of them is running."""
        require_running(hosts, injection)
        for node in injection.nodes:
            kill(hosts, injection, node, 0)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the processes are gone."""
        left = [node for node in injection.nodes if hosts.processes.is_running(node)]
        if left:
            return Measurement(confirmed=False, evidence=f"{node_list(left)} still runs")
        return Measurement(confirmed=True, evidence=f"process of {node_list(injection.nodes)} gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(FaultBase):
    """SIGSTOP; SIGCONT at the heal."""

    name: str = "pause"
    about: str = "SIGSTOP, as a long garbage collection or a starved machine; SIGCONT at the heal"
    needs: frozenset[Ability] = SIGNALS

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """Every selected node; clients are refused."""
        if CLIENTS in selected:
            raise BadSelector("pause is for nodes; for clients there is pause.clients")
        return Injection(nodes=tuple(selected))

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Stop every node. Raises NotApplicable if none of them is running."""
        require_running(hosts, injection)
        for node in injection.nodes:
            if hosts.processes.is_running(node):
                hosts.processes.pause(node)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the kernel reports the processes as stopped."""
        states = {node: hosts.processes.state(node) for node in injection.nodes}
        evidence = ", ".join(f"node {node} in state {s or 'gone'}" for node, s in states.items())
        return Measurement(confirmed=all(s == "T" for s in states.values()), evidence=evidence)

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Continue every node that has a process."""
        for node in present(hosts, injection):
            if hosts.processes.is_running(node):
                hosts.processes.resume(node)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if no node is stopped any more."""
        nodes = present(hosts, injection)
        if stopped := [node for node in nodes if hosts.processes.state(node) == "T"]:
            return Measurement(confirmed=False, evidence=f"{node_list(stopped)} is still stopped")
        return Measurement(
            confirmed=True,
            evidence=f"{node_list(nodes)} continues" if nodes else "all nodes have left",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseClients(FaultBase):
    """SIGSTOP to the clients: meanwhile their connections and producer sessions may expire."""

    name: str = "pause.clients"
    about: str = "SIGSTOP to all processes of the workload's clients; SIGCONT at the heal"
    needs: frozenset[Ability] = frozenset({Ability.CLIENT_SIGNALS})
    default_selector: str = "clients"
    selectable: bool = False

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Stop the clients. Raises NotApplicable if there are none."""
        if not hosts.clients.states():
            raise NotApplicable("no process of clients is running")
        hosts.clients.pause()

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the kernel reports all of them as stopped."""
        states = hosts.clients.states()
        stopped = sum(state == "T" for state in states.values())
        evidence = f"{stopped} of {len(states)} processes of clients in state T"
        return Measurement(confirmed=bool(states) and stopped == len(states), evidence=evidence)

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Continue the clients, unless another such fault still stops them."""
        if injection.nodes:
            hosts.clients.resume()

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if no client is stopped any more."""
        if not injection.nodes:
            return Measurement(confirmed=True, evidence="another fault still stops the clients")
        states = hosts.clients.states()
        stopped = sum(state == "T" for state in states.values())
        if stopped:
            return Measurement(
                confirmed=False, evidence=f"{stopped} of {len(states)} are still stopped"
            )
        return Measurement(
            confirmed=True, evidence=f"all {len(states)} processes of clients continue"
        )
