"""What a partition's leader learns of a transaction from the coordinator, or why nothing."""

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.partitioning import partition_for
from nodes.ids import NO_NODE, NodeId, TopicPartition
from nodes.server.coordinators.verifier import CoordinatorVerifier
from nodes.wire.errors import RequestTimedOut

A, B = TopicPartition("t", 0), TopicPartition("u", 1)
COORDINATOR = NodeId(3)


class Question(NamedTuple):
    """Both partitions, for one producer."""

    adds: bool = False
    transactional_id: str = "x"
    producer_id: int = 7
    producer_epoch: int = 1
    partitions: tuple[TopicPartition, ...] = (A, B)


def verified(
    answer: Any, *, leader: NodeId = COORDINATOR, exists: bool = True, adds: bool = False
) -> tuple[dict[TopicPartition, ErrorCode], list[Any]]:
    """What the verifier says, and what it sent; `answer` is a response or an exception."""
    sent: list[Any] = []

    async def request(node: NodeId, draft: Any) -> Any:
        sent.append((node, draft.values))
        if isinstance(answer, Exception):
            raise answer
        return answer

    partitions = {n: SimpleNamespace(leader=NO_NODE) for n in range(5)}
    partitions[partition_for("x", 5)] = SimpleNamespace(leader=leader)
    topic = SimpleNamespace(partitions=partitions) if exists else None
    image = SimpleNamespace(topic={"__transaction_state": topic}.get)
    link: Any = SimpleNamespace(request=request)
    verifier = CoordinatorVerifier(link, lambda: image)  # type: ignore[arg-type, return-value]
    return asyncio.run(verifier.verify(Question(adds))), sent


def response(*rows: tuple[TopicPartition, ErrorCode], error: ErrorCode = ErrorCode.none) -> Any:
    """An answer of AddPartitionsToTxn."""
    topics = [
        SimpleNamespace(
            name=partition.topic,
            results_by_partition=[
                SimpleNamespace(partition_index=partition.partition, partition_error_code=code)
            ],
        )
        for partition, code in rows
    ]
    results = [SimpleNamespace(topic_results=topics)]
    return SimpleNamespace(error_code=error, results_by_transaction=results)


@pytest.mark.parametrize("adds", [True, False])
def test_each_partition_has_the_coordinators_error(adds: bool) -> None:
    """The leader of the id's partition is asked, to add or only to look."""
    abortable = ErrorCode.transaction_abortable
    errors, sent = verified(response((A, ErrorCode.none), (B, abortable)), adds=adds)
    assert errors == {A: ErrorCode.none, B: abortable}
    ((node, values),) = sent
    assert node == COORDINATOR
    assert values["transactions"] == [
        {
            "transactional_id": "x",
            "producer_id": 7,
            "producer_epoch": 1,
            "verify_only": not adds,
            "topics": [{"name": "t", "partitions": [0]}, {"name": "u", "partitions": [1]}],
        }
    ]


@pytest.mark.parametrize("where", [{"exists": False}, {"leader": NO_NODE}])
def test_without_a_coordinator_nobody_is_asked(where: dict[str, Any]) -> None:
    """The producer tries again."""
    errors, sent = verified(response(), **where)
    assert set(errors.values()) == {ErrorCode.coordinator_not_available}
    assert not sent


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (RequestTimedOut("late"), ErrorCode.network_exception),
        (
            response(error=ErrorCode.cluster_authorization_failed),
            ErrorCode.cluster_authorization_failed,
        ),
        (response(), ErrorCode.unknown_server_error),
    ],
)
def test_no_answer_is_no_permission(answer: Any, error: ErrorCode) -> None:
    """Nor is one that does not name the partition."""
    assert verified(answer)[0] == {A: error, B: error}
