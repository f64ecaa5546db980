"""Runs a plan in a simulated world and writes the traces that the specifications describe."""

from typing import Final

from harness.plans.plan import Plan, Topic
from harness.run.prepare import Prepared
from harness.simulation.campaign import apply_broker_module
from harness.simulation.run import Simulation
from harness.simulation.swarm import DISK_DAMAGE
from harness.simulation.validation.quorum_trace import QuorumTracer
from harness.simulation.validation.replication_trace import ReplicationTracer
from harness.simulation.validation.traces import Trace
from harness.simulation.validation.watch import NodesWatch
from nodes.ids import TopicPartition

NOT_DESCRIBED: Final = frozenset(
    {
        *("quorum.add-voter", "quorum.remove-voter", "broker.add", "broker.remove", "config"),
        *DISK_DAMAGE.faults,
    }
)
"""Faults after which no specification says what may follow: changes of the voters, machines that
come and go, disks that lose what was flushed, and topics that change flush.messages."""


class NotDescribed(Exception):
    """A run is outside of what the specifications describe; the message says why."""


def described(plan: Plan) -> Plan:
    """Return the plan without the faults that the specifications do not describe; with kills, if
    no fault is left.
    """
    nemesis = plan.nemesis
    faults = tuple(each for each in nemesis.faults if each not in NOT_DESCRIBED) or ("kill",)
    mix = {name: each for name, each in nemesis.mix.items() if name in faults}
    return plan.model_copy(
        update={"nemesis": nemesis.model_copy(update={"faults": faults, "mix": mix})}
    )


def traces_of(prepared: Prepared, name: str) -> list[Trace]:
    """Run a plan without invariants, and return its traces. `name` begins the traces' names.

    Raises NotDescribed for a schedule with faults that no specification describes.
    """
    events = {event.fault for event in prepared.schedule.events}
    if outside := sorted(events & NOT_DESCRIBED):
        raise NotDescribed(
            f"{name} has the faults {', '.join(outside)}: the specifications describe neither "
            "changes of the voters, brokers and topic configurations nor disks that lose what was "
            "flushed"
        )
    plan = prepared.plan
    topic, partition = _partition(plan)
    with apply_broker_module(plan.broker_module):
        simulation = Simulation(prepared, invariants=False)
        quorum, replication = QuorumTracer(), ReplicationTracer(partition)
        NodesWatch(simulation.cluster, [quorum, replication])
        simulation.run()
    layout = simulation.cluster.layout
    return [
        quorum.trace(f"{name}, quorum", layout.nodes, layout.controllers),
        replication.trace(
            f"{name}, {partition}",
            layout.brokers,
            min_isr=topic.min_insync_replicas,
            unclean=_may_be_unclean(prepared, topic),
            flushes=topic.configs.get("flush.messages") == "1",
        ),
    ]


def _partition(plan: Plan) -> tuple[Topic, TopicPartition]:
    """Return the partition to trace: another one for each seed."""
    partitions = [(topic, number) for topic in plan.topics for number in range(topic.partitions)]
    topic, number = partitions[plan.seed % len(partitions)]
    return topic, TopicPartition(topic.name, number)


def _may_be_unclean(prepared: Prepared, topic: Topic) -> bool:
    """Whether the topic allows unclean elections, or the schedule asks for one."""
    return topic.configs.get("unclean.leader.election.enable") == "true" or any(
        event.fault == "elect" and event.params.get("kind") == "unclean"
        for event in prepared.schedule.events
    )
