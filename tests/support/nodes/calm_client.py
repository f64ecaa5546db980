"""A client that behaves, and checks every answer: beside it others send malice to the same node.

It writes records and reads them back, is a member of a group of the classic protocol, commits
offsets as this member, in a transaction or without one, and reads them back. All over one
connection, which must stay.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from nodes.log.batch import Record, encode_batch
from nodes.wire.client import Channel
from nodes.wire.errors import ChannelError
from nodes.wire.versions import fill

PATIENCE_S: Final = 60.0
TOPIC: Final = "calm"
GROUP: Final = {"group_id": "calm-group"}
TRANSACTIONAL_ID: Final = {"transactional_id": "calm-transaction"}
LEAST_PRODUCER_ID: Final = 50
"""Others write markers for smaller producer ids, as a broker may."""
METADATA_LOG: Final = "__cluster_metadata"
LATER: Final = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
        ErrorCode.unknown_topic_or_partition,
    }
)
"""The same request is right a moment later."""


class Broken(Exception):
    """The node did what it must not; the message says what."""


class Calm:
    """See the module."""

    def __init__(self, port: int) -> None:
        self._channel = Channel("127.0.0.1", port, client_id="calm", request_timeout_s=PATIENCE_S)
        self._member: dict[str, Any] = {}
        self._producer: dict[str, Any] = {}

    async def ask(self, api_key: int, version: int, **values: Any) -> Any:
        return await self._channel.request(fill(load_request_schema(api_key, version), **values))

    async def prepare(self) -> None:
        """Wait for the node; make the topic."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                with contextlib.suppress(ChannelError):
                    topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
                    limit = timedelta(seconds=10)
                    answer = await self.ask(19, 7, topics=[topic], timeout=limit)
                    if answer.topics[0].error_code in (0, ErrorCode.topic_already_exists):
                        break
                await asyncio.sleep(0.1)

    async def join(self) -> None:
        """Become a member of the group, and a transactional producer. Raises Broken."""
        protocol = {"name": "range", "metadata": b""}
        limit = timedelta(minutes=10)
        joining = {
            **GROUP,
            "session_timeout": limit,
            "rebalance_timeout": limit,
            "protocol_type": "consumer",
            "protocols": [protocol],
        }
        await self._sound(10, 3, key_type=0, key=GROUP["group_id"])
        await self._sound(10, 3, key_type=1, key=TRANSACTIONAL_ID["transactional_id"])
        joined = await self._sound(11, 3, **joining)
        self._member = {**GROUP, "member_id": joined.member_id, "generation_id": 1}
        assignment = {"member_id": joined.member_id, "assignment": b"all"}
        await self._sound(14, 2, **self._member, assignments=[assignment])
        producer_id = -1
        while producer_id < LEAST_PRODUCER_ID:
            producer_id = (await self._sound(22, 3)).producer_id
        timeout = timedelta(seconds=60)
        made = await self._sound(22, 3, **TRANSACTIONAL_ID, transaction_timeout=timeout)
        stamp = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        self._producer = {**TRANSACTIONAL_ID, **stamp}

    async def round(self, number: int) -> None:
        """Write, read back, commit, look around. Raises Broken, ChannelError."""
        await self._write_and_read(number)
        answer = await self.ask(3, 12, topics=[{"name": TOPIC}])
        if answer.topics[0].partitions[0].leader_id < 0:
            raise Broken("the calm client's topic has no leader")
        if self._member:
            await self._sound(12, 2, **self._member)
            await self._commit(8, 7, number)
            await self._transaction(number)

    async def _write_and_read(self, number: int) -> None:
        batch = encode_batch([Record(key=b"k", value=b"%d" % number)], timestamp_ms=number + 1)
        data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
        limit = timedelta(seconds=10)
        answer = await self.ask(0, 9, acks=-1, timeout=limit, topic_data=[data])
        row = answer.responses[0].partition_responses[0]
        if row.error_code is not ErrorCode.none:
            raise Broken(f"the calm client's write failed: {row}")
        wanted = {"partition": 0, "fetch_offset": row.base_offset, "partition_max_bytes": 1 << 20}
        topics = [{"topic": TOPIC, "partitions": [wanted]}]
        answer = await self.ask(
            1, 12, max_wait=limit, min_bytes=1, max_bytes=1 << 20, replica_id=-1, topics=topics
        )
        row = answer.responses[0].partitions[0]
        records = row.records or b""
        if records[8:12] != batch[8:12] or records[17:] != batch[17:]:
            raise Broken(f"the calm client did not read back what it wrote, but {row}")

    async def _commit(self, api_key: int, version: int, offset: int, **values: Any) -> None:
        """Commit an offset by OffsetCommit or TxnOffsetCommit."""
        member = {**self._member, "generation_id_or_member_epoch": self._member["generation_id"]}
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "calm"}
        topics = [{"name": TOPIC, "partitions": [part]}]
        await self._sound(api_key, version, **member, **values, topics=topics)
        if api_key == 8:
            await self._expect_committed(offset)

    async def _expect_committed(self, offset: int) -> None:
        """Read the committed offset, once no transaction can change it."""
        topics = [{"name": TOPIC, "partition_indexes": [0]}]
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self._sound(9, 7, **GROUP, topics=topics, require_stable=True)
                row = answer.topics[0].partitions[0]
                if row.error_code is not ErrorCode.unstable_offset_commit:
                    break
                await asyncio.sleep(0.02)
        if (row.error_code, row.committed_offset) != (ErrorCode.none, offset):
            raise Broken(f"the calm client committed {offset}, and reads {row}")

    async def _transaction(self, number: int) -> None:
        """Commit a higher offset in a transaction; every other transaction is aborted."""
        commits = number % 2 == 0
        await self._sound(25, 3, **self._producer, **GROUP)
        await self._commit(28, 3, number + 1000, **self._producer)
        await self._sound(26, 3, **self._producer, committed=commits)
        await self._expect_committed(number + 1000 if commits else number)

    async def _sound(self, api_key: int, version: int, **values: Any) -> Any:
        """The answer without an error; asked again where the coordinator asks for patience."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                answer = await self.ask(api_key, version, **values)
                error = _error_of(answer)
                if error is ErrorCode.none:
                    return answer
                if error not in LATER:
                    raise Broken(f"the calm client's request failed: {answer}")
                await asyncio.sleep(0.02)

    async def coordinators(self) -> Mapping[str, Any] | None:
        """The committed offsets by group, and the transactional ids; None: not all are loaded."""
        groups = await self.ask(16, 4)
        transactions = await self.ask(66, 0)
        if {groups.error_code, transactions.error_code} != {ErrorCode.none}:
            return None
        found: dict[str, Any] = {
            "ids": sorted(row.transactional_id for row in transactions.transaction_states)
        }
        for row in groups.groups:
            answer = await self.ask(9, 7, group_id=row.group_id, topics=None)
            if answer.error_code is not ErrorCode.none:
                return None
            offsets = {
                (topic.name, part.partition_index): part.committed_offset
                for topic in answer.topics
                for part in topic.partitions
            }
            if offsets:
                found[row.group_id] = offsets
        return found

    async def made(self) -> tuple[int, int]:
        """How many topics there are, and records of the metadata log."""
        topics = (await self.ask(3, 12, topics=None)).topics
        wanted = {"topic_name": METADATA_LOG, "partitions": [{"partition_index": 0}]}
        answer = await self.ask(55, 0, topics=[wanted])
        return len(topics), answer.topics[0].partitions[0].high_watermark

    async def served(self) -> dict[int, tuple[int, int]]:
        """The versions of every api."""
        answer = await self.ask(18, 0)
        return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}

    def close(self) -> None:
        self._channel.close()


def _error_of(answer: Any) -> ErrorCode:
    """The error of the answer, or of its only partition."""
    if hasattr(answer, "error_code"):
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.topics[0].partitions[0].error_code)
