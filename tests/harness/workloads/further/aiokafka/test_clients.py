"""Clients of the aiokafka program: what they answer, and when rebalances happen."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    NotCoordinatorForGroupError,
    OffsetOutOfRangeError,
    ProducerFenced,
)

from harness.workloads.further.aiokafka.client import Client, Late, failure

PLACE = TopicPartition("t", 0)
PATIENCE_S = 60


class Echo(Client):
    """A client with a command that never ends, and one that is cancelled from inside."""

    calls = 0

    async def hang(self, command: Mapping[str, Any]) -> None:
        await self.once("hang", self._hang)

    async def _hang(self) -> None:
        self.calls += 1
        await asyncio.Event().wait()

    async def cancelled(self, command: Mapping[str, Any]) -> None:
        raise asyncio.CancelledError

    async def close(self, command: Mapping[str, Any]) -> None:
        self.give_up()
        self.closed = True


def answers(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines that were written."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("error", "code", "then"),
    [
        (NotCoordinatorForGroupError(), 16, "retry"),
        (KafkaTimeoutError(), None, "abort"),
        (Late(), None, "retry"),
        (TimeoutError(), None, "retry"),
        (ProducerFenced(), None, "close"),
        (IllegalStateError(), None, "abort"),
        (ValueError("no such thing"), None, "close"),
        (asyncio.CancelledError(), None, "close"),
    ],
)
def test_errors_say_what_is_possible_next(
    error: BaseException, code: int | None, then: str
) -> None:
    """None is definite: aiokafka repeats requests by itself."""
    found = failure(error)
    assert (found["name"], found["then"]) == (type(error).__name__, then)
    assert found["code"] == code
    assert "definite" not in found


def test_position_out_of_range_names_its_partitions() -> None:
    """highwater then asks for the bounds."""
    found = failure(OffsetOutOfRangeError({PLACE: 5}))
    assert (found["code"], found["partitions"], found["then"]) == (1, [0], "retry")


def test_late_call_goes_on_and_is_not_made_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """aiokafka cannot commit a transaction twice. A cancelled call is an answer, too."""

    async def run() -> Echo:
        client = Echo(1)
        for number, do in enumerate(("hang", "hang", "cancelled", "close")):
            client.commands.put_nowait({"id": number, "do": do})
        await asyncio.wait_for(client.run(), PATIENCE_S)
        return client

    assert asyncio.run(run()).calls == 1
    errors = [answer.get("error", {}).get("name") for answer in answers(capsys)]
    assert errors == ["Late", "Late", "CancelledError", None]
