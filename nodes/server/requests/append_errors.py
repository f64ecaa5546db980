"""The errors of appends on the wire, as in Kafka."""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from nodes.log import errors as log_errors
from nodes.replication.partition import ProduceStatus

ACK_ERRORS: Final[Mapping[ProduceStatus, ErrorCode]] = {
    ProduceStatus.OK: ErrorCode.none,
    ProduceStatus.NOT_LEADER: ErrorCode.not_leader_or_follower,
    ProduceStatus.NOT_ENOUGH_REPLICAS: ErrorCode.not_enough_replicas_after_append,
    ProduceStatus.PENDING: ErrorCode.request_timed_out,
}
"""After an append. `PENDING`: the time is up."""

_LOG_ERRORS: Final[tuple[tuple[type[Exception], ErrorCode], ...]] = (
    (log_errors.CorruptBatch, ErrorCode.corrupt_message),
    (log_errors.MessageTooLarge, ErrorCode.message_too_large),
    (log_errors.OutOfOrderSequence, ErrorCode.out_of_order_sequence_number),
    (log_errors.InvalidProducerEpoch, ErrorCode.invalid_producer_epoch),
    (log_errors.InvalidTransactionState, ErrorCode.invalid_txn_state),
    (log_errors.CoordinatorFenced, ErrorCode.transaction_coordinator_fenced),
    (log_errors.InvalidBatch, ErrorCode.invalid_record),
    (log_errors.LogOffline, ErrorCode.kafka_storage_error),
    (log_errors.LogError, ErrorCode.unknown_server_error),
    (OSError, ErrorCode.kafka_storage_error),
)


def append_error(error: Exception) -> ErrorCode:
    """The code of a LogError or OSError."""
    return next(code for kind, code in _LOG_ERRORS if isinstance(error, kind))
