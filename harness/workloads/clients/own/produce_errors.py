"""The meaning of a broker's error code for an attempt to produce. Pure.

Only codes that brokers send before they append are certain. A leader that appended a batch and then
lost its leadership, its followers, its disk or the partition answers with codes that it also sends
for batches that it never appended. So these codes leave the result unknown: NOT_LEADER_OR_FOLLOWER,
UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND
and every code that is not listed here.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.partition_queue import AttemptResult

_LANDED: Final = frozenset({ErrorCode.none, ErrorCode.duplicate_sequence_number})
_REFUSED: Final = frozenset({ErrorCode.not_enough_replicas, ErrorCode.corrupt_message})
_OUT_OF_SEQUENCE: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.producer_fenced,
    }
)
_HOPELESS: Final = frozenset(
    {
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_record,
        ErrorCode.invalid_required_acks,
        ErrorCode.invalid_timestamp,
        ErrorCode.invalid_topic_exception,
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.unsupported_compression_type,
        ErrorCode.policy_violation,
    }
)


def attempt_result(code: ErrorCode) -> AttemptResult:
    """Return what an error code says about the attempt."""
    if code in _LANDED:
        return AttemptResult.APPENDED
    if code in _OUT_OF_SEQUENCE:
        return AttemptResult.OUT_OF_SEQUENCE
    if code in _HOPELESS:
        return AttemptResult.NEVER_APPENDED
    return AttemptResult.NOT_APPENDED if code in _REFUSED else AttemptResult.UNKNOWN
