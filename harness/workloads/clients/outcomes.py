"""What the end of a send means: it happened, it surely did not, or nobody can know.

A verdict is only as good as this mapping, so it errs towards `info`. librdkafka reports the error
of a message's *last* attempt. Its own persistence status, which remembers earlier attempts, is not
handed on by the Python binding, so an error of the broker says nothing of an attempt before it:

- A leader that appended an acks=all batch and then lost its leadership answers
  NOT_LEADER_FOR_PARTITION; librdkafka takes that as "not appended", sends again without counting a
  retry, and may end with NOT_ENOUGH_REPLICAS from the next leader while the first copy lives on.
- A message purged from the queue (_PURGE_QUEUE) or timed out in it (_MSG_TIMED_OUT) may have been
  put back there after a lost answer.

kafka-python and aiokafka report the last attempt's error, too, and repeat what an earlier attempt
may have brought to the log.

Hence `fail` is left for what the client refused before it sent anything, and for what a broker
refuses of every attempt alike, because it depends on the message and the configuration alone.
"""

from enum import StrEnum
from typing import Final

from confluent_kafka import KafkaError


class NotConnected(Exception):
    """A client could not be made, because no broker answered it; nothing was sent or read."""


class Outcome(StrEnum):
    """The history's `type` of a finished operation."""

    OK = "ok"
    FAIL = "fail"
    """It surely did not happen, and never will."""
    INFO = "info"
    """It may have happened, or may yet."""


REFUSED_ALWAYS: Final[frozenset[int]] = frozenset(
    {
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.UNSUPPORTED_COMPRESSION_TYPE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
    }
)
"""Broker errors that every attempt of the same message gets, before the append."""


def delivery_outcome(code: int | None) -> Outcome:
    """What a delivery report with this error code (None: no error) says of the send.

    For acks=0 `ok` means only that the bytes were handed to the connection.
    """
    if code is None:
        return Outcome.OK
    return Outcome.FAIL if code in REFUSED_ALWAYS else Outcome.INFO


def failed_delivery(error: BaseException) -> tuple[Outcome, str]:
    """The outcome of a send that ended with this exception, and the exception's name.

    Of a library whose exceptions carry Kafka's code as `errno` where a broker gave one. Nothing
    that the library itself decided while the message was queued says that no attempt had landed.
    """
    code = getattr(error, "errno", None)
    if isinstance(code, int) and not isinstance(error, OSError):  # whose codes are the kernel's
        return delivery_outcome(code), KafkaError(code).name()
    return Outcome.INFO, type(error).__name__
