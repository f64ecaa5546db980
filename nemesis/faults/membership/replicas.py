"""Faults of placement: replicas are moved, leaders elected, while other things break."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.administration import At, Placed
from nemesis.base import Futile
from nemesis.faults.fault import Effect, Fault, Option, Strike
from nemesis.faults.membership.base import (
    SCOPE,
    TOPIC,
    Administered,
    draw,
    layer,
    one_of,
    some_partitions,
    told,
)
from nemesis.hosts import Hosts

SHUFFLES: Final = 16
"""How often another order is drawn before there is taken to be none."""


def elsewhere(
    now: Sequence[int], brokers: Sequence[int], rng: random.Random
) -> tuple[int, ...] | None:
    """As many replicas on random brokers, other ones or in another order; None for want of any."""
    if len(brokers) < len(now):
        return None
    for _ in range(SHUFFLES):
        drawn = tuple(rng.sample(brokers, len(now)))
        if drawn != tuple(now):
            return drawn
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign(Administered):
    """Replicas go to random brokers; what still moves at the heal is cancelled."""

    name: str = "reassign"
    about: str = "replicas move to random brokers in service; the heal cancels what still moves"
    min_nodes: int = 2
    options: tuple[Option, ...] = (TOPIC, SCOPE)

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Order the moves. Raises Futile when there is no other place, or all are refused."""
        rng = draw(strike)
        chosen = some_partitions(hosts, strike, rng)
        brokers = hosts.cluster.brokers()
        placed = hosts.cluster.placement(sorted({topic for topic, _ in chosen}))
        targets = {
            at: drawn
            for at in chosen
            if at in placed and (drawn := elsewhere(placed[at].target, brokers, rng)) is not None
        }
        if not targets:
            raise Futile(f"brokers {list(brokers)} are no other place for {told(chosen[0])}")
        refused = hosts.cluster.move(layer(strike), targets)
        if len(refused) == len(targets):
            at, why = next(iter(refused.items()))
            raise Futile(f"every move was refused: {told(at)}: {why}")

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """Every partition that was ordered to move is where it is to be, or on its way there."""
        ordered = hosts.cluster.ordered(layer(strike))
        placed = hosts.cluster.placement(sorted({topic for topic, _ in ordered}))
        said = [_how_far(at, wanted, placed.get(at)) for at, wanted in ordered.items()]
        took = bool(said) and all(taken for taken, _ in said)
        return Effect(took=took, evidence="; ".join(text for _, text in said) or "nothing moves")


def _how_far(at: At, wanted: Sequence[int], now: Placed | None) -> tuple[bool, str]:
    if now is None:
        return False, f"{told(at)} is unknown"
    place = ",".join(map(str, wanted))
    if now.target != tuple(wanted):
        return False, f"{told(at)} is not to be on {place}, but on {now.target}"
    return True, f"{told(at)} {'moves to' if now.moving else 'is on'} {place}"


def _kind(text: str) -> object:
    return one_of("preferred", "unclean")(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elect(Administered):
    """Leaders are elected by order; there is nothing to undo."""

    name: str = "elect"
    about: str = "preferred leaders are elected; or unclean ones, where no leader is left"
    options: tuple[Option, ...] = (
        TOPIC,
        Option(
            name="scope",
            default="topic",
            about="partition (a random one) or topic (all of its partitions)",
            read=SCOPE.read,
        ),
        Option(
            name="kind",
            default="preferred",
            about="preferred, or unclean: any replica alive where no leader is left, which may "
            "lose records",
            read=_kind,
        ),
    )

    def inject(self, hosts: Hosts, strike: Strike) -> None:
        """Order the elections. Raises Futile when none is needed, or the cluster elects nobody."""
        chosen, unclean = some_partitions(hosts, strike, draw(strike)), _is_unclean(strike)
        placed = hosts.cluster.placement(sorted({topic for topic, _ in chosen}))
        open_ = [at for at in chosen if at in placed and _needs_one(placed[at], unclean)]
        if not open_:
            state = "a leader" if unclean else "its preferred leader"
            raise Futile(f"{', '.join(map(told, chosen))}: each has {state} already")
        said = hosts.cluster.elect(open_, unclean=unclean)
        if not any(at in said and not said[at] for at in open_):
            why = next((text for text in said.values() if text), "the cluster said nothing")
            raise Futile(f"nobody was elected: {why}")

    def effect(self, hosts: Hosts, strike: Strike) -> Effect:
        """The partitions are led, by their preferred leaders unless it was unclean."""
        chosen, unclean = some_partitions(hosts, strike, draw(strike)), _is_unclean(strike)
        placed = hosts.cluster.placement(sorted({topic for topic, _ in chosen}))
        led = [at for at in chosen if at in placed and not _needs_one(placed[at], unclean)]
        said = ", ".join(f"{told(at)} is led by {placed[at].leader}" for at in led)
        return Effect(took=bool(led), evidence=said or "no election is seen")

    def healing(self, hosts: Hosts, strike: Strike) -> Effect:
        """Nothing is to be undone."""
        return Effect(took=True, evidence="an election is over when it was made")


def _is_unclean(strike: Strike) -> bool:
    return strike.detail("kind") == "unclean"


def _needs_one(placed: Placed, unclean: bool) -> bool:
    if unclean:
        return placed.leader is None
    return placed.leader != placed.target[0]


FAULTS: tuple[Fault, ...] = (Reassign(), Elect())
