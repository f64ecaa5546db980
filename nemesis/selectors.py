"""Selectors: expressions that choose the nodes that a fault hits, resolved at the injection.

A schedule holds the selector, not the node: so the same schedule hits the current leader in every
run. The chosen nodes are journalled. Random choices are drawn from the given random number
generator. The chosen nodes are never empty, and ascending.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nemesis.base import BadSelector, ClusterView, UnresolvedSelector
from nemesis.hosts import CLIENTS, FIRST_ZOOKEEPER

SELECTORS: Final[Mapping[str, str]] = {
    "one": "a random node; like the next three, never a ZooKeeper node",
    "minority": "random nodes, as many as possible but fewer than half",
    "majority": "random nodes, as few as possible but more than half",
    "all": "every node",
    "broker": "a random broker that is not the active controller",
    "brokers": "every broker",
    "controller": "the active controller, which leads the metadata quorum, or which ZooKeeper "
    "names",
    "quorum-leader": "the same as controller",
    "quorum-follower": "a random controller that is not the active one",
    "controllers": "every controller",
    "leader": "the leader of a random partition",
    "leader:<topic>/<partition>": "that partition's leader",
    "followers": "all replicas of a random partition but its leader",
    "followers:<topic>/<partition>": "all replicas of that partition but its leader",
    "isr": "all in-sync replicas of a random partition",
    "isr:<topic>/<partition>": "all in-sync replicas of that partition",
    "isr-one": "a random in-sync follower of a random partition",
    "isr-one:<topic>/<partition>": "a random in-sync follower of that partition",
    "last-isr": "the only in-sync replica of a random partition that has just one",
    "last-isr:<topic>/<partition>": "the only in-sync replica of that partition, once it has just "
    "one",
    "group-coordinator:<group>": "the coordinator of that consumer group",
    "transaction-coordinator:<transactional id>": "the coordinator of that transactional id",
    "zookeeper:N": "the N-th ZooKeeper node, from 1",
    "zookeeper:leader": "the ZooKeeper node that leads its ensemble",
    "zookeeper:random": "a random ZooKeeper node",
    "zookeeper:minority": "random ZooKeeper nodes, as many as possible but fewer than half",
    "zookeeper:majority": "random ZooKeeper nodes, as few as possible but more than half",
    "zookeeper:all": "every ZooKeeper node",
    "clients": "the clients' machine, for network faults and client faults",
    "node:N": "node N",
    "nodes:N,N,...": "these nodes",
}
"""Every selector as it is written, and the nodes that it chooses."""

_NODES = re.compile(r"node:(\d{1,9})|nodes:(\d{1,9}(?:,\d{1,9})*)")
_OF_PARTITION = re.compile(r"(leader|followers|isr|isr-one|last-isr):([A-Za-z0-9._-]+)/(\d{1,9})")

_ZOOKEEPER = re.compile(r"zookeeper:(\d{1,3}|leader|random|minority|majority|all)")
_COORDINATOR = re.compile(r"(group|transaction)-coordinator:(\S{1,249})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """A parsed selector."""

    kind: str
    """The selector up to its colon; `node` for nodes by number."""
    nodes: tuple[int, ...] = ()
    topic: str | None = None
    """The partition's topic; None for a random partition."""
    partition: int = -1
    key: str = ""
    """The group or the transactional id whose coordinator is meant, or what follows `zookeeper:`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The nodes that a selector chose at one moment, and why."""

    nodes: tuple[int, ...]
    reason: str


def parse(expression: str) -> Selector:
    """Parse a selector. Raises BadSelector, which lists all selectors."""
    if ":" not in expression and expression in SELECTORS:
        return Selector(kind=expression)
    if match := _NODES.fullmatch(expression):
        named = {int(number) for number in (match[1] or match[2]).split(",")}
        return Selector(kind="node", nodes=tuple(sorted(named)))
    if match := _OF_PARTITION.fullmatch(expression):
        return Selector(kind=match[1], topic=match[2], partition=int(match[3]))
    if match := _ZOOKEEPER.fullmatch(expression):
        return Selector(kind="zookeeper", key=match[1])
    if match := _COORDINATOR.fullmatch(expression):
        return Selector(kind=f"{match[1]}-coordinator", key=match[2])
    raise BadSelector(f"{expression!r} is not a selector; selectors are {', '.join(SELECTORS)}")


