"""Lost connections, killed harnesses and killed agents: machines heal, and `clean` finishes."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from harness.recording.journal import Journal
from harness.targets import clean
from harness.targets.linux.clean import CleanOutcome
from harness.targets.ssh.target import SshTarget
from nemesis.hosts import Cut
from tests.support.require import require
from tests.support.targets import ssh_doomed, traffic
from tests.support.targets.ssh_hosts import DEAD_MAN_S, NODES, Hosts, eventually, hosts
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three hosts."""
    require("root", "netns", "loop", "faketime", "sshd")
    with hosts(tmp_path_factory.mktemp("h")) as made:
        yield made


@contextmanager
def running(lab: Hosts) -> Iterator[SshTarget]:
    """A target with a process on each node, and afterwards down; its run is not registered."""
    run = lab.place / ssh_doomed.RUN_ID
    run.mkdir()
    with Journal.create(
        run / "journal.jsonl", run_id=ssh_doomed.RUN_ID, registry=lab.place / ssh_doomed.REGISTRY
    ) as journal:
        target = ssh_doomed.target_of(lab.place, journal)
        try:
            ssh_doomed.begin(target)
            yield target
        finally:
            target.down()
            journal.finish()
            shutil.rmtree(run)


def beats(lab: Hosts, node: int) -> bool:
    """Whether the node's process runs and its disk takes what it writes."""
    [home] = lab.directory(node).glob("runs/hw-*")
    beats_seen: list[str] = []
    for _ in range(2):
        beats_seen.append(lab.run(node, "cat", f"{home}/data/beat"))
        time.sleep(0.5)
    return beats_seen[0] != beats_seen[1]


def test_a_lost_connection_is_made_again(lab: Hosts) -> None:
    """Faults stay in force, calls are answered, and each is executed once."""
    with running(lab) as target:
        target.links.block(Cut(2, 1))
        assert traffic.blocked(lab.target, 2, 1)
        for node in NODES:
            transport = target.machine(node).connection.transport
            assert transport is not None
            transport.sock.close()
        assert target.is_running(1)
        assert target.links.dropped(Cut(2, 1)) == 1
        target.links.unblock(Cut(2, 1))
        assert traffic.passes(lab.target, 2, 1)
        target.kill(1)
        assert target.exit_code(1) == -signal.SIGKILL


@contextmanager
def killed_harness(lab: Hosts) -> Iterator[Path]:
    """The journal of a harness that was killed when all was broken; nothing is to be left of it."""
    run = lab.place / ssh_doomed.RUN_ID
    run.mkdir()
    command = (sys.executable, "-m", ssh_doomed.__name__, str(lab.place))
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as harness:
            assert harness.stdout is not None
            assert harness.stdout.readline().strip() == ssh_doomed.READY
            harness.send_signal(signal.SIGKILL)
        assert traffic.blocked(lab.target, 2, 1)
        yield run / "journal.jsonl"
        assert lab.left() == []
        assert lab.rules_left(ssh_doomed.RUN_ID) == []
    finally:
        shutil.rmtree(run)


def undone(lab: Hosts, journal: Path) -> list[str]:
    """What `clean` removes of a run; a second time nothing."""
    done = clean.undo(journal, registry=lab.place / ssh_doomed.REGISTRY)
    assert done.outcome is CleanOutcome.UNDONE, done.problems
    again = clean.undo(journal, registry=lab.place / ssh_doomed.REGISTRY)
    assert (again.outcome, again.removed) == (CleanOutcome.UNDONE, ())
    return list(done.removed)


@at_turn(
    0,
    3,
    "harness/targets/ssh/test_lost_connections.py::test_agents_without_calls_end_by_themselves",
)
def test_a_machine_without_calls_heals_itself(lab: Hosts) -> None:
    """A partition, a disk stall, a pause: the nodes continue, and `clean` ends them."""
    with killed_harness(lab) as journal:
        assert not beats(lab, 3)
        eventually("packets pass", lambda: traffic.passes(lab.target, 2, 1, within_s=0.2))
        for node in NODES:
            eventually(f"node {node} goes on", partial(beats, lab, node))
        undone(lab, journal)


@at_turn(
    1,
    3,
    "harness/targets/ssh/test_lost_connections.py::test_clean_undoes_the_faults_of_a_killed_agent",
)
def test_agents_without_calls_end_by_themselves(lab: Hosts) -> None:
    """They kill the nodes and remove all but the files that the nodes wrote."""
    with killed_harness(lab) as journal:
        eventually("all agents end", lambda: not any(lab.agents().values()))
        for home in lab.homes():
            assert (home / "node.log").exists()
            assert not (home / "data").is_mount()
        undone(lab, journal)


@at_turn(
    2, 3, "harness/targets/ssh/test_lost_connections.py::test_a_machine_without_calls_heals_itself"
)
def test_clean_undoes_the_faults_of_a_killed_agent(lab: Hosts) -> None:
    """It finds the agent's journal on the host."""
    with killed_harness(lab) as journal:
        for node, pid in lab.agents().items():
            lab.run(node, "kill", "-KILL", str(pid))
        time.sleep(DEAD_MAN_S + 1)
        assert traffic.blocked(lab.target, 2, 1), "nobody was left to heal it"
        removed = undone(lab, journal)
        [freeze] = [each for each in removed if each.startswith("freeze of ")]
        assert " on node 2's host " in freeze
        assert traffic.passes(lab.target, 2, 1)
