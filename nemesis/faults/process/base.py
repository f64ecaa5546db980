"""The common parts of process faults: which faults keep a node down, and when it is back in
service.

What happened to a node is stored in the fault state as node changes: SIGTERM_SENT, ENDED, STARTED,
OUT_OF_SERVICE (the cluster has reported it as out of service since) and BACK_IN_SERVICE (the
cluster has reported it as in service after that).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import BadSelector, NotApplicable
from nemesis.fault_state import TAG, NodeChange, new_tag
from nemesis.faults.fault import Ability, FaultBase, Injection, Measurement, Params, node_list
from nemesis.hosts import CLIENTS, Hosts

SIGNALS: Final = frozenset({Ability.SIGNALS})

SIGTERM_SENT: Final = "SIGTERM sent"
ENDED: Final = "ended"
STARTED: Final = "started"
OUT_OF_SERVICE: Final = "out of service"
BACK_IN_SERVICE: Final = "in service again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFault(FaultBase):
    """A fault that ends processes; every selected node runs again after the heal."""

    needs: frozenset[Ability] = SIGNALS

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """Every selected node (clients are refused), with a tag for the fault state."""
        if CLIENTS in selected:
            raise BadSelector(f"{self.name} is for nodes; for clients there is pause.clients")
        details = (*sorted(params.values.items()), new_tag(rng))
        return Injection(nodes=tuple(selected), details=details)

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Start every node that does not run, unless another fault keeps it down."""
        hosts.fault_state.release(injection.detail(TAG))
        for node in present(hosts, injection):
            start(hosts, node)

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if every node runs, or another fault keeps it down."""
        return running(hosts, injection)


def present(hosts: Hosts, injection: Injection) -> list[int]:
    """The injection's nodes that have not left the cluster meanwhile."""
    nodes = hosts.processes.node_ids()
    return [node for node in injection.nodes if node in nodes]


def require_running(hosts: Hosts, injection: Injection) -> None:
    """Raises NotApplicable if none of the nodes is running."""
    if not any(hosts.processes.is_running(node) for node in injection.nodes):
        raise NotApplicable(f"{node_list(injection.nodes)} was not running")


def running(hosts: Hosts, injection: Injection) -> Measurement:
    """Confirmed if every node runs (its process exists), or another fault keeps it down."""
    nodes = present(hosts, injection)
    held = [node for node in nodes if hosts.fault_state.is_kept_down(node)]
    rest = [node for node in nodes if node not in held]
    dead = [node for node in rest if not hosts.processes.is_running(node)]
    if dead:
        return Measurement(confirmed=False, evidence=f"{node_list(dead)} did not start again")
    texts = [f"{node_list(rest)} runs"] if rest else []
    texts += [f"{node_list(held)} is kept down by another fault"] if held else []
    return Measurement(
        confirmed=True, evidence="; ".join(texts) or "no node is left to this fault alone"
    )


def start(hosts: Hosts, node: int) -> bool:
    """Start the node unless it runs or a fault keeps it down; return whether it was started."""
    if hosts.fault_state.is_kept_down(node) or hosts.processes.is_running(node):
        return False
    hosts.processes.start(node)
    return True


def start_again(hosts: Hosts, injection: Injection, node: int, at_ms: int) -> None:
    """Release the node; if that started it, store the start."""
    hosts.fault_state.release(injection.detail(TAG), [node])
    if start(hosts, node):
        add_change(hosts, injection, STARTED, node, at_ms)


def kill(hosts: Hosts, injection: Injection, node: int, at_ms: int) -> None:
    """Keep the node down from now on; if that ended it, store the end."""
    hosts.fault_state.keep_down(injection.detail(TAG), node)
    if hosts.processes.is_running(node):
        early = (
            "" if is_back_in_service(hosts, injection, node, at_ms) else "before it was in service"
        )
        hosts.processes.kill(node)
        add_change(hosts, injection, ENDED, node, at_ms, early)


def add_change(
    hosts: Hosts, injection: Injection, what: str, node: int, at_ms: int, evidence: str = ""
) -> None:
    """Store a change that the injection made or observed."""
    hosts.fault_state.add_change(injection.detail(TAG), NodeChange(what, node, at_ms, evidence))


def node_changes(hosts: Hosts, injection: Injection, node: int) -> list[NodeChange]:
    """The changes of the node under the injection so far."""
    return [
        change
        for change in hosts.fault_state.node_changes(injection.detail(TAG))
        if change.node == node
    ]


def last_change(found: Sequence[NodeChange], what: str) -> NodeChange | None:
    """The last change of a kind."""
    return next((change for change in reversed(found) if change.kind == what), None)


def is_back_in_service(hosts: Hosts, injection: Injection, node: int, at_ms: int) -> bool:
    """Whether the node is back in service since the injection last ended it.

    The cluster's view lags behind: a node counts as back only after the view had it out of service.
    """
    found = [change.kind for change in node_changes(hosts, injection, node)]
    if not found:
        return True  # the injection has not changed the node yet
    # A node that got SIGTERM may be out of service before it ends. A node that was down at the
    # injection, and was only started by it, was not in service before.
    first_kind = SIGTERM_SENT if SIGTERM_SENT in found else ENDED
    since = found[max((n for n, what in enumerate(found) if what == first_kind), default=0) :]
    serves = hosts.view.answers(node) is True and hosts.view.fenced(node) is not True
    if not serves and OUT_OF_SERVICE not in since:
        add_change(hosts, injection, OUT_OF_SERVICE, node, at_ms)
    if serves and OUT_OF_SERVICE in since and BACK_IN_SERVICE not in since:
        add_change(hosts, injection, BACK_IN_SERVICE, node, at_ms)
    return serves and OUT_OF_SERVICE in since
