"""Which errors mean that a send surely did not happen."""

import pytest
from confluent_kafka import KafkaError

from harness.workloads.clients.outcomes import Outcome, delivery_outcome, failed_delivery


def test_no_error_is_ok() -> None:
    """A delivery report without error is an acknowledgement."""
    assert delivery_outcome(None) is Outcome.OK


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
        KafkaError._FATAL,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNKNOWN,
        12345,
    ],
)
def test_error_that_permits_an_earlier_append_is_info(code: int) -> None:
    """An earlier attempt may have been appended, or the error is unknown."""
    assert delivery_outcome(code) is Outcome.INFO


@pytest.mark.parametrize("code", [KafkaError.INVALID_REQUIRED_ACKS, KafkaError.INVALID_RECORD])
def test_error_that_every_attempt_gets_is_fail(code: int) -> None:
    """It depends only on the message, so no attempt can have been appended."""
    assert delivery_outcome(code) is Outcome.FAIL


class Refusal(Exception):
    """A library's exception for what a broker answered."""

    def __init__(self, errno: object) -> None:
        super().__init__()
        self.errno = errno


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Refusal(KafkaError.INVALID_RECORD), (Outcome.FAIL, "INVALID_RECORD")),
        (Refusal(KafkaError.REQUEST_TIMED_OUT), (Outcome.INFO, "REQUEST_TIMED_OUT")),
        (Refusal(KafkaError.MSG_SIZE_TOO_LARGE), (Outcome.INFO, "MSG_SIZE_TOO_LARGE")),
        (Refusal(None), (Outcome.INFO, "Refusal")),
        (TimeoutError("in the queue"), (Outcome.INFO, "TimeoutError")),
        (OSError(KafkaError.INVALID_RECORD, "a number of the kernel's"), (Outcome.INFO, "OSError")),
    ],
)
def test_exception_is_fail_only_by_a_brokers_code(
    error: Exception, outcome: tuple[Outcome, str]
) -> None:
    """Only a broker's code can say that no attempt was appended."""
    assert failed_delivery(error) == outcome
