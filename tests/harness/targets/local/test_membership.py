"""Nodes added to and removed from a running target, also by another process."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.recording.journal import Journal
from harness.targets.base import NodeState, TargetError, UnknownNode
from harness.targets.linux import kernel, processes
from harness.targets.linux.disks.volumes import Volume
from harness.targets.linux.network import namespaces
from harness.targets.local import LocalTarget
from nemesis.hosts import Cut
from tests.support.require import require
from tests.support.targets.machine import leftovers, local_target, new_run_id

SLEEP = ["sleep", "1000"]
ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def target(tmp_path: Path) -> Iterator[LocalTarget]:
    """A target with two nodes."""
    require("root", "netns")
    with local_target(tmp_path, 2) as made:
        yield made


def reaches(target: LocalTarget, source: int, goal: int) -> bool:
    """Whether a packet from one node gets to another: who listens nowhere refuses at once."""
    script = (
        "import errno, socket, sys\n"
        "try: socket.create_connection((sys.argv[1], 9), 0.5)\n"
        "except OSError as error: sys.exit(error.errno != errno.ECONNREFUSED)\n"
    )
    with namespaces.entered(target.network.namespace(source)):
        argv = ["python3", "-c", script, target.address(goal)]
        return subprocess.run(argv, check=False, timeout=30).returncode == 0


def test_a_node_is_added_and_removed(target: LocalTarget) -> None:
    """It works like the other nodes, and leaves nothing behind."""
    for _ in range(2):
        target.add_node(3)
        assert list(target.node_ids()) == [1, 2, 3]
        assert target.data_dir(3).is_dir()
        assert reaches(target, 1, 3)
        assert reaches(target, 3, 2)
        target.links.block(Cut(1, 3))
        assert not reaches(target, 1, 3)
        target.set_command(3, SLEEP, ENV, target.data_dir(3).with_name("log"))
        target.start(3)
        pid = target.pid(3)
        assert pid is not None

        target.remove_node(3)
        assert list(target.node_ids()) == [1, 2]
        assert processes.stat(pid) is None
        assert not target.network.namespace(3).exists()
        assert not list(target.data_dir(1).parent.parent.glob("3/data*"))
        with pytest.raises(UnknownNode):
            target.start(3)
        assert reaches(target, 1, 2)


def test_adding_an_existing_node_is_refused(target: LocalTarget) -> None:
    """A node number is unique."""
    with pytest.raises(NodeState, match="node 2 exists already"):
        target.add_node(2)


def test_the_disk_of_an_added_node_is_removed_with_it(tmp_path: Path) -> None:
    """Or kept on request."""
    require("root", "netns", "loop")
    with local_target(tmp_path, 1, Volume.IMAGE_EXT4) as target:
        for kept in (True, False):
            node = 2 + kept
            target.add_node(node)
            data = target.data_dir(node)
            assert kernel.is_mounted(data)
            target.remove_node(node, keep_data=kept)
            assert not kernel.is_mounted(data)
            assert data.with_name("data.img").exists() is kept


def test_another_process_attaches_to_a_running_target(tmp_path: Path) -> None:
    """The journal names nodes, added and removed ones, and processes."""
    require("root", "netns")
    registry, run_dir, run_id = tmp_path / "registry", tmp_path / "run", new_run_id()
    registry.mkdir()
    run_dir.mkdir()
    path = run_dir / "journal.jsonl"
    with Journal.create(path, run_id=run_id, detached=True, registry=registry) as journal:
        maker = LocalTarget(run_id, run_dir, [1, 2], journal, volume=Volume.DIRECTORY, uplink=True)
        maker.up()
        maker.add_node(3)
        maker.remove_node(2)
        maker.set_command(1, SLEEP, ENV, tmp_path / "log")
        maker.start(1)
    with Journal.take_over(path, registry=registry) as journal:
        target = LocalTarget.attach(run_id, run_dir, journal)
        assert list(target.node_ids()) == [1, 3]
        assert target.network == maker.network
        assert target.is_running(1)
        assert not target.is_running(3)
        assert target.pid(1) == maker.pid(1)
        target.pause(1)
        assert target.state(1) == "T"
        target.resume(1)
        target.add_node(4)
        assert reaches(target, 1, 4)
        target.kill(1)
        assert not target.is_running(1)
        assert target.exit_code(1) is None
        target.set_command(1, SLEEP, ENV, tmp_path / "log")
        target.start(1)
        assert target.stop(1)
        target.down()
        journal.finish()
    assert leftovers(run_id, run_dir) == []
    assert maker.exit_code(1) == -signal.SIGKILL  # ours all the time: nobody else may reap it


def test_attaching_without_a_running_target_is_refused(tmp_path: Path) -> None:
    """The journal has no such record."""
    with Journal.create(tmp_path / "j.jsonl", run_id="r", registry=tmp_path) as journal:
        with pytest.raises(TargetError, match="records no running cluster"):
            LocalTarget.attach("r", tmp_path, journal)
        journal.finish()
