"""Kafka's TransactionalMessageCopier on `highwater cluster up`, while a broker dies by SIGKILL.

Its output is exactly right.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

from harness.admin.coordinators import KeyType
from tests.support.clusters.cluster_command import PATIENCE_S
from tests.support.clusters.killable import Killable, await_more, killable_cluster
from tests.support.foreign import java
from tests.support.require import require
from tests.support.tiers import in_turn

pytestmark = pytest.mark.slow

COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
COPIED: Final = 1_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killable]:
    """Three nodes."""
    require("kafka-tools", "root", "netns")
    with killable_cluster(tmp_path_factory.mktemp("cluster") / "store") as up:
        yield up


@pytest.mark.parametrize(
    "victim",
    in_turn(
        "system/test_kafka_copier.py::test_copier_copies_each_record_once_in_order",
        ["transaction coordinator", "group coordinator", "leader"],
        of=3,
    ),
)
def test_copier_copies_each_record_once_in_order(
    cluster: Killable, tmp_path: Path, victim: str
) -> None:
    """It commits its offsets in the transactions, and aborts a third of these at random."""
    name = f"copy-{victim.replace(' ', '-')}"
    source, goal = cluster.create(f"{name}-in"), cluster.create(f"{name}-out")
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    values = [str(number) for number in range(COPIED)]
    for value in values:
        producer.produce(source, value.encode(), partition=0)
    assert producer.flush(PATIENCE_S) == 0
    arguments = (
        *("--broker-list", cluster.bootstrap, "--input-topic", source, "--input-partition", "0"),
        *("--output-topic", goal, "--consumer-group", name, "--transactional-id", name),
        *("--transaction-size", "10", "--group-mode", "--use-group-metadata"),
        "--enable-random-aborts",
    )
    output = tmp_path / "output"
    with java.started(COPIER, arguments, output=output) as copier:
        await_more(lambda: cluster.stable_end(goal))
        dying = {
            "transaction coordinator": lambda: cluster.coordinator(KeyType.transaction, name),
            "group coordinator": lambda: cluster.coordinator(KeyType.group, name),
            "leader": lambda: cluster.leader(goal),
        }[victim]()
        with cluster.killed(dying):
            assert copier.wait(PATIENCE_S) == 0, output.read_text()
    assert [record.value for record in cluster.committed(goal)] == values
    assert cluster.committed_offset(name, source) == COPIED
    assert '"remaining":0' in output.read_text().splitlines()[-1]
