"""The class of every message: kio's, and those of our own for messages that kio lacks."""

from typing import Any, Final

from kio.index import load_request_schema, load_response_schema

from nodes.wire.replica_log_info import (
    GET_REPLICA_LOG_INFO,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
)

_REQUESTS: Final[dict[tuple[int, int], Any]] = {
    (GET_REPLICA_LOG_INFO, 0): GetReplicaLogInfoRequest,
}
_RESPONSES: Final[dict[tuple[int, int], Any]] = {
    (GET_REPLICA_LOG_INFO, 0): GetReplicaLogInfoResponse,
}


def request_schema(api_key: int, version: int) -> Any:
    """The class of a request. Raises kio's KioIndexError when there is none."""
    return _REQUESTS.get((api_key, version)) or load_request_schema(api_key, version)


def response_schema(api_key: int, version: int) -> Any:
    """The class of a response. Raises kio's KioIndexError when there is none."""
    return _RESPONSES.get((api_key, version)) or load_response_schema(api_key, version)
