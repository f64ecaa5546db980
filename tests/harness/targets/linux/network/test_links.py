"""Faults of links survive removed nodes and dead processes, and leave nothing behind."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from harness.recording.journal import read
from harness.targets.base import CLIENTS, UnknownNode
from harness.targets.clean import clean
from harness.targets.linux import kernel, processes
from harness.targets.linux.clean import CleanOutcome
from harness.targets.linux.network import firewall, namespaces
from harness.targets.linux.network.links import LinuxLinks
from harness.targets.linux.packets import diagnosis
from harness.targets.linux.packets.packet_holder import MAX_HELD
from harness.targets.linux.undo import process_of
from harness.targets.local import LocalTarget
from nemesis.hosts import Cut, LinkQuality
from tests.harness.targets.local.test_rootless import home, python, run, unprivileged
from tests.support.nemesis.fakes import FakeJournal, Trace
from tests.support.require import require
from tests.support.targets import traffic
from tests.support.targets.machine import leftovers, local_target, new_run_id
from tests.support.targets.traffic import Numbered, blocked, passes

__all__ = ["home", "python"]

EVERYTHING = LinkQuality(delay_ms=20, jitter_ms=5, lost=0.1, reordered=0.1, duplicated=0.1)

JOURNAL = FakeJournal(Trace())

HARNESS = """
import sys, pathlib, time
from harness.recording.journal import Journal
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from nemesis.hosts import Cut, LinkQuality
run_dir, registry = map(pathlib.Path, sys.argv[1:3])
journal = Journal.create(run_dir / "journal.jsonl", run_id=sys.argv[3], registry=registry)
target = LocalTarget(sys.argv[3], run_dir, [1, 2], journal, volume=Volume.DIRECTORY)
target.up()
target.links.degrade([(1, 2), (2, 1), (0, 1), (1, 0)], LinkQuality(delay_ms=5000, lost=0.5), "slow")
target.links.block(Cut(1, 2), Cut(1, 0, 9092, answers=True))
print("ready", flush=True)
time.sleep(1000)
"""

IN_A_USER_NAMESPACE = """
from harness.targets.local.rootless import ensure_privileges
ensure_privileges()
import sys, pytest
sys.exit(pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def holders(target: LocalTarget, run_dir: Path) -> list[processes.ProcessId]:
    """The living holders of a target's packets, by the journal."""
    found = [each for each in read(run_dir / "journal.jsonl") if each["kind"] == "local.process"]
    ours = [process_of(each) for each in found if target.network.name in str(each["machine"])]
    return [each for each in ours if processes.is_alive(each)]


def test_an_ability_that_the_kernel_lacks_is_not_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every part is probed on its own."""
    require("root", "netns")
    with local_target(tmp_path) as target:
        everything = {"packet-drops", "link-quality", "connection-resets"}
        assert target.links.abilities == everything
        assert target.abilities >= everything
        monkeypatch.setattr(diagnosis, "_DESTROY", 99)
        assert LinuxLinks(lambda: target.network, JOURNAL).abilities == everything - {
            "connection-resets"
        }
        monkeypatch.setattr(firewall, "_SHARES", 0)
        assert LinuxLinks(lambda: target.network, JOURNAL).abilities == {"packet-drops"}


def test_link_faults_of_an_unknown_machine_are_refused(tmp_path: Path) -> None:
    """Healing it is no error: the machine may have been removed."""
    require("root", "netns")
    with local_target(tmp_path) as target:
        links = target.links
        for do in (
            lambda: links.block(Cut(1, 7)),
            lambda: links.degrade([(7, 1)], EVERYTHING, "bad"),
            lambda: links.reset([(1, 7)], "reset"),
        ):
            with pytest.raises(UnknownNode, match="no node 7"):
                do()
        links.unblock(Cut(1, 7), Cut(7, 1), Cut(7, 0, 9092, answers=True))
        links.restore([(1, 7), (7, 1)], "bad")
        assert links.dropped(Cut(1, 7)) is None
        assert links.counters((1, 7), "bad") is None


def test_spared_ports_stay_reachable(tmp_path: Path) -> None:
    """No cut and no reset affects them."""
    require("netns", "root")
    control = 2222
    with local_target(tmp_path, nodes=2) as target:
        network = target.network
        assert firewall.remove(network.namespace(2), network.name)
        firewall.prepare(network.namespace(2), network.name, (control,))
        links = LinuxLinks(lambda: network, FakeJournal(Trace()), spared=(control,))
        links.block(Cut(1, 2))
        assert blocked(target, 1, 2)
        assert traffic.connects(target, 1, 2, control)
        links.unblock(Cut(1, 2))
        with traffic.listening(target, 2, control), namespaces.entered(network.namespace(1)):
            connection = socket.create_connection((network.address(2), control), timeout=60)
        with connection:
            assert links.reset([(1, 2)], "layer") == 0
        links.close()


def test_only_machines_within_reach_are_changed(tmp_path: Path) -> None:
    """The other machines have their own agents."""
    require("netns", "root")
    with local_target(tmp_path, nodes=3) as target:
        links = LinuxLinks(lambda: target.network, FakeJournal(Trace()), reach=(2,))
        links.block(Cut(1, 2), Cut(1, 3))
        links.degrade([(1, 3)], LinkQuality(lost=1.0), "layer")
        assert blocked(target, 1, 2)
        assert passes(target, 1, 3)
        assert links.dropped(Cut(1, 2)) == 1
        assert links.dropped(Cut(1, 3)) is None
        links.close()


def test_a_node_is_removed_and_added_again_while_its_links_are_bad(tmp_path: Path) -> None:
    """Healing works for the other nodes; the new machine has no fault."""
    require("root", "netns")
    with local_target(tmp_path, nodes=2) as target:
        both = [(1, 2), (2, 1)]
        target.links.degrade(both, LinkQuality(delay_ms=60_000), "slow")
        target.links.block(Cut(1, CLIENTS), Cut(CLIENTS, 2))
        assert len(holders(target, tmp_path / "run")) == 2
        target.remove_node(2)
        target.links.restore(both, "slow")
        target.links.unblock(Cut(1, CLIENTS), Cut(CLIENTS, 2))
        assert len(holders(target, tmp_path / "run")) == 1
        target.add_node(2)
        for src, dst in (*both, (1, CLIENTS), (CLIENTS, 2)):
            assert passes(target, src, dst)
            assert target.links.counters((src, dst), "slow") is None


def test_packet_holders_start_before_the_link_is_slow(tmp_path: Path) -> None:
    """One for each machine with slow links, none for faults by rules; later faults use them too."""
    require("root", "netns")
    both, slow = [(1, 2), (2, 1)], LinkQuality(delay_ms=60_000)
    with local_target(tmp_path, nodes=2) as target:
        target.links.prepare(both, LinkQuality(lost=0.5, duplicated=0.5))
        assert holders(target, tmp_path / "run") == []
        target.links.prepare([*both, (1, 7)], slow)
        prepared = holders(target, tmp_path / "run")
        assert len(prepared) == 2
        assert passes(target, 1, 2)
        for _ in range(2):
            target.links.degrade(both, slow, "slow")
            assert blocked(target, 1, 2)
            target.links.restore(both, "slow")
            assert passes(target, 1, 2)
        assert holders(target, tmp_path / "run") == prepared


def test_packets_pass_when_their_holder_dies(tmp_path: Path) -> None:
    """Only held packets are lost; the heal is no error, and the link can be slow again."""
    require("root", "netns")
    with local_target(tmp_path, nodes=2) as target:
        target.links.degrade([(1, 2)], LinkQuality(delay_ms=60_000), "slow")
        assert blocked(target, 1, 2)
        assert processes.end(holders(target, tmp_path / "run")) == []
        assert passes(target, 1, 2)
        target.links.restore([(1, 2)], "slow")
        target.links.degrade([(1, 2)], LinkQuality(delay_ms=60_000), "slow")
        assert blocked(target, 1, 2)
        target.links.restore([(1, 2)], "slow")
        assert passes(target, 1, 2)


def test_held_packets_pass_when_the_link_is_healed(tmp_path: Path) -> None:
    """At once, in order, before later packets; other sources stay slow."""
    require("root", "netns")
    with local_target(tmp_path, nodes=2) as target, Numbered(target, 1, 2) as datagrams:
        target.links.degrade([(1, 2), (CLIENTS, 2)], LinkQuality(delay_ms=600_000), "slow")
        sent = datagrams.send(100)
        assert datagrams.nothing_more()
        target.links.restore([(1, 2)], "slow")
        sent += datagrams.send(100)
        assert datagrams.receive(200) == sent
        assert blocked(target, CLIENTS, 2)


def test_the_end_of_a_run_ends_the_holders_of_links_that_were_not_healed(tmp_path: Path) -> None:
    """No process is left, no zombie either."""
    require("root", "netns")
    with local_target(tmp_path, nodes=2) as target:
        target.links.degrade([(1, 2), (2, 1)], LinkQuality(delay_ms=600_000), "slow")
        pids = [each.pid for each in holders(target, tmp_path / "run")]
    assert len(pids) == 2
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_a_second_source_becomes_slow_while_packets_of_the_first_are_held(tmp_path: Path) -> None:
    """The first source's packets are kept."""
    require("root", "netns")
    with local_target(tmp_path, nodes=3) as target, Numbered(target, 1, 2) as datagrams:
        target.links.degrade([(1, 2)], LinkQuality(delay_ms=30), "slow")
        sent = datagrams.send(50)
        for source in (3, CLIENTS):
            target.links.degrade([(source, 2)], LinkQuality(delay_ms=1), "slow")
            sent += datagrams.send(50)
        assert datagrams.receive(150) == sent
        target.links.restore([(1, 2), (3, 2), (CLIENTS, 2)], "slow")


def test_the_packet_holders_end_with_a_killed_harness(tmp_path: Path) -> None:
    """Packets pass, and `clean` removes the rest."""
    require("root", "netns")
    run_id, registry, run_dir = new_run_id(), tmp_path / "registry", tmp_path / "run"
    registry.mkdir()
    run_dir.mkdir()
    argv = [sys.executable, "-c", HARNESS, str(run_dir), str(registry), run_id]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"ready\n"
        found = [
            each for each in read(run_dir / "journal.jsonl") if each["kind"] == "local.process"
        ]
        held = [process_of(each) for each in found]
        assert [processes.is_alive(each) for each in held] == [True] * 3
        harness.send_signal(signal.SIGKILL)
    gone = kernel.wait_until(lambda: not any(map(processes.is_alive, held)), traffic.TIMEOUT_S)
    [cleaned] = clean(registry=registry)
    assert gone
    assert (cleaned.outcome, cleaned.problems) == (CleanOutcome.UNDONE, ())
    assert leftovers(run_id, run_dir) == []


def test_packets_beyond_the_bound_of_a_queue_are_lost_and_counted(tmp_path: Path) -> None:
    """The evidence includes them."""
    require("root", "netns")
    with local_target(tmp_path, nodes=2) as target, Numbered(target, 1, 2) as datagrams:
        target.links.degrade([(1, 2)], LinkQuality(delay_ms=60_000), "slow")
        datagrams.send(MAX_HELD + 100)

        def lost() -> int:
            found = target.links.counters((1, 2), "slow")
            assert found is not None
            return found.lost

        assert kernel.wait_until(lambda: lost() == 100, traffic.TIMEOUT_S), lost()
        target.links.restore([(1, 2)], "slow")


@pytest.mark.slow
def test_a_user_without_privileges_can_make_every_network_fault(python: str, home: Path) -> None:
    """The same tests pass inside a user namespace."""
    module = str(Path(__file__).with_name("test_network_faults.py"))
    own = f"--basetemp={home / 'tests'}"
    done = run(unprivileged(IN_A_USER_NAMESPACE, module, own, python=python), home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
