"""A consumer of the aiokafka program: a member of a group, or with assigned partitions.

aiokafka rebalances whenever it wants. Here rebalances wait for a poll: then highwater listens, and
the member does the commands that it sends before it gives partitions up.
"""

import asyncio
import base64
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError

from harness.workloads.further.aiokafka.client import (
    Client,
    Command,
    places,
    settings,
    stopped,
)

FETCH_WAIT_MS: Final = 100


class ConsumerClient(Client, ConsumerRebalanceListener):  # type: ignore[misc]
    """See the module."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._consumer: Any = None
        self._records = 0
        self._turn = asyncio.Lock()
        """Held by who takes commands: `run`, or a rebalance during a poll."""
        self._assignments = 0
        self._several = False
        """Whether the consumer has several topics."""

    async def run(self) -> None:
        """See `Client`."""
        async with self._turn:
            await super().run()

    async def open_consumer(self, command: Command) -> None:
        """Make the consumer, and connect it."""
        self.call_s = command["call_timeout_ms"] / 1000
        self._records = command["max_records"]
        config = {
            **settings(command),
            "enable_auto_commit": False,
            "auto_offset_reset": "none",  # so that a reset is an error, which is recorded
            "isolation_level": command["isolation_level"],
            "fetch_max_wait_ms": FETCH_WAIT_MS,
        }
        if command.get("group"):
            config |= {
                "group_id": command["group"],
                "group_instance_id": command["instance_id"],
                "session_timeout_ms": command["session_timeout_ms"],
                "heartbeat_interval_ms": command["heartbeat_interval_ms"],
                "max_poll_interval_ms": command["max_poll_interval_ms"],
                "rebalance_timeout_ms": command["session_timeout_ms"],
            }
        await self.once("start", lambda: self._start(config))

    async def _start(self, config: dict[str, Any]) -> None:
        consumer = AIOKafkaConsumer(**config)
        try:
            await consumer.start()
        except BaseException:
            with suppress(KafkaError):
                await consumer.stop()
            raise
        self._consumer = consumer

    async def assign(self, command: Command) -> None:
        """Read these partitions from these offsets on."""
        positions = places(command, "positions")
        self._consumer.assign(list(positions))
        for place, offset in positions.items():
            self._consumer.seek(place, offset)

    async def subscribe(self, command: Command) -> None:
        """Join the group."""
        topics = command.get("topics") or [command["topic"]]
        self._several = len(topics) > 1
        self._consumer.subscribe(topics, listener=self)

    async def poll(self, command: Command) -> dict[str, Any]:
        """Return records; rebalances happen in this call."""
        self._turn.release()
        try:
            found = await self._consumer.getmany(
                timeout_ms=command["timeout_ms"],
                max_records=command.get("max_records", self._records),
            )
            assignments = self._assignments
        finally:
            await self._turn.acquire()
        if assignments != self._assignments:
            found = {}  # these are from before the positions of the new assignment
        return {
            "records": [
                [each.partition, each.offset, None, _encoded(each.value), *self._named(each)]
                for batch in found.values()
                for each in batch
            ]
        }

    def _named(self, record: Any) -> list[str]:
        """Return the topic of a record, if the consumer has several."""
        return [record.topic] if self._several else []

    async def commit(self, command: Command) -> None:
        """Commit offsets."""
        async with asyncio.timeout(self.call_s):
            await self._consumer.commit(places(command, "offsets"))

    async def committed(self, command: Command) -> dict[str, Any]:
        """Return the committed offsets."""
        wanted = [TopicPartition(command["topic"], each) for each in command["partitions"]]
        found = await self._committed(wanted)
        return {"offsets": {place.partition: offset for place, offset in found.items()}}

    async def _committed(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, Any]:
        async with asyncio.timeout(self.call_s):
            return {place: await self._consumer.committed(place) for place in wanted}

    async def seek(self, command: Command) -> None:
        """Go on from these offsets."""
        for place, offset in places(command, "positions").items():
            self._consumer.seek(place, offset)

    async def offsets(self, command: Command) -> dict[str, Any]:
        """Return the first offset, and the one behind the last."""
        place = TopicPartition(command["topic"], command["partition"])
        async with asyncio.timeout(self.call_s):
            low = await self._consumer.beginning_offsets([place])
            high = await self._consumer.end_offsets([place])
        return {"beginning": low[place], "end": high[place]}

    async def group_metadata(self, command: Command) -> dict[str, Any]:
        """Return the member's generation. aiokafka sends offsets in nobody's name."""
        return {"generation": self._generation, "metadata": None}

    @property
    def _generation(self) -> int:
        return int(self._consumer._coordinator.generation)

    async def close(self, command: Command) -> None:
        """Leave the group, or vanish: aiokafka always leaves, unless it is kept from it."""
        self.closed = True
        self.give_up()
        if self._consumer is None:
            return
        if not command.get("leave", True):
            self._consumer._coordinator._maybe_leave_group = _nothing
        # A rebalance that waits for its turn would wait for ever, and `stop` for the rebalance.
        self._turn.release()
        try:
            await stopped(self._consumer.stop())
        finally:
            await self._turn.acquire()

    # -- rebalances

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Let highwater commit before partitions are given up."""
        if not revoked:
            return
        async with self._turn:
            if self.closed:
                return
            for topic, partitions in _by_topic(dict.fromkeys(revoked)).items():
                self._tell_of(topic, "revoked", partitions=[*partitions])
                while (command := await self.commands.get())["do"] != "resume":
                    await self.act(command)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Go on from the committed offsets, or from the beginning."""
        async with self._turn:
            if self.closed:
                return
            positions: dict[TopicPartition, int | None] = dict.fromkeys(assigned)
            try:
                found = await self._committed(assigned)
            except (KafkaError, TimeoutError) as error:
                self.tell("error", error=type(error).__name__)
            else:
                for place, offset in found.items():
                    self._consumer.seek(place, offset or 0)
                    positions[place] = offset or 0
            self._assignments += 1
            if not positions:
                self.tell("assigned", positions={}, generation=self._generation)
            for topic, each in _by_topic(positions).items():
                self._tell_of(topic, "assigned", positions=each, generation=self._generation)

    def _tell_of(self, topic: str, event: str, **values: Any) -> None:
        """Write an event about partitions of a topic."""
        self.tell(event, **({"topic": topic} if self._several else {}), **values)


def _by_topic(places: Mapping[TopicPartition, int | None]) -> dict[str, dict[int, int | None]]:
    found: dict[str, dict[int, int | None]] = {}
    for (topic, partition), offset in places.items():
        found.setdefault(topic, {})[partition] = offset
    return found


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


async def _nothing() -> None:
    """Stay in the group."""
