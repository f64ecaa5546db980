"""What every assignor promises, and what each promises beyond it, over random groups."""

from collections import Counter
from collections.abc import Mapping, Sequence
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.coordinators.groups.consumer.assignors import ASSIGNORS
from nodes.coordinators.groups.consumer.assignors.spec import Assignment, Assignor, MemberSpec

TOPICS = [UUID(int=1 << 70 | at) for at in range(6)]
Group = tuple[list[MemberSpec], dict[UUID, int]]


@st.composite
def groups(draw: st.DrawFn, *, homogeneous: bool | None = None, fresh: bool = False) -> Group:
    """Members with any old targets: overlapping, of deleted topics, of missing partitions."""
    exist = draw(st.lists(st.sampled_from(TOPICS), min_size=1, unique=True))
    counts = {topic: draw(st.integers(1, 9)) for topic in exist}
    subscriptions = st.frozensets(st.sampled_from(TOPICS))
    same = draw(subscriptions) if homogeneous else None
    targets = st.dictionaries(
        st.sampled_from(TOPICS), st.frozensets(st.integers(0, 10), min_size=1), max_size=4
    )
    members = [
        MemberSpec(
            name,
            draw(st.sampled_from([None, f"i-{name}"])),
            draw(subscriptions) if same is None else same,
            {} if fresh else draw(targets),
        )
        for name in draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True))
    ]
    return members, counts


