"""Who a fault is aimed at: a small language of target expressions, resolved when it strikes.

`one`, `minority`, `majority`, `all` are random sets of nodes of that size; `leader` leads a random
partition, `leader:<topic>/<partition>` that one; `controller` leads the metadata quorum; `node:N`
is node N. A schedule holds the expression, not the node: the same schedule then hits the leader of
the moment in every run. Which one that was is journalled.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.base import BadTargets, ClusterView, Unresolved

EXPRESSIONS = (
    "one",
    "minority",
    "majority",
    "leader",
    "controller",
    "all",
    "node:N",
    "leader:<topic>/<partition>",
)

_SETS = frozenset({"one", "minority", "majority", "all", "leader", "controller"})
_NODE = re.compile(r"node:(\d+)")
_LEADER = re.compile(r"leader:([A-Za-z0-9._-]+)/(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed target expression."""

    kind: str
    """One of `_SETS`, or `node`; `leader` with a topic means that partition's."""
    node: int | None = None
    topic: str | None = None
    partition: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The nodes that a target expression meant at one moment, and why these."""

    nodes: tuple[int, ...]
    because: str


def parse(expression: str) -> Target:
    """Read a target expression. Raises BadTargets, naming the expressions that exist."""
    if expression in _SETS:
        return Target(kind=expression)
    if match := _NODE.fullmatch(expression):
        return Target(kind="node", node=int(match[1]))
    if match := _LEADER.fullmatch(expression):
        return Target(kind="leader", topic=match[1], partition=int(match[2]))
    raise BadTargets(f"{expression!r} is no target; targets are {', '.join(EXPRESSIONS)}")


def resolve(
    expression: str, nodes: Sequence[int], view: ClusterView, rng: random.Random
) -> Resolved:
    """The nodes that `expression` means now.

    Raises BadTargets when it never can mean any of `nodes`, Unresolved when the view does not know
    at the moment.
    """
    target = parse(expression)
    match target.kind:
        case "node":
            assert target.node is not None
            if target.node not in nodes:
                raise BadTargets(f"there is no node {target.node}; the nodes are {_list(nodes)}")
            return Resolved(nodes=(target.node,), because=f"node {target.node}")
        case "leader":
            return _leader(target, view, rng)
        case "controller":
            leader = view.controller()
            if leader is None:
                raise Unresolved("nobody knows the active controller")
            return Resolved(nodes=(leader,), because="active controller")
        case _:
            return _sample(target.kind, nodes, rng)


def _leader(target: Target, view: ClusterView, rng: random.Random) -> Resolved:
    if target.topic is not None:
        topic, partition = target.topic, target.partition
    else:
        known = [p for p in view.partitions() if view.leader(*p) is not None]
        if not known:
            raise Unresolved("no partition has a known leader")
        topic, partition = rng.choice(known)
    leader = view.leader(topic, partition)
    if leader is None:
        raise Unresolved(f"{topic}/{partition} has no known leader")
    return Resolved(nodes=(leader,), because=f"leader of {topic}/{partition}")


def _sample(kind: str, nodes: Sequence[int], rng: random.Random) -> Resolved:
    count = len(nodes)
    size = {"one": 1, "minority": (count - 1) // 2, "majority": count // 2 + 1, "all": count}[kind]
    if size == 0:
        raise BadTargets(f"{count} nodes have no minority")
    return Resolved(nodes=tuple(sorted(rng.sample(nodes, size))), because=kind)


def _list(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes))
