"""Our own producer, with scripted brokers and with clusters under faults."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.cluster import Cluster, Timing
from harness.workloads.clients.own.partition_queue import Limits, MessageOutcome
from harness.workloads.clients.own.producer import Producer, ProducerSettings
from harness.workloads.clients.own.waiting import Backoff
from nodes.log.batch import read_header
from nodes.wire.errors import Unanswerable
from tests.support.clients.scripted_brokers import PRODUCE, Script

Outcome = tuple[MessageOutcome, int | None, str | None]

TIMING = Timing(request_s=1.0, metadata_age_s=0.5)


class Partition(Script):
    """A script that answers produces with `codes`, one after the other, and then with success."""

    def __init__(self, codes: Iterable[ErrorCode] = (), **row: Any) -> None:
        super().__init__()
        self.codes = list(codes)
        self.row = row
        self.answers[PRODUCE] = self.produce
        self.outcomes: dict[int, Outcome] = {}
        self.bumps: list[str] = []

    def produce(self, node: int, request: Any) -> Mapping[str, Any]:
        if node != self.leader[0]:
            code = ErrorCode.not_leader_or_follower
        else:
            code = self.codes.pop(0) if self.codes else ErrorCode.none
        if request.acks == 0:
            raise Unanswerable("acks=0 is not answered")
        part = {"index": 0, "error_code": code, "base_offset": 40}
        part |= self.row if code is not ErrorCode.none else {}
        endpoints = [self.endpoint(1), self.endpoint(2)]
        topic = {"name": "t", "partition_responses": [part]}
        return {"responses": [topic], "node_endpoints": endpoints}

    def headers(self) -> list[tuple[int, int, int]]:
        """Producer epoch, first sequence and count of every batch that was sent."""
        batches = [
            read_header(request.topic_data[0].partition_data[0].records)
            for request in self.asked(PRODUCE)
        ]
        return [(b.producer_epoch, b.base_sequence, b.record_count) for b in batches]

    def send(
        self,
        messages: int = 2,
        *,
        acks: int = -1,
        timeout_s: float = 3.0,
        drain_s: float = 10.0,
        idempotence: bool = True,
        messages_of_a_batch: int = Limits().messages,
        timing: Timing = TIMING,
    ) -> None:
        """Send some messages and wait for their outcomes."""

        async def client(cluster: Cluster) -> None:
            producer = Producer(
                cluster,
                ProducerSettings(
                    acks=acks,
                    idempotence=idempotence,
                    limits=Limits(messages=messages_of_a_batch, timeout_s=timeout_s),
                ),
                wall_clock_ms=itertools.count(1).__next__,
                on_ended=lambda _, ended, __: self.outcomes.update(
                    {m.tag: (ended.end, ended.offset, ended.error) for m in ended.messages}
                ),
                on_bump=lambda _, bump: self.bumps.append(bump.reason),
            )
            for tag in range(messages):
                producer.send(0, tag, b"%d" % tag)
            await producer.close(drain_s)
            assert producer.pending == 0

        self.run(client, timing)


OK: Callable[[Outcome], bool] = lambda outcome: outcome == (MessageOutcome.OK, 40, None)  # noqa: E731


def test_acknowledged_send_has_an_offset() -> None:
    """One batch, from sequence 0 of epoch 0 of the producer id that was asked for."""
    partition = Partition()
    partition.send()
    assert partition.headers() == [(0, 0, 2)]
    assert all(OK(outcome) for outcome in partition.outcomes.values())


def test_refused_or_unanswered_batch_is_sent_again_unchanged() -> None:
    """A duplicate is a success."""
    codes = [
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.duplicate_sequence_number,
    ]
    partition = Partition(codes)
    partition.send()
    assert partition.headers() == [(0, 0, 2)] * 3
    assert {outcome[0] for outcome in partition.outcomes.values()} == {MessageOutcome.OK}
    sent = [r.topic_data[0].partition_data[0].records for r in partition.asked(PRODUCE)]
    assert len({bytes(each) for each in sent}) == 1


def _led_by_the_first(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Old metadata: broker 1 still leads."""
    old = {"partition_index": 0, "leader_id": 1, "leader_epoch": 2}
    return {**metadata, "topics": [{**metadata["topics"][0], "partitions": [old]}]}


