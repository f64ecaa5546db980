"""Nodes that are told to end in order, and started again as soon as they have."""

from dataclasses import dataclass, replace
from typing import Final

from nemesis.faults.fault import Effect, Option, Strike
from nemesis.faults.process.base import (
    BACK,
    ENDED,
    STARTED,
    TOLD,
    ProcessFault,
    deeds,
    is_back,
    last,
    note,
    present,
    require_running,
    start_again,
)
from nemesis.faults.process.options import milliseconds
from nemesis.hosts import Hosts
from nemesis.ledger import TAG, Deed

_PATIENCE: Final = Option(
    name="patience_ms",
    default="10000",
    about="ms that a node may take to end in order before it is killed",
    read=milliseconds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(ProcessFault):
    """SIGTERM, and a start as soon as the node has ended."""

    name: str = "restart"
    about: str = "SIGTERM, so that the node hands over and ends in order; then it starts again"
    options: tuple[Option, ...] = (_PATIENCE,)
    pulse_ms: int | None = 50

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Tell every target. Raises Futile when none of them is running."""
        require_running(hosts, strike)
        for node in strike.nodes:
            _tell(hosts, strike, node, 0)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Start those that have ended, kill those that do not."""
        for node in strike.nodes:
            _step(hosts, strike, node, elapsed_ms)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """They ended; how, and when they were in service again."""
        told = {node: _story(deeds(hosts, strike, node)) for node in strike.nodes}
        took = all(last(deeds(hosts, strike, node), ENDED) for node in strike.nodes)
        evidence = "; ".join(f"node {node} {said}" for node, said in told.items())
        return Effect(took=took, evidence=evidence)

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """End whoever is still about to end, or nobody would start it; then start all.

        Also those that the executor leaves to another restart: that one may have ended and started
        them before they were told by this one. Who is held by another is that one's to end.
        """
        told = [d.node for d in hosts.ledger.deeds(strike.detail(TAG)) if d.what == TOLD]
        everyone = replace(strike, nodes=tuple(sorted({*strike.nodes, *told})))
        hosts.ledger.let_go(strike.detail(TAG))
        for node in present(hosts, everyone):
            if not hosts.ledger.held(node):
                _end(hosts, strike, node)
        ProcessFault.heal(self, hosts, everyone)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestart(Restart):
    """One target after the other, each when the one before it is in service again."""

    name: str = "rolling-restart"
    about: str = "a restart of each target in turn, the next when the last is in service again"
    options: tuple[Option, ...] = (
        _PATIENCE,
        Option(
            name="bound_ms",
            default="20000",
            about="ms that a node may take to be in service again before the next one's turn",
            read=milliseconds,
        ),
    )
    default_targets: str = "all"
    aimable: bool = False

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Tell the first target. Raises Futile when none of them is running."""
        require_running(hosts, strike)
        _tell(hosts, strike, strike.nodes[0], 0)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Go on with the first target that has not had its turn."""
        bound_ms = int(strike.detail("bound_ms"))
        for node in strike.nodes:
            told = last(deeds(hosts, strike, node), TOLD)
            if told is None:
                _tell(hosts, strike, node, elapsed_ms)
                return
            _step(hosts, strike, node, elapsed_ms)
            over = last(deeds(hosts, strike, node), BACK) or elapsed_ms - told.at_ms > bound_ms
            if not over:
                return

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """How many have ended and how; the first is enough to say that it took."""
        found = {node: deeds(hosts, strike, node) for node in strike.nodes}
        had = {node: _story(each) for node, each in found.items() if last(each, TOLD)}
        took = any(last(each, ENDED) for each in found.values())
        said = "; ".join(f"node {node} {story}" for node, story in had.items())
        return Effect(took=took, evidence=f"{len(had)} of {len(found)} had their turn: {said}")


def _tell(hosts: Hosts, strike: Strike, node: int, at_ms: int) -> None:
    hosts.ledger.hold(strike.detail(TAG), node)  # it is ours to start
    note(hosts, strike, TOLD, node, at_ms)
    hosts.processes.terminate(node)


def _step(hosts: Hosts, strike: Strike, node: int, at_ms: int) -> None:
    """Whatever comes next for a node that was told to end."""
    found = deeds(hosts, strike, node)
    told = last(found, TOLD)
    if told is None or last(found, BACK):
        return
    is_back(hosts, strike, node, at_ms)
    if last(found, ENDED) and last(found, STARTED):
        return
    if last(found, ENDED):
        start_again(hosts, strike, node, at_ms)
    elif not hosts.processes.is_running(node):
        note(hosts, strike, ENDED, node, at_ms, _by_itself(hosts, node))
        start_again(hosts, strike, node, at_ms)
    elif at_ms - told.at_ms > int(strike.detail("patience_ms")):
        hosts.processes.kill(node)
        note(hosts, strike, ENDED, node, at_ms, "by SIGKILL, out of patience")


def _end(hosts: Hosts, strike: Strike, node: int) -> None:
    """See a node that was told to end ended, by a kill if need be."""
    found = deeds(hosts, strike, node)
    told = last(found, TOLD)
    if told is None or last(found, ENDED):
        return
    how = "by SIGKILL at the heal"
    if hosts.processes.is_running(node):
        hosts.processes.kill(node)
    else:
        how = _by_itself(hosts, node)
    note(hosts, strike, ENDED, node, told.at_ms, how)


def _by_itself(hosts: Hosts, node: int) -> str:
    code = hosts.processes.exit_code(node)
    return "" if code is None else f"with code {code}"


def _story(found: list[Deed]) -> str:
    told, ended, back = last(found, TOLD), last(found, ENDED), last(found, BACK)
    if told is None or ended is None:
        return "has not ended yet"
    said = f"ended {ended.evidence} after {ended.at_ms - told.at_ms:,} ms".replace("  ", " ")
    if back is not None:
        return f"{said}, was in service again after {back.at_ms - told.at_ms:,} ms"
    return said
