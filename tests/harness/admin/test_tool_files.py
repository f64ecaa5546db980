"""Kafka's JSON files: reading, writing, and the messages of refusals."""

import json
from collections.abc import Callable

import pytest

from harness.admin import tool_files
from harness.admin.errors import BadRequest
from nodes.ids import TopicPartition

A0 = TopicPartition("a", 0)


def test_reassignment_is_written_and_read_back() -> None:
    """The text is in Kafka's format."""
    written = tool_files.write_reassignment({TopicPartition("b", 1): (3,), A0: (1, 2)})
    assert written == (
        '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2],'
        '"log_dirs":["any","any"]},{"topic":"b","partition":1,"replicas":[3],"log_dirs":["any"]}]}'
    )
    assert tool_files.reassignment(written) == {A0: (1, 2), TopicPartition("b", 1): (3,)}


def test_topics_partitions_and_offsets_are_read() -> None:
    """The files of `reassign generate`, `elect-leaders` and `delete-records`."""
    assert tool_files.topics_to_move('{"topics": [{"topic": "a"}], "version": 1}') == ["a"]
    assert tool_files.partitions('{"partitions": [{"topic": "a", "partition": 0}]}') == [A0]
    entry = {"topic": "a", "partition": 0, "offset": -1}
    assert tool_files.offsets(json.dumps({"partitions": [entry]})) == {A0: -1}


@pytest.mark.parametrize(
    ("read", "given", "message"),
    [
        (tool_files.reassignment, "{", "is no JSON"),
        (tool_files.reassignment, "[]", 'has no list "partitions"'),
        (tool_files.reassignment, '{"partitions": []}', "is empty"),
        (tool_files.reassignment, '{"version": 2, "partitions": []}', "version 2"),
        (tool_files.reassignment, '{"partitions": [1]}', "has an entry 1"),
        (
            tool_files.reassignment,
            '{"partitions": [{"topic": "a"}]}',
            "without topic and partition",
        ),
        (
            tool_files.reassignment,
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}',
            "list of replicas is empty",
        ),
        (
            tool_files.reassignment,
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}',
            "broker 1 is listed twice",
        ),
        (
            tool_files.reassignment,
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": ["1"]}]}',
            "must be a list of broker numbers",
        ),
        (
            tool_files.reassignment,
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": ["/x"]}]}',
            "are not supported",
        ),
        (
            tool_files.partitions,
            '{"partitions": [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 0}]}',
            "names a-0 twice",
        ),
        (
            tool_files.topics_to_move,
            '{"topics": [{"topic": "a"}, {"topic": "a"}]}',
            "a is listed twice",
        ),
        (
            tool_files.offsets,
            '{"partitions": [{"topic": "a", "partition": 0, "offset": -2}]}',
            "at least -1",
        ),
    ],
)
def test_wrong_file_is_refused_with_its_mistake(
    read: Callable[[str], object], given: str, message: str
) -> None:
    with pytest.raises(BadRequest, match=message):
        read(given)
