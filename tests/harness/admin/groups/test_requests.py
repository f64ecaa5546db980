"""Requests about groups, against fake brokers."""

import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.admin.errors import BadRequest, RequestRefused
from harness.admin.groups import requests
from nodes.ids import TopicPartition
from tests.support.clusters.fake_brokers import FakeBrokers

LIST, DESCRIBE, CONSUMER_DESCRIBE, DELETE = 16, 15, 69, 42
A0, A2 = TopicPartition("a", 0), TopicPartition("a", 2)
UNKNOWN = ErrorCode.group_id_not_found


@pytest.fixture
def brokers() -> FakeBrokers:
    """Two brokers; broker 1 coordinates group g, broker 2 group h."""
    found = FakeBrokers()
    found.coordinators = {"g": 1, "h": 2}
    return found


def assignment(*partitions: int, version: int = 1) -> bytes:
    """The bytes that a consumer of a classic group gets: partitions of topic a."""
    numbers = b"".join(struct.pack(">i", each) for each in partitions)
    topic = struct.pack(">h", 1) + b"a" + struct.pack(">i", len(partitions)) + numbers
    return struct.pack(">hi", version, 1) + topic + struct.pack(">i", -1)


def classic(group: str, **values: Any) -> dict[str, Any]:
    """A row of an answer to DescribeGroups."""
    return {
        "group_id": group,
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        **values,
    }


def listed(*groups: tuple[str, str, str], error: ErrorCode = ErrorCode.none) -> dict[str, Any]:
    """An answer to ListGroups of (id, type, protocol type)."""
    rows = [
        {"group_id": name, "group_type": kind, "protocol_type": protocol, "group_state": "Empty"}
        for name, kind, protocol in groups
    ]
    return {"error_code": error, "groups": rows}


def test_every_broker_lists_its_groups(brokers: FakeBrokers) -> None:
    """They are asked again while one of them loads a partition."""
    first = iter([ErrorCode.coordinator_load_in_progress, ErrorCode.none])
    brokers.answer(LIST, lambda _: listed(("h", "classic", "consumer"), error=next(first)), 1)
    brokers.answer(LIST, lambda _: listed(("g", "consumer", "consumer")), 2)
    found = brokers.run(lambda admin: requests.listed(admin, states=["Empty"], types=["Classic"]))
    assert [(each.group_id, each.type, each.state) for each in found] == [
        ("g", "Consumer", "Empty"),
        ("h", "Classic", "Empty"),
    ]
    asked = brokers.seen(1, LIST)[0]
    assert (asked.states_filter, asked.types_filter) == (("Empty",), ("Classic",))


def test_consumer_groups_are_those_of_consumers_and_of_clients_that_only_commit(
    brokers: FakeBrokers,
) -> None:
    brokers.answer(
        LIST,
        lambda _: listed(
            ("connect", "classic", "connect"),
            ("only-commits", "classic", ""),
            ("shared", "share", "share"),
            ("new", "consumer", "consumer"),
        ),
    )
    found = brokers.run(requests.consumer_groups)
    assert [each.group_id for each in found] == ["new", "only-commits"]


def test_classic_group_is_described_with_the_partitions_of_its_members(
    brokers: FakeBrokers,
) -> None:
    """Whatever the version of the assignment; what is no assignment has no partitions."""
    members = [
        {"member_id": "m1", "client_id": "c", "client_host": "/h", "member_assignment": raw}
        for raw in (assignment(2, 0), assignment(version=3), b"", b"\0\1\0\0")
    ]
    members[0]["group_instance_id"] = "i"
    brokers.answer(DESCRIBE, lambda _: {"groups": [classic("g", members=members)]}, 1)
    group = brokers.run(lambda admin: requests.describe_existing(admin, ["g"]))["g"]
    assert (group.type, group.state, group.assignor) == ("Classic", "Stable", "range")
    assert group.coordinator.node_id == 1
    assert [each.assignment for each in group.members] == [(A2, A0), (), (), ()]
    first = group.members[0]
    assert (first.member_id, first.instance_id, first.client_id) == ("m1", "i", "c")
    assert (first.target, first.epoch, first.upgraded) == (None, None, None)


