"""The output of kafka-consumer-groups."""

from dataclasses import replace

from harness.admin.coordinators import Coordinator
from harness.admin.groups import text
from harness.admin.groups.descriptions import (
    CommittedOffset,
    Group,
    GroupListing,
    Member,
    positions,
)
from nodes.ids import TopicPartition

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ONE = Member(
    member_id="cl-81dc1c3b-98bf-4397", instance_id=None, client_id="cl", host="/h", assignment=(A1,)
)
TWO = replace(ONE, member_id="m2", assignment=(B0, A0))
GROUP = Group(
    group_id="g",
    coordinator=Coordinator(2, "198.19.153.2", 9092),
    type="Classic",
    state="Stable",
    assignor="range",
    members=(ONE, TWO),
)
NEW = replace(GROUP, type="Consumer", epoch=5, assignment_epoch=6, assignor="")


def at(offset: int, epoch: int | None = None) -> CommittedOffset:
    return CommittedOffset(offset=offset, leader_epoch=epoch, metadata="m")


def test_groups_are_listed_by_id_or_as_a_table() -> None:
    """The columns are those that are asked for."""
    groups = [
        GroupListing(group_id=name, type="Classic", state="Empty", protocol_type="consumer")
        for name in ("g", "a-long-group-id")
    ]
    assert list(text.listing_lines(groups)) == ["g", "a-long-group-id"]
    table = list(text.listing_lines(groups, types=True, states=True))
    assert table[:2] == [
        "GROUP                     TYPE                 STATE",
        "g                         Classic              Empty",
    ]
    assert list(text.listing_lines([], states=True)) == ["GROUP                     STATE"]
    assert text.listing_data(groups[0]) == {
        "group": "g",
        "type": "Classic",
        "state": "Empty",
        "protocol_type": "consumer",
    }


def test_state_of_a_group_is_a_table_of_one_row() -> None:
    assert list(text.state_lines(GROUP)) == [
        "",
        "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                "
        "#MEMBERS",
        "g               198.19.153.2:9092  (2)    range                Stable               2",
    ]
    _, header, row = text.state_lines(NEW, verbose=True)
    assert header.split()[-3:] == ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert row.split()[3:] == ["-", "Stable", "5", "6", "2"]


def test_members_are_a_table_with_the_columns_that_they_need() -> None:
    """Instance ids where one has any, UPGRADED where members use both protocols."""
    assert list(text.member_lines(replace(GROUP, members=()))) == []
    lines = list(text.member_lines(GROUP))
    assert lines[:2] == [
        "",
        "GROUP           CONSUMER-ID           HOST            CLIENT-ID       #PARTITIONS",
    ]
    static = replace(ONE, instance_id="i", epoch=4, target=(A0, A1, B0), upgraded=True)
    _, header, first, _ = text.member_lines(
        replace(NEW, members=(static, replace(TWO, upgraded=False))), verbose=True
    )
    columns = dict(zip(header.split(), first.split(), strict=True))
    assert columns["GROUP-INSTANCE-ID"] == "i"
    assert columns["CURRENT-EPOCH"] == "4"
    assert columns["CURRENT-ASSIGNMENT"] == "a:1"
    assert columns["TARGET-EPOCH"] == "6"
    assert columns["TARGET-ASSIGNMENT"] == "a:0,1;b:0"
    assert columns["UPGRADED"] == "true"


def test_offsets_are_those_of_members_first_and_of_the_busiest_before_others() -> None:
    """Then partitions that nobody reads; a lag needs both of its offsets."""
    c7 = TopicPartition("c", 7)
    rows = positions(GROUP, {A0: at(3, 9), A1: at(4), c7: at(1)}, {A0: 5, B0: 6, c7: 1})
    lines = list(text.offset_lines("g", rows))
    assert lines[:2] == [
        "",
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  "
        "LAG             CONSUMER-ID           HOST            CLIENT-ID",
    ]
    assert [line.split() for line in lines[2:]] == [
        ["g", "a", "0", "3", "5", "2", "m2", "/h", "cl"],
        ["g", "b", "0", "-", "6", "-", "m2", "/h", "cl"],
        ["g", "a", "1", "4", "-", "-", ONE.member_id, "/h", "cl"],
        ["g", "c", "7", "1", "1", "0", "-", "-", "-"],
    ]
    verbose = [line.split() for line in text.offset_lines("g", rows, verbose=True)]
    assert verbose[1][3] == "LEADER-EPOCH"
    assert [line[3] for line in verbose[2:]] == ["9", "-", "-", "-"]
    assert list(text.offset_lines("g", [])) == []
    assert text.position_data("g", rows[0]) == {
        "group": "g",
        "topic": "a",
        "partition": 0,
        "current_offset": 3,
        "leader_epoch": 9,
        "metadata": "m",
        "log_end_offset": 5,
        "lag": 2,
        "member_id": "m2",
        "client_id": "cl",
        "host": "/h",
    }


def test_group_as_data_has_its_members() -> None:
    data = text.group_data(NEW)
    assert (data["assignor"], data["epoch"], data["coordinator"]) == (None, 5, 2)
    assert data["members"][1]["assignment"] == ["a-0", "b-0"]
    assert data["members"][1]["target"] is None


def test_reset_and_deletion_are_tables() -> None:
    assert list(text.reset_lines("g", {A1: 7, A0: 5})) == [
        "",
        "GROUP           TOPIC           PARTITION  NEW-OFFSET",
        "g               a               0          5",
        "g               a               1          7",
    ]
    assert text.reset_data("g", {A0: 5}) == [
        {"group": "g", "topic": "a", "partition": 0, "new_offset": 5}
    ]
    assert list(text.deleted_lines({A0: None, A1: "GROUP_SUBSCRIBED_TO_TOPIC"})) == [
        "",
        "TOPIC           PARTITION  STATUS",
        "a               0          Successful",
        "a               1          Error: GROUP_SUBSCRIBED_TO_TOPIC",
    ]
