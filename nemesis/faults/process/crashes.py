"""Nodes that are killed repeatedly, in service or during their recovery."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nemesis.base import BadSelector
from nemesis.faults.fault import Injection, Measurement, Option, Params
from nemesis.faults.process.base import (
    ENDED,
    STARTED,
    ProcessFault,
    is_back_in_service,
    kill,
    node_changes,
    require_running,
    start_again,
)
from nemesis.faults.process.options import milliseconds, times
from nemesis.hosts import Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop(ProcessFault):
    """Nodes are killed and started in turn."""

    name: str = "crash-loop"
    about: str = "SIGKILL and a start in turn, as under a supervisor that always restarts"
    options: tuple[Option, ...] = (
        Option(
            name="down_ms", default="300", about="how long the node is down, ms", read=milliseconds
        ),
        Option(name="up_ms", default="1500", about="how long the node runs, ms", read=milliseconds),
    )
    tick_ms: int | None = 50

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Kill every node. Raises NotApplicable if none of them is running."""
        require_running(hosts, injection)
        for node in injection.nodes:
            kill(hosts, injection, node, 0)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Kill or start every node, according to `elapsed_ms`."""
        down_ms, up_ms = int(injection.detail("down_ms")), int(injection.detail("up_ms"))
        up = elapsed_ms % (down_ms + up_ms) >= down_ms
        for node in injection.nodes:
            is_back_in_service(hosts, injection, node, elapsed_ms)
            if up and not hosts.processes.is_running(node):
                start_again(hosts, injection, node, elapsed_ms)
            elif not up:
                kill(hosts, injection, node, elapsed_ms)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Report how often the nodes were killed."""
        return _count_kills(hosts, injection)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillDuringRecovery(ProcessFault):
    """Nodes are killed, and killed again during their recovery."""

    name: str = "kill-during-recovery"
    about: str = "SIGKILL, a start, and SIGKILL again before the node is in service, several times"
    options: tuple[Option, ...] = (
        Option(name="times", default="3", about="how often it is killed again", read=times),
        Option(
            name="least_ms",
            default="100",
            about="ms from a start to the next kill, at least",
            read=milliseconds,
        ),
        Option(
            name="most_ms",
            default="1200",
            about="ms from a start to the next kill, at most",
            read=milliseconds,
        ),
    )
    tick_ms: int | None = 20

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """Every selected node, and how long it runs each time. Raises BadSelector."""
        injection = ProcessFault.plan_injection(self, selected, nodes, rng, params)
        least, most = params.count("least_ms"), params.count("most_ms")
        if least > most:
            raise BadSelector(f"least_ms {least} is more than most_ms {most}")
        lives = [str(rng.randint(least, most)) for _ in range(params.count("times"))]
        return replace(injection, details=(*injection.details, ("lives_ms", " ".join(lives))))

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Kill every node. Raises NotApplicable if none of them is running."""
        require_running(hosts, injection)
        for node in injection.nodes:
            kill(hosts, injection, node, 0)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Start the nodes that are down; kill those that ran long enough, up to `times` each."""
        lives_ms = [int(each) for each in injection.detail("lives_ms").split()]
        for node in injection.nodes:
            is_back_in_service(hosts, injection, node, elapsed_ms)
            if not hosts.processes.is_running(node):
                start_again(hosts, injection, node, elapsed_ms)
                continue
            starts = [
                change for change in node_changes(hosts, injection, node) if change.kind == STARTED
            ]
            lived = len(starts) - 1
            if 0 <= lived < len(lives_ms) and elapsed_ms - starts[-1].at_ms >= lives_ms[lived]:
                kill(hosts, injection, node, elapsed_ms)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a node was killed before it was back in service; reports the counts."""
        ends = [
            d
            for node in injection.nodes
            for d in node_changes(hosts, injection, node)
            if d.kind == ENDED
        ]
        early = any(change.evidence for change in ends)
        return replace(_count_kills(hosts, injection), confirmed=early)


def _count_kills(hosts: Hosts, injection: Injection) -> Measurement:
    texts = []
    for node in injection.nodes:
        ends = [change for change in node_changes(hosts, injection, node) if change.kind == ENDED]
        early = sum(bool(change.evidence) for change in ends)
        texts.append(f"node {node} killed {len(ends)} times, {early} before it was in service")
    confirmed = any(node_changes(hosts, injection, node) for node in injection.nodes)
    return Measurement(confirmed=confirmed, evidence="; ".join(texts))