def load(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def owners(result: Mapping[str, Assignment]) -> Counter[tuple[UUID, int]]:
    return Counter(
        (topic, partition)
        for assignment in result.values()
        for topic, partitions in assignment.items()
        for partition in partitions
    )


def kept(members: Sequence[MemberSpec], result: Mapping[str, Assignment]) -> int:
    return sum(
        len(partitions & member.target.get(topic, frozenset()))
        for member in members
        for topic, partitions in result[member.member_id].items()
    )


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(group=groups())
@settings(deadline=None, max_examples=100)
def test_each_partition_has_one_subscriber(assign: Assignor, group: Group) -> None:
    """Also if the last targets gave a partition to two members (KAFKA-13081, KAFKA-12984)."""
    members, counts = group
    result = assign(members, counts)
    assert result.keys() == {m.member_id for m in members}
    subscribed = frozenset[UUID]().union(*(m.topics for m in members))
    assert owners(result) == {
        (topic, partition): 1
        for topic in subscribed & counts.keys()
        for partition in range(counts[topic])
    }
    for member in members:
        assert result[member.member_id].keys() <= member.topics
        assert all(result[member.member_id].values()), "a topic without partitions"


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
@given(group=groups())
@settings(deadline=None, max_examples=100)
def test_a_second_assignment_changes_nothing(assign: Assignor, group: Group) -> None:
    """The result of an assignor, given back as old targets, stands. Order does not matter."""
    members, counts = group
    result = assign(members, counts)
    again = [m._replace(target=result[m.member_id]) for m in reversed(members)]
    assert assign(again, counts) == result


@given(group=groups(homogeneous=True))
@settings(deadline=None, max_examples=100)
def test_uniform_is_within_one_and_moves_as_little_as_that_allows(group: Group) -> None:
    """All members subscribe to the same: loads differ by one, and no better choice would keep more.

    The most that can be kept: each member keeps up to the least share, and as many members as
    there are extra partitions one more.
    """
    members, counts = group
    result = ASSIGNORS["uniform"](members, counts)
    loads = [load(each) for each in result.values()]
    assert max(loads) - min(loads) <= 1
    disjoint: list[MemberSpec] = []
    taken: set[tuple[UUID, int]] = set()
    for member in sorted(members, key=lambda m: m.member_id):
        mine = {
            topic: frozenset(p for p in member.target[topic] if (topic, p) not in taken)
            & frozenset(range(counts[topic]))
            for topic in member.target.keys() & member.topics & counts.keys()
        }
        taken |= {(topic, partition) for topic, each in mine.items() for partition in each}
        disjoint.append(member._replace(target=mine))
    valid = [load(member.target) for member in disjoint]
    least, extra = divmod(sum(loads), len(loads))
    over = sum(each > least for each in valid)
    assert kept(disjoint, result) == sum(min(each, least) for each in valid) + min(extra, over)


@given(group=groups(homogeneous=False))
@settings(deadline=None, max_examples=100)
def test_uniform_cannot_be_made_more_even_by_any_chain_of_moves(group: Group) -> None:
    """Members subscribe to different topics: nobody can reach somebody with two partitions less."""
    members, counts = group
    result = ASSIGNORS["uniform"](members, counts)
    subscriptions = {m.member_id: m.topics for m in members}
    for start, assignment in result.items():
        reached = [start]
        for giver in reached:
            for topic in result[giver]:
                reached += [
                    taker
                    for taker, topics in subscriptions.items()
                    if topic in topics and taker not in reached
                ]
        assert load(assignment) - min(load(result[each]) for each in reached) <= 1


@given(group=groups(fresh=True), leaver=st.integers(0))
@settings(deadline=None, max_examples=100)
def test_uniform_moves_nothing_but_the_leavers_partitions_if_loads_stay_even(
    group: Group, leaver: int
) -> None:
    """Stickiness: when a member leaves, the others keep all that they had."""
    members, counts = group
    before = ASSIGNORS["uniform"](members, counts)
    gone = members[leaver % len(members)]
    rest = [m._replace(target=before[m.member_id]) for m in members if m is not gone]
    same = all(m.topics == gone.topics for m in rest)
    after = ASSIGNORS["uniform"](rest, counts)
    if same:
        assert kept(rest, after) == sum(load(m.target) for m in rest)


def member(name: str, *topics: int, instance: str | None = None) -> MemberSpec:
    return MemberSpec(name, instance, frozenset(TOPICS[at] for at in topics), {})


def test_range_gives_equal_partitions_of_each_topic_to_the_same_member() -> None:
    """Co-partitioned topics; the first members have one more."""
    result = ASSIGNORS["range"]([member("a", 0, 1), member("b", 0, 1)], dict.fromkeys(TOPICS, 3))
    assert result == {
        "a": {TOPICS[0]: {0, 1}, TOPICS[1]: {0, 1}},
        "b": {TOPICS[0]: {2}, TOPICS[1]: {2}},
    }


def test_range_orders_static_members_first_and_by_instance() -> None:
    """So a static member that comes back with a new member id has its old range."""
    members = [member("a", 0), member("z", 0, instance="i1"), member("b", 0, instance="i2")]
    result = ASSIGNORS["range"](members, {TOPICS[0]: 3})
    assert result == {"z": {TOPICS[0]: {0}}, "b": {TOPICS[0]: {1}}, "a": {TOPICS[0]: {2}}}


def test_uniform_moves_along_a_chain() -> None:
    """The only member with room for one more shares no topic with the fullest member."""
    full = {TOPICS[0]: frozenset({0, 1, 2, 3})}
    members = [
        member("a", 0)._replace(target=full),
        member("b", 0, 1)._replace(target={TOPICS[1]: frozenset({0, 1, 2})}),
        member("c", 1)._replace(target={TOPICS[1]: frozenset({3, 4})}),
    ]
    result = ASSIGNORS["uniform"](members, {TOPICS[0]: 4, TOPICS[1]: 5})
    assert sorted(load(each) for each in result.values()) == [3, 3, 3]


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_a_group_without_members_or_topics_has_no_assignment(assign: Assignor) -> None:
    """And a member without topics has an empty one."""
    assert assign([], {TOPICS[0]: 3}) == {}
    assert assign([member("a")], {TOPICS[0]: 3}) == {"a": {}}
    assert assign([member("a", 1)], {}) == {"a": {}}