def test_answer_names_the_new_leader() -> None:
    """KIP-951: the next attempt goes to the new leader at once, without a metadata request."""
    partition = Partition(current_leader={"leader_id": 2, "leader_epoch": 3})
    partition.leader = (2, 3)
    metadata = partition._metadata
    partition.answers[3] = lambda node, request: _led_by_the_first(metadata(node, request))
    partition.send()
    assert [node for node, r in partition.seen if int(r.__api_key__) == PRODUCE] == [1, 2]
    assert all(OK(outcome) for outcome in partition.outcomes.values())


def test_every_batch_in_flight_follows_the_new_leader_at_once() -> None:
    """KIP-951: the second answer says nothing new, and its batch still needs no backoff."""
    partition = Partition(current_leader={"leader_id": 2, "leader_epoch": 3})
    partition.leader = (2, 3)
    metadata = partition._metadata
    partition.answers[3] = lambda node, request: _led_by_the_first(metadata(node, request))
    asked_s: list[float] = []

    def produce(node: int, request: Any) -> Mapping[str, Any]:
        asked_s.append(asyncio.get_running_loop().time())
        return partition.produce(node, request)

    partition.answers[PRODUCE] = produce
    slow = Timing(retry=Backoff(first_s=2.0, last_s=2.0))
    partition.send(2, messages_of_a_batch=1, timing=slow, timeout_s=30, drain_s=60)
    assert [node for node, r in partition.seen if int(r.__api_key__) == PRODUCE] == [1, 1, 2, 2]
    assert asked_s[-1] - asked_s[0] < 1
    assert all(OK(outcome) for outcome in partition.outcomes.values())


def test_first_batch_out_of_order_goes_on_in_a_new_epoch() -> None:
    """KIP-360: it surely was not appended, so it begins the next epoch with sequence 0."""
    partition = Partition([ErrorCode.unknown_producer_id])
    partition.send()
    assert partition.headers() == [(0, 0, 2), (1, 0, 2)]
    assert partition.bumps == ["UNKNOWN_PRODUCER_ID"]


def test_uncertain_batch_is_never_sent_in_a_new_epoch() -> None:
    """It is given up, and its outcome is unknown."""
    partition = Partition([ErrorCode.request_timed_out, ErrorCode.out_of_order_sequence_number])
    partition.send()
    assert partition.headers() == [(0, 0, 2)] * 2
    assert {outcome[0] for outcome in partition.outcomes.values()} == {MessageOutcome.INFO}
    assert len(partition.bumps) == 1


def test_too_large_message_has_failed() -> None:
    """It is sent once, and the outcome is certain."""
    partition = Partition([ErrorCode.message_too_large])
    partition.send(1)
    assert partition.outcomes == {0: (MessageOutcome.FAIL, None, "MESSAGE_TOO_LARGE")}
    assert len(partition.headers()) == 1


def test_message_without_a_leader_or_always_refused_has_failed() -> None:
    """A time-out is certain if nothing can have been appended."""
    leaderless = Partition()
    leaderless.leader = (-1, 0)
    leaderless.send(timeout_s=1.0)
    refused = Partition([ErrorCode.not_enough_replicas] * 1000)
    refused.send(timeout_s=1.0)
    for partition in (leaderless, refused):
        assert {outcome[0] for outcome in partition.outcomes.values()} == {MessageOutcome.FAIL}
    assert len(leaderless.headers()) == 0
    assert len(refused.headers()) > 3


def test_send_without_an_answer_at_the_end_is_unknown() -> None:
    """It has neither an error nor a completion time."""
    partition = Partition([ErrorCode.not_leader_or_follower] * 1000)
    partition.send(drain_s=0.5)
    assert {outcome[0] for outcome in partition.outcomes.values()} == {MessageOutcome.INFO}


def test_acks_zero_is_ok_without_an_offset() -> None:
    """Nothing is repeated."""
    partition = Partition()
    partition.send(acks=0, idempotence=False)
    assert set(partition.outcomes.values()) == {(MessageOutcome.OK, None, None)}
    assert partition.headers() == [(-1, -1, 2)]
