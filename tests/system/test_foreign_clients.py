"""Any Kafka client works on a running cluster: clients by features, and all of them together.

What is proven is what a client's user relies on: every byte of values, keys and headers comes back
to every reader, whatever wrote it and however it was compressed, in the order it was sent.
"""

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.systems.replica_files import read_batches
from nodes.log.batch import read_header
from tests.support.clusters.cluster_command import ClusterUp, cluster_up, known_everywhere
from tests.support.foreign import CLIENTS, PARTITION, Client, Confluent, Feature, Message
from tests.support.require import require
from tests.support.tiers import in_turn

pytestmark = pytest.mark.slow

CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOISE = random.Random(1).randbytes(100 * 1024)
MESSAGES = (
    Message(b""),
    Message(b"", b"an empty value"),
    Message(None, b"a tombstone"),
    Message(b"\0", b"\xff\xfe binary"),
    Message(b"x", b""),
    Message(bytes(range(256)), b"every byte", (("one", b"1"), ("two", b"2"), ("one", b"3"))),
    Message(b"lines\nand\r\nlines", None, (("binary", b"\x01\xff\xfe"),)),
    Message(b"y", None, (("nul", b"\x00\xff"), ("empty", b""))),
    Message(NOISE, b"noise"),
    Message(bytes(100 * 1024), b"zeros"),
)


def named(value: Any) -> str:
    """How tests call a client, and anything else."""
    return str(getattr(value, "name", value))


def latin_square(values: Sequence[Any]) -> list[tuple[Client, Any]]:
    """Every client with every value. Each of as many turns as there are values has all clients."""
    return [
        (client, values[(row + turn) % len(values)])
        for row, client in enumerate(CLIENTS)
        for turn in range(len(values))
    ]


def who_offers(feature: Feature) -> list[Any]:
    """The clients with the feature; `Client.cannot` says why the others lack it."""
    return [
        pytest.param(client, id=client.name) for client in CLIENTS if feature not in client.cannot
    ]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterUp]:
    """One cluster of three nodes for all tests."""
    require("root", "netns")
    with cluster_up(tmp_path_factory.mktemp("cluster") / "store") as up:
        yield up


