"""The samples of client programs in the documentation, compiled and run against a broker."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from harness.plans.workloads import Workload
from harness.workloads.clients import libraries
from tests.support.clients.workloads import client_config, rows_of, running
from tests.support.clusters.kafka_mock import PARTITIONS
from tests.support.clusters.loopback_cluster import serving
from tests.support.nodes.cluster import Cluster
from tests.support.require import FRANZ_GO, require
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[5] / "docs" / "clients-protocol.md"
SAMPLE = re.compile(r"^```go\n(.*?)^```", re.MULTILINE | re.DOTALL)
MOST_LINES = 100


def compiled(source: str, folder: Path) -> Path:
    """The program of a Go source."""
    (folder / "main.go").write_text(source)
    for arguments in (
        ("mod", "init", "sample"),
        ("mod", "edit", f"-require={FRANZ_GO}"),
        ("mod", "tidy"),
        ("vet", "."),
        ("build", "-o", "sample", "."),
    ):
        done = subprocess.run(
            ["go", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr
    return folder / "sample"


@at_turn(0, 2, "system/test_client_programs.py::test_all_workloads_run_in_a_program_and_are_valid")
def test_sample_in_go_records_what_it_sends_and_reads(tmp_path: Path) -> None:
    """It is short, and its clients do what those of highwater's own libraries do."""
    require("franz-go")
    [source] = SAMPLE.findall(PAGE.read_text())
    assert len(source.splitlines()) < MOST_LINES
    (tmp_path / "go").mkdir()
    command = [str(compiled(source, tmp_path / "go"))]
    workload = Workload(client="program", client_command=tuple(command))
    assert libraries.name_and_version(workload).startswith("program franz-go")
    (tmp_path / "run").mkdir()
    with serving(Cluster(1), t=PARTITIONS) as bootstrap:
        wanted = client_config(tmp_path / "run", bootstrap=bootstrap, idempotence=True)
        with running("program", wanted, command) as lines:
            assert any(json.loads(line)["read"] >= 20 for line in lines)
    rows = rows_of(tmp_path / "run")
    sends = {row["value"]: row["offset"] for row in rows if row["f"] == "send"}
    polls = {row["value"]: row["offset"] for row in rows if row["f"] == "poll"}
    assert len(polls) >= 20
    assert polls.items() <= sends.items()
