"""A fault of another package: nodes that stop and run in turn, as on a machine that swaps."""

from dataclasses import dataclass

from nemesis.faults.fault import Injection, Option
from nemesis.faults.process.hold import Pause
from nemesis.hosts import Hosts

TURN_MS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Stutter(Pause):
    """SIGSTOP and SIGCONT in turn; SIGCONT at the heal."""

    name: str = "stutter"
    about: str = "SIGSTOP and SIGCONT in turn, 200 ms each; SIGCONT at the heal"
    tick_ms: int | None = TURN_MS
    options: tuple[Option, ...] = ()

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Stop or continue every node."""
        runs = elapsed_ms // TURN_MS % 2
        for node in injection.nodes:
            stopped = hosts.processes.state(node) == "T"
            if runs and stopped:
                hosts.processes.resume(node)
            elif not runs and not stopped and hosts.processes.is_running(node):
                hosts.processes.pause(node)


STUTTER = Stutter()
