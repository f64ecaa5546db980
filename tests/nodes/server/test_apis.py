"""Each api of Kafka 4.2's brokers is served, or refused at once, as Kafka refuses one.

Kafka closes the connection when a request's api or version is not served. Clients look at
ApiVersions first, and tell their callers at once.
"""

import asyncio
import struct
from pathlib import Path

from kio.index import load_request_schema

from nodes.server.apis import BUSIEST, prepare_busiest
from nodes.wire import codec, encoders, screening
from nodes.wire.codec import decode_request, encode_request, encode_response
from nodes.wire.frames import frame_of
from nodes.wire.replica_log_info import GET_REPLICA_LOG_INFO
from nodes.wire.versions import fill, respond
from tests.support.nodes.cluster import Cluster, running
from tests.support.nodes.kafka_apis import CONTROLLER_APIS, KAFKA_APIS, REMOVED_APIS

API_VERSIONS = 18
LEFT_OUT = frozenset(
    {
        *(29, 30, 31),  # access control lists
        *(38, 39, 40, 41),  # delegation tokens
        *(48, 49),  # quotas
        *(50, 51),  # SCRAM users
        *(71, 72),  # client metrics
        *(76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92),  # share groups
        *(88, 89),  # the protocol of Kafka Streams
    }
)
PATIENCE_S = 20.0
DOCS = Path(__file__).parents[3] / "docs" / "clients.md"


async def _served(cluster: Cluster) -> dict[int, tuple[int, int]]:
    answer = await cluster.ask(1, API_VERSIONS, 4, client_software_name="a")
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


async def _closes(port: int, frame: bytes) -> bool:
    """Whether the broker closes the connection without an answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(frame)
        return await asyncio.wait_for(reader.read(1), PATIENCE_S) == b""
    except ConnectionError:
        return True
    finally:
        writer.close()


def _versions(api_key: int) -> list[int]:
    """The versions that a client might send."""
    found = []
    for version in range(20):
        try:
            load_request_schema(api_key, version)
        except Exception:
            continue
        found.append(version)
    return found


def _head_only(api_key: int, version: int) -> bytes:
    return frame_of(struct.pack(">hhih", api_key, version, 7, -1))


def test_each_api_of_kafka_is_served_or_left_out_on_purpose() -> None:
    """A newer Kafka's api belongs into one of the two."""

    async def scenario() -> None:
        async with running(1) as cluster:
            served = set(await _served(cluster))
            assert served - {GET_REPLICA_LOG_INFO} == KAFKA_APIS.keys() - LEFT_OUT

    asyncio.run(scenario())


def test_the_busiest_requests_are_prepared_in_their_newest_versions() -> None:
    """A broker that becomes a leader makes no reader and no writer while its clients wait."""

    async def newest() -> dict[int, int]:
        async with running(1) as cluster:
            return {key: newest for key, (_, newest) in (await _served(cluster)).items()}

    frames = [
        encode_request(fill(load_request_schema(api_key, version)), 7, "a")[4:]
        for api_key, versions in BUSIEST.items()
        for version in versions
    ]
    prepare_busiest()
    made = (codec._request_codec, screening._entity, encoders._of_values)
    before = [each.cache_info().misses for each in made]
    for frame in frames:
        encode_response(respond(decode_request(frame).entity), 7)
    assert [each.cache_info().misses for each in made] == before
    served = asyncio.run(newest())
    assert {key: versions[-1] for key, versions in BUSIEST.items()} == {
        key: served[key] for key in BUSIEST
    }


def test_what_is_not_served_closes_the_connection_at_once() -> None:
    """Apis that are left out, controllers' apis, removed and unknown ones, and other versions of
    those that are served; a client beside it goes on.
    """

    async def scenario() -> None:
        async with running(1) as cluster:
            served = await _served(cluster)
            frames = {
                (key, version): encode_request(fill(load_request_schema(key, version)), 7, "c")
                for key in sorted(LEFT_OUT | CONTROLLER_APIS)
                for version in _versions(key)
            }
            others = [(key, 0) for key in (*REMOVED_APIS, -1, 93, 2**15 - 1)]
            for key, (oldest, newest) in served.items():
                if key != API_VERSIONS:
                    others += [(key, oldest - 1), (key, newest + 1)]
            frames |= {each: _head_only(*each) for each in others}
            for (key, version), frame in frames.items():
                assert await _closes(cluster.ports[1], frame), f"api key {key} v{version}"
            assert await _served(cluster) == served

    asyncio.run(scenario())


def test_what_is_left_out_is_documented() -> None:
    """By the names of the apis."""
    text = DOCS.read_text()
    assert [KAFKA_APIS[key] for key in sorted(LEFT_OUT) if KAFKA_APIS[key] not in text] == []
