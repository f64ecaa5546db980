"""The class of every message: kio's, or our own for messages that kio lacks or cannot read."""

from typing import Any, Final

from kio.index import load_request_schema, load_response_schema

from nodes.wire import controller_requests as controller
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
    (controller.LEADER_AND_ISR, controller.LEADER_AND_ISR_VERSION): controller.LeaderAndIsrRequest,
    (controller.STOP_REPLICA, controller.STOP_REPLICA_VERSION): controller.StopReplicaRequest,
    (
        controller.UPDATE_METADATA,
        controller.UPDATE_METADATA_VERSION,
    ): controller.UpdateMetadataRequest,
    (
        controller.CONTROLLED_SHUTDOWN,
        controller.CONTROLLED_SHUTDOWN_VERSION,
    ): controller.ControlledShutdownRequest,
}
_RESPONSES: Final[dict[tuple[int, int], Any]] = {
    (GET_REPLICA_LOG_INFO, 0): GetReplicaLogInfoResponse,
    (DESCRIBE_TRANSACTIONS, 0): DescribeTransactionsResponse,
    (controller.LEADER_AND_ISR, controller.LEADER_AND_ISR_VERSION): controller.LeaderAndIsrResponse,
    (controller.STOP_REPLICA, controller.STOP_REPLICA_VERSION): controller.StopReplicaResponse,
    (
        controller.UPDATE_METADATA,
        controller.UPDATE_METADATA_VERSION,
    ): controller.UpdateMetadataResponse,
    (
        controller.CONTROLLED_SHUTDOWN,
        controller.CONTROLLED_SHUTDOWN_VERSION,
    ): controller.ControlledShutdownResponse,
}


def request_schema(api_key: int, version: int) -> Any:
    """Return the class of a request. Raises kio's KioIndexError if there is none."""
    return _REQUESTS.get((api_key, version)) or load_request_schema(api_key, version)


def response_schema(api_key: int, version: int) -> Any:
    """Return the class of a response. Raises kio's KioIndexError if there is none."""
    return _RESPONSES.get((api_key, version)) or load_response_schema(api_key, version)
