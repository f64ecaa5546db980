"""Requests of Kafka's protocol as bytes, and a server that keeps what it receives."""

from typing import Any

from nemesis.requests import APIS
from nodes.wire.codec import encode_request
from nodes.wire.schemas import request_schema
from nodes.wire.versions import Draft

END_TXN = APIS["EndTxn"]
ADD_PARTITIONS = APIS["AddPartitionsToTxn"]


def request(
    api: str, version: int, correlation_id: int = 1, client_id: str = "c", **values: Any
) -> bytes:
    """A request with the values of these fields."""
    schema = request_schema(APIS[api], version)
    return encode_request(Draft(schema, values), correlation_id, client_id)


def end_txn(transactional_id: str, correlation_id: int = 1, client_id: str = "c") -> bytes:
    """The end of a transaction."""
    fields = {"transactional_id": transactional_id}
    return request("EndTxn", 4, correlation_id, client_id, **fields)


def add_partitions(transactional_id: str, correlation_id: int = 1) -> bytes:
    """The first request of a transaction."""
    fields = {"v3_and_below_transactional_id": transactional_id}
    return request("AddPartitionsToTxn", 3, correlation_id, **fields)
