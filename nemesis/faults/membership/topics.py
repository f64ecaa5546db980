"""Faults of topics: configurations change under load; topics are created, grown and deleted."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import NotApplicable
from nemesis.faults.fault import Fault, Injection, Measurement, Option, Params
from nemesis.faults.membership.base import (
    ANY,
    STEP_MS,
    AdminFault,
    count,
    layer,
    one_of,
    with_drawn_change,
)
from nemesis.hosts import Hosts

EVERY: Final = "every"
"""All topics of the run."""
SAFE: Final[Mapping[str, Sequence[str]]] = {
    "segment.bytes": ("16384", "65536", "1048576"),
    "segment.ms": ("1000", "10000"),
    "index.interval.bytes": ("0", "512", "65536"),
    "flush.messages": ("1", "100"),
    "flush.ms": ("100", "1000"),
    "file.delete.delay.ms": ("0", "1000"),
    "retention.ms": ("-1", "2592000000"),
    "max.message.bytes": ("2097152",),
}
"""Changes that affect no guarantee; random changes are drawn from these. Retention stays so long
that a clock that is an hour wrong deletes nothing."""
FRESH: Final = "fresh"
SAME: Final = "same"
WAIT_FOR_RESTORE: Final = "the old value is not in force yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(AdminFault):
    """A configuration of topics changes; the heal restores it.

    The change is in the injection's details, as `topic`, `name` and `value`: the contract may have
    to use the new value from the injection to the heal. The fault is not healed until the cluster
    has accepted the old value.
    """

    name: str = "config"
    about: str = "a configuration of topics changes; the heal restores it"
    options: tuple[Option, ...] = (
        Option(name="topic", default=EVERY, about="a topic, or every topic of the run"),
        Option(name="name", default=ANY, about=f"a topic config, or any of {', '.join(SAFE)}"),
        Option(name="value", default=ANY, about="its value; any requires a name with safe values"),
    )

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """The change; open choices are drawn."""
        injection = AdminFault.plan_injection(self, selected, nodes, rng, params)
        return with_drawn_change(injection, SAFE, rng)

    def label(self, injection: Injection) -> str:
        """For example `config segment.bytes=65536 of every topic`."""
        topic = injection.detail("topic")
        of = "every topic" if topic == EVERY else topic
        return f"{self.name} {injection.detail('name')}={injection.detail('value')} of {of}"

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Set the value. Raises NotApplicable if every topic has it already."""
        name, value, topics = (
            injection.detail("name"),
            injection.detail("value"),
            _topics(hosts, injection),
        )
        before = [hosts.cluster.topic_config(topic, name) for topic in topics]
        if all(each == value for each in before):
            raise NotApplicable(f"{name} is {value} already")
        hosts.cluster.set_topic_config(layer(injection), topics, name, value)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the cluster reports the value as in force."""
        name, value = injection.detail("name"), injection.detail("value")
        found = {
            topic: hosts.cluster.topic_config(topic, name) for topic in _topics(hosts, injection)
        }
        values = ", ".join(f"{topic} {each}" for topic, each in found.items())
        return Measurement(confirmed=set(found.values()) == {value}, evidence=f"{name} is {values}")

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if no work is pending: the fault lasts until the value is restored."""
        if pending := hosts.cluster.pending_work(layer(injection)):
            return Measurement(confirmed=False, evidence=f"{WAIT_FOR_RESTORE}: {pending}")
        name = injection.detail("name")
        found = {
            topic: hosts.cluster.topic_config(topic, name) for topic in _topics(hosts, injection)
        }
        values = ", ".join(f"{topic} {each}" for topic, each in found.items())
        return Measurement(confirmed=True, evidence=f"{name} is {values}")


def _topics(hosts: Hosts, injection: Injection) -> list[str]:
    named = injection.detail("topic")
    known = sorted({topic for topic, _ in hosts.view.partitions()})
    if named != EVERY and named not in known:
        raise NotApplicable(f"there is no topic {named} in the run")
    return known if named == EVERY else [named]