def test_members_of_other_programs_have_no_partitions(brokers: FakeBrokers) -> None:
    """Only consumers write their assignment in this format."""
    row = classic("g", protocol_type="connect", members=[{"member_assignment": assignment(1)}])
    brokers.answer(DESCRIBE, lambda _: {"groups": [row]})
    group = brokers.run(lambda admin: requests.describe_existing(admin, ["g"]))["g"]
    assert group.members[0].assignment == ()


def test_consumer_group_is_described_by_its_own_request_and_the_others_by_the_old_one(
    brokers: FakeBrokers,
) -> None:
    def partitions(*numbers: int) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_name": "a", "partitions": numbers}]}

    def consumer(request: Any) -> dict[str, Any]:
        member = {
            "member_id": "m",
            "member_epoch": 4,
            "member_type": 1,
            "assignment": partitions(0),
            "target_assignment": partitions(0, 2),
        }
        known = {
            "group_id": "g",
            "group_state": "Reconciling",
            "group_epoch": 5,
            "assignment_epoch": 6,
            "assignor_name": "uniform",
            "members": [member],
        }
        return {
            "groups": [
                known if each == "g" else {"group_id": each, "error_code": UNKNOWN}
                for each in request.group_ids
            ]
        }

    brokers.answer(CONSUMER_DESCRIBE, consumer)
    brokers.answer(DESCRIBE, lambda _: {"groups": [classic("h")]})
    found = brokers.run(lambda admin: requests.describe_existing(admin, ["g", "h"]))
    new, old = found["g"], found["h"]
    assert (new.type, new.epoch, new.assignment_epoch) == ("Consumer", 5, 6)
    (member,) = new.members
    assert (member.assignment, member.target) == ((A0,), (A0, A2))
    assert (member.epoch, member.upgraded) == (4, True)
    assert old.type == "Classic"
    assert [list(each.groups) for each in brokers.seen(2, DESCRIBE)] == [["h"]]
    assert not brokers.seen(1, DESCRIBE)


@pytest.mark.parametrize(
    "row", [{"error_code": UNKNOWN}, {"group_state": "Dead"}], ids=["error", "dead"]
)
def test_group_that_does_not_exist_is_named_with_the_nearest_one(
    brokers: FakeBrokers, row: dict[str, Any]
) -> None:
    """Older brokers describe it as dead."""
    brokers.coordinators = {"orders-grop": 1}
    brokers.answer(DESCRIBE, lambda _: {"groups": [classic("orders-grop", **row)]})
    brokers.answer(LIST, lambda _: listed(("orders-group", "classic", "consumer")))
    found = brokers.run(lambda admin: requests.describe(admin, ["orders-grop"]))
    assert found == {"orders-grop": None}
    with pytest.raises(BadRequest, match="orders-grop does not exist; did you mean orders-group"):
        brokers.run(lambda admin: requests.describe_existing(admin, ["orders-grop"]))


def test_refused_deletion_names_the_group(brokers: FakeBrokers) -> None:
    def answer(request: Any) -> dict[str, Any]:
        code = ErrorCode.non_empty_group
        return {"results": [{"group_id": g, "error_code": code} for g in request.groups_names]}

    brokers.answer(DELETE, answer)
    with pytest.raises(RequestRefused, match="group g: NON_EMPTY_GROUP"):
        brokers.run(lambda admin: requests.delete(admin, ["g"]))


def test_group_that_is_gone_at_the_second_attempt_was_deleted_by_the_first(
    brokers: FakeBrokers,
) -> None:
    codes = iter([ErrorCode.not_coordinator, UNKNOWN, UNKNOWN])

    def answer(_: Any) -> dict[str, Any]:
        return {"results": [{"group_id": "g", "error_code": next(codes)}]}

    brokers.answer(DELETE, answer)
    brokers.run(lambda admin: requests.delete(admin, ["g"]))
    assert len(brokers.seen(1, DELETE)) == 2
    with pytest.raises(RequestRefused, match="group g: GROUP_ID_NOT_FOUND"):
        brokers.run(lambda admin: requests.delete(admin, ["g"]))
