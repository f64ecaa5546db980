"""Client programs that write and delete the keys of a topic, against a broker."""

import json
from pathlib import Path

import pytest

from checkers.history.history import KEYED_DELETE
from harness.workloads.clients.keyed_sends import key_number
from harness.workloads.clients.payload import peek_value
from tests.support.clients.workloads import client_config, require_client, rows_of, running
from tests.support.clusters.kafka_mock import PARTITIONS
from tests.support.clusters.loopback_cluster import serving
from tests.support.foreign import PARTITION, Confluent
from tests.support.nodes.cluster import Cluster

pytestmark = pytest.mark.slow

SENDS = 60


@pytest.mark.parametrize("client", ["program", "java"])
def test_keys_and_tombstones_are_in_the_log_as_they_were_recorded(
    client: str, tmp_path: Path
) -> None:
    """Each acknowledged record is at its offset, with its key, and a deletion has no value."""
    require_client(client)
    with serving(Cluster(1), t=PARTITIONS) as bootstrap:
        wanted = client_config(
            tmp_path, bootstrap=bootstrap, consumers=0, idempotence=True, keys=[3, 10, 0.3]
        )
        with running(client, wanted) as lines:
            assert any(json.loads(line)["acked"] >= SENDS for line in lines)
        sends = [row for row in rows_of(tmp_path) if row["f"].startswith("keyed-")]
        acked = [row for row in sends if row["type"] == "ok" and row["partition"] == PARTITION]
        log = Confluent().consume(bootstrap, "t", len(acked))
    assert any(row["f"] == KEYED_DELETE for row in acked)
    for row in acked:
        found = log[row["offset"]]
        assert key_number(found.key) == row["key"]
        deleted = row["f"] == KEYED_DELETE
        assert (found.value is None) == deleted
        assert deleted or peek_value(found.value) == row["value"]
