"""Requests are found in the bytes of a connection, however these are cut, and one is held."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema

from harness.targets.request_stream import NAME_FIRST, RequestStream, RequestWatch, read_request
from nemesis.requests import APIS, RequestFilter
from tests.support.targets.requests import END_TXN, add_partitions, end_txn, request

NAME_FIELDS = ("transactional_id", "group_id", "v3_and_below_transactional_id")
ARRAYS = {"transactions": "transactional_id", "groups": "group_id"}


def versions(api: str) -> list[tuple[int, str]]:
    """The versions of an API that kio knows, with the first field of each."""
    found = []
    for version in range(32):
        try:
            schema = load_request_schema(APIS[api], version)
        except Exception:
            continue
        names = [field.name for field in dataclasses.fields(schema)]
        found.append((version, names[0] if names else ""))
    return found


@pytest.mark.parametrize("api", APIS)
def test_each_version_of_an_api_is_read_with_its_name(api: str) -> None:
    """The table of flexible versions and of names agrees with the schemas."""
    for version, first in versions(api):
        values: dict[str, object] = {}
        if first in NAME_FIELDS:
            values = {first: "some-name"}
        elif first in ARRAYS:
            values = {first: [{ARRAYS[first]: "some-name"}]}
        data = request(api, version, 77, "client-1", **values)
        found = read_request(data)
        assert found is not None
        assert found[:5] == (len(data), APIS[api], version, 77, "client-1")
        wanted = "some-name" if values and APIS[api] in NAME_FIRST else ""
        assert found.name == wanted, (api, version)


def test_every_api_with_a_name_at_its_beginning_is_in_the_table() -> None:
    """No API that can be held is forgotten."""
    fields = {*NAME_FIELDS, *ARRAYS}
    named = {APIS[api] for api in APIS for _, first in versions(api) if first in fields}
    assert named == set(NAME_FIRST)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60))
def test_requests_are_found_however_the_bytes_are_cut(sizes: list[int]) -> None:
    """Also a header that arrives in several parts, and several requests in one part."""
    names = [f"tx-{number}" for number in range(5)]
    sent = b"".join(end_txn(name, number) for number, name in enumerate(names))
    stream, found, at = RequestStream(), [], 0
    for size in sizes:
        found += stream.feed(sent[at : at + size])
        at += size
    found += stream.feed(sent[at:])
    assert [each.name for each in found] == names
    assert [each.correlation_id for each in found] == list(range(5))


def test_a_stream_joined_in_the_middle_is_read_from_the_next_request_on() -> None:
    """What cannot be a request is skipped to the next segment."""
    stream = RequestStream()
    assert stream.feed(b"\xff" * 100) == []
    assert [each.name for each in stream.feed(end_txn("tx"))] == ["tx"]


def test_the_first_matching_request_is_held_and_later_ones_are_not() -> None:
    """A watch holds one request, also after it was let go, and notes what it was told to."""
    watch = RequestWatch(9092)
    watch.hold = RequestFilter(END_TXN, name="tx")
    watch.note = RequestFilter(APIS["AddPartitionsToTxn"])
    stream = RequestStream()

    def arrives(data: bytes, connection: str, now_s: float) -> bool:
        (found,) = stream.feed(data)
        return watch.holds(connection, found, now_s)

    assert not arrives(end_txn("other"), "a:1", 1.0)
    assert arrives(end_txn("tx", 8), "a:1", 2.0)
    assert not arrives(end_txn("tx", 9), "a:2", 3.0)
    assert not arrives(add_partitions("tx", 10), "a:2", 4.0)
    seen = watch.report(5.0)
    assert seen.held is not None
    assert (seen.held.correlation_id, seen.held.connection, seen.held.age_ms) == (8, "a:1", 3000)
    assert [(each.correlation_id, each.age_ms) for each in seen.noted] == [(10, 1000)]
    assert seen.held_ms is None
    watch.let_go(6.0)
    assert watch.report(7.0).held_ms == 4000
    assert watch.connection is None
    assert not arrives(end_txn("tx", 11), "a:3", 8.0)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (RequestFilter(END_TXN), True),
        (RequestFilter(END_TXN, client_id="c", name="tx"), True),
        (RequestFilter(END_TXN, client_id="d"), False),
        (RequestFilter(END_TXN, name="t"), False),
        (RequestFilter(APIS["Produce"]), False),
    ],
)
def test_a_filter_names_api_client_and_id(wanted: RequestFilter, matches: bool) -> None:
    """An empty text matches any."""
    assert wanted.matches(END_TXN, "c", "tx") is matches