def resolve(
    expression: str, nodes: Sequence[int], view: ClusterView, rng: random.Random
) -> Selection:
    """The nodes that `expression` chooses now.

    Raises BadSelector if it can never choose one of `nodes`, UnresolvedSelector if the view does
    not know a node at the moment.
    """
    selector = parse(expression)
    if selector.kind in _OF_REPLICAS:
        return _of_replicas(selector, view, rng)
    if selector.kind in _OF_ROLES:
        found = [node for node in _OF_ROLES[selector.kind](view) if node in nodes]
        return _all_or_one(selector.kind, found, rng)
    if selector.kind == "zookeeper":
        return _zookeeper(selector.key, nodes, view, rng)
    if selector.key:
        return _coordinator(selector, view)
    if selector.kind == "clients":
        return Selection(nodes=(CLIENTS,), reason="clients")
    if selector.kind == "node":
        if unknown := [node for node in selector.nodes if node not in nodes]:
            raise BadSelector(f"there is no node {_list(unknown)}; the nodes are {_list(nodes)}")
        return Selection(nodes=selector.nodes, reason=f"node {_list(selector.nodes)}")
    return _sample(selector.kind, [node for node in nodes if node < FIRST_ZOOKEEPER], rng)


def _zookeeper(
    which: str, nodes: Sequence[int], view: ClusterView, rng: random.Random
) -> Selection:
    """The ZooKeeper nodes that are meant by what follows `zookeeper:`."""
    servers = [node for node in nodes if node >= FIRST_ZOOKEEPER]
    if not servers:
        raise BadSelector("there is no ZooKeeper node: the control plane is a metadata quorum")
    if which == "leader":
        leader = view.zookeeper_leader()
        if leader is None:
            raise UnresolvedSelector("the leader of the ZooKeeper ensemble is not known")
        return Selection(nodes=(leader,), reason="leader of the ZooKeeper ensemble")
    if which.isdecimal():
        if not 1 <= int(which) <= len(servers):
            raise BadSelector(f"there is no ZooKeeper node {which}, only 1 to {len(servers)}")
        return Selection(nodes=(servers[int(which) - 1],), reason=f"ZooKeeper node {which}")
    found = _sample("one" if which == "random" else which, servers, rng)
    return Selection(nodes=found.nodes, reason=f"zookeeper:{which}")


def _sample(kind: str, nodes: Sequence[int], rng: random.Random) -> Selection:
    size = _size(kind, len(nodes))
    if size == 0:
        raise BadSelector(f"{len(nodes)} nodes have no {kind}")
    return Selection(nodes=tuple(sorted(rng.sample(nodes, size))), reason=kind)


def _size(kind: str, count: int) -> int:
    return {"one": 1, "minority": (count - 1) // 2, "majority": count // 2 + 1, "all": count}[kind]


# -- by role


def _active(view: ClusterView) -> int:
    leader = view.controller()
    if leader is None:
        raise UnresolvedSelector("the active controller is not known")
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


def _all_or_one(kind: str, found: Sequence[int], rng: random.Random, what: str = "") -> Selection:
    """All nodes found, or a random one of them if the selector chooses only one."""
    reason = "active controller" if kind in ("controller", "quorum-leader") else what or kind
    if not found:
        raise UnresolvedSelector(f"there is no {reason} at the moment")
    chosen = [rng.choice(sorted(found))] if kind in _ONE_OF else found
    return Selection(nodes=tuple(sorted(chosen)), reason=reason)


def _coordinator(selector: Selector, view: ClusterView) -> Selection:
    """The coordinator of a group or of a transactional id."""
    reason = f"{selector.kind.replace('-', ' ')} of {selector.key}"
    found = view.coordinator(selector.kind.partition("-")[0], selector.key)
    if found is None:
        raise UnresolvedSelector(f"the {reason} is not known")
    return Selection(nodes=(found,), reason=reason)


# -- by partition


def _replicas(kind: str, view: ClusterView, at: tuple[str, int]) -> Sequence[int]:
    """The nodes that the selector chooses in one partition; empty if unknown."""
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


def _of_replicas(selector: Selector, view: ClusterView, rng: random.Random) -> Selection:
    what = _OF_REPLICAS[selector.kind]
    if selector.topic is not None:
        at = (selector.topic, selector.partition)
    else:
        having = [at for at in view.partitions() if _replicas(selector.kind, view, at)]
        if not having:
            raise UnresolvedSelector(f"no partition has a known {what}")
        at = rng.choice(having)
    found = _replicas(selector.kind, view, at)
    if not found:
        raise UnresolvedSelector(f"{at[0]}/{at[1]} has no known {what}")
    return _all_or_one(selector.kind, found, rng, f"{what} of {at[0]}/{at[1]}")


def _without(nodes: Sequence[int], one: int) -> Sequence[int]:
    return [node for node in nodes if node != one]


def _list(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))
