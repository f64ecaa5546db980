"""Requests about committed offsets, against fake brokers."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.admin import inspection
from harness.admin.errors import RequestRefused
from harness.admin.groups import offsets
from harness.admin.groups.descriptions import CommittedOffset
from nodes.ids import TopicPartition
from tests.support.clusters.fake_brokers import FakeBrokers

LIST_OFFSETS, COMMIT, FETCH, DELETE = 2, 8, 9, 47
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def brokers() -> FakeBrokers:
    """Two brokers; broker 1 coordinates group g."""
    found = FakeBrokers()
    found.coordinators = {"g": 1}
    return found


def test_committed_offsets_are_those_that_the_group_has(brokers: FakeBrokers) -> None:
    """All partitions are asked for; a negative leader epoch is unknown."""
    rows = [
        {"partition_index": 0, "committed_offset": 7, "committed_leader_epoch": 3, "metadata": "m"},
        {"partition_index": 1, "committed_offset": -1, "committed_leader_epoch": -1},
        {"partition_index": 2, "committed_offset": 0, "committed_leader_epoch": -1},
    ]
    topics = [{"name": "a", "partitions": rows}]
    brokers.answer(FETCH, lambda _: {"groups": [{"group_id": "g", "topics": topics}]}, 1)
    found = brokers.run(lambda admin: offsets.committed(admin, ["g"]))["g"]
    assert found == {
        A0: CommittedOffset(offset=7, leader_epoch=3, metadata="m"),
        TopicPartition("a", 2): CommittedOffset(offset=0, leader_epoch=None, metadata=""),
    }
    (request,) = brokers.seen(1, FETCH)
    assert request.groups[0].topics is None
    assert request.__version__ == 9, "version 10 names topics by ids"


def test_commit_is_that_of_a_client_that_is_no_member(brokers: FakeBrokers) -> None:
    codes = iter([ErrorCode.not_coordinator, ErrorCode.none])

    def answer(_: Any) -> dict[str, Any]:
        row = {"partition_index": 0, "error_code": next(codes)}
        return {"topics": [{"name": "a", "partitions": [row]}]}

    brokers.answer(COMMIT, answer, 1)
    brokers.run(lambda admin: offsets.commit(admin, "g", {A0: 7}))
    request = brokers.seen(1, COMMIT)[1]
    assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")
    (topic,) = request.topics
    assert (topic.name, topic.partitions[0].committed_offset) == ("a", 7)


def test_refused_commit_names_group_and_partition(brokers: FakeBrokers) -> None:
    row = {"partition_index": 1, "error_code": ErrorCode.unknown_member_id}
    brokers.answer(COMMIT, lambda _: {"topics": [{"name": "a", "partitions": [row]}]})
    with pytest.raises(RequestRefused, match="offset of group g for a-1: UNKNOWN_MEMBER_ID"):
        brokers.run(lambda admin: offsets.commit(admin, "g", {A1: 7}))


def test_deletion_returns_the_partitions_whose_offsets_stay(brokers: FakeBrokers) -> None:
    subscribed = ErrorCode.group_subscribed_to_topic
    rows = [{"partition_index": 0}, {"partition_index": 1, "error_code": subscribed}]
    brokers.answer(DELETE, lambda _: {"topics": [{"name": "a", "partitions": rows}]})
    refused = brokers.run(lambda admin: offsets.delete(admin, "g", [A0, A1]))
    assert refused == {A1: (subscribed, None)}


def test_group_that_is_gone_at_the_second_deletion_lost_its_offsets_by_the_first(
    brokers: FakeBrokers,
) -> None:
    codes = iter([ErrorCode.coordinator_load_in_progress, *[ErrorCode.group_id_not_found] * 2])
    brokers.answer(DELETE, lambda _: {"error_code": next(codes)})
    assert brokers.run(lambda admin: offsets.delete(admin, "g", [A0])) == {}
    with pytest.raises(RequestRefused, match="group g: GROUP_ID_NOT_FOUND"):
        brokers.run(lambda admin: offsets.delete(admin, "g", [A0]))


def test_log_offsets_are_asked_of_leaders_and_leave_out_what_has_none(
    brokers: FakeBrokers,
) -> None:
    """Topics that do not exist are left out, too."""
    brokers.topics = [
        {
            "name": "a",
            "partitions": [
                {"partition_index": 0, "leader_id": 2},
                {"partition_index": 1, "leader_id": -1},
            ],
        }
    ]
    row = {"partition_index": 0, "offset": 5}
    brokers.answer(LIST_OFFSETS, lambda _: {"topics": [{"name": "a", "partitions": [row]}]}, 2)
    found = brokers.run(
        lambda admin: inspection.log_offsets(admin, [A0, A1, B0], inspection.EARLIEST)
    )
    assert found == {A0: 5}
    (request,) = brokers.seen(2, LIST_OFFSETS)
    (asked,) = request.topics[0].partitions
    assert (asked.partition_index, asked.timestamp) == (0, -2)
