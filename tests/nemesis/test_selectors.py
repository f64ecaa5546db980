"""Selector expressions: read at planning, resolved at injection."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemesis import selectors
from nemesis.base import BadSelector, UnresolvedSelector
from tests.support.nemesis.fakes import FakeView

NODES = [1, 2, 3]


def resolve(expression: str, view: FakeView | None = None, seed: int = 1) -> tuple[int, ...]:
    """The nodes that an expression means in the fake cluster."""
    return selectors.resolve(expression, NODES, view or FakeView(), random.Random(seed)).nodes


@pytest.mark.parametrize(
    ("expression", "nodes"),
    [
        ("all", (1, 2, 3)),
        ("node:2", (2,)),
        ("controller", (3,)),
        ("leader:a/0", (1,)),
        ("leader:a/1", (2,)),
        ("nodes:3,1,3", (1, 3)),
        ("quorum-leader", (3,)),
        ("brokers", (1, 2, 3)),
        ("controllers", (1, 2, 3)),
        ("followers:a/0", (2, 3)),
        ("isr:a/0", (1, 2, 3)),
        ("isr", (1, 2, 3)),
        ("clients", (0,)),
    ],
)
def test_selectors_without_random_choice_choose_the_nodes_of_the_view(
    expression: str, nodes: tuple[int, ...]
) -> None:
    """Expressions that leave nothing to chance mean what the view says."""
    assert resolve(expression) == nodes


def test_random_selectors_have_the_right_size_and_depend_on_the_seed() -> None:
    """Sizes are as named, and one seed gives one choice."""
    assert [len(resolve(e)) for e in ("one", "minority", "majority")] == [1, 1, 2]
    assert all(resolve("majority", seed=s) == resolve("majority", seed=s) for s in range(20))
    assert len({resolve("one", seed=s) for s in range(20)}) == 3


def beside_zookeeper(expression: str, seed: int = 1) -> tuple[int, ...]:
    """The nodes that an expression means in a cluster of three brokers and ZooKeeper servers."""
    view = FakeView()
    view.servers, view.leading_server = (101, 102, 103), 103
    nodes = [*NODES, *view.servers]
    return selectors.resolve(expression, nodes, view, random.Random(seed)).nodes


def test_zookeeper_nodes_are_chosen_by_number_by_role_and_at_random() -> None:
    """The numbers in selectors begin at 1."""
    assert beside_zookeeper("zookeeper:2") == (102,)
    assert beside_zookeeper("zookeeper:leader") == (103,)
    assert beside_zookeeper("zookeeper:all") == (101, 102, 103)
    assert {beside_zookeeper("zookeeper:random", s)[0] for s in range(30)} == {101, 102, 103}
    assert [len(beside_zookeeper(f"zookeeper:{e}")) for e in ("minority", "majority")] == [1, 2]


def test_other_selectors_choose_no_zookeeper_node() -> None:
    """A majority of the brokers is no majority of all processes."""
    assert beside_zookeeper("all") == (1, 2, 3)
    chosen = [beside_zookeeper(e, s) for e in ("one", "majority") for s in range(30)]
    assert {node for nodes in chosen for node in nodes} == {1, 2, 3}


def test_selectors_of_zookeeper_nodes_fail_without_them() -> None:
    """A number beyond the last one fails, too; an unknown leader may be known later."""
    for expression in ("zookeeper:1", "zookeeper:leader", "zookeeper:random"):
        with pytest.raises(BadSelector, match="no ZooKeeper node"):
            resolve(expression)
    with pytest.raises(BadSelector, match="only 1 to 3"):
        beside_zookeeper("zookeeper:4")
    view = FakeView()
    with pytest.raises(UnresolvedSelector):
        selectors.resolve("zookeeper:leader", [1, 101], view, random.Random(1))


def split_view() -> FakeView:
    """Two controllers, 1 and 2, and two brokers."""
    view = FakeView()
    view.roles, view.active = ((3, 4), (1, 2)), 2
    view.leaders = {("a", 0): 3}
    view.isrs = {("a", 0): (3, 4)}
    return view


@pytest.mark.parametrize(
    ("expression", "choices"),
    [
        ("controller", {2}),
        ("quorum-follower", {1}),
        ("controllers", {1, 2}),
        ("broker", {3, 4}),
        ("brokers", {3, 4}),
        ("leader", {3}),
        ("followers", {4}),
        ("isr-one", {4}),
        ("one", {1, 2, 3, 4}),
    ],
)
def test_brokers_and_controllers_are_selected_separately(
    expression: str, choices: set[int]
) -> None:
    """With controllers of their own, brokers and controllers are other nodes."""
    seen = {
        node
        for seed in range(30)
        for node in selectors.resolve(
            expression, [1, 2, 3, 4], split_view(), random.Random(seed)
        ).nodes
    }
    assert seen == choices


def test_last_isr_needs_an_isr_of_one() -> None:
    """Until the ISR has shrunk to one, there is no last one; then any such partition will do."""
    view = FakeView()
    for expression in ("last-isr", "last-isr:a/0"):
        with pytest.raises(UnresolvedSelector, match="last in-sync replica"):
            resolve(expression, view)
    view.isrs["a", 0] = (2,)
    assert resolve("last-isr", view) == resolve("last-isr:a/0", view) == (2,)
    view.isrs["a", 0] = ()
    with pytest.raises(UnresolvedSelector):
        resolve("isr:a/0", view)


def test_isr_one_needs_an_in_sync_follower() -> None:
    """One in-sync follower is wanted, and the leader is none."""
    view = FakeView()
    view.isrs["a", 0] = (1,)
    with pytest.raises(UnresolvedSelector, match="in-sync follower"):
        resolve("isr-one", view)


def test_coordinators_are_those_of_the_named_group_or_transactional_id() -> None:
    """Both kinds of ids are names of their own."""
    view = FakeView()
    view.coordinators = {("group", "g/1,x"): 2, ("transaction", "g/1,x"): 3}
    assert resolve("group-coordinator:g/1,x", view) == (2,)
    assert resolve("transaction-coordinator:g/1,x", view) == (3,)
    with pytest.raises(UnresolvedSelector, match="the group coordinator of other is not known"):
        resolve("group-coordinator:other", view)
    for wrong in ("group-coordinator", "group-coordinator:", "group-coordinator:a b"):
        with pytest.raises(BadSelector):
            resolve(wrong, view)


SIMPLE = [text for text in selectors.SELECTORS if ":" not in text]
WITH_PARTITION = [
    text.replace("<topic>/<partition>", "a/0") for text in selectors.SELECTORS if "<topic>" in text
]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], FakeView]:
    """Combined or split, with leaders and ISRs as they happen to be, known or not."""
    nodes = list(range(1, draw(st.integers(1, 7)) + 1))
    split = draw(st.integers(0, len(nodes) - 1))
    view = FakeView()
    view.roles = (nodes[split:], nodes[:split] or nodes)
    view.active = draw(st.sampled_from([None, *view.roles[1]]))
    view.leaders, view.isrs = {}, {}
    for partition in range(draw(st.integers(0, 3))):
        isr = draw(st.lists(st.sampled_from(nodes[split:]), unique=True))
        led = draw(st.booleans())
        view.isrs["a", partition] = tuple(isr)
        if isr and led:
            view.leaders["a", partition] = isr[0]
    return nodes, view


@given(clusters(), st.sampled_from([*SIMPLE, *WITH_PARTITION]), st.integers(0, 2**32))
def test_every_selection_is_repeatable_and_has_distinct_known_nodes(
    cluster: tuple[list[int], FakeView], expression: str, seed: int
) -> None:
    """One seed, one answer; never nobody, never a stranger, never a node twice."""
    nodes, view = cluster
    try:
        found = selectors.resolve(expression, nodes, view, random.Random(seed))
    except (UnresolvedSelector, BadSelector):
        return
    assert found == selectors.resolve(expression, nodes, view, random.Random(seed))
    assert found.nodes
    assert set(found.nodes) <= {0, *nodes}
    assert list(found.nodes) == sorted(set(found.nodes))
    assert found.reason


SUBSETS = [
    ("leader:a/0", "isr:a/0"),
    ("isr-one:a/0", "isr:a/0"),
    ("isr-one:a/0", "followers:a/0"),
    ("last-isr:a/0", "isr:a/0"),
    ("controller", "controllers"),
    ("quorum-follower", "controllers"),
    ("broker", "brokers"),
    ("brokers", "all"),
    ("controllers", "all"),
    ("minority", "all"),
]


@given(clusters(), st.sampled_from(SUBSETS), st.integers(0, 2**32))
def test_a_selection_of_one_is_part_of_the_selection_of_all(
    cluster: tuple[list[int], FakeView], pair: tuple[str, str], seed: int
) -> None:
    """Who is one of a kind is among all of that kind."""
    nodes, view = cluster
    try:
        part, whole = (
            set(selectors.resolve(each, nodes, view, random.Random(seed)).nodes) for each in pair
        )
    except (UnresolvedSelector, BadSelector):
        return
    assert part <= whole


@given(clusters(), st.integers(0, 2**32))
def test_leaders_and_followers_are_all_replicas(
    cluster: tuple[list[int], FakeView], seed: int
) -> None:
    """Nobody is both, and the active controller is no quorum follower."""
    nodes, view = cluster
    for one, other in [("leader:a/0", "followers:a/0"), ("controller", "quorum-follower")]:
        try:
            found = [
                selectors.resolve(each, nodes, view, random.Random(seed)) for each in (one, other)
            ]
        except (UnresolvedSelector, BadSelector):
            continue
        assert not set(found[0].nodes) & set(found[1].nodes)


def test_leader_names_the_partition_that_it_chose() -> None:
    """The leader of a random partition is recorded with the partition."""
    found = selectors.resolve("leader", NODES, FakeView(), random.Random(1))
    assert found.reason in ("leader of a/0", "leader of a/1")


@pytest.mark.parametrize("expression", ["leader", "leader:a/0", "leader:other/0", "controller"])
def test_an_unknown_leader_is_unresolved(expression: str) -> None:
    """A leader that the view does not know may be known later: not an error for good."""
    view = FakeView()
    view.leaders.clear()
    view.active = None
    with pytest.raises(UnresolvedSelector):
        resolve(expression, view)


@pytest.mark.parametrize(
    "expression",
    [
        *("", "two", "node:", "node:x", "nodes:", "nodes:1,", "node:1,2", "leader:", "leader:a"),
        *("One", "controller:a/0", "isr:a/x", "node:N", "leader:<topic>/<partition>"),
    ],
)
def test_an_unknown_selector_is_refused_with_a_list_of_selectors(expression: str) -> None:
    """The error lists what can be said."""
    with pytest.raises(BadSelector, match="leader:<topic>/<partition>"):
        selectors.parse(expression)


def test_unknown_nodes_and_empty_minorities_are_refused() -> None:
    """A node that is not there, and a minority of two nodes, can never be hit."""
    with pytest.raises(BadSelector, match="no node 4"):
        resolve("node:4")
    with pytest.raises(BadSelector, match="no minority"):
        selectors.resolve("minority", [1, 2], FakeView(), random.Random(1))
