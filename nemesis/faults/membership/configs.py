"""Faults of configurations of all brokers: defaults of topics change, replication is throttled."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import NotApplicable
from nemesis.faults.fault import Fault, Injection, Measurement, Option, Params
from nemesis.faults.membership.base import ANY, AdminFault, count, draw, layer, with_drawn_change
from nemesis.hosts import Hosts

SAFE: Final[Mapping[str, Sequence[str]]] = {
    "log.segment.bytes": ("65536", "1048576"),
    "log.roll.ms": ("1000", "10000"),
    "log.index.interval.bytes": ("0", "512"),
    "log.segment.delete.delay.ms": ("0", "1000"),
    "log.message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "message.max.bytes": ("2097152",),
}
"""Changes that affect no guarantee."""
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
DRAWN_RATES: Final = ("500", "5000", "50000")
WAIT_FOR_RESTORE: Final = "not restored yet"


def restored(hosts: Hosts, injection: Injection) -> Measurement:
    """Confirmed if no work is pending: the fault lasts until everything is restored."""
    if pending := hosts.cluster.pending_work(layer(injection)):
        return Measurement(confirmed=False, evidence=f"{WAIT_FOR_RESTORE}: {pending}")
    return Measurement(confirmed=True, evidence="the cluster has restored it")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(AdminFault):
    """A configuration of all brokers changes: the default of their topics (KIP-226)."""

    name: str = "config.broker"
    about: str = "a configuration of all brokers changes; the heal restores it"
    options: tuple[Option, ...] = (
        Option(name="name", default=ANY, about=f"a broker config, or any of {', '.join(SAFE)}"),
        Option(name="value", default=ANY, about="its value; any requires a name with safe values"),
    )

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """The change; open choices are drawn."""
        injection = AdminFault.plan_injection(self, selected, nodes, rng, params)
        return with_drawn_change(injection, SAFE, rng)

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Set the value. Raises NotApplicable if it is set already."""
        name, value = injection.detail("name"), injection.detail("value")
        if hosts.cluster.brokers_config(name) == value:
            raise NotApplicable(f"{name} is {value} already")
        hosts.cluster.set_brokers_config(layer(injection), name, value)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a broker reports the value."""
        name = injection.detail("name")
        found = hosts.cluster.brokers_config(name)
        return Measurement(
            confirmed=found == injection.detail("value"),
            evidence=f"{name} of all brokers is {found}",
        )

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """See `restored`."""
        return restored(hosts, injection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle(AdminFault):
    """Replicas of the run's topics that are not in sync get few bytes per second (KIP-73)."""

    name: str = "config.throttle"
    about: str = "replicas that are not in sync get few bytes per second; the heal ends that"
    options: tuple[Option, ...] = (
        Option(
            name="bytes_per_s",
            default=ANY,
            about=f"the rate of each broker, or any of {', '.join(DRAWN_RATES)}",
            read=lambda text: text if text == ANY else count(1, 1 << 30)(text),
        ),
    )

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """List the replicas in the configuration of each topic, then set the rates."""
        cluster, name = hosts.cluster, layer(injection)
        topics = sorted({topic for topic, _ in hosts.view.partitions()})
        listed: dict[str, list[str]] = {topic: [] for topic in topics}
        for (topic, number), placed in cluster.placement(topics).items():
            listed[topic] += [f"{number}:{node}" for node in placed.replicas]
        for topic, items in listed.items():
            for config in REPLICAS if items else ():
                cluster.extend_topic_config(name, topic, config, items)
        for config in RATES:
            cluster.set_brokers_config(name, config, self._rate(injection))

    @staticmethod
    def _rate(injection: Injection) -> str:
        wanted = injection.detail("bytes_per_s")
        return draw(injection).choice(DRAWN_RATES) if wanted == ANY else wanted

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a broker reports the rates."""
        found = [hosts.cluster.brokers_config(config) for config in RATES]
        return Measurement(
            confirmed=set(found) == {self._rate(injection)},
            evidence=f"the rates of all brokers are {' and '.join(map(str, found))} bytes/s",
        )

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """See `restored`."""
        return restored(hosts, injection)


FAULTS: tuple[Fault, ...] = (BrokerConfig(), Throttle())
