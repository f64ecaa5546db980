"""Schedules about the answers to an idempotent producer: brokers 2, 3 and 4, controller 1."""

from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode

from harness.simulation.world.clocks import EPOCH_MS
from harness.zoo.schedules.load import PRODUCE
from harness.zoo.schedules.stage import TOPIC, ExpectationFailed, Stage
from nodes.log.batch import Record, encode_batch

PRODUCER = 4711


async def _produce(stage: Stage, sequence: int) -> Any:
    batch = encode_batch(
        [Record(value=sequence.to_bytes(8, "big"))],
        timestamp_ms=EPOCH_MS,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=sequence,
    )
    data = [{"name": TOPIC.topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = await stage.client.ask(
        stage.partition.leader, PRODUCE, 9, acks=-1, timeout=timedelta(seconds=1), topic_data=data
    )
    return answer.responses[0].partition_responses[0]


async def gap(stage: Stage) -> None:
    """The second of three batches does not arrive, and the third does."""
    await stage.make_topic([2, 3, 4])
    await _produce(stage, 0)
    answer = await _produce(stage, 2)
    if answer.error_code is not ErrorCode.out_of_order_sequence_number:
        raise ExpectationFailed(f"a batch without its predecessor is answered {answer.error_code}")


async def repeat(stage: Stage) -> None:
    """A batch is sent again, also after a leader change."""
    await stage.make_topic([2, 3, 4])
    first = await _produce(stage, 0)
    await stage.await_replication()
    stage.cluster.kill(2)
    await stage.until("node 3 leads", lambda: stage.replica(3).state.leader == 3)
    again = await _produce(stage, 0)
    if (again.error_code, again.base_offset) != (ErrorCode.none, first.base_offset):
        raise ExpectationFailed(f"a repeated batch is answered {again.error_code}")
