"""Plans where replicas should be when brokers join or leave, with the least data moved. Pure.

There are two goals. `spread` gives all brokers the same number of replicas, within one, and moves
the fewest bytes (then the fewest replicas) for that. `drain` moves only the replicas of leaving
brokers, and puts them where they even the load best. In both, partitions keep their number of
replicas, and no partition is on fewer racks than before. Afterwards leaders (first replicas) are
evened by reordering alone, which moves no data. If all partitions have the same replication factor,
the numbers of leaders are then equal within one.

Both goals are minimum-cost flows: from partitions over their racks to brokers, and on to a sink.
The cost from a broker to the sink rises with each unit, so an even load is cheapest. `_MinCostFlow`
solves them exactly by successive shortest paths, starting from the present assignment. Its graph
has only the brokers as nodes. An edge X -> Y is the cheapest partition that may replace X by Y.
Among equally cheap paths, the one with the fewest edges is taken. So no path uses a partition twice
in conflicting ways: such a path could be shortened.
"""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from nodes.ids import TopicPartition

Assignment = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of each partition, preferred leader first."""

_SINK: Final = -2
_NOWHERE: Final = -1
"""The node of the graph for the leaderships of partitions whose first replica leaves."""


class BalanceError(Exception):
    """No placement on these brokers exists; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementPlan:
    """The new replicas of every partition that changes, and the cost of the change."""

    targets: dict[TopicPartition, tuple[int, ...]]
    moved_replicas: int
    """The number of replicas that are copied to a new broker."""
    moved_bytes: int
    """The bytes of these copies, as far as the sizes are known."""


def spread(
    current: Assignment,
    brokers: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int] | None = None,
) -> PlacementPlan:
    """Return the cheapest plan that evens replicas and leaders over `brokers` (number -> rack).

    Replicas on other brokers move to these. `sizes` are the bytes of a replica. Racks count only if
    every broker has one. Raises BalanceError when a partition has more replicas than `brokers`.
    """
    return _plan(current, brokers, sizes or {}, even_first=True)


def drain(
    current: Assignment,
    brokers: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int] | None = None,
) -> PlacementPlan:
    """Return the plan that moves only the replicas outside of `brokers`; see `spread`."""
    return _plan(current, brokers, sizes or {}, even_first=False)


def _plan(
    current: Assignment,
    brokers: Mapping[int, str | None],
    sizes: Mapping[TopicPartition, int],
    *,
    even_first: bool,
) -> PlacementPlan:
    # Topics are interleaved, so that ties do not move all partitions of a topic to one broker.
    names = sorted(current, key=lambda name: (name.partition, name.topic))
    for name in names:
        if len(current[name]) > len(brokers):
            raise BalanceError(
                f"{name} has {len(current[name])} replicas and only {len(brokers)} brokers would "
                "be left for them"
            )
    racks = dict(brokers) if all(brokers.values()) else dict.fromkeys(brokers)
    replicas = sum(len(each) for each in current.values())
    # A moved replica costs less than a byte, so that bytes are compared first.
    costs = [sizes.get(name, 0) * (replicas + 1) + 1 for name in names]
    all_moves = sum(costs) * max(1, len(brokers)) + 1
    all_units = (replicas + 1) ** 2 * len(brokers) + 1
    uneven, move = (all_moves, 1) if even_first else (1, all_units)
    flow = _MinCostFlow(
        held=[current[name] for name in names],
        allowed=[frozenset(brokers)] * len(names),
        costs=[cost * move for cost in costs],
        brokers=sorted(brokers),
        racks=racks,
        uneven=uneven,
        off_rack=(all_moves * move + all_units * uneven) * 2,
    )
    placed = [
        _in_place(current[name], held) for name, held in zip(names, flow.solve(), strict=True)
    ]
    ordered = _leaders(placed, [current[name][0] for name in names], sorted(brokers))
    targets = {
        name: after
        for name, after in zip(names, ordered, strict=True)
        if after != tuple(current[name])
    }
    moved = {name: len(set(after) - set(current[name])) for name, after in targets.items()}
    return PlacementPlan(
        targets=dict(sorted(targets.items())),
        moved_replicas=sum(moved.values()),
        moved_bytes=sum(sizes.get(name, 0) * count for name, count in moved.items()),
    )


def _in_place(before: tuple[int, ...], after: frozenset[int]) -> tuple[int, ...]:
    """Return the replicas in order: those that stay keep their place, new ones take free places."""
    new = iter(sorted(after - set(before)))
    return tuple(node if node in after else next(new) for node in before)


