"""The class of every message: kio's, or our own for messages that kio lacks or cannot read."""

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

_REQUESTS: Final[dict[tuple[int, int], Any]] = {
    (GET_REPLICA_LOG_INFO, 0): GetReplicaLogInfoRequest,
}
_RESPONSES: Final[dict[tuple[int, int], Any]] = {
    (GET_REPLICA_LOG_INFO, 0): GetReplicaLogInfoResponse,
    (DESCRIBE_TRANSACTIONS, 0): DescribeTransactionsResponse,
}


def request_schema(api_key: int, version: int) -> Any:
    """Return the class of a request. Raises kio's KioIndexError if there is none."""
    return _REQUESTS.get((api_key, version)) or load_request_schema(api_key, version)


def response_schema(api_key: int, version: int) -> Any:
    """Return the class of a response. Raises kio's KioIndexError if there is none."""
    return _RESPONSES.get((api_key, version)) or load_response_schema(api_key, version)
