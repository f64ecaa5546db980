"""The generated encoders write what kio's writer writes, and kio's reader reads it back."""

import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from nodes.wire.codec import encode_response, response_pieces
from nodes.wire.encoders import encoded, pieces
from nodes.wire.versions import Draft, fill, response_class
from tests.support.nodes.messages import MESSAGES, of_nulls, schema, values


def written_by_kio(entity: Any) -> bytes:
    """The reference."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def agree(cls: Any, given_values: dict[str, Any]) -> None:
    entity = fill(cls, **given_values)
    expected = written_by_kio(entity)
    assert encoded(entity) == expected
    assert encoded(Draft(cls, given_values)) == expected
    read, size = entity_reader(cls)(expected, 0)
    assert (read, size) == (entity, len(expected))


@pytest.mark.parametrize("kind", [EntityType.request, EntityType.response])
def test_messages_of_defaults_and_of_nulls_are_encoded_as_kio_does(kind: EntityType) -> None:
    """Every version of every message, with defaults, and with null where it is allowed."""
    for api_key, version, of_kind in MESSAGES:
        if of_kind is kind:
            cls = schema(api_key, version, kind)
            agree(cls, {})
            agree(cls, of_nulls(cls))


@settings(max_examples=200, suppress_health_check=list(HealthCheck))
@given(st.data(), st.sampled_from(MESSAGES))
def test_any_message_is_encoded_as_kio_does(
    data: st.DataObject, message: tuple[int, int, EntityType]
) -> None:
    """From an entity and from values, tagged fields included."""
    cls = schema(*message)
    agree(cls, data.draw(values(cls)))


def test_records_are_not_copied() -> None:
    """A large field is the same object in the pieces, between two small buffers."""
    records = memoryview(bytes(1 << 20))
    row = {"partition_index": 0, "records": records, "high_watermark": 7}
    answer = Draft(response_class(1, 12), {"responses": [{"topic": "t", "partitions": [row]}]})
    parts = response_pieces(answer, 5)
    assert [part is records for part in parts] == [False, True, False]
    assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4
    assert b"".join(parts) == encode_response(answer, 5)


def test_values_that_do_not_fit_are_refused() -> None:
    """A number out of range raises, and is never encoded as another number."""
    cls = response_class(3, 12)
    with pytest.raises(Exception, match=r"format requires|argument out of range"):
        pieces(Draft(cls, {"controller_id": 2**31}))
