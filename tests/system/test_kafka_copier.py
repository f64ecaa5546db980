"""Kafka's TransactionalMessageCopier on `highwater cluster up`, while a broker dies by SIGKILL.

Its output is exactly right.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest

from checkers.interchange import kafkatest
from checkers.interchange.imported import Imported, Promises
from harness.admin.coordinators import KeyType
from tests.support.checkers.judge_imports import found, judged
from tests.support.clusters.cluster_command import PATIENCE_S
from tests.support.clusters.killable import Killable, await_more, killable_cluster
from tests.support.clusters.loopback_cluster import serving
from tests.support.foreign import java
from tests.support.nodes.cluster import Cluster
from tests.support.require import require
from tests.support.tiers import at_turn, in_turn

pytestmark = pytest.mark.slow

COPIER: Final = "org.apache.kafka.tools.TransactionalMessageCopier"
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER: Final = "org.apache.kafka.tools.VerifiableConsumer"
COPIED: Final = 1_000
IMPORTED: Final = 50


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


@at_turn(1, 2, "system/test_kafka_transactions.py::test_transactions_of_kafka_are_read")
def test_output_of_the_copier_and_of_verifiable_clients_is_imported_and_judged(
    tmp_path: Path,
) -> None:
    """As Kafka's tools print it. Without one record of the output, a copy is missing."""
    require("kafka-tools")
    (tmp_path / "committed").write_text("isolation.level=read_committed")
    with serving(Cluster(1), source=1, goal=1) as bootstrap:
        to = ("--bootstrap-server", bootstrap, "--max-messages", str(IMPORTED))
        read = (*to, "--verbose", "--reset-policy", "earliest")
        read += ("--command-config", str(tmp_path / "committed"))
        copy = ("--broker-list", bootstrap, "--input-topic", "source", "--output-topic", "goal")
        copy += ("--input-partition", "0", "--consumer-group", "g", "--transactional-id", "id")
        copy += ("--transaction-size", "5", "--enable-random-aborts")
        for name, tool, arguments in (
            ("producer", VERIFIABLE_PRODUCER, (*to, "--topic", "source")),
            ("copier", COPIER, copy),
            ("input", VERIFIABLE_CONSUMER, (*read, "--topic", "source", "--group-id", "i")),
            ("output", VERIFIABLE_CONSUMER, (*read, "--topic", "goal", "--group-id", "o")),
        ):
            with java.started(tool, arguments, output=tmp_path / name) as process:
                assert process.wait(PATIENCE_S) == 0, (tmp_path / name).read_text()
    names = ("producer", "copier", "input", "output")
    texts = {name: (tmp_path / name).read_text() for name in names}
    assert judged(imported(texts)).outcome.value == "VALID"
    texts["output"] = "".join(
        line for line in texts["output"].splitlines(keepends=True) if '"value":"9"' not in line
    )
    verdict = judged(imported(texts))
    assert found(verdict) == {("uncopied", None): ("forbidden", 1)}


def imported(texts: dict[str, str]) -> Imported:
    """What the files say."""
    pieces = {name: [text].copy for name, text in texts.items()}
    return kafkatest.to_history(pieces, promises=Promises(idempotence=False))
