"""Finding running clusters by run directory and by name."""

import json
import threading
from pathlib import Path

import pytest

from harness.recording import journal, store
from harness.recording.journal import Journal
from harness.run import cluster
from harness.run.cluster import UNNAMED, ClusterError, RunningCluster
from harness.targets.linux.clean import CleanOutcome
from tests.support.targets.machine import new_run_id


def run_up(root: Path, name: str) -> Path:
    """Make the run directory of a cluster with this plan name."""
    run = store.create(root, name, versions={}, commit=None)
    run.write_json("plan.json", {"name": name})
    run.update(bootstrap=f"{run.path.name}:9092")
    (run.path / "journal.jsonl").touch()
    return run.path


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The run directories of the running clusters; tests add to them."""
    runs: list[Path] = []
    monkeypatch.setattr(journal, "registered", lambda: [run / "journal.jsonl" for run in runs])
    monkeypatch.setattr(cluster, "has_living_process", lambda _: True)
    return runs


def test_cluster_is_found_by_its_name(tmp_path: Path, up: list[Path]) -> None:
    up += [run_up(tmp_path, "one"), run_up(tmp_path, "two")]
    found = cluster.find(name="two")
    assert found == RunningCluster(run=up[1], bootstrap=f"{up[1].name}:9092", name="two")
    assert cluster.find(up[0]).name == "one"


def test_single_cluster_needs_no_name(tmp_path: Path, up: list[Path]) -> None:
    up.append(run_up(tmp_path, UNNAMED))
    assert cluster.find().run == up[0]
    assert cluster.find(name=UNNAMED).run == up[0]


def test_error_for_several_clusters_lists_their_names(tmp_path: Path, up: list[Path]) -> None:
    """A cluster without a name of its own is listed by its run directory."""
    up += [run_up(tmp_path, "one"), run_up(tmp_path, "two"), run_up(tmp_path, UNNAMED)]
    with pytest.raises(ClusterError) as refused:
        cluster.find()
    assert str(refused.value).splitlines() == [
        "3 clusters are up; choose one:",
        "  --name one",
        "  --name two",
        f"  --run {up[2]}",
    ]


def test_unknown_name_is_refused_with_the_known_names(tmp_path: Path, up: list[Path]) -> None:
    up.append(run_up(tmp_path, "one"))
    with pytest.raises(ClusterError, match=r"no cluster named tow is up.*\n  --name one"):
        cluster.find(name="tow")
    up.clear()
    with pytest.raises(ClusterError, match="cluster up --detach"):
        cluster.find(name="one")


def test_run_directory_and_name_exclude_each_other(tmp_path: Path, up: list[Path]) -> None:
    up.append(run_up(tmp_path, "one"))
    with pytest.raises(ClusterError, match="not both"):
        cluster.find(up[0], "one")


def test_name_of_a_running_cluster_cannot_be_used_again(tmp_path: Path, up: list[Path]) -> None:
    """Clusters without a name do not exclude each other."""
    up += [run_up(tmp_path, "one"), run_up(tmp_path, UNNAMED)]
    with pytest.raises(ClusterError, match=r"named one is up already .*cluster down --name one"):
        cluster._check_name_is_free("one")
    cluster._check_name_is_free("two")
    cluster._check_name_is_free(UNNAMED)


def test_facts_of_a_named_cluster_tell_its_name(tmp_path: Path) -> None:
    named = cluster._facts("one", "h:1", tmp_path, detach=True)
    assert (named["name"], named["stop"]) == ("one", "highwater cluster down --name one")
    unnamed = cluster._facts(UNNAMED, "h:1", tmp_path, detach=True)
    assert "name" not in unnamed
    assert unnamed["stop"] == f"highwater cluster down {tmp_path}"
    assert json.dumps(unnamed)  # plain texts


def held_journal(run: Path, *, detached: bool) -> Journal:
    """The journal of a cluster that another command works on."""
    (run / "journal.jsonl").unlink()
    return Journal.create(run / "journal.jsonl", run_id=new_run_id(), detached=detached)


def test_down_waits_for_a_command_that_looks_at_a_detached_cluster(tmp_path: Path) -> None:
    """`clean` holds the journal for a moment, and the cluster was called not detached."""
    run = run_up(tmp_path, "mine")
    held = held_journal(run, detached=True)
    release = threading.Timer(0.3, held.close)
    release.start()
    (done,) = cluster.down(tmp_path, run)
    assert done.outcome is CleanOutcome.UNDONE
    release.join()


def test_down_does_not_wait_for_a_cluster_in_the_foreground(tmp_path: Path) -> None:
    """It says at once what ends it."""
    run = run_up(tmp_path, "mine")
    with held_journal(run, detached=False) as held:
        with pytest.raises(ClusterError, match="not detached: stop it with Ctrl-C"):
            cluster.down(tmp_path, run)
        held.finish()


def test_down_names_what_is_in_the_way_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command that never ends."""
    monkeypatch.setattr(cluster, "PATIENCE_S", 0.2)
    run = run_up(tmp_path, "mine")
    with held_journal(run, detached=True) as held:
        with pytest.raises(ClusterError, match="in use by another highwater command: try again"):
            cluster.down(tmp_path, run)
        held.finish()
