"""The responses to refused administrative requests. Pure.

Some of Kafka's responses have a field for an error of the whole request. In the others the error is
repeated for every topic, resource or partition that the request names.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.wire.versions import respond

CREATE_TOPICS = 19
DELETE_TOPICS = 20
ALTER_CONFIGS = 33
CREATE_PARTITIONS = 37
ELECT_LEADERS = 43
INCREMENTAL_ALTER_CONFIGS = 44
ALTER_PARTITION_REASSIGNMENTS = 45
LIST_PARTITION_REASSIGNMENTS = 46
DESCRIBE_QUORUM = 55
UPDATE_FEATURES = 57
UNREGISTER_BROKER = 64

_WRONG_NODE = (ErrorCode.not_controller, ErrorCode.not_leader_or_follower)

Row = dict[str, Any]


def refuse(request: Any, code: ErrorCode, message: str | None = None) -> Any:
    """Return the response that refuses all of `request`, in the request's version."""
    error: Row = {"error_code": code, "error_message": message}
    rows = _ROWS.get(request.__api_key__)
    return respond(request, **error, **({} if rows is None else rows(request, error)))


def refused_by_non_controller(response: Any) -> bool:
    """Whether the response is from a node that is not the active controller (or, for requests of
    the quorum, not its leader). Then nothing happened."""
    return any(code in _WRONG_NODE for code in _codes(response))


def _codes(response: Any) -> Iterable[Any]:
    yield getattr(response, "error_code", None)
    for name in ("topics", "responses", "results"):
        for row in getattr(response, name, ()):
            yield getattr(row, "error_code", None)
    # The first version of ElectLeaders has no field for an error of the whole request.
    for topic in getattr(response, "replica_election_results", ()):
        for row in topic.partition_result:
            yield row.error_code
            if response.__api_key__ == DESCRIBE_QUORUM:
                yield from (partition.error_code for partition in row.partitions)


def _topic_rows(request: Any, error: Row) -> Row:
    return {"topics": [{"name": topic.name, **error} for topic in request.topics]}


def _deletion_rows(request: Any, error: Row) -> Row:
    names = getattr(request, "topic_names", None)
    if names is not None:
        return {"responses": [{"name": name, **error} for name in names]}
    rows = [{"name": t.name, "topic_id": t.topic_id, **error} for t in request.topics]
    return {"responses": rows}


def _create_partitions_rows(request: Any, error: Row) -> Row:
    return {"results": [{"name": topic.name, **error} for topic in request.topics]}


def _resource_rows(request: Any, error: Row) -> Row:
    rows = [
        {"resource_type": r.resource_type, "resource_name": r.resource_name, **error}
        for r in request.resources
    ]
    return {"responses": rows}


def _election_rows(request: Any, error: Row) -> Row:
    topics = request.topic_partitions or ()
    rows = [
        {
            "topic": topic.topic,
            "partition_result": [{"partition_id": p, **error} for p in topic.partitions],
        }
        for topic in topics
    ]
    return {"replica_election_results": rows}


def _reassignment_rows(request: Any, error: Row) -> Row:
    rows = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": p.partition_index, **error} for p in topic.partitions
            ],
        }
        for topic in request.topics
    ]
    return {"responses": rows}


_ROWS: dict[int, Callable[[Any, Row], Row]] = {
    CREATE_TOPICS: _topic_rows,
    DELETE_TOPICS: _deletion_rows,
    ALTER_CONFIGS: _resource_rows,
    CREATE_PARTITIONS: _create_partitions_rows,
    ELECT_LEADERS: _election_rows,
    INCREMENTAL_ALTER_CONFIGS: _resource_rows,
    ALTER_PARTITION_REASSIGNMENTS: _reassignment_rows,
}
