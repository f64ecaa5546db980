"""Simulated machines as a target: the faults' operations, and the measurements that prove them."""

import asyncio
import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest

from harness.simulation.world.cluster import SimCluster
from harness.simulation.world.synchronous import GreenletRunner
from harness.simulation.world.target import SimTarget
from harness.simulation.world.world import World
from harness.systems.node_roles import BROKER, Layout
from harness.targets.base import NodeState, UnknownNode
from nemesis.faults.fault import Ability
from nemesis.hosts import CLIENTS, Cut

FILE = "log/t-0/0.log"


class Place:
    """A target whose nodes do not run, and its journal."""

    def __init__(self) -> None:
        self.world = World(1)
        self.cluster = SimCluster(self.world, Layout.combined([1, 2, 3]))
        self.task_runner = GreenletRunner(self.world, self.cluster.harness)
        self.journal: list[tuple[str, dict[str, Any]]] = []
        self.target = SimTarget(self.cluster, self.task_runner, self._record)

    def _record(self, kind: str, **fields: Any) -> None:
        self.journal.append((kind, fields))

    def write(self, content: bytes, *, synced: bool = True) -> None:
        """The beginning of a log on node 1's disk."""
        disk = self.target.disks._content(1)
        disk.makedirs("t-0")
        file = disk.open("t-0/0.log", create=True)
        file.append(content)
        if synced:
            disk.sync_all()


@pytest.fixture
def place() -> Iterator[Place]:
    """Ended at the end."""
    made = Place()
    yield made
    made.task_runner.close()
    made.cluster.close()


def test_simulated_target_has_most_abilities(place: Place) -> None:
    """Its machines have no hypervisor, and run no program of a user."""
    programs = {Ability.PROGRAM_SIGNALS, Ability.PROGRAM_CLOCKS, Ability.PROGRAM_CUTS}
    absent = {Ability.MACHINE_POWER} | programs
    assert {each.value for each in Ability} - absent == place.target.abilities


def test_nodes_start_and_end_by_kill_and_by_themselves(place: Place) -> None:
    """A stopped node still runs."""
    target, world = place.target, place.world
    with pytest.raises(NodeState, match="not running"):
        target.pause(1)
    for node in target.node_ids():
        target.start(node)
    with pytest.raises(NodeState, match="running already"):
        target.start(1)
    world.run_for(5)
    target.pause(1)
    assert [target.state(node) for node in (1, 2)] == ["T", "S"]
    target.resume(1)
    target.kill(2)
    assert (target.is_running(2), target.state(2), target.exit_code(2)) == (False, "", -9)
    assert target.exit_code(1) is None
    target.terminate(3)
    world.run_for(20)
    assert (target.is_running(3), target.exit_code(3)) == (False, 0)
    with pytest.raises(UnknownNode):
        target.start(CLIENTS)


def test_stop_kills_a_node_at_the_timeout(place: Place) -> None:
    """Its result tells whether the node ended by itself."""
    target, ended = place.target, list[bool]()

    async def idle() -> None:
        await asyncio.get_running_loop().create_future()

    def main() -> None:
        ended.append(target.stop(1, 30))
        target.disks.freeze(2)
        ended.append(target.stop(2, 0.2))

    place.cluster.harness.boot(idle)
    place.cluster.start()
    place.world.run_for(5)
    place.task_runner.run_main(main, 60)
    assert ended == [True, False]
    assert not any(target.is_running(node) for node in (1, 2))


def test_added_broker_joins_and_is_removed_without_a_trace(place: Place) -> None:
    """A broker more, which joins by itself; and no trace of it afterwards."""
    target = place.target
    place.cluster.start()
    place.world.run_for(5)
    place.cluster.add_node(4, BROKER)
    place.cluster.start(4)
    place.world.run_for(5)
    assert target.node_ids() == [1, 2, 3, 4]
    assert target.is_running(4)
    place.cluster.remove_node(4)
    assert target.node_ids() == [1, 2, 3]
    with pytest.raises(UnknownNode):
        target.is_running(4)


def test_probe_waits_for_a_frozen_disk(place: Place) -> None:
    """Without a freeze it takes as long as a sync."""
    disks, world = place.target.disks, place.world
    disks.freeze(1)
    disks.probe(1, "p", 4096)
    world.run_for(0.3)
    held = disks.probed(1, "p")
    assert held is not None
    assert (held.done, held.elapsed_ms) == (False, pytest.approx(300))
    disks.thaw(1)
    world.run_for(0.1)
    ended = disks.end_probe(1, "p")
    assert ended is not None
    assert ended.done
    assert 300 < ended.elapsed_ms < 310
    assert disks.probed(1, "p") is None


def test_probe_of_a_limited_disk_is_slow(place: Place) -> None:
    """As long as its limits say, and no longer without them."""
    disks, world = place.target.disks, place.world
    disks.limit(1, bytes_per_s=100_000, operations_per_s=0)
    assert disks.is_limited(1)
    disks.probe(1, "p", 50_000)
    world.run_for(0.4)
    assert not disks.probed(1, "p").done  # type: ignore[union-attr]
    world.run_for(0.2)
    assert disks.probed(1, "p").done  # type: ignore[union-attr]
    disks.unlimit(1)
    assert not disks.is_limited(1)


