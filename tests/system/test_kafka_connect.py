"""Kafka Connect, standalone, on `highwater cluster up`, while brokers die by SIGKILL and return.

Its output is exactly right. Connect promises only that no line is lost. It repeats none here: it
does not end, its producer is idempotent, and its sink stays the same member of its group.
"""

import itertools
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from harness.admin.coordinators import KeyType
from tests.support.clusters.cluster_command import PATIENCE_S, until
from tests.support.clusters.killable import Killable, killable_cluster
from tests.support.foreign import java
from tests.support.require import require
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

CONNECT: Final = "org.apache.kafka.connect.cli.ConnectStandalone"
LINE_PAUSE_S: Final = 0.01


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    """Three nodes."""
    require("kafka-programs", "root", "netns")
    with killable_cluster(tmp_path_factory.mktemp("cluster") / "store") as up:
        yield up


@contextmanager
def growing(file: Path) -> Iterator[Callable[[], int]]:
    """Append numbered lines to a file until the block ends, or until the function that it gets is
    called: it returns how many lines there are.
    """
    ended = threading.Event()
    numbers = itertools.count()

    def work() -> None:
        with file.open("w", buffering=1) as lines:
            while not ended.wait(LINE_PAUSE_S):
                lines.write(f"line {next(numbers)}\n")

    def end() -> int:
        ended.set()
        writer.join()
        return next(numbers)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        yield end
    finally:
        ended.set()
        writer.join()


def connect_files(folder: Path, bootstrap: str, topic: str, sink: str) -> list[Path]:
    """The files of properties: the worker's, its source's and its sink's.

    Connect sends with idempotence only if it is told to. A session that outlasts the test lets no
    busy machine make the sink lose its partition, after which it may repeat lines.
    """
    properties = {
        "worker": {
            "bootstrap.servers": bootstrap,
            "listeners": "http://127.0.0.1:0",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.file.filename": folder / "offsets",
            "offset.flush.interval.ms": 500,
            "plugin.discovery": "service_load",
            "producer.enable.idempotence": "true",
            "consumer.session.timeout.ms": 300_000,
        },
        "source": {
            "name": "source",
            "connector.class": "FileStreamSource",
            "tasks.max": 1,
            "file": folder / "in",
            "topic": topic,
        },
        "sink": {
            "name": sink,
            "connector.class": "FileStreamSink",
            "tasks.max": 1,
            "file": folder / "out",
            "topics": topic,
        },
    }
    for name, values in properties.items():
        lines = [f"{key}={value}\n" for key, value in values.items()]
        (folder / f"{name}.properties").write_text("".join(lines))
    return [folder / f"{name}.properties" for name in properties]


@at_turn(1, 3, "system/test_kafka_copier.py::test_copier_copies_each_record_once_in_order")
def test_connect_moves_each_line_once_in_order(cluster: Killable, tmp_path: Path) -> None:
    """From a file through a topic to another file.

    While the sink's coordinator is dead, the topic's leader lives and the sink goes on without
    commits. So it would repeat lines if the next coordinator did not know it as a member.
    """
    topic, source, copy = cluster.create("lines"), tmp_path / "in", tmp_path / "out"
    sink = next(
        name
        for name in map("sink-{}".format, range(100))
        if coordinator_of_sink(cluster, name) != cluster.leader(topic)
    )
    files = connect_files(tmp_path, cluster.bootstrap, topic, sink)
    output = tmp_path / "output"

    def moved() -> list[str]:
        return copy.read_text().splitlines() if copy.exists() else []

    with (
        growing(source) as end,
        java.started(CONNECT, list(map(str, files)), output=output) as program,
    ):
        until(moved, bool)
        cluster.kill_in_turn(
            [lambda: coordinator_of_sink(cluster, sink), lambda: cluster.leader(topic)],
            progress=lambda: len(moved()),
        )
        total = end()
        until(lambda: len(moved()), lambda found: found >= total)
        program.terminate()
        assert program.wait(PATIENCE_S) == 128 + signal.SIGTERM, output.read_text()
    assert moved() == [f"line {number}" for number in range(total)]
    assert cluster.committed_offset(f"connect-{sink}", topic) == total


def coordinator_of_sink(cluster: Killable, name: str) -> int:
    """The coordinator of the group that Connect gives to the sink of that name."""
    return cluster.coordinator(KeyType.group, f"connect-{name}")
