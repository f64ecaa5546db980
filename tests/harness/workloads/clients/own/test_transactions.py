"""One request to each leader for the batches of a transaction."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from harness.workloads.clients.own.transactions import Fenced, TransactionalProducer
from nodes.log.batch import read_header
from nodes.wire.errors import Disconnected

OK = ErrorCode.none


class Brokers:
    """Two leaders, whose answers the test sets, as a Cluster; partition n is led by n % 2."""

    topic = "t"
    rng = random.Random(0)

    def __init__(self) -> None:
        self.errors: dict[int, ErrorCode] = {}
        self.down: set[int] = set()
        self.sent: list[tuple[int, dict[int, int]]] = []
        """For each request the leader, and the first sequence of each partition's batch."""

    def leader(self, partition: int) -> Any:
        return SimpleNamespace(node=partition % 2)

    def connection(self, node: int) -> Any:
        async def start(api: str, *, topic_data: Sequence[Mapping[str, Any]], **_: Any) -> Any:
            rows = topic_data[0]["partition_data"]
            sequences = {each["index"]: read_header(each["records"]).base_sequence for each in rows}
            self.sent.append((node, sequences))
            if node in self.down:
                raise Disconnected("down")
            answers = [
                SimpleNamespace(index=n, error_code=self.errors.get(n, OK), base_offset=0)
                for n in sequences
            ]
            return SimpleNamespace(responses=[SimpleNamespace(partition_responses=answers)])

        return SimpleNamespace(start=start)

    def hint(self, partition: int, answer: Any, row: Any) -> bool:
        return False

    def refresh(self) -> None:
        """Nothing changes."""


def producer_of(brokers: Brokers) -> TransactionalProducer:
    made = TransactionalProducer(brokers, "x", 60.0, second=True)  # type: ignore[arg-type]
    made.producer_id, made.epoch = 7, 0
    return made


def test_each_leader_gets_one_request() -> None:
    """With the batches of all its partitions."""
    brokers = Brokers()
    rest = asyncio.run(producer_of(brokers).write_all({n: [b"v"] for n in range(4)}, 1000))
    assert rest == {}
    assert brokers.sent == [(0, {0: 0, 2: 0}), (1, {1: 0, 3: 0})]


def test_what_was_not_written_is_returned_and_keeps_its_sequence() -> None:
    """One partition is refused for now, and one leader does not answer."""
    brokers = Brokers()
    producer = producer_of(brokers)
    values = {n: [b"v", b"w"] for n in range(4)}
    brokers.errors, brokers.down = {2: ErrorCode.not_enough_replicas}, {1}
    rest = asyncio.run(producer.write_all(values, 1000))
    assert rest == {n: [b"v", b"w"] for n in (1, 2, 3)}
    brokers.errors, brokers.down = {}, set()
    assert asyncio.run(producer.write_all(rest, 1000)) == {}
    assert brokers.sent[2:] == [(1, {1: 0, 3: 0}), (0, {2: 0})]
    asyncio.run(producer.write_all({0: [b"x"]}, 1000))
    assert brokers.sent[-1] == (0, {0: 2})


def test_a_fenced_producer_is_told() -> None:
    """It must not repeat anything."""
    brokers = Brokers()
    brokers.errors = {3: ErrorCode.invalid_producer_epoch}
    with pytest.raises(Fenced):
        asyncio.run(producer_of(brokers).write_all({n: [b"v"] for n in range(4)}, 1000))


@pytest.mark.parametrize(
    ("features", "second"),
    [({}, False), ({"transaction.version": 1}, False), ({"transaction.version": 2}, True)],
)
def test_the_version_is_the_one_that_the_cluster_has_finalized(
    features: dict[str, int], second: bool
) -> None:
    producer = TransactionalProducer(Brokers(), "x", 60.0, second=None)  # type: ignore[arg-type]

    async def ask(api: str, **_: Any) -> Any:
        if api == "api_versions":
            rows = [SimpleNamespace(name=n, max_version_level=v) for n, v in features.items()]
            return SimpleNamespace(finalized_features=rows)
        return SimpleNamespace(error_code=OK, producer_id=7, producer_epoch=0)

    producer._coordinator.ask = ask  # type: ignore[method-assign]
    asyncio.run(producer.init())
    assert producer.second is second
