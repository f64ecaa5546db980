"""What the end of a send means: the record was appended, surely was not, or it is unknown.

A verdict is only as good as this mapping, so `info` is chosen in doubt. librdkafka reports the
error of a message's *last* attempt. Its persistence status knows the earlier attempts too, but the
Python binding does not expose it. So a broker's error says nothing about earlier attempts:

- A leader that appended an acks=all batch and then lost its leadership answers
  NOT_LEADER_FOR_PARTITION. librdkafka takes that as "not appended", sends again without counting a
  retry, and may end with NOT_ENOUGH_REPLICAS from the next leader while the first copy stays.
- A message that was purged from the queue (_PURGE_QUEUE) or timed out in it (_MSG_TIMED_OUT) may
  have been put back into the queue after a lost answer.

kafka-python and aiokafka report the last attempt's error, too, and repeat messages that an earlier
attempt may have appended.

So a send is `fail` only if the client refused it before it sent anything, or if a broker refuses
every attempt in the same way, because that depends only on the message and the configuration.
"""

from enum import StrEnum
from typing import Final

from confluent_kafka import KafkaError


class NotConnected(Exception):
    """A client could not connect to any broker; nothing was sent or read."""


class ClientBroken(Exception):
    """A client cannot go on; the message says why."""


class Outcome(StrEnum):
    """The history's `type` of a finished operation."""

    OK = "ok"
    FAIL = "fail"
    """It surely did not happen, and never will."""
    INFO = "info"
    """It may have happened, or may still happen."""


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
    """Return the outcome of a send by its delivery report's error code (None: no error).

    For acks=0 `ok` means only that the connection accepted the bytes.
    """
    if code is None:
        return Outcome.OK
    return Outcome.FAIL if code in REFUSED_ALWAYS else Outcome.INFO


def failed_delivery(error: BaseException) -> tuple[Outcome, str]:
    """Return the outcome of a send that ended with this exception, and the exception's name.

    The library's exceptions have Kafka's code as `errno` if a broker sent one. An exception that
    the library itself raised for a queued message does not say that no attempt was appended.
    """
    code = getattr(error, "errno", None)
    if isinstance(code, int) and not isinstance(error, OSError):  # OSError has the kernel's codes
        return delivery_outcome(code), KafkaError(code).name()
    return Outcome.INFO, type(error).__name__