def _leaders(
    placed: Sequence[tuple[int, ...]], before: Sequence[int], brokers: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return the replicas, reordered for even leaders with the fewest leader changes."""
    flow = _MinCostFlow(
        held=[
            (leader if leader in replicas else _NOWHERE,)
            for leader, replicas in zip(before, placed, strict=True)
        ],
        allowed=[frozenset(replicas) for replicas in placed],
        costs=[1] * len(placed),
        brokers=brokers,
        racks=dict.fromkeys(brokers),
        uneven=len(placed) + 1,
        off_rack=0,
    )
    result = []
    for replicas, leaders in zip(placed, flow.solve(), strict=True):
        (leader,) = leaders
        result.append((leader, *(node for node in replicas if node != leader)))
    return result


class _MinCostFlow:
    """Partitions on brokers, and the cheapest way to even them; the module has the method."""

    def __init__(
        self,
        *,
        held: Sequence[tuple[int, ...]],
        allowed: Sequence[frozenset[int]],
        costs: Sequence[int],
        brokers: Sequence[int],
        racks: Mapping[int, str | None],
        uneven: int,
        off_rack: int,
    ) -> None:
        """Take the assignment and the costs.

        Partition p is on `held[p]` and may be on `allowed[p]`; each broker that is new for it costs
        `costs[p]`. Each further unit of a broker costs `uneven` more than the one before. A replica
        too many or too few in a rack costs `off_rack`.
        """
        self._before = [frozenset(each) for each in held]
        self._now = [set(each) for each in held]
        self._allowed = allowed
        self._costs = costs
        self._brokers = brokers
        self._racks = racks
        self._uneven = uneven
        self._off_rack = off_rack
        units = sum(map(len, held))
        self._share, more = divmod(units, len(brokers))
        loads = Counter(node for each in held for node in each)
        # Units that a broker passes on to the sink: at first an equal share for each broker.
        self._passed = dict.fromkeys(brokers, self._share)
        self._excess = {
            node: loads[node] - self._passed.get(node, 0) for node in sorted({*loads, *brokers})
        }
        self._excess[_SINK] = -more
        self._limits = [self._rack_limits(each) for each in held]
        self._edges: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number in range(len(held)):
            self._add_edges(number)

    def solve(self) -> list[frozenset[int]]:
        """Return the brokers of every partition at the lowest cost."""
        for node in [node for node, excess in self._excess.items() if excess > 0]:
            while self._excess[node] > 0:
                path = self._cheapest_path(node)
                for here, there in pairwise(path):
                    self._follow(here, there)
                self._excess[node] -= 1
                self._excess[path[-1]] += 1
        return [frozenset(each) for each in self._now]

    # -- racks: each rack has a least and a greatest number of a partition's replicas

    def _rack_limits(self, held: tuple[int, ...]) -> dict[str | None, tuple[int, int]]:
        # An even spread, or the present one: never worse, and no move only to improve it.
        names = sorted({rack for rack in self._racks.values() if rack is not None})
        if not names:
            return {}
        there = Counter(self._racks.get(node) for node in held)
        low, rest = divmod(len(held), len(names))
        high = low + (rest > 0)
        return {rack: (min(low, there[rack]), max(high, there[rack])) for rack in names}

    def _rack_cost(self, number: int, leaves: int, comes: int) -> int:
        limits = self._limits[number]
        origin, goal = self._racks.get(leaves), self._racks.get(comes)
        if origin == goal or not limits:
            return 0
        there = Counter(self._racks.get(node) for node in self._now[number])
        cost = self._unit_cost(there[goal] + 1, limits[goal])
        if origin is not None:
            cost -= self._unit_cost(there[origin], limits[origin])
        return cost

    def _unit_cost(self, unit: int, limits: tuple[int, int]) -> int:
        low, high = limits
        if unit <= low:
            return -self._off_rack
        return self._off_rack * max(0, unit - high)

    # -- edges: partitions that may replace X by Y, cheapest first; stale entries are dropped late

    def _cost(self, number: int, leaves: int, comes: int) -> int:
        new = self._costs[number] * (comes not in self._before[number])
        old = self._costs[number] * (leaves not in self._before[number])
        return new - old + self._rack_cost(number, leaves, comes)

    def _add_edges(self, number: int) -> None:
        for leaves in self._now[number]:
            for comes in self._allowed[number] - self._now[number]:
                edge = (self._cost(number, leaves, comes), number)
                heapq.heappush(self._edges.setdefault((leaves, comes), []), edge)

    def _cheapest(self, leaves: int, comes: int) -> tuple[int, int] | None:
        """Return (cost, partition) of the edge, or None."""
        edges = self._edges.get((leaves, comes), [])
        while edges:
            cost, number = edges[0]
            now = self._now[number]
            if leaves in now and comes not in now and cost == self._cost(number, leaves, comes):
                return edges[0]
            heapq.heappop(edges)
        return None

    def _cheapest_path(self, start: int) -> list[int]:
        """Return the cheapest path from `start` to a node with too few units.

        Among equally cheap paths it is one with the fewest edges. This is the Bellman-Ford
        algorithm: costs may be negative, cycles may not.
        """
        edges = [
            (here, there, cost)
            for here in self._excess
            for there in self._excess
            if here != there and (cost := self._edge_cost(here, there)) is not None
        ]
        best: dict[int, tuple[int, int]] = {start: (0, 0)}
        came_from: dict[int, int] = {}
        for _ in self._excess:
            changed = False
            for here, there, cost in edges:
                if here not in best:
                    continue
                reached = (best[here][0] + cost, best[here][1] + 1)
                if there not in best or reached < best[there]:
                    best[there] = reached
                    came_from[there] = here
                    changed = True
            if not changed:
                break
        lacking = [node for node in best if self._excess[node] < 0]
        node = min(lacking, key=lambda each: (best[each], each))
        path = [node]
        while node != start:
            node = came_from[node]
            path.append(node)
        return path[::-1]

    def _edge_cost(self, here: int, there: int) -> int | None:
        if there == _SINK:
            if here not in self._passed:
                return None
            return self._uneven * (self._passed[here] - self._share)
        if here == _SINK:
            if self._passed.get(there, 0) == 0:
                return None
            return -self._uneven * (self._passed[there] - 1 - self._share)
        found = self._cheapest(here, there)
        return None if found is None else found[0]

    def _follow(self, here: int, there: int) -> None:
        if there == _SINK:
            self._passed[here] += 1
        elif here == _SINK:
            self._passed[there] -= 1
        else:
            found = self._cheapest(here, there)
            assert found is not None
            number = found[1]
            self._now[number].remove(here)
            self._now[number].add(there)
            self._add_edges(number)
