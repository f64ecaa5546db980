"""What faults of processes have in common: who is kept down by whom, who is in service again.

What happened to a node is kept in the ledger as deeds: ENDED, STARTED, OUT (the cluster was seen to
do without it since), BACK (and to have it back since).
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import BadTargets, Futile
from nemesis.faults.fault import Ability, Effect, FaultBase, Params, Strike, node_list
from nemesis.hosts import CLIENTS, Hosts
from nemesis.ledger import TAG, Deed, new_tag

SIGNALS: Final = frozenset({Ability.SIGNALS})

TOLD: Final = "told to end"
ENDED: Final = "ended"
STARTED: Final = "started"
OUT: Final = "out of service"
BACK: Final = "in service again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFault(FaultBase):
    """A fault that ends processes; every target runs again after the heal."""

    needs: frozenset[Ability] = SIGNALS

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """Every target, which must be a node, with a tag for the ledger."""
        if CLIENTS in targets:
            raise BadTargets(f"{self.name} is for nodes; for clients there is pause.clients")
        details = (*sorted(params.values.items()), new_tag(rng))
        return Strike(nodes=tuple(targets), details=details)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Start every target that does not run, unless another fault keeps it down."""
        hosts.ledger.let_go(strike.detail(TAG))
        for node in present(hosts, strike):
            start(hosts, node)

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """The processes are there again, or another fault's to start."""
        return running(hosts, strike)


def present(hosts: Hosts, strike: Strike) -> list[int]:
    """The targets that have not left the cluster meanwhile."""
    nodes = hosts.processes.node_ids()
    return [node for node in strike.nodes if node in nodes]


def require_running(hosts: Hosts, strike: Strike) -> None:
    """Raises Futile when none of the targets is running."""
    if not any(hosts.processes.is_running(node) for node in strike.nodes):
        raise Futile(f"{node_list(strike.nodes)} was not running")


def running(hosts: Hosts, strike: Strike) -> Effect:
    """Every target runs, as far as that can be told right after its start, or is another fault's
    to start.
    """
    nodes = present(hosts, strike)
    held = [node for node in nodes if hosts.ledger.held(node)]
    rest = [node for node in nodes if node not in held]
    dead = [node for node in rest if not hosts.processes.is_running(node)]
    if dead:
        return Effect(took=False, evidence=f"{node_list(dead)} did not start again")
    said = [f"{node_list(rest)} runs"] if rest else []
    said += [f"{node_list(held)} is kept down by another fault"] if held else []
    return Effect(took=True, evidence="; ".join(said) or "no node is left to it alone")


def start(hosts: Hosts, node: int) -> bool:
    """Start a node that does not run and that nobody keeps down; whether that was done."""
    if hosts.ledger.held(node) or hosts.processes.is_running(node):
        return False
    hosts.processes.start(node)
    return True


def start_again(hosts: Hosts, strike: Strike, node: int, at_ms: int) -> None:
    """Keep the node down no more, and note when it started by that."""
    hosts.ledger.let_go(strike.detail(TAG), [node])
    if start(hosts, node):
        note(hosts, strike, STARTED, node, at_ms)


def kill(hosts: Hosts, strike: Strike, node: int, at_ms: int) -> None:
    """Keep the node down from now on; note when it ended by that."""
    hosts.ledger.hold(strike.detail(TAG), node)
    if hosts.processes.is_running(node):
        early = "" if is_back(hosts, strike, node, at_ms) else "before it was in service"
        hosts.processes.kill(node)
        note(hosts, strike, ENDED, node, at_ms, early)


def note(
    hosts: Hosts, strike: Strike, what: str, node: int, at_ms: int, evidence: str = ""
) -> None:
    """Remember a deed of the strike."""
    hosts.ledger.note(strike.detail(TAG), Deed(what, node, at_ms, evidence))


def deeds(hosts: Hosts, strike: Strike, node: int) -> list[Deed]:
    """What the strike did to the node so far."""
    return [deed for deed in hosts.ledger.deeds(strike.detail(TAG)) if deed.node == node]


def last(found: Sequence[Deed], what: str) -> Deed | None:
    """The latest deed of a kind."""
    return next((deed for deed in reversed(found) if deed.what == what), None)


def is_back(hosts: Hosts, strike: Strike, node: int, at_ms: int) -> bool:
    """Whether the cluster has the node in service since the strike last ended it.

    What the cluster says lags behind: in service again is who was seen out of service before.
    """
    found = [deed.what for deed in deeds(hosts, strike, node)]
    if not found:
        return True  # nothing was done to it yet
    # Who was told to end may be out of service before that. Who was down when the strike came, and
    # was only started by it, was not in service before.
    begun = TOLD if TOLD in found else ENDED
    since = found[max((n for n, what in enumerate(found) if what == begun), default=0) :]
    serves = hosts.view.answers(node) is True and hosts.view.fenced(node) is not True
    if not serves and OUT not in since:
        note(hosts, strike, OUT, node, at_ms)
    if serves and OUT in since and BACK not in since:
        note(hosts, strike, BACK, node, at_ms)
    return serves and OUT in since
