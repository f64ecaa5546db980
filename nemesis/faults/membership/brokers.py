"""Faults of members: brokers join and leave, controllers lose their votes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.administration import At, Placed
from nemesis.base import Futile
from nemesis.faults.fault import Ability, Effect, Fault, Option, Params, Strike
from nemesis.faults.membership.base import (
    LOOK_MS,
    Administered,
    count,
    draw,
    layer,
    nodes_of,
    one_of,
    told,
)
from nemesis.hosts import Hosts

_MEMBERS = frozenset({Ability.ADMINISTRATION, Ability.SIGNALS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Administered):
    """A broker joins and gets a few replicas; after the heal it leaves again, or stays."""

    name: str = "broker.add"
    about: str = "a new broker joins and gets replicas; from the heal on it leaves, or it stays"
    needs: frozenset[Ability] = _MEMBERS
    pulse_ms: int | None = LOOK_MS
    options: tuple[Option, ...] = (
        Option(
            name="stay",
            default="no",
            about="yes: it stays after the heal; no: its replicas are moved away, it is stopped in "
            "order and unregistered, and its machine removed",
            read=one_of("yes", "no"),
        ),
        Option(
            name="replicas",
            default="2",
            about="so many partitions of the run get a replica on it",
            read=count(0, 1000),
        ),
    )

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Start it. It joins by itself."""
        hosts.cluster.join(layer(strike))

    def pulse(self, hosts: Hosts, strike: Strike, elapsed_ms: int) -> None:
        """Once it is in service, order its replicas, once."""
        node = _joined(hosts, strike)
        wanted = int(strike.detail("replicas"))
        if node not in hosts.cluster.brokers() or hosts.cluster.ordered(layer(strike)):
            return
        known = sorted(hosts.view.partitions())
        placed = hosts.cluster.placement(sorted({topic for topic, _ in known}))
        rng = draw(strike)
        chosen = rng.sample([at for at in known if at in placed], min(wanted, len(placed)))
        targets = {
            at: with_node(placed[at].target, node, rng)
            for at in chosen
            if not placed[at].moving and node not in placed[at].target
        }
        hosts.cluster.move(layer(strike), targets)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """It is in service; and what it holds or is to hold."""
        node = _joined(hosts, strike)
        if node not in hosts.cluster.brokers():
            return Effect(took=False, evidence=f"broker {node} is not in service yet")
        given = ", ".join(map(told, hosts.cluster.ordered(layer(strike)))) or "nothing"
        return Effect(took=True, evidence=f"broker {node} is in service; it was given {given}")

    def heal(self, hosts: Hosts, strike: Strike) -> None:
        """Let it leave, or stay."""
        if strike.detail("stay") == "yes":
            hosts.cluster.keep(layer(strike))
        else:
            hosts.cluster.undo(layer(strike))

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """It stays, is gone, or is about to leave."""
        owed = hosts.cluster.owed(layer(strike))
        stays = "it stays" if strike.detail("stay") == "yes" else "it is gone"
        return Effect(took=True, evidence=owed or stays)


def _joined(hosts: Hosts, strike: Strike) -> int:
    return hosts.cluster.joined(layer(strike))


def with_node(now: Sequence[int], node: int, rng: random.Random) -> tuple[int, ...]:
    """The replicas with `node` in the place of one of them."""
    place = rng.randrange(len(now))
    return (*now[:place], node, *now[place + 1 :])


def can_leave(node: int, placed: Sequence[tuple[At, Placed]], brokers: Sequence[int]) -> At | None:
    """The first partition that could not do without the node; None when it may leave."""
    others = [each for each in brokers if each != node]
    for at, each in placed:
        if node in each.target and len(each.target) > len(others):
            return at
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(Administered):
    """A broker leaves for good; the heal starts another one of its number, which has nothing."""

    name: str = "broker.remove"
    about: str = "a broker is drained, stopped in order and unregistered; it comes back empty"
    needs: frozenset[Ability] = _MEMBERS
    default_targets: str = "broker"
    aimable: bool = True
    min_nodes: int = 4

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Let them leave. Raises Futile when what they hold has nowhere to go."""
        brokers = hosts.cluster.brokers()
        placed = list(hosts.cluster.placement(list(hosts.cluster.topics())).items())
        leaving = [node for node in nodes_of(strike) if node in brokers]
        if not leaving:
            raise Futile(f"nodes {nodes_of(strike)} are no brokers in service")
        if len(leaving) == len(brokers):
            raise Futile("no broker in service would be left")
        rest = [each for each in brokers if each not in leaving]
        for node in leaving:
            if (at := can_leave(node, placed, rest)) is not None:
                raise Futile(f"the replica of {told(at)} on broker {node} has nowhere to go")
        for node in leaving:
            hosts.cluster.leave(layer(strike), node)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """They are stopped, unregistered, and have nothing left; or how far that is."""
        gone = [node for node in nodes_of(strike) if hosts.cluster.has_left(node)]
        if gone:
            text = ", ".join(map(str, gone))
            return Effect(took=True, evidence=f"brokers that were drained and unregistered: {text}")
        return Effect(took=False, evidence=hosts.cluster.owed(layer(strike)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveVoter(Administered):
    """A controller loses its vote, and gets it back at the heal."""

    name: str = "quorum.remove-voter"
    about: str = "a controller loses its vote in the metadata quorum (KIP-853) until the heal"
    default_targets: str = "quorum-follower"
    aimable: bool = True
    min_nodes: int = 3

    def aim(
        self, targets: Sequence[int], nodes: Sequence[int], rng: random.Random, params: Params
    ) -> Strike:
        """One of the targets: the quorum takes one change at a time."""
        return Administered.aim(self, [rng.choice(sorted(targets))], nodes, rng, params)

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Take its vote. Raises Futile when it has none, or hardly anybody else has."""
        (node,) = nodes_of(strike)
        voters = hosts.cluster.voters()
        if node not in voters or len(voters) < 3:
            raise Futile(f"node {node} cannot give up a vote: voters are {list(voters)}")
        hosts.cluster.remove_voter(layer(strike), node)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """It is no voter."""
        voters = hosts.cluster.voters()
        took = not set(nodes_of(strike)) & set(voters)
        return Effect(took=took, evidence=f"voters are {list(voters)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddVoter(Administered):
    """A new node joins as broker and controller, and gets a vote; from the heal on it leaves."""

    name: str = "quorum.add-voter"
    about: str = "a new node joins and gets a vote (KIP-853); from the heal on it leaves again"
    needs: frozenset[Ability] = _MEMBERS

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Start it. It gets its vote once it has caught up."""
        hosts.cluster.join(layer(strike), voter=True)

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """It is a voter."""
        node, voters = _joined(hosts, strike), hosts.cluster.voters()
        return Effect(took=node in voters, evidence=f"node {node} joined; voters: {list(voters)}")


FAULTS: tuple[Fault, ...] = (Add(), Remove(), RemoveVoter(), AddVoter())
