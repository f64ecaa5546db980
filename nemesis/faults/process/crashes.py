"""Nodes that are killed over and over, running or not yet quite."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nemesis.base import BadTargets
from nemesis.faults.fault import Effect, Option, Params, Strike
from nemesis.faults.process.base import (
    ENDED,
    STARTED,
    ProcessFault,
    deeds,
    is_back,
    kill,
    require_running,
    start_again,
)
from nemesis.faults.process.options import milliseconds, times
from nemesis.hosts import Hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop(ProcessFault):
    """Killed and started by turns."""

    name: str = "crash-loop"
    about: str = "SIGKILL and a start by turns, as under a supervisor that never gives up"
    options: tuple[Option, ...] = (
        Option(name="down_ms", default="300", about="ms without a process", read=milliseconds),
        Option(name="up_ms", default="1500", about="ms with one", read=milliseconds),
    )
    pulse_ms: int | None = 50

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Kill every target. Raises Futile when none of them is running."""
        require_running(hosts, strike)
        for node in strike.nodes:
            kill(hosts, strike, node, 0)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Kill or start, as the time has it."""
        down_ms, up_ms = int(strike.detail("down_ms")), int(strike.detail("up_ms"))
        up = elapsed_ms % (down_ms + up_ms) >= down_ms
        for node in strike.nodes:
            is_back(hosts, strike, node, elapsed_ms)
            if up and not hosts.processes.is_running(node):
                start_again(hosts, strike, node, elapsed_ms)
            elif not up:
                kill(hosts, strike, node, elapsed_ms)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """How often they died."""
        return _deaths(hosts, strike)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillDuringRecovery(ProcessFault):
    """Killed, and killed again while it recovers from that."""

    name: str = "kill-during-recovery"
    about: str = "SIGKILL, a start, and SIGKILL again before the node is in service, several times"
    options: tuple[Option, ...] = (
        Option(name="times", default="3", about="how often it is killed again", read=times),
        Option(
            name="least_ms", default="100", about="ms from a start to the kill", read=milliseconds
        ),
        Option(name="most_ms", default="1200", about="the same at most", read=milliseconds),
    )
    pulse_ms: int | None = 20

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """Every target, and how long it may live each time. Raises BadTargets."""
        strike = ProcessFault.aim(self, targets, nodes, rng, params)
        least, most = params.count("least_ms"), params.count("most_ms")
        if least > most:
            raise BadTargets(f"least_ms {least} is more than most_ms {most}")
        lives = [str(rng.randint(least, most)) for _ in range(params.count("times"))]
        return replace(strike, details=(*strike.details, ("lives_ms", " ".join(lives))))

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Kill every target. Raises Futile when none of them is running."""
        require_running(hosts, strike)
        for node in strike.nodes:
            kill(hosts, strike, node, 0)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Start who is down, kill who has lived long enough, let go who has been killed enough."""
        lives_ms = [int(each) for each in strike.detail("lives_ms").split()]
        for node in strike.nodes:
            is_back(hosts, strike, node, elapsed_ms)
            if not hosts.processes.is_running(node):
                start_again(hosts, strike, node, elapsed_ms)
                continue
            starts = [deed for deed in deeds(hosts, strike, node) if deed.what == STARTED]
            lived = len(starts) - 1
            if 0 <= lived < len(lives_ms) and elapsed_ms - starts[-1].at_ms >= lives_ms[lived]:
                kill(hosts, strike, node, elapsed_ms)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """How often they died after the first time, and how often before they were in service."""
        ends = [d for node in strike.nodes for d in deeds(hosts, strike, node) if d.what == ENDED]
        early = any(deed.evidence for deed in ends)
        return replace(_deaths(hosts, strike), took=early)


def _deaths(hosts: Hosts, strike: Strike) -> Effect:
    said = []
    for node in strike.nodes:
        ends = [deed for deed in deeds(hosts, strike, node) if deed.what == ENDED]
        early = sum(bool(deed.evidence) for deed in ends)
        said.append(f"node {node} killed {len(ends)} times, {early} before it was in service")
    took = any(deeds(hosts, strike, node) for node in strike.nodes)
    return Effect(took=took, evidence="; ".join(said))
