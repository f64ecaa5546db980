"""Placement plans: even, on as many racks, and as cheap as the best of all placements."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.admin.balance import BalanceError, PlacementPlan, drain, spread
from nodes.ids import TopicPartition

Replicas = tuple[int, ...]
Case = dict[TopicPartition, Replicas]


def striped(topics: int, partitions: int, factor: int, brokers: Sequence[int]) -> Case:
    """Return topics t0, t1, ...; the replicas of each partition start one broker further."""
    return {
        TopicPartition(f"t{topic}", number): tuple(
            brokers[(topic + number + replica) % len(brokers)] for replica in range(factor)
        )
        for topic in range(topics)
        for number in range(partitions)
    }


def least_moves(current: Case, brokers: Sequence[int]) -> int:
    """Return a lower bound of the replicas that an even placement on `brokers` moves.

    Whatever a broker holds above its share has to go, and so has everything outside of `brokers`;
    the brokers whose share is one larger are best those that hold most. More have to move where
    what goes has no other broker left than one that is full.
    """
    held = Counter(node for replicas in current.values() for node in replicas)
    inside = sorted((held.pop(node, 0) for node in brokers), reverse=True)
    share, more = divmod(sum(inside) + held.total(), len(inside))
    return held.total() + sum(
        max(0, count - share - (position < more)) for position, count in enumerate(inside)
    )


def after(current: Case, plan: PlacementPlan) -> Case:
    """Return the assignment after the plan."""
    return current | plan.targets


def loads(assignment: Case, brokers: Sequence[int]) -> list[int]:
    """Return the number of replicas of each broker."""
    held = Counter(node for replicas in assignment.values() for node in replicas)
    assert set(held) <= set(brokers)
    return [held[node] for node in brokers]


def leaders(assignment: Case, brokers: Sequence[int]) -> list[int]:
    """Return the number of preferred leaders of each broker."""
    led = Counter(replicas[0] for replicas in assignment.values())
    return [led[node] for node in brokers]


def even(counts: Sequence[int]) -> bool:
    """Return whether the counts are equal within one."""
    return max(counts) - min(counts) <= 1


def racks_of(replicas: Replicas, racks: Mapping[int, str | None]) -> int:
    """Return the number of racks of a partition."""
    return len({racks[node] for node in replicas})


def all_placements(current: Case, brokers: Sequence[int]) -> Iterator[Case]:
    """Yield every choice of brokers for every partition."""
    choices = [combinations(brokers, len(replicas)) for replicas in current.values()]
    for chosen in product(*choices):
        yield dict(zip(current, chosen, strict=True))


def cost(current: Case, chosen: Case, sizes: Mapping[TopicPartition, int]) -> tuple[int, int]:
    """Return the bytes and replicas that the change copies."""
    moved = {name: len(set(chosen[name]) - set(current[name])) for name in current}
    return (
        sum(sizes.get(name, 0) * count for name, count in moved.items()),
        sum(moved.values()),
    )


@st.composite
def small(draw: st.DrawFn) -> tuple[Case, list[int], dict[TopicPartition, int]]:
    """Draw a few partitions on brokers 1 to 5, the brokers to use, and sizes."""
    brokers = sorted(draw(st.sets(st.integers(1, 5), min_size=2, max_size=4)))
    count = draw(st.integers(1, 4))
    current, sizes = {}, {}
    for number in range(count):
        factor = draw(st.integers(1, min(3, len(brokers))))
        nodes = draw(st.permutations(range(1, 6)))
        name = TopicPartition("t", number)
        current[name] = tuple(nodes[:factor])
        sizes[name] = draw(st.integers(0, 3))
    return current, brokers, sizes


_NAMES = [TopicPartition("t", number) for number in range(3)]


@given(small())
@example((dict(zip(_NAMES, [(1, 5), (1, 2, 3), (5,)], strict=True)), [1, 2, 5], {}))
def test_spread_costs_the_least_of_all_even_placements(
    case: tuple[Case, list[int], dict[TopicPartition, int]],
) -> None:
    """No placement that is even within one moves fewer bytes, or as few with fewer replicas."""
    current, brokers, sizes = case
    plan = spread(current, dict.fromkeys(brokers), sizes)
    chosen = after(current, plan)
    possible = [each for each in all_placements(current, brokers) if even(loads(each, brokers))]
    assert cost(current, chosen, sizes) == (plan.moved_bytes, plan.moved_replicas)
    if possible:
        assert even(loads(chosen, brokers))
        assert (plan.moved_bytes, plan.moved_replicas) == min(
            cost(current, each, sizes) for each in possible
        )
    if possible and not any(sizes.values()):
        assert plan.moved_replicas >= least_moves(current, brokers)


def unevenness(counts: Sequence[int]) -> int:
    """Return the sum of squares: it is least for even counts."""
    return sum(count * count for count in counts)


@given(small())
def test_drain_moves_only_the_replicas_of_leaving_brokers(
    case: tuple[Case, list[int], dict[TopicPartition, int]],
) -> None:
    """They move to the most even placement that this allows."""
    current, brokers, sizes = case
    plan = drain(current, dict.fromkeys(brokers), sizes)
    chosen = after(current, plan)
    held = sum(node not in brokers for replicas in current.values() for node in replicas)
    assert plan.moved_replicas == held
    for name, replicas in chosen.items():
        assert set(current[name]) & set(brokers) <= set(replicas)
    stays = [
        each
        for each in all_placements(current, brokers)
        if all(set(current[name]) & set(brokers) <= set(each[name]) for name in current)
    ]
    assert unevenness(loads(chosen, brokers)) == min(
        unevenness(loads(each, brokers)) for each in stays
    )


@st.composite
def racked(draw: st.DrawFn) -> tuple[Case, dict[int, str | None]]:
    """Draw a few partitions on brokers of two or three racks, and the brokers to use."""
    racks = draw(st.lists(st.sampled_from("abc"), min_size=5, max_size=5))
    everyone = dict(enumerate(racks, start=1))
    brokers = sorted(draw(st.sets(st.integers(1, 5), min_size=3, max_size=5)))
    current = {}
    for number in range(draw(st.integers(1, 3))):
        factor = draw(st.integers(1, 3))
        current[TopicPartition("t", number)] = tuple(draw(st.permutations(range(1, 6)))[:factor])
    return current, {node: everyone[node] for node in brokers}


def off_rack(current: Case, chosen: Case, racks: Mapping[int, str | None]) -> int:
    """Return the replicas above or below a rack's even share that were not so before."""
    names = sorted({rack for rack in racks.values() if rack is not None})
    wrong = 0
    for name, replicas in chosen.items():
        before = Counter(racks.get(node) for node in current[name])
        now = Counter(racks[node] for node in replicas)
        low, rest = divmod(len(replicas), len(names))
        for rack in names:
            least, most = min(low, before[rack]), max(low + (rest > 0), before[rack])
            above = max(0, now[rack] - most)
            wrong += above * (above + 1) // 2 + max(0, least - now[rack])
    return wrong


