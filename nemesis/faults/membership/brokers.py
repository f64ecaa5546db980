"""Faults of membership: brokers are added and removed, controllers lose their votes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.administration import PartitionKey, Placement
from nemesis.base import NotApplicable
from nemesis.faults.fault import Ability, Fault, Injection, Measurement, Option, Params
from nemesis.faults.membership.base import (
    STEP_MS,
    AdminFault,
    count,
    draw,
    layer,
    nodes_of,
    one_of,
    partition_name,
)
from nemesis.hosts import Hosts

_MEMBERS = frozenset({Ability.ADMINISTRATION, Ability.SIGNALS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(AdminFault):
    """A broker joins and gets a few replicas; the heal removes it, or it stays."""

    name: str = "broker.add"
    about: str = "a new broker joins and gets replicas; the heal removes it, or it stays"
    needs: frozenset[Ability] = _MEMBERS
    tick_ms: int | None = STEP_MS
    options: tuple[Option, ...] = (
        Option(
            name="stay",
            default="no",
            about="yes: it stays after the heal; no: its replicas are moved away, it is stopped "
            "cleanly and unregistered, and its machine is removed",
            read=one_of("yes", "no"),
        ),
        Option(
            name="replicas",
            default="2",
            about="how many partitions of the run get a replica on it",
            read=count(0, 1000),
        ),
    )

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Start the broker; it joins by itself."""
        hosts.cluster.join(layer(injection))

    def tick(self, hosts: Hosts, injection: Injection, elapsed_ms: int) -> None:
        """Request its replicas once, when it is in service."""
        node = _joined(hosts, injection)
        wanted = int(injection.detail("replicas"))
        if node not in hosts.cluster.brokers() or hosts.cluster.accepted_moves(layer(injection)):
            return
        known = sorted(hosts.view.partitions())
        placed = hosts.cluster.placement(sorted({topic for topic, _ in known}))
        rng = draw(injection)
        chosen = rng.sample([at for at in known if at in placed], min(wanted, len(placed)))
        assignments = {
            at: with_replica_on(placed[at].assignment, node, rng)
            for at in chosen
            if not placed[at].moving and node not in placed[at].assignment
        }
        hosts.cluster.move(layer(injection), assignments)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the broker is in service; reports the replicas requested for it."""
        node = _joined(hosts, injection)
        if node not in hosts.cluster.brokers():
            return Measurement(confirmed=False, evidence=f"broker {node} is not in service yet")
        moved = (
            ", ".join(map(partition_name, hosts.cluster.accepted_moves(layer(injection))))
            or "nothing"
        )
        return Measurement(
            confirmed=True, evidence=f"broker {node} is in service; replicas moved to it: {moved}"
        )

    def heal(self, hosts: Hosts, injection: Injection) -> None:
        """Remove the broker, or let it stay."""
        if injection.detail("stay") == "yes":
            hosts.cluster.keep(layer(injection))
        else:
            hosts.cluster.undo(layer(injection))

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Always confirmed; reports whether the broker stays, is gone or is being removed."""
        pending = hosts.cluster.pending_work(layer(injection))
        stays = "it stays" if injection.detail("stay") == "yes" else "it is gone"
        return Measurement(confirmed=True, evidence=pending or stays)


def _joined(hosts: Hosts, injection: Injection) -> int:
    return hosts.cluster.joined(layer(injection))


def with_replica_on(now: Sequence[int], node: int, rng: random.Random) -> tuple[int, ...]:
    """The replicas, with `node` in place of a random one."""
    place = rng.randrange(len(now))
    return (*now[:place], node, *now[place + 1 :])


def partition_that_needs(
    node: int, placed: Sequence[tuple[PartitionKey, Placement]], brokers: Sequence[int]
) -> PartitionKey | None:
    """The first partition that has too few other brokers; None if the node can be removed."""
    others = [each for each in brokers if each != node]
    for at, each in placed:
        if node in each.assignment and len(each.assignment) > len(others):
            return at
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(AdminFault):
    """A broker is removed for good; the heal starts an empty broker with the same node id."""

    name: str = "broker.remove"
    about: str = "a broker is drained, stopped cleanly and unregistered; it comes back empty"
    needs: frozenset[Ability] = _MEMBERS
    default_selector: str = "broker"
    selectable: bool = True
    min_nodes: int = 4

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Remove the brokers. Raises NotApplicable if their replicas have nowhere to go."""
        brokers = hosts.cluster.brokers()
        placed = list(hosts.cluster.placement(list(hosts.cluster.topics())).items())
        leaving = [node for node in nodes_of(injection) if node in brokers]
        if not leaving:
            raise NotApplicable(f"nodes {nodes_of(injection)} are not brokers in service")
        if len(leaving) == len(brokers):
            raise NotApplicable("no broker in service would be left")
        rest = [each for each in brokers if each not in leaving]
        for node in leaving:
            if (at := partition_that_needs(node, placed, rest)) is not None:
                raise NotApplicable(
                    f"the replica of {partition_name(at)} on broker {node} has nowhere to go"
                )
        for node in leaving:
            hosts.cluster.leave(layer(injection), node)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a broker is stopped, unregistered and empty; else reports the progress."""
        gone = [node for node in nodes_of(injection) if hosts.cluster.is_removed(node)]
        if gone:
            text = ", ".join(map(str, gone))
            return Measurement(
                confirmed=True, evidence=f"brokers that were drained and unregistered: {text}"
            )
        return Measurement(confirmed=False, evidence=hosts.cluster.pending_work(layer(injection)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoter(AdminFault):
    """A controller loses its vote, and gets it back at the heal."""

    name: str = "quorum.remove-voter"
    about: str = "a controller loses its vote in the metadata quorum (KIP-853) until the heal"
    default_selector: str = "quorum-follower"
    selectable: bool = True
    min_nodes: int = 3

    def plan_injection(
        self, selected: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Injection:
        """One of the selected nodes: the quorum accepts one change at a time."""
        return AdminFault.plan_injection(self, [rng.choice(sorted(selected))], nodes, rng, params)

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Remove its vote. Raises NotApplicable if it has none or there are fewer than 3 voters."""
        (node,) = nodes_of(injection)
        voters = hosts.cluster.voters()
        if node not in voters or len(voters) < 3:
            raise NotApplicable(f"node {node} cannot give up a vote: voters are {list(voters)}")
        hosts.cluster.remove_voter(layer(injection), node)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the node is not a voter."""
        voters = hosts.cluster.voters()
        confirmed = not set(nodes_of(injection)) & set(voters)
        return Measurement(confirmed=confirmed, evidence=f"voters are {list(voters)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter(AdminFault):
    """A new node joins as broker and controller, and gets a vote; the heal removes it."""

    name: str = "quorum.add-voter"
    about: str = "a new node joins and gets a vote (KIP-853); the heal removes it"
    needs: frozenset[Ability] = _MEMBERS

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Start the node; it gets its vote when it has caught up."""
        hosts.cluster.join(layer(injection), voter=True)

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if the node is a voter."""
        node, voters = _joined(hosts, injection), hosts.cluster.voters()
        return Measurement(
            confirmed=node in voters, evidence=f"node {node} joined; voters: {list(voters)}"
        )


FAULTS: tuple[Fault, ...] = (Add(), Remove(), RemoveVoter(), AddVoter())
