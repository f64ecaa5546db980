"""Committed offsets: what a reader is told after commits, deletions and transactions."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.offset_requests import OffsetFetch, TopicFetch
from nodes.coordinators.groups.settings import GroupSettings, OffsetSettings
from tests.support.nodes.group_offsets import FIRST, SECOND, Coordinated, FakeKind, commit_of

T0 = ("topic", 0)
T1 = ("topic", 1)
OK = {T0: ErrorCode.none}


def test_a_commit_is_fetched_by_name_and_with_all() -> None:
    """A partition without a committed offset has -1 if it is named, and is left out of all."""
    groups = Coordinated()
    assert groups.commit("g", {T0: 7}) == OK
    assert groups.fetch("g", T0, T1) == {T0: 7, T1: -1}
    assert groups.fetch("g") == {T0: 7}
    assert groups.fetch("other", T0) == {T0: -1}
    assert groups.fetch("other") == {}


def test_leader_epoch_and_metadata_come_back() -> None:
    """As they were committed; no metadata is empty metadata."""
    groups = Coordinated()
    groups.commit("g", {T0: 7}, metadata="note")
    groups.commit("g", {T1: 8}, metadata=None)
    answer = groups.driver.ask(lambda m, t, now: m.fetch_offsets(OffsetFetch("g"), t, now))
    rows = answer["topics"][0]["partitions"]
    assert [(row["committed_leader_epoch"], row["metadata"]) for row in rows] == [
        (3, "note"),
        (3, ""),
    ]


def test_too_much_metadata_refuses_one_partition() -> None:
    """Kafka counts the characters of a Java string: two for one outside of the basic plane."""
    settings = GroupSettings(offsets=OffsetSettings(metadata_max_bytes=3))
    groups = Coordinated(settings=settings)
    assert groups.commit("g", {T0: 7}, metadata="abc") == OK
    assert groups.commit("g", {T0: 8}, metadata="\N{BAR CHART}a") == OK
    refused = groups.commit("g", {T0: 9}, metadata="\N{BAR CHART}ab")
    assert refused == {T0: ErrorCode.offset_metadata_too_large}
    assert groups.fetch("g", T0) == {T0: 8}


def test_an_offset_of_a_deleted_topic_is_not_told_of_a_new_one() -> None:
    """If both requests name the topic by its id."""
    groups = Coordinated()
    groups.commit("g", {T0: 7}, topic_id=UUID(int=1))

    def fetched(topic_id: UUID | None) -> int:
        request = OffsetFetch("g", (TopicFetch("topic", (0,), topic_id),))
        answer = groups.driver.ask(lambda m, t, now: m.fetch_offsets(request, t, now))
        return int(answer["topics"][0]["partitions"][0]["committed_offset"])

    assert [fetched(None), fetched(UUID(int=1)), fetched(UUID(int=2))] == [7, 7, -1]


@pytest.mark.parametrize(
    ("version", "error"),
    [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)],
)
def test_a_member_of_no_group_cannot_commit(version: int, error: ErrorCode) -> None:
    """The error depends on the version, as in Kafka."""
    groups = Coordinated()
    assert groups.commit("g", {T0: 7}, generation=1, version=version) == {T0: error}
    groups.commit("g", {T0: 7})
    unknown = groups.commit("g", {T0: 7}, member_id="m", generation=1, version=version)
    assert unknown == {T0: ErrorCode.unknown_member_id}


def test_a_kind_of_group_refuses_commits_and_fetches() -> None:
    """A commit is refused as a whole; nothing is written."""
    kind = FakeKind({"g": None}, commit_error=ErrorCode.illegal_generation)
    groups = Coordinated(kind)
    assert groups.commit("g", {T0: 7, T1: 8}) == dict.fromkeys(
        (T0, T1), ErrorCode.illegal_generation
    )
    assert not groups.driver.log
    kind.fetch_error = ErrorCode.stale_member_epoch
    answer = groups.driver.ask(lambda m, t, now: m.fetch_offsets(OffsetFetch("g"), t, now))
    assert answer == {
        "group_id": "g",
        "topics": [],
        "error_code": ErrorCode.stale_member_epoch,
    }


def test_deleted_offsets_are_gone() -> None:
    """OffsetDelete of a partition without an offset succeeds and writes nothing."""
    groups = Coordinated()
    assert groups.delete_offset("g", "topic", 0) is ErrorCode.group_id_not_found
    groups.commit("g", {T0: 7, T1: 8})
    assert groups.delete_offset("g", "topic", 0) is ErrorCode.none
    assert groups.fetch("g") == {T1: 8}
    written = len(groups.driver.log)
    assert groups.delete_offset("g", "topic", 0) is ErrorCode.none
    assert len(groups.driver.log) == written


def test_offsets_of_a_subscribed_topic_stay() -> None:
    """And those of a group that does not allow it."""
    kind = FakeKind({"g": None}, topics=frozenset({"topic"}))
    groups = Coordinated(kind)
    groups.commit("g", {T0: 7})
    assert groups.delete_offset("g", "topic", 0) is ErrorCode.group_subscribed_to_topic
    kind.delete_error = ErrorCode.non_empty_group
    assert groups.delete_offset("g", "topic", 0) is ErrorCode.non_empty_group
    assert groups.fetch("g", T0) == {T0: 7}


def test_a_deleted_group_takes_its_offsets_along() -> None:
    """Also the pending ones, which no marker brings back (Redpanda 4900)."""
    groups = Coordinated()
    assert groups.delete_group("g") is ErrorCode.group_id_not_found
    groups.commit("g", {T0: 7})
    groups.commit("g", {T1: 8}, producer=FIRST)
    assert groups.delete_group("g") is ErrorCode.none
    groups.driver.end_transaction(FIRST, commit=True)
    assert groups.fetch("g") == {}
    assert groups.delete_group("g") is ErrorCode.group_id_not_found


def test_a_group_with_members_is_not_deleted() -> None:
    """Nothing is written."""
    kind = FakeKind({"g": None}, delete_error=ErrorCode.non_empty_group)
    groups = Coordinated(kind)
    assert groups.delete_group("g") is ErrorCode.non_empty_group
    kind.delete_error = ErrorCode.none
    assert groups.delete_group("g") is ErrorCode.none
    assert not kind.groups


def test_transactional_offsets_count_from_the_marker_on() -> None:
    """A fetch that requires stable offsets is told to wait (KIP-447)."""
    groups = Coordinated()
    groups.commit("g", {T0: 7})
    groups.commit("g", {T0: 9}, producer=FIRST)
    assert groups.fetch("g", T0) == {T0: 7}
    assert groups.fetch("g", T0, T1, stable=True) == {
        T0: ErrorCode.unstable_offset_commit,
        T1: -1,
    }
    assert groups.fetch("g", stable=True) == {T0: ErrorCode.unstable_offset_commit}
    groups.driver.end_transaction(FIRST, commit=True)
    assert groups.fetch("g", T0, stable=True) == {T0: 9}


def test_an_aborted_transaction_leaves_nothing() -> None:
    """And a fetch need not wait any more."""
    groups = Coordinated()
    groups.commit("g", {T0: 9}, producer=FIRST)
    groups.driver.end_transaction(FIRST, commit=False)
    assert groups.fetch("g", T0, stable=True) == {T0: -1}
    assert groups.delete_group("g") is ErrorCode.group_id_not_found


def test_of_two_commits_the_later_record_counts() -> None:
    """Whatever the order of the markers: compaction keeps the later record (Redpanda 31483)."""
    groups = Coordinated()
    groups.commit("g", {T0: 1}, producer=FIRST)
    groups.commit("g", {T0: 2}, producer=SECOND)
    groups.commit("g", {T1: 3}, producer=FIRST)
    groups.commit("g", {T1: 4})
    groups.driver.end_transaction(SECOND, commit=True)
    groups.driver.end_transaction(FIRST, commit=True)
    assert groups.fetch("g") == {T0: 2, T1: 4}
    assert groups.driver.rebuilt(compacted=True).offsets == groups.driver.machine.offsets


def test_listing_filters_by_state_and_type() -> None:
    """A group that only has offsets is an empty classic group."""
    groups = Coordinated(FakeKind({"g": None}))
    groups.commit("g", {T0: 7})
    groups.commit("simple", {T0: 7})

    def listed(states: tuple[str, ...], types: tuple[str, ...]) -> list[str]:
        answer = groups.driver.ask(lambda m, t, now: m.list_groups(states, types, t, now))
        return [row["group_id"] for row in answer["groups"]]

    assert listed((), ()) == ["g", "simple"]
    assert listed(("EMPTY",), ()) == ["simple"]
    assert listed(("stable", "empty"), ("classic",)) == ["g", "simple"]
    assert listed((), ("consumer",)) == []


def test_a_commit_is_one_batch_of_its_transaction() -> None:
    """The shell writes it with the producer's id."""
    request = commit_of("g", {T0: 7, T1: 8}, producer=FIRST)
    groups = Coordinated()
    effects = groups.driver.machine.commit_in_transaction(
        request, FIRST, groups.driver.perform(lambda m, t, now: m.tick(now)), groups.driver.now
    )
    assert effects.producer == FIRST
    assert len(effects.records) == 2
