"""A producer of the aiokafka program, maybe with a transactional id.

aiokafka cannot repeat the call that ends a transaction. A call that is late goes on, and the same
command waits for it again.
"""

import asyncio
import base64
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from harness.workloads.further.aiokafka.client import (
    Client,
    Command,
    failure,
    places,
    settings,
    stopped,
)


class ProducerClient(Client):
    """See the module."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._settings: Mapping[str, Any] = {}
        self._producer: Any = None
        self._acked: list[Any] = []
        self._failed: list[Any] = []

    async def open_producer(self, command: Command) -> None:
        """Make the producer. One with a transactional id connects when it takes the id over."""
        self.call_s = command["call_timeout_ms"] / 1000
        self._settings = {
            **settings(command),
            "acks": command["acks"],
            "enable_idempotence": command["idempotence"],
            "linger_ms": command["linger_ms"],
            "request_timeout_ms": command["request_timeout_ms"],
        }
        if command.get("transactional_id") is None:
            await self.once("start", self._start)
            return
        self._settings |= {
            "transactional_id": command["transactional_id"],
            "transaction_timeout_ms": command["transaction_timeout_ms"],
        }

    async def _start(self) -> None:
        producer = AIOKafkaProducer(**self._settings)
        try:
            await producer.start()
        except BaseException:
            with suppress(KafkaError):
                await producer.client.close()
            raise
        self._producer = producer

    async def send(self, command: Command) -> None:
        """Write the records of a batch; outcomes are written soon."""
        for number, partition, payload in command["records"]:
            value = base64.b64decode(payload)
            try:
                sending = await self._producer.send(command["topic"], value, partition=partition)
            except Exception as error:  # `send` queues the record as its last step
                self._failed.append((number, {**failure(error), "definite": True}))
                self._report_soon()
            else:
                sending.add_done_callback(partial(self._delivered, number))

    def _delivered(self, number: int, sending: "asyncio.Future[Any]") -> None:
        if sending.cancelled() or self.closed:
            return
        if (error := sending.exception()) is None:
            metadata = sending.result()  # None for acks=0
            self._acked.append((number, None if metadata is None else metadata.offset))
        else:
            self._failed.append((number, failure(error)))
        self._report_soon()

    def _report_soon(self) -> None:
        if len(self._acked) + len(self._failed) == 1:
            asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        if not self.closed:
            self.tell("sent", acked=self._acked, failed=self._failed)
        self._acked, self._failed = [], []

    async def flush(self, command: Command) -> None:
        """Wait for the outcomes of all sends, but not longer than a call may take."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.call_s):
                await self._producer.flush()
        await asyncio.sleep(0)  # for the outcomes

    async def init_transactions(self, command: Command) -> None:
        """Take over the transactional id."""
        await self.once("init", self._take_over)

    async def _take_over(self) -> None:
        if self._producer is None:
            await self._start()
        await self._producer._txn_manager.wait_for_pid()

    async def begin_transaction(self, command: Command) -> None:
        """Begin a transaction."""
        await self.once("begin", self._producer.begin_transaction)

    async def send_offsets(self, command: Command) -> None:
        """Add offsets to the transaction, in nobody's name."""
        send = self._producer.send_offsets_to_transaction
        await self.once("offsets", lambda: send(places(command, "offsets"), command["group"]))

    async def commit_transaction(self, command: Command) -> None:
        """Commit."""
        await self.once("commit", self._producer.commit_transaction)

    async def abort_transaction(self, command: Command) -> None:
        """Abort."""
        await self.once("abort", self._producer.abort_transaction)

    async def close(self, command: Command) -> None:
        """Send nothing any more. A transaction that is open stays open."""
        self._report()
        self.closed = True
        self.give_up()
        if self._producer is None:
            return
        await stopped(self._producer._sender.close())
        await stopped(self._producer.client.close())