@given(racked())
def test_racks_go_before_evenness_and_evenness_before_movement(
    case: tuple[Case, dict[int, str | None]],
) -> None:
    """No placement is better in this order."""
    current, racks = case
    brokers = list(racks)
    chosen = after(current, spread(current, racks))

    def rank(each: Case) -> tuple[int, int, int]:
        return (
            off_rack(current, each, racks),
            unevenness(loads(each, brokers)),
            cost(current, each, {})[1],
        )

    assert rank(chosen) == min(map(rank, all_placements(current, brokers)))


@given(
    topics=st.integers(1, 4),
    partitions=st.integers(1, 9),
    factor=st.integers(1, 3),
    before=st.integers(3, 6),
    brokers=st.sets(st.integers(1, 9), min_size=3, max_size=7),
)
def test_replicas_and_leaders_are_even_with_one_replication_factor(
    topics: int, partitions: int, factor: int, before: int, brokers: set[int]
) -> None:
    """Both counts are equal within one, with the least movement."""
    current = striped(topics, partitions, factor, range(1, before + 1))
    ordered = sorted(brokers)
    plan = spread(current, dict.fromkeys(ordered))
    chosen = after(current, plan)
    assert even(loads(chosen, ordered))
    assert even(leaders(chosen, ordered))
    assert plan.moved_replicas == least_moves(current, ordered)
    assert all(len(set(replicas)) == factor for replicas in chosen.values())


def test_two_new_brokers_get_their_share_of_three_brokers() -> None:
    """60 partitions of 3 replicas: 72 of 180 move, 36 to each new broker, and each leads 12."""
    current = striped(3, 20, 3, [1, 2, 3])
    plan = spread(current, dict.fromkeys([1, 2, 3, 4, 5]))
    chosen = after(current, plan)
    assert plan.moved_replicas == least_moves(current, [1, 2, 3, 4, 5]) == 72
    assert loads(chosen, [1, 2, 3, 4, 5]) == [36] * 5
    assert leaders(chosen, [1, 2, 3, 4, 5]) == [12] * 5
    of_topic = Counter(
        name.topic for name, replicas in chosen.items() for node in replicas if node == 4
    )
    assert even(list(of_topic.values()))


def test_even_assignment_is_not_changed() -> None:
    current = striped(2, 9, 2, [1, 2, 3])
    for plan in (
        spread(current, dict.fromkeys([1, 2, 3])),
        drain(current, dict.fromkeys([1, 2, 3])),
    ):
        assert plan.targets == {}
        assert plan.moved_replicas == plan.moved_bytes == 0


def test_uneven_leaders_are_evened_by_reordering_alone() -> None:
    current: Case = {TopicPartition("t", n): (1, 2, 3) for n in range(9)}
    plan = spread(current, dict.fromkeys([1, 2, 3]))
    assert plan.moved_replicas == 0
    assert len(plan.targets) == 6
    assert leaders(after(current, plan), [1, 2, 3]) == [3, 3, 3]


def test_new_replica_takes_the_place_of_the_one_that_it_replaces() -> None:
    plan = drain({TopicPartition("t", 0): (1, 2, 3)}, dict.fromkeys([1, 3, 4]))
    assert plan.targets == {TopicPartition("t", 0): (1, 4, 3)}


def test_too_few_brokers_are_refused() -> None:
    """A partition never loses a replica."""
    with pytest.raises(BalanceError, match=r"t-0 has 3 replicas and only 2 brokers"):
        drain({TopicPartition("t", 0): (1, 2, 3)}, dict.fromkeys([1, 2]))


def test_small_partitions_are_moved_rather_than_large_ones() -> None:
    current: Case = {TopicPartition("t", n): (1,) for n in range(4)}
    sizes = {TopicPartition("t", n): size for n, size in enumerate([50, 7, 60, 9])}
    plan = spread(current, {1: None, 2: None}, sizes)
    assert sorted(name.partition for name in plan.targets) == [1, 3]
    assert plan.moved_bytes == 16


def test_plan_of_a_large_cluster_takes_seconds() -> None:
    """2,000 partitions of 3 replicas on 8 brokers; one broker leaves and three join."""
    current = striped(20, 100, 3, range(1, 9))
    brokers = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11]
    plan = spread(current, dict.fromkeys(brokers))
    assert plan.moved_replicas == least_moves(current, brokers)
    assert even(loads(after(current, plan), brokers))
    assert even(leaders(after(current, plan), brokers))
