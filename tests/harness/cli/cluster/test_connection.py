"""The cluster that an administrative command gets from its options."""

from pathlib import Path

import pytest

from harness.admin.errors import BadRequest
from harness.cli.cluster.connection import ClusterChoice
from harness.run import cluster
from harness.run.cluster import RunningCluster


@pytest.fixture(autouse=True)
def two_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two named clusters run on this machine."""
    clusters = [
        RunningCluster(run=tmp_path / name, bootstrap=f"{name}:9092", name=name)
        for name in ("one", "two")
    ]
    monkeypatch.setattr(cluster, "running", lambda: clusters)


def test_name_chooses_a_cluster_of_this_machine(tmp_path: Path) -> None:
    choice = ClusterChoice(name="two")
    assert choice.servers() == "two:9092"
    assert choice.run_dir() == tmp_path / "two"
    assert not choice.is_foreign


def test_bootstrap_servers_choose_a_foreign_cluster() -> None:
    choice = ClusterChoice(bootstrap_servers="h:1")
    assert choice.servers() == "h:1"
    assert choice.is_foreign


@pytest.mark.parametrize(
    ("choice", "option"),
    [
        (ClusterChoice(bootstrap_servers="h:1", run=Path("r")), "--run"),
        (ClusterChoice(bootstrap_servers="h:1", name="one"), "--name"),
    ],
)
def test_bootstrap_servers_exclude_the_other_options(choice: ClusterChoice, option: str) -> None:
    with pytest.raises(BadRequest, match=f"--bootstrap-servers or {option}, not both"):
        choice.servers()
