"""The memory of a request is free when it is over, without the garbage collector.

The collector looks at what has become old once in many million allocations (`GC_THRESHOLDS` of
`nodes.__main__`), and a request that waits for a commit has become old: if it left a cycle, whoever
has large requests refused would fill the memory. So nothing that hostile clients ask may leave one.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from datetime import timedelta

from kio.schema.errors import ErrorCode

from nodes.log.batch import Record, encode_batch
from nodes.metadata.errors import ControlError
from tests.support.nodes.cluster import Cluster, running
from tests.support.nodes.garbage import collected
from tests.support.nodes.hostile_frames import Malice

TOPIC = "noisy"
BURSTS = 300
SILENCE_S = 0.05


async def _send(port: int, data: bytes) -> None:
    with suppress(ConnectionError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1 << 16), SILENCE_S)
        finally:
            writer.close()


def test_hostile_requests_leave_no_reference_cycle() -> None:
    """Well-formed or not, refused, delayed or cancelled."""

    async def scenario() -> list[str]:
        async with running(1) as cluster:
            await cluster.create_topic(TOPIC, num_partitions=1, replication_factor=1)
            answer = await cluster.ask(1, 18, 0)
            served = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
            malice = Malice(random.Random(20_261_120), served)
            bursts = [b"".join(malice.burst()[0]) for _ in range(BURSTS)]
            with collected() as garbage:
                for first in range(0, BURSTS, 10):
                    await asyncio.gather(
                        *(_send(cluster.ports[1], burst) for burst in bursts[first : first + 10])
                    )
                await asyncio.sleep(2 * SILENCE_S)
        return garbage

    assert Counter(asyncio.run(scenario())) == Counter()


async def _refusals(cluster: Cluster) -> None:
    """Every operation that answers for each of several things, and one that is refused whole."""
    limit = timedelta(seconds=5)
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 9} for name in "ab"]
    await cluster.ask(1, 19, 7, topics=topics, timeout=limit)
    await cluster.ask(1, 20, 5, topic_names=["a", "b"], timeout=limit)
    await cluster.ask(1, 37, 3, topics=[{"name": "a", "count": 2}], timeout=limit)
    resource = {"resource_type": 2, "resource_name": "a", "configs": []}
    await cluster.ask(1, 44, 1, resources=[resource])
    moves = [{"name": "a", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    await cluster.ask(1, 45, 1, topics=moves, timeout=limit)
    await cluster.ask(1, 64, 0, broker_id=9)


async def _fetches(cluster: Cluster) -> None:
    """At once, after a wait, and in a session that is then ended."""
    part = {"partition": 0, "partition_max_bytes": 1 << 20}

    async def fetch(offset: int, wait_ms: int, **session: int) -> int:
        topics = [{"topic": TOPIC, "partitions": [{**part, "fetch_offset": offset}]}]
        wait = timedelta(milliseconds=wait_ms)
        sizes = {"min_bytes": 1, "max_bytes": 1 << 20}
        answer = await cluster.ask(1, 1, 12, max_wait=wait, topics=topics, **sizes, **session)
        assert answer.error_code is ErrorCode.none
        return int(answer.session_id)

    await fetch(0, 0, session_epoch=-1)
    await fetch(1, 20, session_epoch=-1)
    session_id = await fetch(1, 20, session_epoch=0)
    await fetch(1, 20, session_id=session_id, session_epoch=1)
    await fetch(1, 20, session_id=session_id, session_epoch=-1)


def test_responses_are_freed_with_their_requests() -> None:
    """Partial refusals, fetches that wait, and a session that ends."""

    async def scenario() -> list[str]:
        async with running(1) as cluster:
            await cluster.create_topic(TOPIC, num_partitions=1, replication_factor=1)
            batch = encode_batch([Record(key=None, value=b"v")], timestamp_ms=1)
            data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
            limit = timedelta(seconds=5)
            await cluster.ask(1, 0, 9, acks=-1, timeout=limit, topic_data=[data])
            for _ in range(2):  # the first time, codecs are made
                with collected() as garbage:
                    await _refusals(cluster)
                    await _fetches(cluster)
        return garbage

    assert Counter(asyncio.run(scenario())) == Counter()


def test_kept_error_refers_to_no_frames() -> None:
    """An error that becomes part of a response keeps its message and nothing else."""
    try:
        try:
            int("none")
        except ValueError as error:
            raise ControlError(ErrorCode.invalid_request, "no number") from error
    except ControlError as error:
        kept = error.kept()
    assert (kept.code, kept.message) == (ErrorCode.invalid_request, "no number")
    assert [kept.__traceback__, kept.__cause__, kept.__context__] == [None] * 3
