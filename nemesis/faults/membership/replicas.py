"""Faults of placement: replicas are reassigned and leaders elected while other faults happen."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.administration import PartitionKey, Placement
from nemesis.base import NotApplicable
from nemesis.faults.fault import Fault, Injection, Measurement, Option
from nemesis.faults.membership.base import (
    SCOPE,
    TOPIC,
    AdminFault,
    draw,
    layer,
    one_of,
    partition_name,
    some_partitions,
)
from nemesis.hosts import Hosts

SHUFFLES: Final = 16
"""How often a new assignment is drawn before the fault gives up."""


def draw_assignment(
    now: Sequence[int], brokers: Sequence[int], rng: random.Random
) -> tuple[int, ...] | None:
    """As many replicas on random brokers, different or in another order; None if there are none."""
    if len(brokers) < len(now):
        return None
    for _ in range(SHUFFLES):
        drawn = tuple(rng.sample(brokers, len(now)))
        if drawn != tuple(now):
            return drawn
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign(AdminFault):
    """Replicas move to random brokers; the heal cancels unfinished moves."""

    name: str = "reassign"
    about: str = "replicas move to random brokers in service; the heal cancels unfinished moves"
    min_nodes: int = 2
    options: tuple[Option, ...] = (TOPIC, SCOPE)

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Request the moves. Raises NotApplicable if none is possible or all are refused."""
        rng = draw(injection)
        chosen = some_partitions(hosts, injection, rng)
        brokers = hosts.cluster.brokers()
        placed = hosts.cluster.placement(sorted({topic for topic, _ in chosen}))
        assignments = {
            at: drawn
            for at in chosen
            if at in placed
            and (drawn := draw_assignment(placed[at].assignment, brokers, rng)) is not None
        }
        if not assignments:
            raise NotApplicable(
                f"brokers {list(brokers)} allow no other assignment of {partition_name(chosen[0])}"
            )
        refused = hosts.cluster.move(layer(injection), assignments)
        if len(refused) == len(assignments):
            at, why = next(iter(refused.items()))
            raise NotApplicable(f"every move was refused: {partition_name(at)}: {why}")

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if every requested move is done or in progress."""
        accepted = hosts.cluster.accepted_moves(layer(injection))
        placed = hosts.cluster.placement(sorted({topic for topic, _ in accepted}))
        texts = [_how_far(at, wanted, placed.get(at)) for at, wanted in accepted.items()]
        confirmed = bool(texts) and all(confirmed for confirmed, _ in texts)
        return Measurement(
            confirmed=confirmed, evidence="; ".join(text for _, text in texts) or "nothing moves"
        )


def _how_far(at: PartitionKey, wanted: Sequence[int], now: Placement | None) -> tuple[bool, str]:
    if now is None:
        return False, f"{partition_name(at)} is unknown"
    place = ",".join(map(str, wanted))
    if now.assignment != tuple(wanted):
        return False, f"{partition_name(at)} is not assigned to {place}, but to {now.assignment}"
    return True, f"{partition_name(at)} {'moves to' if now.moving else 'is on'} {place}"


def _kind(text: str) -> object:
    return one_of("preferred", "unclean")(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elect(AdminFault):
    """Leaders are elected on request; there is nothing to undo."""

    name: str = "elect"
    about: str = "preferred leaders are elected; or unclean leaders where no leader is left"
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
            about="preferred, or unclean: any live replica of a partition without a leader, which "
            "may lose records",
            read=_kind,
        ),
    )

    def inject(self, hosts: Hosts, injection: Injection) -> None:
        """Request the elections. Raises NotApplicable if none is needed or the cluster refuses."""
        chosen, unclean = some_partitions(hosts, injection, draw(injection)), _is_unclean(injection)
        placed = hosts.cluster.placement(sorted({topic for topic, _ in chosen}))
        waiting = [at for at in chosen if at in placed and _needs_one(placed[at], unclean)]
        if not waiting:
            state = "a leader" if unclean else "its preferred leader"
            raise NotApplicable(
                f"{', '.join(map(partition_name, chosen))}: each has {state} already"
            )
        texts = hosts.cluster.elect(waiting, unclean=unclean)
        if not any(at in texts and not texts[at] for at in waiting):
            why = next((text for text in texts.values() if text), "the cluster texts nothing")
            raise NotApplicable(f"no leader was elected: {why}")

    def measure_effect(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Confirmed if a partition has a leader (its preferred leader unless it was unclean)."""
        chosen, unclean = some_partitions(hosts, injection, draw(injection)), _is_unclean(injection)
        placed = hosts.cluster.placement(sorted({topic for topic, _ in chosen}))
        led = [at for at in chosen if at in placed and not _needs_one(placed[at], unclean)]
        texts = ", ".join(f"{partition_name(at)} is led by {placed[at].leader}" for at in led)
        return Measurement(confirmed=bool(led), evidence=texts or "no election is seen")

    def measure_heal(self, hosts: Hosts, injection: Injection) -> Measurement:
        """Always confirmed: there is nothing to undo."""
        return Measurement(confirmed=True, evidence="an election needs no undo")


def _is_unclean(injection: Injection) -> bool:
    return injection.detail("kind") == "unclean"


def _needs_one(placed: Placement, unclean: bool) -> bool:
    if unclean:
        return placed.leader is None
    return placed.leader != placed.assignment[0]


FAULTS: tuple[Fault, ...] = (Reassign(), Elect())