def scratch_topic(injection: Injection, number: int = 0) -> str:
    """The name of a topic that is unique to the injection."""
    kind, _, mark = layer(injection).partition("/")
    return f"scratch-{kind}-{mark}-{number}"


def replicas_of_scratch_topics(hosts: Hosts) -> int:
    """How many replicas a partition of a scratch topic gets."""
    return max(1, min(3, len(hosts.cluster.brokers())))


def _count_partitions(hosts: Hosts, name: str) -> tuple[int, int]:
    """How many partitions a topic has, and how many of them have a leader."""
    placed = hosts.cluster.placement([name])
    return len(placed), sum(each.leader is not None for each in placed.values())


PARTITIONS: Final = Option(
    name="partitions", default="3", about="how many partitions each topic has", read=count(1, 1000)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelete(AdminFault):
    """Unused topics are created and deleted, one after the other; the heal deletes the last.

    With the names `same`, each has the name of the one before, and begins while brokers still
    delete that one: only the topic id tells them apart (KIP-516).
    """

    name: str = "topic.create-delete"
    about: str = "every second an unused topic is created and the last one deleted"
    tick_ms: int | None = STEP_MS
    options: tuple[Option, ...] = (
        PARTITIONS,
        Option(
            name="names",
            default=FRESH,
            about=f"{FRESH} (each topic has a new name) or {SAME} (all have the same name)",
            read=one_of(FRESH, SAME),
        ),
    )

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Create the first topic."""
        self._create(hosts, injection, 0)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Create the next topic and delete the ones before it."""
        if injection.detail("names") == SAME:
            hosts.cluster.delete_topic(scratch_topic(injection))
            self._create(hosts, injection, 0)
            return
        number = elapsed_ms // STEP_MS
        known = hosts.cluster.topics()
        if scratch_topic(injection, number) not in known:
            self._create(hosts, injection, number)
        for old in range(max(0, number - 3), number):
            if (name := scratch_topic(injection, old)) in known:
                hosts.cluster.delete_topic(name)

    def _create(self, hosts: Hosts, injection: Injection, number: int) -> None:
        hosts.cluster.create_topic(
            layer(injection),
            scratch_topic(injection, number),
            partitions=int(injection.detail("partitions")),
            replicas=replicas_of_scratch_topics(hosts),
        )

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if one of the topics exists and all its partitions have leaders."""
        prefix = scratch_topic(injection).removesuffix("0")
        names = [name for name in hosts.cluster.topics() if name.startswith(prefix)]
        for name in reversed(names):
            number, with_leader = _count_partitions(hosts, name)
            if number and number == with_leader:
                return Measurement(
                    confirmed=True, evidence=f"{name} has {number} partitions, all with a leader"
                )
        return Measurement(
            confirmed=False,
            evidence=f"{len(names)} topics exist, none with leaders for all partitions",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow(AdminFault):
    """An unused topic gets more partitions, one at a time; the heal deletes it."""

    name: str = "partitions.grow"
    about: str = "an unused topic gets one more partition every second; the heal deletes it"
    tick_ms: int | None = STEP_MS
    options: tuple[Option, ...] = (
        Option(
            name="most",
            default="12",
            about="the most partitions that it gets",
            read=count(2, 1000),
        ),
    )

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Create the topic with one partition, and add a second one."""
        hosts.cluster.create_topic(
            layer(injection),
            scratch_topic(injection),
            partitions=1,
            replicas=replicas_of_scratch_topics(hosts),
        )
        hosts.cluster.grow_topic(scratch_topic(injection), 2)

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Add one partition, up to the bound."""
        number = hosts.cluster.topics().get(scratch_topic(injection), 0)
        if 0 < number < int(injection.detail("most")):
            hosts.cluster.grow_topic(scratch_topic(injection), number + 1)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the topic has more than one partition, all with leaders."""
        number, with_leader = _count_partitions(hosts, scratch_topic(injection))
        name = scratch_topic(injection)
        evidence = f"{name} has {number} partitions, {with_leader} of them with a leader"
        return Measurement(confirmed=number > 1 and with_leader == number, evidence=evidence)


FAULTS: tuple[Fault, ...] = (Config(), CreateDelete(), Grow())
