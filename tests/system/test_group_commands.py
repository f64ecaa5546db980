"""`highwater cluster groups` on real clusters: its figures are those of Kafka's own tool."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clusters.cluster_command import (
    PATIENCE_S,
    Printed,
    called,
    cluster_up,
    known_everywhere,
    until,
)
from tests.support.foreign import java
from tests.support.require import require
from tests.support.tiers import at_turn, nightly

pytestmark = pytest.mark.slow

KAFKAS_TOOL: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
AT_NIGHT: Final = nightly(
    "system/test_group_commands.py::test_group_and_its_lag_are_shown_as_by_kafkas_tool"
)
SYSTEMS: Final = (pytest.param("kafka", marks=AT_NIGHT), "nodes")
PROTOCOLS: Final = {"kafka": ("classic", "consumer"), "nodes": ("classic", "consumer")}
"""Of groups, that each system serves."""
PARTITIONS: Final = 3
RECORDS: Final = 10
"""In each partition."""


class Cluster:
    """A cluster that is up, asked by `highwater cluster` and by Kafka's tool."""

    def __init__(self, bootstrap: str, system: str) -> None:
        self.bootstrap = bootstrap
        self.protocols = PROTOCOLS[system]

    def groups(self, *arguments: str) -> Printed:
        """Run `highwater cluster groups`, which must succeed."""
        printed = self.asked(*arguments)
        assert printed.code == 0, printed.err
        return printed

    def refused(self, *arguments: str) -> str:
        """Return the message of a refused command."""
        printed = self.asked(*arguments)
        assert printed.code == 254, printed.err
        return printed.err

    def asked(self, *arguments: str) -> Printed:
        """Run `highwater cluster groups`."""
        return called("cluster", "groups", *arguments, "--bootstrap-servers", self.bootstrap)

    def kafkas(self, arguments: str) -> list[list[str]]:
        """Return the words of the lines that Kafka's own tool prints."""
        words = ("--bootstrap-server", self.bootstrap, *arguments.split())
        done = java.run(KAFKAS_TOOL, words)
        assert "Error" not in done.stdout, done.stdout
        return Printed(0, done.stdout, "").rows

    def filled(self, topic: str) -> str:
        """Create a topic with records in each partition."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result(PATIENCE_S)
        known_everywhere(self.bootstrap, topic)
        producer = confluent_kafka.Producer({"bootstrap.servers": self.bootstrap})
        for number in range(PARTITIONS * RECORDS):
            producer.produce(topic, b"record", partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        return topic

    @contextmanager
    def member(self, group: str, topic: str, protocol: str = "classic") -> Iterator[Any]:
        """A member of a group that has all partitions of a topic."""
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "client.id": f"client-of-{group}",
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.subscribe([topic])
            until(lambda: consumer.poll(0.1), lambda _: len(consumer.assignment()) == PARTITIONS)
            yield consumer
        finally:
            consumer.close()

    def committed_group(self, group: str, topic: str, *offsets: int) -> str:
        """A group without members that has committed offsets of partitions 0, 1, ..."""
        with self.member(group, topic) as consumer:
            commit(consumer, topic, *offsets)
        until(
            lambda: self.groups("describe", group, "--json").out,
            lambda said: '"state": "Empty"' in said,
        )
        return group


def commit(consumer: Any, topic: str, *offsets: int) -> None:
    """Commit these offsets of partitions 0, 1, ..."""
    positions = [
        confluent_kafka.TopicPartition(topic, number, offset)
        for number, offset in enumerate(offsets)
    ]
    consumer.commit(offsets=positions, asynchronous=False)


@pytest.fixture(scope="module", params=SYSTEMS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three nodes."""
    require("kafka-tools", "netns")
    store: Path = tmp_path_factory.mktemp("groups") / "store"
    settings = ("--config", "group.initial.rebalance.delay.ms=0")
    with cluster_up(store, "--system", request.param, *settings) as up:
        yield Cluster(up.bootstrap, request.param)


@at_turn(0, 2, "system/test_group_commands.py::test_offsets_of_an_empty_group_are_reset")
def test_group_and_its_lag_are_shown_as_by_kafkas_tool(cluster: Cluster) -> None:
    """In each protocol, with a partition that has no committed offset."""
    for protocol in cluster.protocols:
        _shown_as_by_kafkas_tool(cluster, protocol)


