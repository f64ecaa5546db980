"""Faults of topics: configurations that change under load, topics that come, grow and go."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import Futile
from nemesis.faults.fault import Effect, Fault, Option, Params, Strike
from nemesis.faults.membership.base import ANY, LOOK_MS, Administered, count, layer
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
"""Changes that move no guarantee: what is left to chance is drawn from these. Retention stays so
long that a clock an hour wrong deletes nothing."""
WAIT_FOR_RESTORE: Final = "the old value is not in force yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Administered):
    """A configuration of topics changes, and is what it was after the heal.

    What changed is in the strike's details, as `topic`, `name` and `value`: from the injection to
    the heal the contract may have to be judged by it. A heal that the cluster did not take is none.
    """

    name: str = "config"
    about: str = "a configuration of topics changes; the heal restores it"
    options: tuple[Option, ...] = (
        Option(name="topic", default=EVERY, about="a topic, or every topic of the run"),
        Option(name="name", default=ANY, about=f"a topic's config, or any of {', '.join(SAFE)}"),
        Option(name="value", default=ANY, about="its value; any only together with any name"),
    )

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """The change itself, drawn where it was left open."""
        strike = Administered.aim(self, targets, nodes, rng, params)
        details = dict(strike.details)
        if details["name"] == ANY:
            details["name"] = rng.choice(sorted(SAFE))
        if details["value"] == ANY:
            known = SAFE.get(details["name"])
            if known is None:
                raise Futile(f"{details['name']} has no safe values to choose from: name a value")
            details["value"] = rng.choice(known)
        return Strike(details=tuple(sorted(details.items())))

    def label(self, strike: Strike) -> str:
        """Such as `config segment.bytes=65536 of every topic`."""
        topic = strike.detail("topic")
        of = "every topic" if topic == EVERY else topic
        return f"{self.name} {strike.detail('name')}={strike.detail('value')} of {of}"

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Change it. Raises Futile when it is so already everywhere."""
        name, value, topics = strike.detail("name"), strike.detail("value"), _topics(hosts, strike)
        before = [hosts.cluster.setting(topic, name) for topic in topics]
        if all(each == value for each in before):
            raise Futile(f"{name} is {value} already")
        hosts.cluster.configure(layer(strike), topics, name, value)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The cluster says that the value is in force."""
        name, value = strike.detail("name"), strike.detail("value")
        found = {topic: hosts.cluster.setting(topic, name) for topic in _topics(hosts, strike)}
        said = ", ".join(f"{topic} {each}" for topic, each in found.items())
        return Effect(took=set(found.values()) == {value}, evidence=f"{name} is {said}")

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """Nothing is owed: until the value is restored, the fault goes on."""
        if owed := hosts.cluster.owed(layer(strike)):
            return Effect(took=False, evidence=f"{WAIT_FOR_RESTORE}: {owed}")
        name = strike.detail("name")
        found = {topic: hosts.cluster.setting(topic, name) for topic in _topics(hosts, strike)}
        said = ", ".join(f"{topic} {each}" for topic, each in found.items())
        return Effect(took=True, evidence=f"{name} is {said}")


def _topics(hosts: Hosts, strike: Strike) -> list[str]:
    named = strike.detail("topic")
    known = sorted({topic for topic, _ in hosts.view.partitions()})
    if named != EVERY and named not in known:
        raise Futile(f"there is no topic {named} in the run")
    return known if named == EVERY else [named]


def scratch(strike: Strike, number: int = 0) -> str:
    """The name of a topic that belongs to the strike, and to nobody else."""
    kind, _, mark = layer(strike).partition("/")
    return f"scratch-{kind}-{mark}-{number}"


def _replicas(hosts: Hosts) -> int:
    return max(1, min(3, len(hosts.cluster.brokers())))


def _seen(hosts: Hosts, name: str) -> tuple[int, int]:
    """How many partitions of a topic there are, and how many of them are led."""
    placed = hosts.cluster.placement([name])
    return len(placed), sum(each.leader is not None for each in placed.values())


PARTITIONS: Final = Option(
    name="partitions", default="3", about="so many partitions each topic has", read=count(1, 1000)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelete(Administered):
    """Topics come and go, one after the other; the last one goes at the heal."""

    name: str = "topic.create-delete"
    about: str = "topics of no use come and go, one each second; the heal deletes the last"
    pulse_ms: int | None = LOOK_MS
    options: tuple[Option, ...] = (PARTITIONS,)

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Create the first."""
        self._create(hosts, strike, 0)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Create the next one and delete the one before it."""
        number = elapsed_ms // LOOK_MS
        known = hosts.cluster.topics()
        if scratch(strike, number) not in known:
            self._create(hosts, strike, number)
        for old in range(max(0, number - 3), number):
            if (name := scratch(strike, old)) in known:
                hosts.cluster.delete_topic(name)

    def _create(self, hosts: Hosts, strike: Strike, number: int) -> None:
        hosts.cluster.create_topic(
            layer(strike),
            scratch(strike, number),
            partitions=int(strike.detail("partitions")),
            replicas=_replicas(hosts),
        )

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The first one, or what came after it, is there and led."""
        prefix = scratch(strike).removesuffix("0")
        names = [name for name in hosts.cluster.topics() if name.startswith(prefix)]
        for name in reversed(names):
            number, led = _seen(hosts, name)
            if number and number == led:
                return Effect(took=True, evidence=f"{name} has {number} partitions, all led")
        return Effect(took=False, evidence=f"{len(names)} topics are there, none is led")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow(Administered):
    """A topic grows, a partition at a time; the heal deletes it."""

    name: str = "partitions.grow"
    about: str = "a topic of no use grows, a partition each second; the heal deletes it"
    pulse_ms: int | None = LOOK_MS
    options: tuple[Option, ...] = (
        Option(
            name="most",
            default="12",
            about="so many partitions it has at most",
            read=count(2, 1000),
        ),
    )

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Create it with one partition, and let it have another."""
        hosts.cluster.create_topic(
            layer(strike), scratch(strike), partitions=1, replicas=_replicas(hosts)
        )
        hosts.cluster.grow_topic(scratch(strike), 2)

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """One more, up to the bound."""
        number = hosts.cluster.topics().get(scratch(strike), 0)
        if 0 < number < int(strike.detail("most")):
            hosts.cluster.grow_topic(scratch(strike), number + 1)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """It has more than the one partition that it began with, all led."""
        number, led = _seen(hosts, scratch(strike))
        evidence = f"{scratch(strike)} has {number} partitions, {led} of them led"
        return Effect(took=number > 1 and led == number, evidence=evidence)


FAULTS: tuple[Fault, ...] = (Config(), CreateDelete(), Grow())
