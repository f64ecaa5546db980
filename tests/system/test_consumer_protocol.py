"""Foreign clients as members by the consumer protocol (KIP-848), on a cluster in this process.

librdkafka and Kafka's own Java client join, share partitions, leave, come back as static members,
and subscribe to regular expressions that the brokers evaluate.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from tests.support.clusters.loopback_cluster import serving
from tests.support.foreign import java
from tests.support.nodes.cluster import UNHURRIED, Cluster
from tests.support.require import require

pytestmark = pytest.mark.slow

SHARED: Final = "shared"
PARTITIONS: Final = 4
RECORDS: Final = 40
PATIENCE_S: Final = 60.0
GROUPS_TOOL: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE: Final = "org.apache.kafka.tools.VerifiableConsumer"
_groups = itertools.count()


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    """Addresses of a cluster with a topic, in each of whose partitions there are records."""
    nodes = Cluster(3, **UNHURRIED, group_consumer_heartbeat_interval_ms="200")
    with serving(nodes, **{SHARED: PARTITIONS}) as addresses:
        producer = confluent_kafka.Producer({"bootstrap.servers": addresses})
        for number in range(RECORDS):
            producer.produce(SHARED, str(number).encode(), partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        yield addresses


def new_group() -> str:
    """A group that has committed nothing."""
    return f"modern-{next(_groups)}"


def member(bootstrap: str, group: str, **options: str) -> confluent_kafka.Consumer:
    """One of librdkafka's consumers."""
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "log_level": 0,
        }
        | {name.replace("_", "."): value for name, value in options.items()}
    )


def partitions(consumer: confluent_kafka.Consumer) -> set[int]:
    return {each.partition for each in consumer.assignment()}


def polled(*consumers: confluent_kafka.Consumer, until: Callable[[], bool]) -> list[bytes]:
    """Poll all consumers until a condition holds; return what they read. No two may ever have
    the same partition.
    """
    values = []
    end = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, "it takes too long"
        for consumer in consumers:
            message = consumer.poll(0.05)
            if message is not None:
                error = message.error()
                assert error is None or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART, error
                values += [message.value()]
        owned = [each for consumer in consumers for each in partitions(consumer)]
        assert len(owned) == len(set(owned))
    return values


def test_librdkafka_shares_a_topic_and_hands_it_over(bootstrap: str) -> None:
    """Two members have one half each; when one leaves, the other has everything."""
    group = new_group()
    first = member(bootstrap, group)
    first.subscribe([SHARED])
    polled(first, until=lambda: len(partitions(first)) == PARTITIONS)
    second = member(bootstrap, group, group_remote_assignor="range")
    second.subscribe([SHARED])
    polled(first, second, until=lambda: len(partitions(first)) == len(partitions(second)) == 2)
    second.close()
    polled(first, until=lambda: len(partitions(first)) == PARTITIONS)
    first.close()


def test_librdkafka_reads_everything_once_and_goes_on_from_what_it_committed(
    bootstrap: str,
) -> None:
    """Its commits have the member epoch."""
    group = new_group()
    consumer = member(bootstrap, group)
    consumer.subscribe([SHARED])
    values: list[bytes] = []
    end = time.monotonic() + PATIENCE_S
    while len(values) < RECORDS:
        assert time.monotonic() < end
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    assert sorted(values, key=int) == [str(number).encode() for number in range(RECORDS)]
    later = member(bootstrap, group)
    later.subscribe([SHARED])
    polled(later, until=lambda: len(partitions(later)) == PARTITIONS)
    message = later.poll(1.0)
    assert message is None
    later.close()


def test_a_static_member_of_librdkafka_has_its_partitions_back(bootstrap: str) -> None:
    """It left with epoch -2; the other member never got them."""
    group = new_group()
    first = member(bootstrap, group, group_instance_id="one")
    second = member(bootstrap, group, group_instance_id="two")
    for each in (first, second):
        each.subscribe([SHARED])
    polled(first, second, until=lambda: len(partitions(first)) == len(partitions(second)) == 2)
    had, other = partitions(first), partitions(second)
    first.close()
    quiet = time.monotonic() + 1
    polled(second, until=lambda: time.monotonic() > quiet)
    assert partitions(second) == other
    back = member(bootstrap, group, group_instance_id="one")
    back.subscribe([SHARED])
    polled(back, second, until=lambda: partitions(back) == had)
    assert partitions(second) == other
    back.close()
    second.close()


