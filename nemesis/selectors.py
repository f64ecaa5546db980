"""Who a fault is aimed at: a small language of target expressions, resolved when it strikes.

A schedule holds the expression, not the node: the same schedule then hits the leader of the moment
in every run. Which node that was is journalled. What an expression leaves open is drawn by a random
number generator handed in; the set is never empty, and ascending.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import BadTargets, ClusterView, Unresolved
from nemesis.hosts import CLIENTS

EXPRESSIONS: Final[Mapping[str, str]] = {
    "one": "a random node",
    "minority": "as many random nodes as are less than half of all",
    "majority": "as few random nodes as are more than half of all",
    "all": "every node",
    "broker": "a random broker that is not the active controller",
    "brokers": "every broker",
    "controller": "the active controller, which leads the metadata quorum",
    "quorum-leader": "the same",
    "quorum-follower": "a random controller that is not active",
    "controllers": "every controller",
    "leader": "the leader of a random partition",
    "leader:<topic>/<partition>": "that partition's leader",
    "followers": "all replicas of a random partition but its leader",
    "followers:<topic>/<partition>": "all replicas of that partition but its leader",
    "isr": "all in-sync replicas of a random partition",
    "isr:<topic>/<partition>": "all in-sync replicas of that partition",
    "isr-one": "a random in-sync follower of a random partition",
    "isr-one:<topic>/<partition>": "a random in-sync follower of that partition",
    "last-isr": "the only in-sync replica of a random partition that has but one",
    "last-isr:<topic>/<partition>": "the only in-sync replica of that partition, once it has but "
    "one",
    "clients": "the clients' machine, for faults of the network and of clients",
    "node:N": "node N",
    "nodes:N,N,...": "these nodes",
}
"""Every target expression as it is written, and whom it means."""

_NODES = re.compile(r"node:(\d{1,9})|nodes:(\d{1,9}(?:,\d{1,9})*)")
_OF_PARTITION = re.compile(r"(leader|followers|isr|isr-one|last-isr):([A-Za-z0-9._-]+)/(\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed target expression."""

    kind: str
    """The expression up to its colon; `node` for nodes by number."""
    nodes: tuple[int, ...] = ()
    topic: str | None = None
    """With a partition's expression: that partition's; without, any partition's."""
    partition: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The nodes that a target expression meant at one moment, and why these."""

    nodes: tuple[int, ...]
    because: str


def parse(expression: str) -> Target:
    """Read a target expression. Raises BadTargets, naming the expressions that exist."""
    if ":" not in expression and expression in EXPRESSIONS:
        return Target(kind=expression)
    if match := _NODES.fullmatch(expression):
        named = {int(number) for number in (match[1] or match[2]).split(",")}
        return Target(kind="node", nodes=tuple(sorted(named)))
    if match := _OF_PARTITION.fullmatch(expression):
        return Target(kind=match[1], topic=match[2], partition=int(match[3]))
    raise BadTargets(f"{expression!r} is no target; targets are {', '.join(EXPRESSIONS)}")


def resolve(
    expression: str, nodes: Sequence[int], view: ClusterView, rng: random.Random
) -> Resolved:
    """The nodes that `expression` means now.

    Raises BadTargets when it never can mean any of `nodes`, Unresolved when the view does not know
    at the moment.
    """
    target = parse(expression)
    if target.kind in _OF_REPLICAS:
        return _of_replicas(target, view, rng)
    if target.kind in _OF_ROLES:
        found = [node for node in _OF_ROLES[target.kind](view) if node in nodes]
        return _some(target.kind, found, rng)
    if target.kind == "clients":
        return Resolved(nodes=(CLIENTS,), because="clients")
    if target.kind == "node":
        if strangers := [node for node in target.nodes if node not in nodes]:
            raise BadTargets(f"there is no node {_list(strangers)}; the nodes are {_list(nodes)}")
        return Resolved(nodes=target.nodes, because=f"node {_list(target.nodes)}")
    return _sample(target.kind, nodes, rng)


def _sample(kind: str, nodes: Sequence[int], rng: random.Random) -> Resolved:
    size = _size(kind, len(nodes))
    if size == 0:
        raise BadTargets(f"{len(nodes)} nodes have no {kind}")
    return Resolved(nodes=tuple(sorted(rng.sample(nodes, size))), because=kind)


def _size(kind: str, count: int) -> int:
    return {"one": 1, "minority": (count - 1) // 2, "majority": count // 2 + 1, "all": count}[kind]


# -- by role


def _active(view: ClusterView) -> int:
    leader = view.controller()
    if leader is None:
        raise Unresolved("nobody knows the active controller")
    return leader


_OF_ROLES: Final[Mapping[str, Callable[[ClusterView], Sequence[int]]]] = {
    "controller": lambda view: [_active(view)],
    "quorum-leader": lambda view: [_active(view)],
    "quorum-follower": lambda view: _without(view.controllers(), _active(view)),
    "controllers": lambda view: view.controllers(),
    "broker": lambda view: _without(view.brokers(), _active(view)),
    "brokers": lambda view: view.brokers(),
}
_ONE_OF: Final = frozenset({"quorum-follower", "broker", "isr-one"})


def _some(kind: str, found: Sequence[int], rng: random.Random, what: str = "") -> Resolved:
    """All that were found, or one of them where the expression means but one."""
    because = "active controller" if kind in ("controller", "quorum-leader") else what or kind
    if not found:
        raise Unresolved(f"there is no {because} at the moment")
    chosen = [rng.choice(sorted(found))] if kind in _ONE_OF else found
    return Resolved(nodes=tuple(sorted(chosen)), because=because)


# -- by partition


def _replicas(kind: str, view: ClusterView, at: tuple[str, int]) -> Sequence[int]:
    """Whom the expression means in one partition; nobody when that is not known."""
    leader, isr = view.leader(*at), view.isr(*at) or ()
    match kind:
        case "leader":
            return () if leader is None else (leader,)
        case "followers":
            return () if leader is None else _without(view.replicas(*at) or (), leader)
        case "isr-one":
            return () if leader is None else _without(isr, leader)
        case "last-isr":
            return isr if len(isr) == 1 else ()
        case _:
            return isr


_OF_REPLICAS: Final[Mapping[str, str]] = {
    "leader": "leader",
    "followers": "followers",
    "isr": "in-sync replicas",
    "isr-one": "in-sync follower",
    "last-isr": "last in-sync replica",
}


def _of_replicas(target: Target, view: ClusterView, rng: random.Random) -> Resolved:
    what = _OF_REPLICAS[target.kind]
    if target.topic is not None:
        at = (target.topic, target.partition)
    else:
        having = [at for at in view.partitions() if _replicas(target.kind, view, at)]
        if not having:
            raise Unresolved(f"no partition has a known {what}")
        at = rng.choice(having)
    found = _replicas(target.kind, view, at)
    if not found:
        raise Unresolved(f"{at[0]}/{at[1]} has no known {what}")
    return _some(target.kind, found, rng, f"{what} of {at[0]}/{at[1]}")


def _without(nodes: Sequence[int], one: int) -> Sequence[int]:
    return [node for node in nodes if node != one]


def _list(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))
