"""Traces of simulated runs."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.plans.plan import Plan, build, load
from harness.run.prepare import prepare
from harness.simulation.campaign import Task, prepared
from harness.simulation.run import Simulation
from harness.simulation.validation.observe import NotDescribed, described, traces_of
from harness.simulation.validation.quorum_trace import QuorumTracer, epochs_of
from harness.simulation.validation.replication_trace import (
    RegistrationEntry,
    ReplicaEntry,
    ReplicationTracer,
)
from harness.simulation.validation.watch import NodesWatch
from nodes.ids import TopicPartition
from nodes.log.log import Log


def plan(**changes: object) -> Plan:
    made = build(load("simulation"), where="simulation")
    return made.model_copy(update={"duration_s": 4.0, **changes})


def test_trace_does_not_change_the_run() -> None:
    """The digest is over all events."""
    ready = prepared(Task(plan=plan(), root=Path()), 2)
    digests = []
    for watched in (False, True):
        simulation = Simulation(ready, invariants=False)
        if watched:
            partition = ReplicationTracer(TopicPartition("acks-all", 0))
            NodesWatch(simulation.cluster, [QuorumTracer(), partition])
        digests.append(simulation.run().digest)
    assert digests[0] == digests[1]


def test_trace_is_a_function_of_the_seed() -> None:
    """It begins with empty voters, one of which is elected; each entry differs from the last one of
    its node."""
    ready = prepared(Task(plan=plan(), root=Path()), 2)
    once, again = (traces_of(ready, "seed 2")[0] for _ in range(2))
    assert once == again
    assert {entry[:5] for entry in once.entries[:3]} == {
        (node, "start", "unattached", 0, 0) for node in (1, 2, 3)
    }
    roles = [entry[2] for entry in once.entries]
    assert roles.index("prospective") < roles.index("candidate") < roles.index("leader")
    last: dict[int, tuple[object, ...]] = {}
    for entry in once.entries:
        assert last.get(entry[0]) != entry
        last[entry[0]] = entry


def test_partition_is_another_one_for_each_seed() -> None:
    """Its trace begins with its creation; then three brokers take up their roles, in the same
    epochs. Seed 2 has the first partition of acks-all."""
    found = traces_of(prepared(Task(plan=plan(), root=Path()), 2), "seed 2")[1]
    assert found.name == "seed 2, acks-all-0"
    created = RegistrationEntry(*found.entries[0])
    assert (created.event, created.leader_epoch, created.partition_epoch) == ("registered", 1, 1)
    assert created.isr == created.replicas == {1, 2, 3}
    first = [ReplicaEntry(*entry) for entry in found.entries[1:4]]
    roles = {each.node: each.role for each in first}
    assert roles == dict.fromkeys((1, 2, 3), "follower") | {created.leader: "leader"}
    assert {(each.leader_epoch, each.partition_epoch) for each in first} == {(1, 1)}


def test_only_epochs_with_records_are_shown() -> None:
    """A leader begins its epoch before its first record, and retention deletes whole epochs."""
    assert epochs_of(log(epochs=(), start=0, end=0)) == ()
    assert epochs_of(log(epochs=((1, 0), (3, 4), (5, 9)), start=0, end=9)) == ((1, 4), (3, 9))
    assert epochs_of(log(epochs=((1, 0), (3, 4)), start=4, end=9)) == ((3, 9),)


def log(*, epochs: tuple[tuple[int, int], ...], start: int, end: int) -> Log:
    """The part of a log that a trace shows."""
    return cast(Log, SimpleNamespace(epochs=epochs, start_offset=start, end_offset=end))


def test_run_outside_of_the_specifications_is_refused() -> None:
    """By the faults of its schedule, not of its plan."""
    nemesis = plan().nemesis.model_copy(update={"faults": ("disk.lost",), "mix": {}})
    outside = plan(nemesis=nemesis)
    with pytest.raises(NotDescribed, match=r"seed 1 has the faults disk\.lost"):
        traces_of(prepare(outside), "seed 1")
    assert described(outside).nemesis.faults == ("kill",)


def test_faults_that_are_described_stay() -> None:
    """So does what the plan says of them."""
    mix = {"kill": plan().nemesis.mix.get("kill"), "broker.add": None}
    nemesis = plan().nemesis.model_copy(update={"faults": ("broker.add", "kill"), "mix": mix})
    found = described(plan(nemesis=nemesis)).nemesis
    assert (found.faults, list(found.mix)) == (("kill",), ["kill"])
