"""Payloads for tested programs: JSON with an id, which is found again in whatever they write."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.detectors import outputs
from harness.workloads.clients.payload import CHECKSUM, FOREIGN, value_of
from harness.workloads.clients.text_payload import (
    KEYS_OF_PARTITION,
    MIN_BYTES,
    Found,
    Ids,
    TextPayload,
    is_text,
    key_of,
)

IDS = Ids("run")
NUMBERS = st.integers(0, (1 << 31) - 1)


@given(NUMBERS, NUMBERS, st.integers(MIN_BYTES, 500))
def test_payload_is_json_of_the_wanted_size(client: int, sequence: int, size: int) -> None:
    """Programs read it with any library; the harness reads it as its own."""
    codec = TextPayload("run", size)
    payload = codec.encode(client, sequence)
    value = value_of(client, sequence)
    found = json.loads(payload)
    assert len(payload) == size
    assert is_text(payload)
    assert found["id"] == IDS.id_of(value)
    assert found["number"] == value
    assert codec.peek(payload) == value
    assert codec.decode(payload) == (value, None)


def test_damaged_and_foreign_payloads_are_told_apart() -> None:
    """A changed byte behind the id is found, too."""
    codec = TextPayload("run", 200)
    payload = codec.encode(1001, 5)
    assert codec.decode(payload[:-3] + b'y"}') == (None, CHECKSUM)
    assert codec.decode(payload.replace(b"-1001-", b"-1002-")) == (None, CHECKSUM)
    assert codec.decode(TextPayload("other", 200).encode(1001, 5)) == (None, FOREIGN)
    assert codec.decode(b'{"id": 3}') == (None, FOREIGN)
    assert codec.decode(None) == (None, FOREIGN)


def test_size_has_a_least_value() -> None:
    """An id and a number must fit."""
    with pytest.raises(ValueError, match="at least 128 bytes"):
        TextPayload("run", MIN_BYTES - 1)


@given(NUMBERS, NUMBERS, st.text(max_size=30), st.text(max_size=30))
def test_id_is_found_in_any_text(client: int, sequence: int, before: str, behind: str) -> None:
    """Unless the text behind it goes on as the id does."""
    value = value_of(client, sequence)
    found = IDS.find(f"{before} {IDS.id_of(value)} {behind}")
    assert found == (Found.ID, value)


@given(st.integers(1, 60))
def test_part_of_an_id_is_torn(size: int) -> None:
    """However much of it is there: never another id."""
    whole = IDS.id_of(value_of(1001, 1645))
    part = whole[: min(size, len(whole) - 1)]
    wanted = Found.TORN if part.startswith(IDS.prefix) else {Found.NONE, Found.OTHER_RUN}
    found = IDS.find(f"bill {part}")
    assert found.value is None
    assert found.found is wanted or found.found in wanted


def test_ids_of_other_runs_do_not_count() -> None:
    """An output may have them from earlier."""
    other = Ids("other").id_of(7)
    assert IDS.find(other).found is Found.OTHER_RUN
    assert IDS.find(f"{other} {IDS.id_of(9)}") == (Found.ID, 9)
    assert IDS.find("nothing").found is Found.NONE


def test_keys_are_those_that_the_detector_expects() -> None:
    """The checkers know nothing of the harness."""
    assert KEYS_OF_PARTITION == outputs.KEYS_OF_PARTITION
    keys = [key_of(value_of(1001, sequence), 2) for sequence in range(17)]
    assert keys[0] == keys[8] == keys[16] == "p2.0"
    assert len(set(keys)) == KEYS_OF_PARTITION
