"""GetReplicaLogInfo, byte for byte as Kafka's schema of version 0 has it."""

from uuid import UUID

from kio.schema.errors import ErrorCode

from nodes.wire.codec import decode_request, decode_response, encode_request, encode_response
from nodes.wire.replica_log_info import (
    GET_REPLICA_LOG_INFO,
    GetReplicaLogInfoRequest,
    GetReplicaLogInfoResponse,
)
from nodes.wire.versions import fill

TOPIC = UUID(int=0x1234)
REQUEST = (
    "005d 0000 00000007 0002 6d65 00"  # the key, the version, the number, who asks, no tags
    "02 00000000000000000000000000001234 03 00000001 00000005 00"  # a topic, two partitions
    "00"
)
RESPONSE = (
    "00000007 00"
    "00000000 0000000000000011 01"  # no throttling, broker epoch 17, truncated
    "02 00000000000000000000000000001234"
    "02 00000001 00000004 00000005 0000000000000064 0000 00"
    "00 00"
)


def test_request_bytes_are_those_of_kafkas_schema() -> None:
    """It is written as it is read."""
    request = fill(
        GetReplicaLogInfoRequest, topic_partitions=[{"topic_id": TOPIC, "partitions": [1, 5]}]
    )
    frame = encode_request(request, 7, "me")[4:]
    assert frame == bytes.fromhex(REQUEST)
    assert decode_request(frame).entity == request


def test_response_bytes_are_those_of_kafkas_schema() -> None:
    """Where a log ends, in which epoch, and the leader epoch that the broker knows."""
    row = {
        "partition": 1,
        "last_written_leader_epoch": 4,
        "current_leader_epoch": 5,
        "log_end_offset": 100,
        "error_code": ErrorCode.none,
    }
    topics = [{"topic_id": TOPIC, "partition_log_info": [row]}]
    response = fill(
        GetReplicaLogInfoResponse,
        broker_epoch=17,
        truncated=True,
        topic_partition_log_info_list=topics,
    )
    frame = encode_response(response, 7)[4:]
    assert frame == bytes.fromhex(RESPONSE)
    assert decode_response(frame, GET_REPLICA_LOG_INFO, 0) == response