def test_librdkafka_subscribes_to_an_expression_that_the_broker_evaluates(bootstrap: str) -> None:
    """Not librdkafka, which would ask for the names of all topics."""
    consumer = member(bootstrap, new_group())
    consumer.subscribe(["^sha.*d$"])
    polled(consumer, until=lambda: len(partitions(consumer)) == PARTITIONS)
    consumer.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_a_group_of_librdkafka_moves_to_the_consumer_protocol(
    bootstrap: str, strategy: str
) -> None:
    """One member after the other is restarted; meanwhile members of both protocols share.

    The first one that was restarted goes back once: then the group is a classic one again. With
    cooperative-sticky librdkafka's members have user data in their assignments, and such a group
    is not upgraded, as by Kafka.
    """
    group = new_group()
    old = {
        "group_protocol": "classic",
        "heartbeat_interval_ms": "200",
        "partition_assignment_strategy": strategy,
    }
    first, second = member(bootstrap, group, **old), member(bootstrap, group, **old)
    for each in (first, second):
        each.subscribe([SHARED])
    polled(first, second, until=lambda: len(partitions(first)) == len(partitions(second)) == 2)
    third = member(bootstrap, group)
    third.subscribe([SHARED])
    polled(first, second, third, until=lambda: shares(first, second, third) == [1, 1, 2])
    third.close()
    polled(first, second, until=lambda: shares(first, second) == [2, 2])
    third = member(bootstrap, group)
    third.subscribe([SHARED])
    polled(first, second, third, until=lambda: shares(first, second, third) == [1, 1, 2])
    first.close()
    polled(second, third, until=lambda: shares(second, third) == [2, 2])
    again = member(bootstrap, group)
    again.subscribe([SHARED])
    polled(second, third, again, until=lambda: shares(second, third, again) == [1, 1, 2])
    second.close()
    polled(third, again, until=lambda: shares(third, again) == [2, 2])
    third.close()
    again.close()


def shares(*consumers: confluent_kafka.Consumer) -> list[int]:
    """How many partitions the consumers have, in ascending order."""
    return sorted(len(partitions(each)) for each in consumers)


def java_consumer(bootstrap: str, group: str, *more: str) -> tuple[str, ...]:
    """Arguments of Kafka's console consumer by the consumer protocol."""
    properties = ("group.protocol=consumer", "auto.offset.reset=earliest")
    words = [word for each in properties for word in ("--command-property", each)]
    return ("--bootstrap-server", bootstrap, "--group", group, *words, *more)


def test_kafkas_console_consumer_reads_a_topic(bootstrap: str) -> None:
    """And the group is described by Kafka's tool: consumer protocol, empty, offsets at the end."""
    require("kafka-tools")
    group = new_group()
    read = ("--topic", SHARED, "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    done = java.run(CONSOLE, java_consumer(bootstrap, group, *read))
    assert sorted(done.stdout.split(), key=int) == [str(number) for number in range(RECORDS)]
    tool = ("--bootstrap-server", bootstrap, "--group", group, "--describe", "--verbose")
    state = java.run(GROUPS_TOOL, (*tool, "--state"))
    assert "Empty" in state.stdout, state.stdout + state.stderr
    assert "uniform" in state.stdout
    offsets = java.run(GROUPS_TOOL, tool)
    lags = [line.split() for line in offsets.stdout.splitlines() if SHARED in line]
    assert len(lags) == PARTITIONS, offsets.stdout + offsets.stderr


def test_kafkas_console_consumer_subscribes_to_an_expression(bootstrap: str) -> None:
    """That it evaluates itself; each change of its topics is a heartbeat with all names."""
    require("kafka-tools")
    read = ("--include", "sha.*", "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    done = java.run(CONSOLE, java_consumer(bootstrap, new_group(), *read))
    assert len(done.stdout.split()) == RECORDS, done.stderr


def test_kafkas_and_librdkafkas_members_share_a_group(bootstrap: str) -> None:
    """The Java member has one half while librdkafka's has the other; then it leaves."""
    require("kafka-tools")
    group = new_group()
    ours = member(bootstrap, group)
    ours.subscribe([SHARED])
    polled(ours, until=lambda: len(partitions(ours)) == PARTITIONS)
    arguments = ("--topic", SHARED, "--group-id", group, "--group-protocol", "consumer")
    with java.started(VERIFIABLE, ("--bootstrap-server", bootstrap, *arguments)) as theirs:
        polled(ours, until=lambda: len(partitions(ours)) == 2)
        described = java.run(
            GROUPS_TOOL,
            ("--bootstrap-server", bootstrap, "--group", group, "--describe", "--members"),
        )
        rows = [line for line in described.stdout.splitlines() if group in line]
        assert len(rows) == 2, described.stdout + described.stderr
        theirs.terminate()
    polled(ours, until=lambda: len(partitions(ours)) == PARTITIONS)
    ours.close()
