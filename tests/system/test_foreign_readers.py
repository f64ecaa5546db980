"""Other people's code reads a log directory after its cluster is gone.

Nothing of ours takes part in the reading: kafka-python's and aiokafka's parsers of record batches
go over the segment files, and debugfs gets these out of the nodes' file systems, which nobody has
mounted any more.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords

from tests.support.clients.kafka_python import MemoryRecords as PyRecords
from tests.support.clusters.cluster_command import cluster_up, known_everywhere
from tests.support.foreign import PARTITION, AioKafka, Confluent, KafkaPython, Message
from tests.support.require import require

REPLICAS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MESSAGES = [
    Message(b"%d " % number * 200, b"key %d" % number, (("header", b"%d" % number),))
    for number in range(40)
]


def stored(directory: Path, reader: Any) -> list[tuple[int, Message]]:
    """Every record of a partition's directory with its offset; all checksums hold."""
    records = []
    for path in sorted(directory.glob("*.log")):
        batches = reader(path.read_bytes())
        while (batch := batches.next_batch()) is not None:
            assert batch.validate_crc(), (path, batch.base_offset)
            records += [
                (each.offset, Message(each.value, each.key, tuple(each.headers))) for each in batch
            ]
    return records


def copied(image: Path, place: Path) -> Path:
    """The partition's directory, copied out of a node's ext4 image."""
    node = place / f"node-{image.parent.name}"
    node.mkdir()
    directory = f"t-{PARTITION}"
    command = ["debugfs", "-R", f"rdump /log/{directory} {node}", str(image)]
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    return node / directory


@pytest.mark.slow
def test_a_log_directory_is_read_by_others(tmp_path: Path) -> None:
    """Every replica, every codec, over several segments: the records that the clients sent."""
    require("root", "netns", "loop")
    sent: list[Message] = []
    segments = ("--config", "log.segment.bytes=20000")
    with cluster_up(tmp_path / "store", *segments) as up:
        Confluent().create_topic(up.bootstrap, "t")
        known_everywhere(up.bootstrap, "t")
        for client in (Confluent(), KafkaPython(), AioKafka()):
            for codec in CODECS:
                client.produce(up.bootstrap, "t", MESSAGES, codec=codec, idempotent=True)
                sent += MESSAGES
        assert Confluent().consume(up.bootstrap, "t", len(sent)) == sent
    directories = [copied(image, tmp_path) for image in up.run.glob("nodes/*/data.img")]
    assert len(directories) == REPLICAS
    assert len(list(directories[0].glob("*.log"))) > 3
    for directory in directories:
        for reader in (PyRecords, AiokafkaRecords):
            assert stored(directory, reader) == list(enumerate(sent)), (directory, reader)
