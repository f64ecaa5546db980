"""The JSON files of Kafka's administrative tools: reads and writes their text. Pure.

A wrong file is a BadRequest that names the mistake and shows an example.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harness.admin.errors import BadRequest
from nodes.ids import TopicPartition

_REASSIGNMENT: Final = (
    '{"version": 1, "partitions": [{"topic": "foo", "partition": 0, "replicas": [1, 2, 3]}]}'
)
_TOPICS: Final = '{"version": 1, "topics": [{"topic": "foo"}]}'
_PARTITIONS: Final = '{"partitions": [{"topic": "foo", "partition": 0}]}'
_OFFSETS: Final = '{"version": 1, "partitions": [{"topic": "foo", "partition": 0, "offset": 100}]}'


def reassignment(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas of each partition of a reassignment file, preferred leader first.

    Log directories other than "any" are refused, because the cluster chooses them.
    """
    found = {}
    for entry in _entries(text, "partitions", _REASSIGNMENT, "partition reassignment"):
        name = _partition(entry, _REASSIGNMENT)
        replicas = entry.get("replicas")
        if not isinstance(replicas, list) or not all(_is_number(each) for each in replicas):
            raise BadRequest(f"{name}: replicas must be a list of broker numbers, not {replicas!r}")
        if not replicas:
            raise BadRequest(f"{name}: the list of replicas is empty")
        if twice := _twice(replicas):
            raise BadRequest(f"{name}: broker {twice} is listed twice")
        if any(each != "any" for each in entry.get("log_dirs") or ()):
            raise BadRequest(f'{name}: log_dirs other than "any" are not supported')
        found[name] = tuple(replicas)
    return found


def topics_to_move(text: str) -> list[str]:
    """Return the topics of a file for `reassign generate`."""
    names = []
    for entry in _entries(text, "topics", _TOPICS, "list of topics"):
        if not isinstance(entry.get("topic"), str):
            raise BadRequest(f"an entry without a topic: {entry!r}; expected {_TOPICS}")
        names.append(entry["topic"])
    if twice := _twice(names):
        raise BadRequest(f"topic {twice} is listed twice")
    return names


def partitions(text: str) -> list[TopicPartition]:
    """Return the partitions of a file for `elect-leaders`."""
    entries = _entries(text, "partitions", _PARTITIONS, "list of partitions")
    return [_partition(entry, _PARTITIONS) for entry in entries]


def offsets(text: str) -> dict[TopicPartition, int]:
    """Return the offsets of a file for `delete-records`: records before them are deleted."""
    found = {}
    for entry in _entries(text, "partitions", _OFFSETS, "list of offsets"):
        name = _partition(entry, _OFFSETS)
        offset = entry.get("offset")
        if not isinstance(offset, int) or isinstance(offset, bool) or offset < -1:
            raise BadRequest(f"{name}: offset must be a number of at least -1, not {offset!r}")
        found[name] = offset
    return found


def write_reassignment(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return a reassignment file on one line, as Kafka's tool prints it."""
    entries = [
        {
            "topic": name.topic,
            "partition": name.partition,
            "replicas": list(replicas),
            "log_dirs": ["any"] * len(replicas),
        }
        for name, replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": entries}, separators=(",", ":"))


def _entries(text: str, key: str, example: str, what: str) -> list[dict[str, Any]]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the {what} is no JSON ({error}); expected {example}") from error
    if not isinstance(read, dict) or not isinstance(read.get(key), list):
        raise BadRequest(f'the {what} has no list "{key}"; expected {example}')
    if read.get("version", 1) != 1:
        raise BadRequest(f"the {what} has version {read['version']!r}; only 1 is supported")
    if not read[key]:
        raise BadRequest(f"the {what} is empty")
    for entry in read[key]:
        if not isinstance(entry, dict):
            raise BadRequest(f"the {what} has an entry {entry!r}; expected {example}")
    if key == "partitions":
        names = [(entry.get("topic"), entry.get("partition")) for entry in read[key]]
        if twice := _twice(names):
            raise BadRequest(f"the {what} names {twice[0]}-{twice[1]} twice")
    return list(read[key])


def _partition(entry: Mapping[str, Any], example: str) -> TopicPartition:
    topic, number = entry.get("topic"), entry.get("partition")
    if not isinstance(topic, str) or not isinstance(number, int) or number < 0:
        raise BadRequest(f"an entry without topic and partition: {entry!r}; expected {example}")
    return TopicPartition(topic, number)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _twice(items: Iterable[Any]) -> Any:
    """Return an item that occurs more than once, or None."""
    counts = Counter(map(_hashable, items))
    return next((item for item, count in counts.items() if count > 1), None)


def _hashable(item: Any) -> Any:
    return item if isinstance(item, str | int | tuple) else repr(item)
