"""What a broker's error code says of an attempt to produce. Pure.

Sure is only what brokers say before they append. A leader that appended and then lost its
leadership, its followers, its disk or the partition answers with codes that it also has for what it
never took, so these leave the fate open: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION,
KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND, and all that we do not
know.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.partition_queue import Fate

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


def fate_of(code: ErrorCode) -> Fate:
    """See the module."""
    if code in _LANDED:
        return Fate.LANDED
    if code in _OUT_OF_SEQUENCE:
        return Fate.OUT_OF_SEQUENCE
    if code in _HOPELESS:
        return Fate.HOPELESS
    return Fate.REFUSED if code in _REFUSED else Fate.OPEN
