"""The sample of a client program, with a library whose call never returns."""

import base64
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clients import sample_program
from tests.support.clients.sample_program import ProducerClient

SEND_OFFSETS = {
    "id": 7,
    "do": "send-offsets",
    "topic": "t",
    "offsets": {"0": 5},
    "metadata": base64.b64encode(b"m").decode(),
}


def answer_with(call: Any, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the program answers if the library does this."""
    client = ProducerClient(1)
    stub: Any = SimpleNamespace(send_offsets_to_transaction=call)
    client.producer, client.call_s = stub, 2.0
    client.act(SEND_OFFSETS)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_call_that_hangs_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As send_offsets_to_transaction of librdkafka may. Highwater closes the producer then."""
    monkeypatch.setattr(sample_program, "HANGS_S", 0.05)
    released = threading.Event()
    found = answer_with(lambda *arguments: released.wait(), capsys)
    released.set()
    assert found == {"id": 7, "error": {"name": "HANGS", "then": "close"}}


def test_call_that_returns_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    """With what the library was given."""
    given: list[Any] = []
    assert answer_with(lambda *arguments: given.append(arguments), capsys) == {"id": 7}
    [(offsets, member, timeout_s)] = given
    assert [(each.topic, each.partition, each.offset) for each in offsets] == [("t", 0, 5)]
    assert (member, timeout_s) == (b"m", 2.0)
