"""The response to DescribeTransactions, with a start that may be absent.

A transactional id whose transaction has not begun has the start time -1. kio's class takes no
negative time, so the two classes with it are declared here, in kio's form.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import ProducerId, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import TZAware, i16, i32Timedelta

DESCRIBE_TRANSACTIONS: Final = 65


def _wire(kafka_type: str) -> dict[str, object]:
    return {"kafka_type": kafka_type}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """One transactional id; no start time (-1 on the wire) before its transaction has begun."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(DESCRIBE_TRANSACTIONS)
    __header_schema__: ClassVar = ResponseHeader
    error_code: ErrorCode = field(metadata=_wire("error_code"))
    transactional_id: TransactionalId = field(metadata=_wire("string"))
    transaction_state: str = field(metadata=_wire("string"))
    transaction_timeout: i32Timedelta = field(metadata=_wire("timedelta_i32"))
    transaction_start_time: TZAware | None = field(metadata=_wire("datetime_i64"))
    producer_id: ProducerId = field(metadata=_wire("int64"))
    producer_epoch: i16 = field(metadata=_wire("int16"))
    topics: tuple[TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """The transactional ids that were asked for."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(DESCRIBE_TRANSACTIONS)
    __header_schema__: ClassVar = ResponseHeader
    throttle_time: i32Timedelta = field(metadata=_wire("timedelta_i32"))
    transaction_states: tuple[TransactionState, ...]
