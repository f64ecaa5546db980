"""A client of the aiokafka program: a task that does its commands in order."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import (
    BrokerResponseError,
    InvalidProducerEpoch,
    KafkaError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    UnknownMemberIdError,
    UnknownProducerId,
)

from harness.workloads.clients.access import Access
from harness.workloads.clients.aiokafka import COMMON, STOP_S

Command = Mapping[str, Any]
Deed = Callable[[Command], Awaitable[Mapping[str, Any] | None]]
UNANSWERED: Final = ("send", "resume")
CLOSES: Final = (
    InvalidProducerEpoch,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    UnknownProducerId,
)
"""Errors after which a client can only be closed."""


class Late(Exception):
    """A call has not ended in time, and goes on. The same command waits for it again."""


def write(line: Mapping[str, Any]) -> None:
    """Write a message."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def failure(error: BaseException) -> dict[str, Any]:
    """Return an error as the protocol has it."""
    code = error.errno if isinstance(error, BrokerResponseError) and error.errno > 0 else None
    then = "retry"
    if isinstance(error, CLOSES) or not isinstance(error, KafkaError | TimeoutError | Late):
        then = "close"
    elif not (isinstance(error, TimeoutError | Late) or error.retriable):
        then = "abort"
    found: dict[str, Any] = {"name": type(error).__name__, "code": code, "then": then}
    if isinstance(error, OffsetOutOfRangeError):
        topic = next(iter(error.args[0])).topic  # the others are in the next error
        places = [place.partition for place in error.args[0] if place.topic == topic]
        found |= {"then": "retry", "partitions": places, "topic": topic}
    if isinstance(error, UnknownMemberIdError):
        found["then"] = "close"
    return found


async def stopped(stopping: Coroutine[Any, Any, None]) -> None:
    """Let a part of the library end, but not longer than STOP_S."""
    task = asyncio.ensure_future(stopping)
    done, _ = await asyncio.wait([task], timeout=STOP_S)
    if not done:
        task.cancel()
    elif not task.cancelled():
        task.exception()  # a broker that does not answer is no mistake


def settings(command: Command) -> dict[str, Any]:
    """Return aiokafka's settings of an `open-producer` or `open-consumer`."""
    return {
        **Access(command["properties"]).python(),
        **COMMON,
        "bootstrap_servers": command["bootstrap"],
    }


def places(command: Command, name: str) -> dict[TopicPartition, int]:
    """Return the {partition: offset} of a command."""
    return {TopicPartition(command["topic"], int(p)): n for p, n in command[name].items()}


class Client:
    """See the module."""

    def __init__(self, number: int) -> None:
        self.commands: asyncio.Queue[Command] = asyncio.Queue()
        self.closed = False
        self.call_s = 0.0
        """How long one call of the library may block."""
        self._number = number
        self._going_on: dict[str, asyncio.Task[Any]] = {}

    async def run(self) -> None:
        """Do commands until the client is closed."""
        while not self.closed:
            await self.act(await self.commands.get())

    async def act(self, command: Command) -> None:
        """Do a command, and answer it."""
        do = command["do"]
        deed: Deed = getattr(self, do.replace("-", "_"))
        answer: dict[str, Any] = {"id": command["id"]}
        try:
            answer |= await deed(command) or {}
        except (Exception, asyncio.CancelledError) as error:
            # Whatever the library raises is an answer. It also cancels what it waits for itself.
            answer["error"] = failure(error)
        if do not in UNANSWERED:
            write(answer)

    def tell(self, event: str, **values: Any) -> None:
        """Write an event of this client."""
        write({"client": self._number, "event": event, **values})

    async def once(self, name: str, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Make a call, or wait for the same one that was late. Raises Late, and what it raises."""
        task = self._going_on.pop(name, None) or asyncio.ensure_future(call())
        done, _ = await asyncio.wait([task], timeout=self.call_s)
        if not done:
            self._going_on[name] = task
            raise Late
        return task.result()

    def give_up(self) -> None:
        """Cancel the calls that are late."""
        for task in self._going_on.values():
            task.cancel()
        self._going_on.clear()