@pytest.fixture
def topic(cluster: ClusterUp, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    Confluent().create_topic(cluster.bootstrap, name)
    known_everywhere(cluster.bootstrap, name)
    return name


def needs(client: Client) -> None:
    """Skip where the client's program is missing."""
    if client.name == "kcat":
        require("kcat")


def sendable(client: Client, messages: Sequence[Message]) -> list[Message]:
    """The messages that the client can send."""
    return [message for message in messages if not message.needs & client.cannot.keys()]


def shown(client: Client, messages: Sequence[Message]) -> list[Message]:
    """The messages as the client can show them."""
    if Feature.NUL_IN_HEADER not in client.cannot:
        return list(messages)
    return [
        replace(m, headers=tuple((name, value.partition(b"\0")[0]) for name, value in m.headers))
        for m in messages
    ]


def codecs_on_disk(up: ClusterUp, topic: str) -> list[set[int]]:
    """The codec numbers of all batches, by replica."""
    return [
        {read_header(batch.data).compression for batch in read_batches(directory)}
        for directory in sorted(up.run.glob(f"nodes/*/data/log/{topic}-{PARTITION}"))
    ]


@pytest.mark.parametrize(
    ("writer", "codec"),
    in_turn(
        "system/test_foreign_clients.py::test_what_one_client_wrote_all_read",
        latin_square(list(CODEC_NUMBERS)),
        of=5,
    ),
    ids=named,
)
def test_what_one_client_wrote_all_read(
    cluster: ClusterUp, topic: str, writer: Client, codec: str
) -> None:
    """Byte-equal values, keys and headers in order, by every reader; stored as compressed."""
    needs(writer)
    sent = sendable(writer, MESSAGES)
    writer.produce(cluster.bootstrap, topic, sent, codec=codec)
    for reader in CLIENTS:
        needs(reader)
        read = reader.consume(cluster.bootstrap, topic, len(sent))
        assert read == shown(reader, sent), reader.name
    # Clients send a batch as it is where compression would not make it smaller.
    for codecs in codecs_on_disk(cluster, topic):
        assert CODEC_NUMBERS[codec] in codecs <= {0, CODEC_NUMBERS[codec]}


@pytest.mark.parametrize(
    ("writer", "acks"),
    in_turn(
        "system/test_foreign_clients.py::test_every_acknowledgement_mode",
        latin_square([0, 1, -1]),
        of=3,
    ),
    ids=named,
)
def test_every_acknowledgement_mode(
    cluster: ClusterUp, topic: str, writer: Client, acks: int
) -> None:
    """Nothing breaks, so that even what nobody acknowledged arrives, once and in order."""
    needs(writer)
    sent = [Message(b"%d" % number) for number in range(300)]
    writer.produce(cluster.bootstrap, topic, sent, acks=acks)
    assert Confluent().consume(cluster.bootstrap, topic, len(sent)) == sent


@pytest.mark.parametrize("writer", CLIENTS, ids=named)
def test_idempotent_producers(cluster: ClusterUp, topic: str, writer: Client) -> None:
    """Each gets a producer id of its own and numbers its batches; two of them do not collide."""
    needs(writer)
    sent = [Message(b"%d" % number) for number in range(300)]
    for _ in range(2):
        writer.produce(cluster.bootstrap, topic, sent, idempotent=True)
    assert Confluent().consume(cluster.bootstrap, topic, 2 * len(sent)) == sent + sent
    directory = next(cluster.run.glob(f"nodes/*/data/log/{topic}-{PARTITION}"))
    producers = [read_header(batch.data).producer_id for batch in read_batches(directory)]
    assert len(set(producers)) == 2
    assert min(producers) >= 0


@pytest.mark.parametrize("client", CLIENTS, ids=named)
def test_listing_offsets(cluster: ClusterUp, topic: str, client: Client) -> None:
    """Earliest, latest, by time, and by a time that no record has reached."""
    needs(client)
    writer = Confluent()
    empty = client.offsets(cluster.bootstrap, topic, 0)
    assert (empty.earliest, empty.latest) == (0, 0)
    writer.produce(cluster.bootstrap, topic, [Message(b"early")] * 3)
    time.sleep(0.01)  # so that a timestamp lies between
    between_ms = int(time.time() * 1000)
    time.sleep(0.01)
    writer.produce(cluster.bootstrap, topic, [Message(b"late")] * 4)
    found = client.offsets(cluster.bootstrap, topic, between_ms)
    assert (found.earliest, found.latest, found.at_time) == (0, 7, 3)
    assert found.after_the_end in (None, 7)


@pytest.mark.parametrize("client", who_offers(Feature.ADMIN))
def test_creating_topics(cluster: ClusterUp, client: Client) -> None:
    """By the client's own admin API; a second time it says that the topic exists.

    The first time it may say so too: a busy broker repeats a request to the controller.
    """
    name = f"made-by-{client.name}"
    client.create_topic(cluster.bootstrap, name)
    assert not client.create_topic(cluster.bootstrap, name)
    known_everywhere(cluster.bootstrap, name)
    sent = [Message(b"here")]
    client.produce(cluster.bootstrap, name, sent)
    assert client.consume(cluster.bootstrap, name, 1) == sent


def test_a_group_id_does_not_stop_who_assigns(cluster: ClusterUp, topic: str) -> None:
    """There is no coordinator yet: the answer is one to retry, and nobody else has to wait for it.

    What needs one (subscribing, stored offsets, kafka-python with any group id) does not work yet.
    """
    client = Confluent()
    client.produce(cluster.bootstrap, topic, [Message(b"news")])
    assert client.consume(cluster.bootstrap, topic, 1, group="a-group") == [Message(b"news")]
