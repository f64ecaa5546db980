"""Nodes that are shut down cleanly, and started again as soon as they have ended."""

from dataclasses import dataclass, replace
from typing import Final

from nemesis.fault_state import TAG, NodeChange
from nemesis.faults.fault import Injection, Measurement, Option
from nemesis.faults.process.base import (
    BACK_IN_SERVICE,
    ENDED,
    SIGTERM_SENT,
    STARTED,
    ProcessFault,
    add_change,
    is_back_in_service,
    last_change,
    node_changes,
    present,
    require_running,
    start_again,
)
from nemesis.faults.process.options import milliseconds
from nemesis.hosts import Hosts

_PATIENCE: Final = Option(
    name="patience_ms",
    default="10000",
    about="ms that a node may take to shut down cleanly before it is killed",
    read=milliseconds,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(ProcessFault):
    """SIGTERM, and a start as soon as the node has ended."""

    name: str = "restart"
    about: str = "SIGTERM, so that the node hands over and shuts down cleanly; then a start"
    options: tuple[Option, ...] = (_PATIENCE,)
    tick_ms: int | None = 50

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Send SIGTERM to every node. Raises NotApplicable if none of them is running."""
        require_running(hosts, injection)
        for node in injection.nodes:
            _send_sigterm(hosts, injection, node, 0)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Start the nodes that have ended; kill those that take too long."""
        for node in injection.nodes:
            _step(hosts, injection, node, elapsed_ms)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if all have ended; reports how, and when they were back in service."""
        stories = {node: _story(node_changes(hosts, injection, node)) for node in injection.nodes}
        confirmed = all(
            last_change(node_changes(hosts, injection, node), ENDED) for node in injection.nodes
        )
        evidence = "; ".join(f"node {node} {story}" for node, story in stories.items())
        return Measurement(confirmed=confirmed, evidence=evidence)

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """End the nodes that still shut down (otherwise no fault would start them), then start all.

        This includes nodes that the executor left to another restart, because that restart may have
        ended and started them before this one sent its SIGTERM. A node that another fault keeps
        down is left to that fault.
        """
        signalled = [
            d.node
            for d in hosts.fault_state.node_changes(injection.detail(TAG))
            if d.kind == SIGTERM_SENT
        ]
        with_signalled = replace(injection, nodes=tuple(sorted({*injection.nodes, *signalled})))
        hosts.fault_state.release(injection.detail(TAG))
        for node in present(hosts, with_signalled):
            if not hosts.fault_state.is_kept_down(node):
                _end(hosts, injection, node)
        ProcessFault.heal(self, hosts, with_signalled)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingRestart(Restart):
    """One node after the other, each when the one before is back in service."""

    name: str = "rolling-restart"
    about: str = "a restart of each node in turn, the next when the last is back in service"
    options: tuple[Option, ...] = (
        _PATIENCE,
        Option(
            name="bound_ms",
            default="20000",
            about="ms that a node may take to be back in service before the next one's turn",
            read=milliseconds,
        ),
    )
    default_selector: str = "all"
    selectable: bool = False

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Send SIGTERM to the first node. Raises NotApplicable if none of them is running."""
        require_running(hosts, injection)
        _send_sigterm(hosts, injection, injection.nodes[0], 0)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Continue with the first node that has not had its turn."""
        bound_ms = int(injection.detail("bound_ms"))
        for node in injection.nodes:
            signalled = last_change(node_changes(hosts, injection, node), SIGTERM_SENT)
            if signalled is None:
                _send_sigterm(hosts, injection, node, elapsed_ms)
                return
            _step(hosts, injection, node, elapsed_ms)
            over = (
                last_change(node_changes(hosts, injection, node), BACK_IN_SERVICE)
                or elapsed_ms - signalled.at_ms > bound_ms
            )
            if not over:
                return

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if one node has ended; reports how many had their turn, and how they ended."""
        found = {node: node_changes(hosts, injection, node) for node in injection.nodes}
        had = {
            node: _story(each) for node, each in found.items() if last_change(each, SIGTERM_SENT)
        }
        confirmed = any(last_change(each, ENDED) for each in found.values())
        text = "; ".join(f"node {node} {story}" for node, story in had.items())
        return Measurement(
            confirmed=confirmed, evidence=f"{len(had)} of {len(found)} had their turn: {text}"
        )


def _send_sigterm(hosts: Hosts, injection: Injection, node: int, at_ms: int) -> None:
    hosts.fault_state.keep_down(injection.detail(TAG), node)  # this injection must start it
    add_change(hosts, injection, SIGTERM_SENT, node, at_ms)
    hosts.processes.terminate(node)


def _step(hosts: Hosts, injection: Injection, node: int, at_ms: int) -> None:
    """Do the next step for a node that got SIGTERM."""
    found = node_changes(hosts, injection, node)
    signalled = last_change(found, SIGTERM_SENT)
    if signalled is None or last_change(found, BACK_IN_SERVICE):
        return
    is_back_in_service(hosts, injection, node, at_ms)
    if last_change(found, ENDED) and last_change(found, STARTED):
        return
    if last_change(found, ENDED):
        start_again(hosts, injection, node, at_ms)
    elif not hosts.processes.is_running(node):
        add_change(hosts, injection, ENDED, node, at_ms, _exit_code(hosts, node))
        start_again(hosts, injection, node, at_ms)
    elif at_ms - signalled.at_ms > int(injection.detail("patience_ms")):
        hosts.processes.kill(node)
        add_change(hosts, injection, ENDED, node, at_ms, "by SIGKILL because of patience_ms")


def _end(hosts: Hosts, injection: Injection, node: int) -> None:
    """Make sure that a node that got SIGTERM has ended; kill it if necessary."""
    found = node_changes(hosts, injection, node)
    signalled = last_change(found, SIGTERM_SENT)
    if signalled is None or last_change(found, ENDED):
        return
    how = "by SIGKILL at the heal"
    if hosts.processes.is_running(node):
        hosts.processes.kill(node)
    else:
        how = _exit_code(hosts, node)
    add_change(hosts, injection, ENDED, node, signalled.at_ms, how)


def _exit_code(hosts: Hosts, node: int) -> str:
    code = hosts.processes.exit_code(node)
    return "" if code is None else f"with code {code}"


def _story(found: list[NodeChange]) -> str:
    signalled, ended, back = (
        last_change(found, SIGTERM_SENT),
        last_change(found, ENDED),
        last_change(found, BACK_IN_SERVICE),
    )
    if signalled is None or ended is None:
        return "has not ended yet"
    text = f"ended {ended.evidence} after {ended.at_ms - signalled.at_ms:,} ms".replace("  ", " ")
    if back is not None:
        return f"{text}, was in service again after {back.at_ms - signalled.at_ms:,} ms"
    return text
