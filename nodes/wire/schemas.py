"""The class of every message: kio's, or our own for messages that kio lacks or cannot read."""

from functools import cache
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema

from nodes.wire.replica_log_info import (
    GET_REPLICA_LOG_INFO,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
)
from nodes.wire.transaction_descriptions import (
    DESCRIBE_TRANSACTIONS,
    DescribeTransactionsResponse,
)

_Schemas = dict[tuple[int, int], Any]

_REQUESTS: Final[_Schemas] = {(GET_REPLICA_LOG_INFO, 0): GetReplicaLogInfoRequest}
_RESPONSES: Final[_Schemas] = {
    (GET_REPLICA_LOG_INFO, 0): GetReplicaLogInfoResponse,
    (DESCRIBE_TRANSACTIONS, 0): DescribeTransactionsResponse,
}
_OF_ZOOKEEPER: Final = range(4, 8)
"""The keys of LeaderAndIsr to ControlledShutdown. Only brokers with ZooKeeper send them, and making
their classes takes a noticeable part of a broker's start."""


@cache
def _of_zookeeper() -> tuple[_Schemas, _Schemas]:
    """Return the classes of requests, and those of responses."""
    from nodes.wire import controller_requests

    return controller_requests.REQUESTS, controller_requests.RESPONSES


def request_schema(api_key: int, version: int) -> Any:
    """Return the class of a request. Raises kio's KioIndexError if there is none."""
    ours = _of_zookeeper()[0] if api_key in _OF_ZOOKEEPER else _REQUESTS
    return ours.get((api_key, version)) or load_request_schema(api_key, version)


def response_schema(api_key: int, version: int) -> Any:
    """Return the class of a response. Raises kio's KioIndexError if there is none."""
    ours = _of_zookeeper()[1] if api_key in _OF_ZOOKEEPER else _RESPONSES
    return ours.get((api_key, version)) or load_response_schema(api_key, version)