def _shown_as_by_kafkas_tool(cluster: Cluster, protocol: str) -> None:
    group, topic = f"shown-{protocol}", cluster.filled(f"shown-{protocol}")
    with cluster.member(group, topic, protocol) as consumer:
        commit(consumer, topic, 4, 10)
        offsets = cluster.groups("offsets", group).rows
        assert offsets == cluster.kafkas(f"--describe --group {group}")
        assert [row[2:6] for row in offsets[1:]] == [
            ["0", "4", "10", "6"],
            ["1", "10", "10", "0"],
            ["2", "-", "10", "-"],
        ]
        verbose = cluster.groups("offsets", group, "--verbose").rows
        assert verbose == cluster.kafkas(f"--describe --group {group} --verbose")
        members = cluster.groups("members", group, "--verbose").rows
        assert members == cluster.kafkas(f"--describe --group {group} --members --verbose")
        assert members[1][4] == str(PARTITIONS)
        assert f"{topic}:0,1,2" in members[1]
        state = cluster.groups("describe", group, "--verbose").rows
        assert state == cluster.kafkas(f"--describe --group {group} --state --verbose")
        listed = cluster.groups("list", "--verbose").rows
        assert sorted(listed) == sorted(cluster.kafkas("--list --type --state"))
        assert [group, protocol.capitalize(), "Stable"] in listed
    assert [group] not in cluster.groups("list", "--state", "stable").rows


def test_group_with_members_is_neither_reset_nor_deleted(cluster: Cluster) -> None:
    """The messages name the members; the offsets of its topic stay, too."""
    topic = cluster.filled("busy")
    with cluster.member("busy", topic) as consumer:
        commit(consumer, topic, 4)
        reset = ("reset-offsets", "busy", "--all-topics", "--to-earliest", "--execute")
        for refusal in (cluster.refused(*reset), cluster.refused("delete", "busy")):
            assert "group busy has members" in refusal
            assert "(client client-of-busy at " in refusal
        printed = cluster.asked("delete-offsets", "busy", "--topic", topic)
        assert printed.code == 254
        assert printed.rows[1] == [topic, "0", "Error:", "GROUP_SUBSCRIBED_TO_TOPIC"]
        assert "(client client-of-busy at " in printed.err
        assert cluster.groups("offsets", "busy").rows[1][3] == "4"


@at_turn(1, 2, "system/test_group_commands.py::test_group_and_its_lag_are_shown_as_by_kafkas_tool")
def test_offsets_of_an_empty_group_are_reset(cluster: Cluster) -> None:
    """First as a plan that changes nothing, and equal to that of Kafka's tool."""
    topic = cluster.filled("reset")
    group = cluster.committed_group("reset", topic, 4, 10)

    def committed() -> list[str]:
        return [row[3] for row in cluster.groups("offsets", group).rows[1:]]

    for target in ("--to-earliest", "--to-offset 3", "--shift-by -2", "--to-current"):
        planned = cluster.groups("reset-offsets", group, "--all-topics", *target.split())
        tool = f"--reset-offsets --group {group} --all-topics --dry-run {target}"
        assert planned.rows == sorted(cluster.kafkas(tool))
        assert "nothing was changed" in planned.err
    assert committed() == ["4", "10"]

    done = cluster.groups("reset-offsets", group, "--all-topics", "--shift-by", "3", "--execute")
    assert [row[3] for row in done.rows[1:]] == ["7", "10"]
    assert f"new offset 13 of {topic}-1 is higher than the log end offset 10" in done.err
    assert committed() == ["7", "10"]
    only = ("--topic", f"{topic}:2", "--to-latest", "--execute")
    cluster.groups("reset-offsets", group, *only)
    assert committed() == ["7", "10", "10"]
    cluster.groups("reset-offsets", group, "--topic", topic, "--by-duration", "1d", "--execute")
    assert committed() == ["0", "0", "0"]
    new = cluster.groups("reset-offsets", "reest", "--topic", topic, "--to-latest", "--execute")
    assert "group reest does not exist yet; did you mean reset?" in new.err
    assert [row[5] for row in cluster.groups("offsets", "reest").rows[1:]] == ["0", "0", "0"]


def test_empty_group_and_its_offsets_are_deleted(cluster: Cluster) -> None:
    topic = cluster.filled("deleted")
    group = cluster.committed_group("deleted", topic, 4, 10)
    one = ("--topic", f"{topic}:1")
    printed = cluster.groups("delete-offsets", group, *one).rows
    assert printed[-1] == [topic, "1", "Successful"]
    assert [row[2] for row in cluster.groups("offsets", group).rows[1:]] == ["0"]
    refusal = cluster.refused("delete-offsets", group, *one)
    assert f"no committed offset for {topic}-1, only for: {topic}-0" in refusal
    said = cluster.groups("delete", group).out
    assert said == "Deletion of requested consumer groups ('deleted') was successful.\n"
    assert "group deleted does not exist" in cluster.refused("offsets", group)
    assert [group] not in cluster.groups("list").rows
