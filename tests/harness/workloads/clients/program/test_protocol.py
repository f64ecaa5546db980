"""The lines of client programs: what they mean, and what is refused."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.workloads.clients.program.protocol import (
    Answer,
    Assigned,
    Failure,
    Introduction,
    Lost,
    Noted,
    ProtocolError,
    Revoked,
    Sent,
    decode,
    encode,
    encode_records,
    introduction_of,
    number_in,
    offsets_of,
    records_of,
)
from harness.workloads.clients.reads import Read

HELLO = {"id": 1, "protocol": 1, "name": "n", "version": "v", "kinds": ["produce"]}


def line(values: Any) -> bytes:
    """A line of the program."""
    return json.dumps(values).encode() + b"\n"


def test_a_command_is_one_line_with_its_number_its_client_and_its_values() -> None:
    """`hello` is for no client."""
    text = encode(3, 1001, "commit", {"offsets": {0: 5}})
    assert text.endswith(b"\n")
    assert json.loads(text) == {"id": 3, "client": 1001, "do": "commit", "offsets": {"0": 5}}
    assert "client" not in json.loads(encode(1, None, "hello", {}))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"id": 3}, Answer(id=3)),
        ({"id": 3, "x": [1]}, Answer(id=3, values={"x": [1]})),
        ({"id": 3, "error": {"name": "E"}}, Answer(id=3, failure=Failure(name="E"))),
        (
            {"id": 3, "error": {"name": "E", "code": 6, "definite": True, "then": "retry",
             "partitions": [2]}},
            Answer(id=3, failure=Failure(name="E", code=6, definite=True, then="retry",
                                         partitions=(2,))),
        ),
        (
            {"client": 1, "event": "sent", "acked": [[7, 5], [8, None]],
             "failed": [[9, {"name": "E"}]]},
            Sent(client=1, acked=[(7, 5), (8, None)], failed=[(9, Failure(name="E"))]),
        ),
        (
            {"client": 1, "event": "assigned", "positions": {"0": 5, "1": None}, "generation": 2},
            Assigned(client=1, positions={0: 5, 1: None}, generation=2),
        ),
        ({"client": 1, "event": "revoked", "partitions": [0]}, Revoked(client=1, partitions=[0])),
        ({"client": 1, "event": "lost", "partitions": []}, Lost(client=1, partitions=[])),
        ({"client": 1, "event": "error", "error": "E"}, Noted(client=1, error="E")),
    ],
)  # fmt: skip
def test_every_message_is_read(written: Any, meant: Any) -> None:
    """An answer has an id, an event has a client."""
    assert decode(line(written)) == meant


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b"Started!\n", "it is not JSON: Started! (what is no message belongs on the standard"),
        (b"\xff\n", "it is not JSON"),
        (line([1]), "it is not an object"),
        (line({"x": 1}), "id is missing"),
        (line({"id": "1"}), 'the protocol does not have: "1" is not a whole number'),
        (line({"id": True}), "true is not a whole number"),
        (line({"id": 1, "error": {}}), "name is missing"),
        (line({"id": 1, "error": {"name": "E", "then": "x"}}), "`then` is one of retry, abort, cl"),
        (line({"event": "sent"}), "client is missing"),
        (line({"event": "bye", "client": 1}), "there is no event 'bye'"),
        (line({"event": "sent", "client": 1, "acked": [[1]]}), "not enough values"),
        (line({"event": "assigned", "client": 1, "positions": [1], "generation": 1}), "items"),
        (b"x" * 500, f"{'x' * 200}..."),
    ],
)
def test_what_is_no_message_is_shown_with_the_reason(written: bytes, said: str) -> None:
    """The user has to find the mistake in a program that is not ours."""
    with pytest.raises(ProtocolError) as refused:
        decode(written)
    assert said in str(refused.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
NAMES = ("client", "event", "id", "error", "acked", "failed", "positions", "partitions")


@given(st.dictionaries(st.sampled_from(NAMES), JSON | st.sampled_from(["sent", "assigned"])))
def test_no_line_raises_another_error(written: dict[str, Any]) -> None:
    """Whatever a program writes, the reader goes on or says why not."""
    with contextlib.suppress(ProtocolError):
        decode(line(written))


def test_introduction_names_the_library_and_what_it_can_do() -> None:
    """Group protocols need not be named: the classic one is meant."""
    found = introduction_of(Answer(id=1, values=HELLO))
    assert found == Introduction(name="n", version="v", kinds=("produce",))
    assert found.group_protocols == ("classic",)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"protocol": 4}, "speaks protocol 4, and this highwater speaks 1 to 3"),
        ({"protocol": True}, "speaks protocol True"),
        ({"kinds": ["compacted"]}, "can do compacted, and speaks protocol 1, which has no keys"),
        ({"protocol": None}, "speaks protocol None"),
        ({"kinds": ...}, "answer to `hello` has no kinds"),
    ],
)
def test_program_of_another_protocol_is_refused(changed: dict[str, Any], said: str) -> None:
    """The error says which one is needed."""
    values = {n: v for n, v in {**HELLO, **changed}.items() if v is not ...}
    with pytest.raises(ProtocolError, match=said):
        introduction_of(Answer(id=1, values=values))
    with pytest.raises(ProtocolError, match="refused `hello`: E"):
        introduction_of(Answer(id=1, failure=Failure(name="E")))


def test_payloads_are_base64_both_ways() -> None:
    """A record without a payload, or of an unknown leader epoch, is read, too. Of a client with
    several topics, it names its own."""
    [(number, partition, load)] = encode_records([(7, 1, b"\x00\xff", None)])
    assert (number, partition) == (7, 1)
    answer = Answer(id=1, values={"records": [[1, 5, 2, load], [0, 6, None, None, "t"]]})
    assert records_of(answer) == [
        (None, Read(1, 5, 2, b"\x00\xff")),
        ("t", Read(0, 6, None, None)),
    ]
    for wrong in ([[0, 1, 2]], [[0, 1, 2, "*"]], [["0", 1, 2, None]], [1]):
        with pytest.raises(ProtocolError, match="a record is"):
            records_of(Answer(id=1, values={"records": wrong}))


def test_values_of_answers_are_checked() -> None:
    """An offset that is null was never committed."""
    assert offsets_of(Answer(id=1, values={"offsets": {"0": 3, "1": None}})) == {0: 3, 1: None}
    assert number_in(Answer(id=1, values={"end": 3}), "end") == 3
    with pytest.raises(ProtocolError, match="`offsets` has an offset or null by partition"):
        offsets_of(Answer(id=1, values={"offsets": [3]}))
    with pytest.raises(ProtocolError, match="no number end"):
        number_in(Answer(id=1), "end")