@pytest.mark.parametrize(
    ("how", "number"),
    [("fill", errno.ENOSPC), ("set_read_only", errno.EROFS), ("fail", errno.EIO)],
)
def test_probe_of_a_refusing_disk_has_the_kernels_error(
    place: Place, how: str, number: int
) -> None:
    """The error ends with the fault."""
    disks = place.target.disks
    getattr(disks, how)(1)
    disks.probe(1, "p", 4096)
    seen = disks.probed(1, "p")
    assert seen is not None
    assert (seen.done, seen.error) == (True, os.strerror(number))
    if how == "fill":
        assert disks.free_bytes(1) == 0
        assert disks.fill(1) == disks._filled[1]
        disks.drain(1)
        assert disks.free_bytes(1) > 1 << 20
    else:
        assert disks.disk_problem(1)
        with pytest.raises(NodeState, match="broken twice"):
            disks.freeze(1)
        disks.repair(1)
    assert not disks.disk_problem(1)


def test_power_cut_reports_lost_bytes_by_directory(place: Place) -> None:
    """All nodes lose power at one instant."""
    disks = place.target.disks
    place.write(b"a" * 100)
    place.write(b"b" * 50_000, synced=False)
    cuts = disks.cut_power([1, 2])
    assert {cut.at_ns for cut in cuts} == {place.world.now_ns}
    size = disks.files(1)[FILE]
    assert 100 <= size <= 50_100
    assert dict(cuts[0].lost) == ({"log/t-0": 50_100 - size} if size < 50_100 else {})
    assert dict(cuts[1].lost) == {}


def test_second_sync_failure_is_refused_until_the_first_is_undone(place: Place) -> None:
    """Until it is said that none is to any more."""
    disks = place.target.disks
    disks.fail_next_sync(1)
    with pytest.raises(NodeState, match="has failed already, or is about to"):
        disks.fail_next_sync(1)
    assert disks.failed_sync_bytes(1) is None
    disks.stop_sync_failures(1)
    disks.fail_next_sync(1)


def test_files_are_read_changed_and_restored(place: Place) -> None:
    """Changes are on the disk at once: a power loss keeps them."""
    disks = place.target.disks
    damaged: list[tuple[int, bool]] = []
    disks.on_damage = lambda node, wiped=False: damaged.append((node, wiped))
    place.write(b"0123456789")
    disks.keep_copy(1, "c", [FILE])
    disks.write(1, FILE, 3, b"xyz")
    disks.cut_power([1])
    assert disks.read(1, FILE, 2, 5) == b"2xyz6"
    disks.truncate(1, FILE, 4)
    assert disks.files(1) == {FILE: 4}
    assert disks.restore_copy(1, "c") == {FILE: (4, 10)}
    assert disks.restore_copy(1, "c") == {}
    disks.forget_copy(1, "c")
    assert disks.read(1, FILE, 0, 100) == b"0123456789"
    assert disks.wipe(1) == {"log/t-0": 10}
    assert disks.files(1) == {}
    assert damaged == [(1, False)] * 3 + [(1, True)]


def test_evidence_is_kept_and_written_to_the_journal(place: Place) -> None:
    """For the one moment when it could be measured."""
    place.target.disks.keep_evidence("key", "lost 7 bytes")
    assert place.target.disks.kept_evidence("key") == "lost 7 bytes"
    assert place.target.disks.kept_evidence("other") is None
    assert place.journal == [("disk-evidence", {"key": "key", "evidence": "lost 7 bytes"})]


def test_clock_reading_has_the_requested_offset(place: Place) -> None:
    """It also tells whether the node has read the clock."""
    clocks = place.target.clocks
    assert clocks.read(1) is None
    place.cluster.start()
    place.world.run_for(3)
    clocks.skew(1, "a", 1_000)
    clocks.skew(1, "b", -200)
    seen = clocks.read(1)
    assert seen is not None
    assert seen.allows(800)
    assert not seen.allows(1_000)
    assert not seen.looked
    assert (clocks.requested_offset_ms(1), clocks.requested_offset_ms(1, "b")) == (800, -200)
    place.cluster.nodes[1].clock.ms()
    assert clocks.read(1).looked  # type: ignore[union-attr]
    clocks.unskew(1, "a")
    clocks.unskew(1, "b")
    clocks.unskew(9, "b")
    assert clocks.requested_offset_ms(1) == 0
    assert clocks.read(1).allows(0)  # type: ignore[union-attr]


def test_cut_with_a_layer_counts_packets_over_all_its_turns(place: Place) -> None:
    """In force or not."""
    links = place.target.links
    cuts = [Cut(one, 2, layer="flap") for one in (1, 3)]
    place.cluster.start()
    counts = []
    for _ in range(2):
        links.block(*cuts)
        place.world.run_for(5)
        links.unblock(*cuts)
        counts.append(sum(map(links.dropped_in_total, cuts)))
    assert 0 < counts[0] < counts[1]


def test_paused_clients_do_not_pause_the_harness(place: Place) -> None:
    """They are two programs on one machine."""
    ticks = {"clients": 0, "harness": 0}

    def ticking(name: str) -> Any:
        async def tick() -> None:
            while True:
                ticks[name] += 1
                await asyncio.sleep(1)

        return tick

    clients = place.target.clients
    assert clients.states() == {}
    place.cluster.clients.boot(ticking("clients"))
    place.cluster.harness.boot(ticking("harness"))
    place.world.run_for(2.5)
    clients.pause()
    assert clients.states() == {1: "T"}
    place.world.run_for(3)
    assert ticks == {"clients": 3, "harness": 6}
    clients.resume()
    place.world.run_for(1)
    assert ticks["clients"] > 3
    assert clients.states() == {1: "S"}
