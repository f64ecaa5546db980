"""The messages between a ZooKeeper-mode controller and brokers, against Kafka's own bytes.

Kafka 3.9.1's classes (LeaderAndIsrRequestData and the others) read these bytes to the end, with
these values.
"""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from nodes.wire.controller_requests import (
    CONTROLLED_SHUTDOWN,
    LEADER_AND_ISR,
    STOP_REPLICA,
    UPDATE_METADATA,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrError,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopic,
    LeaderAndIsrTopicError,
    LiveLeader,
    RemainingPartition,
    StopReplicaError,
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopic,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopic,
)
from nodes.wire.encoders import pieces
from nodes.wire.schemas import request_schema, response_schema

LEADER_AND_ISR_REQUEST = LeaderAndIsrRequest(
    controller_id=9,
    controller_epoch=4,
    broker_epoch=10,
    type_=2,
    topic_states=(
        LeaderAndIsrTopic(
            topic_name="t",
            topic_id=UUID(int=1),
            partition_states=(
                LeaderAndIsrPartition(
                    partition_index=0,
                    controller_epoch=4,
                    leader=1,
                    leader_epoch=6,
                    isr=(1, 2),
                    partition_epoch=8,
                    replicas=(1, 2, 3),
                    adding_replicas=(3,),
                    is_new=True,
                ),
            ),
        ),
    ),
    live_leaders=(LiveLeader(broker_id=1, host_name="h", port=9),),
)
UPDATE_METADATA_REQUEST = UpdateMetadataRequest(
    controller_id=9,
    controller_epoch=4,
    broker_epoch=10,
    topic_states=(
        UpdateMetadataTopic(
            topic_name="t",
            topic_id=UUID(int=1),
            partition_states=(
                UpdateMetadataPartition(
                    partition_index=0,
                    controller_epoch=4,
                    leader=1,
                    leader_epoch=6,
                    isr=(1,),
                    zk_version=8,
                    replicas=(1, 2),
                    offline_replicas=(2,),
                ),
            ),
        ),
    ),
    live_brokers=(
        UpdateMetadataBroker(
            id_=1,
            endpoints=(
                UpdateMetadataEndpoint(port=9, host="h", listener="L", security_protocol=0),
            ),
            rack="r",
        ),
    ),
)
STOP_REPLICA_REQUEST = StopReplicaRequest(
    controller_id=9,
    controller_epoch=4,
    broker_epoch=10,
    topic_states=(
        StopReplicaTopic(
            topic_name="t",
            partition_states=(
                StopReplicaPartition(partition_index=0, leader_epoch=6, delete_partition=True),
            ),
        ),
    ),
)
CONTROLLED_SHUTDOWN_REQUEST = ControlledShutdownRequest(broker_id=3, broker_epoch=77)
LEADER_AND_ISR_RESPONSE = LeaderAndIsrResponse(
    error_code=ErrorCode.none,
    topics=(
        LeaderAndIsrTopicError(
            topic_id=UUID(int=1),
            partition_errors=(
                LeaderAndIsrError(partition_index=2, error_code=ErrorCode.stale_broker_epoch),
            ),
        ),
    ),
)
UPDATE_METADATA_RESPONSE = UpdateMetadataResponse(error_code=ErrorCode.stale_controller_epoch)
STOP_REPLICA_RESPONSE = StopReplicaResponse(
    error_code=ErrorCode.none,
    partition_errors=(
        StopReplicaError(topic_name="t", partition_index=4, error_code=ErrorCode.none),
    ),
)
CONTROLLED_SHUTDOWN_RESPONSE = ControlledShutdownResponse(
    error_code=ErrorCode.none,
    remaining_partitions=(RemainingPartition(topic_name="t", partition_index=4),),
)


@pytest.mark.parametrize(
    ("message", "api_key", "kafka"),
    [
        (
            LEADER_AND_ISR_REQUEST,
            LEADER_AND_ISR,
            "0000000900000004000000000000000a020202740000000000000000000000000000000102000000"
            "00000000040000000100000006030000000100000002000000080400000001000000020000000302"
            "00000003010100000002000000010268000000090000",
        ),
        (
            UPDATE_METADATA_REQUEST,
            UPDATE_METADATA,
            "0000000900000004000000000000000a020274000000000000000000000000000000010200000000"
            "00000004000000010000000602000000010000000803000000010000000202000000020000020000"
            "000102000000090268024c00000002720000",
        ),
        (
            STOP_REPLICA_REQUEST,
            STOP_REPLICA,
            "0000000900000004000000000000000a02027402000000000000000601000000",
        ),
        (
            CONTROLLED_SHUTDOWN_REQUEST,
            CONTROLLED_SHUTDOWN,
            "00000003000000000000004d00",
        ),
        (
            LEADER_AND_ISR_RESPONSE,
            LEADER_AND_ISR,
            "000002000000000000000000000000000000010200000002004d000000",
        ),
        (
            UPDATE_METADATA_RESPONSE,
            UPDATE_METADATA,
            "000b00",
        ),
        (
            STOP_REPLICA_RESPONSE,
            STOP_REPLICA,
            "00000202740000000400000000",
        ),
        (
            CONTROLLED_SHUTDOWN_RESPONSE,
            CONTROLLED_SHUTDOWN,
            "0000020274000000040000",
        ),
    ],
)
def test_message_has_the_bytes_of_kafka(message: Any, api_key: int, kafka: str) -> None:
    assert b"".join(bytes(piece) for piece in pieces(message)).hex() == kafka
    schema = request_schema if type(message).__name__.endswith("Request") else response_schema
    assert schema(api_key, message.__version__) is type(message)
