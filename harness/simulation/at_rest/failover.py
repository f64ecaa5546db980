"""Soon after a broker dies, other brokers lead its partitions.

The controller must fence a broker when its session is over (KIP-631), and elect other leaders
among the replicas in sync. While other faults are in force this can take any time; at rest it has a
bound.
A cluster that waits until the broker is back would settle as well, only later.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from harness.simulation.invariants.broken import InvariantBroken
from harness.systems.monitoring.cluster_view import PartitionView
from nemesis.concurrency import TaskRunner
from nodes.ids import TopicPartition

NAME = "failover-in-time"
SLACK_S: Final = 15.0
"""For what happens beside the session: the election of a controller if the broker was the active
one, of leaders, and the spreading of metadata, over a slow network."""
POLL_S: Final = 0.1
LEAST_VOTERS: Final = 3
"""With fewer voters the others have no majority."""

View = Callable[[], Mapping[TopicPartition, PartitionView]]


class Processes(Protocol):
    """Kills and starts nodes."""

    def kill(self, node: int) -> None: ...
    def start(self, node: int) -> None: ...


def victims(view: Mapping[TopicPartition, PartitionView]) -> Sequence[int]:
    """Return the brokers that lead partitions which others could lead, ascending."""
    led = {each.leader for each in view.values() if each.leader is not None and len(each.isr) > 1}
    return sorted(led)


def check_failover(
    processes: Processes,
    view: View,
    task_runner: TaskRunner,
    *,
    session_s: float,
    rng: random.Random,
) -> None:
    """Kill a broker, and start it again when others lead. Raises InvariantBroken at the bound.

    `view` is what the other brokers say, `session_s` the session of a broker.
    """
    if not (found := victims(view())):
        return
    node = rng.choice(found)
    led = {at for at, each in view().items() if each.leader == node and len(each.isr) > 1}
    processes.kill(node)
    deadline_s = task_runner.now_s() + session_s + SLACK_S
    while left := sorted(at for at in led if view()[at].leader in (node, None)):
        if task_runner.now_s() > deadline_s:
            raise InvariantBroken(
                NAME,
                f"{session_s + SLACK_S:g} s after the death of broker {node} nobody else leads "
                f"{left[0]}, of which others were in sync; a session takes {session_s:g} s",
            )
        task_runner.sleep(POLL_S)
    processes.start(node)
