"""What the faults of disks do to whom, in which order, and what they say of it."""

import random
from collections.abc import Sequence

import pytest

from nemesis.base import BadSchedule, NotApplicable
from nemesis.faults.catalogue import find
from nemesis.faults.disk import FAULTS
from nemesis.faults.disk.base import describe_lost_bytes
from nemesis.faults.disk.damage import KINDS
from nemesis.faults.fault import Fault, Injection, Params
from tests.support.nemesis.fakes import FakeMachines, Trace

LOG = "log/a-0/00000000000000000000.log"
VOTE = "log/__cluster_metadata-0/quorum-state"


@pytest.fixture
def trace() -> Trace:
    """What happened."""
    return Trace()


@pytest.fixture
def machines(trace: Trace) -> FakeMachines:
    """Three nodes with a log and a vote each."""
    found = FakeMachines(trace)
    for node in (1, 2, 3):
        found.disks.contents[node] = {LOG: bytes(range(200)), VOTE: b"{}"}
    return found


def injection(fault: Fault, nodes: Sequence[int] = (2,), seed: int = 1, **given: str) -> Injection:
    """The fault, aimed at the nodes."""
    params = Params.of(fault.options, given)
    return fault.plan_injection(nodes, (1, 2, 3), random.Random(seed), params)


HEALED_BY_RESTART = ("disk.read-only", "disk.error")


@pytest.mark.parametrize("name", ["disk.stall", "disk.slow", "disk.full", *HEALED_BY_RESTART])
def test_temporary_disk_faults_are_confirmed_and_may_be_healed_twice(
    name: str, machines: FakeMachines
) -> None:
    """The proof is there while it is in force, and the proof of the healing afterwards."""
    fault, hosts = find(name), machines.hosts()
    aimed = injection(fault, (1, 2))
    fault.inject(hosts, aimed)
    effect = fault.measure_effect(hosts, aimed)
    assert effect.confirmed, effect.evidence
    assert "node 1: a write" in effect.evidence
    for _ in range(2):
        fault.heal(hosts, aimed)
        healing = fault.measure_heal(hosts, aimed)
        assert healing.confirmed, healing.evidence
    disks = machines.disks
    for left in (disks.frozen, disks.limited, disks.ballast, disks.ailments, disks.attempts):
        assert not left
    assert all(machines.processes.is_running(node) for node in (1, 2, 3))


@pytest.mark.parametrize("name", ["disk.stall", "disk.slow", "disk.full", *HEALED_BY_RESTART])
def test_a_disk_fault_is_not_confirmed_while_writes_succeed(
    name: str, machines: FakeMachines
) -> None:
    """Whatever undid the fault before its heal: it is not said to be in force."""
    fault, hosts = find(name), machines.hosts()
    aimed = injection(fault)
    fault.inject(hosts, aimed)
    disks = machines.disks
    for left in (disks.frozen, disks.limited, disks.ballast):
        left.clear()
    disks.ailments.clear()
    assert not fault.measure_effect(hosts, aimed).confirmed


@pytest.mark.parametrize("name", HEALED_BY_RESTART)
def test_a_disk_is_repaired_while_its_node_is_down(
    name: str, machines: FakeMachines, trace: Trace
) -> None:
    """Kill, then repair, then start."""
    fault, hosts = find(name), machines.hosts()
    aimed = injection(fault)
    fault.inject(hosts, aimed)
    fault.heal(hosts, aimed)
    done = [e[0] for e in trace.entries if e[0] in ("kill", "repair", "start")]
    assert done == ["kill", "repair", "start"]


def test_a_node_is_paused_while_its_disk_turns_read_only(
    machines: FakeMachines, trace: Trace
) -> None:
    """Nothing may be written between the sync and the refusal; a paused node stays paused."""
    fault, hosts = find("disk.read-only"), machines.hosts()
    machines.processes.pause(1)
    trace.entries.clear()
    fault.inject(hosts, injection(fault, (1, 2)))
    assert [entry[:2] for entry in trace.entries if entry[0] != "probe"] == [
        ("set_read_only", 1),
        ("pause", 2),
        ("set_read_only", 2),
        ("resume", 2),
    ]


def test_a_full_disk_stays_full(machines: FakeMachines, trace: Trace) -> None:
    """What the node frees is taken with every pulse, and a write that went through tried again."""
    fault, hosts = find("disk.full"), machines.hosts()
    aimed = injection(fault)
    fault.inject(hosts, aimed)
    machines.disks.ballast.clear()
    assert not fault.measure_effect(hosts, aimed).confirmed
    fault.tick(hosts, aimed, 250)
    assert fault.measure_effect(hosts, aimed).confirmed
    assert len(trace.of("probe")) == 1  # it was looked at after the disk was full again
    assert len(trace.of("fill")) == 2


def test_a_node_that_ended_on_a_full_disk_is_started(machines: FakeMachines) -> None:
    """It would not come back by itself."""
    fault, hosts = find("disk.full"), machines.hosts()
    aimed = injection(fault)
    fault.inject(hosts, aimed)
    machines.processes.kill(2)
    assert "and the node does not run" in fault.measure_effect(hosts, aimed).evidence
    fault.heal(hosts, aimed)
    assert machines.processes.is_running(2)


def test_a_node_that_ends_after_a_full_disk_was_healed_is_started(machines: FakeMachines) -> None:
    """It had met the full disk, and was still on its way out; who is kept down stays down."""
    fault, hosts = find("disk.full"), machines.hosts()
    aimed = injection(fault, (1, 2))
    fault.inject(hosts, aimed)
    fault.heal(hosts, aimed)
    assert fault.measure_heal(hosts, aimed).confirmed
    assert fault.follow_up(hosts, aimed) == ""
    for node in (1, 2):
        machines.processes.kill(node)
    hosts.fault_state.keep_down("another fault", 1)
    assert fault.follow_up(hosts, aimed) == "node 2 ended later because of it, and was started"
    assert [machines.processes.is_running(node) for node in (1, 2)] == [False, True]
    machines.processes.kill(2)
    assert fault.follow_up(hosts, aimed) == ""


def test_a_write_that_slipped_through_a_stall_is_tried_again(machines: FakeMachines) -> None:
    """Another fault may have made the disk go on for a moment."""
    fault, hosts = find("disk.stall"), machines.hosts()
    aimed = injection(fault)
    fault.inject(hosts, aimed)
    assert fault.measure_effect(hosts, aimed).confirmed
    for wakes in (False, True):
        machines.disks.frozen = set() if wakes else {2}
        machines.trace.entries.clear()
        fault.tick(hosts, aimed, 250)
        assert len(machines.trace.of("probe")) == int(wakes)


def test_a_node_whose_sync_failed_is_restarted(machines: FakeMachines, trace: Trace) -> None:
    """Whoever did not sync goes on; both times nothing is left to fail."""
    fault, hosts = find("failed-fsync"), machines.hosts()
    aimed = injection(fault, (1, 2))
    fault.inject(hosts, aimed)
    effect = fault.measure_effect(hosts, aimed)
    assert effect.confirmed
    assert effect.evidence.startswith("node 1: an fsync of 100 bytes failed; node 2: ")
    del machines.disks.drops[2]
    effect = fault.measure_effect(hosts, aimed)
    assert not effect.confirmed
    assert effect.evidence.endswith("node 2: no fsync yet")
    for _ in range(2):
        fault.heal(hosts, aimed)
        assert fault.measure_heal(hosts, aimed).confirmed
    assert trace.of("kill") == [("kill", 1)]
    assert not machines.disks.drops


def test_all_are_killed_before_the_first_loses_power(machines: FakeMachines, trace: Trace) -> None:
    """And the evidence counts the bytes of logs apart from those of the metadata log."""
    fault, hosts = find("power-loss"), machines.hosts()
    machines.disks.unsynced[1] = {"log/a-0": 5000, "log/b-11": 70, "log": 3}
    machines.disks.unsynced[3] = {"log/__cluster_metadata-0": 40}
    aimed = injection(fault, (1, 3))
    fault.inject(hosts, aimed)
    assert sorted(trace.entries[:2]) == [("kill", 1), ("kill", 3)]
    assert trace.entries[2] == ("cut_power", 1, 3)
    effect = fault.measure_effect(hosts, aimed)
    assert effect.confirmed
    assert effect.evidence == (
        "node 1: lost 5,070 bytes of logs (a-0 5,000, b-11 70), 0 of the metadata log, "
        "3 of other files, 2 nodes within 1.0 ms; "
        "node 3: lost 0 bytes of logs, 40 of the metadata log, 0 of other files, "
        "2 nodes within 1.0 ms"
    )
    fault.heal(hosts, aimed)
    assert fault.measure_heal(hosts, aimed).confirmed


def test_a_lost_disk_is_empty(machines: FakeMachines) -> None:
    """The node is down meanwhile; what there was is counted."""
    fault, hosts = find("disk.lost"), machines.hosts()
    aimed = injection(fault)
    fault.inject(hosts, aimed)
    assert machines.disks.contents[2] == {}
    assert not machines.processes.is_running(2)
    effect = fault.measure_effect(hosts, aimed)
    assert "200 bytes of logs (a-0 200), 2 of the metadata log" in effect.evidence
    fault.heal(hosts, aimed)
    assert fault.measure_heal(hosts, aimed).confirmed


def test_one_bit_is_flipped_where_the_seed_says(machines: FakeMachines) -> None:
    """The same place for the same injection; the evidence says which byte, from what to what."""
    fault, hosts = find("disk.bit-flip"), machines.hosts()
    aimed = injection(fault, (1, 2))
    fault.inject(hosts, aimed)
    before = bytes(range(200))
    for node in (1, 2):
        after = machines.disks.contents[node][LOG]
        [place] = [i for i in range(200) if before[i] != after[i]]
        assert (before[place] ^ after[place]).bit_count() == 1
        said = machines.disks.notes[f"{aimed.detail('key')}/{node}"]
        assert f"byte at {place:,} flipped, 0x{before[place]:02x} to 0x{after[place]:02x}" in said
        assert not machines.processes.is_running(node)
    assert fault.measure_effect(hosts, aimed).damaged == {1: [LOG], 2: [LOG]}
    again = FakeMachines(Trace())
    again.disks.contents[1] = {LOG: before}
    fault.inject(again.hosts(), aimed)
    assert again.disks.contents[1][LOG] == machines.disks.contents[1][LOG]
    assert injection(fault, seed=2) != injection(fault, seed=1)


def test_a_tail_is_truncated(machines: FakeMachines) -> None:
    """At least one byte, and what was cut is told."""
    fault, hosts = find("disk.cut-tail"), machines.hosts()
    aimed = injection(fault, file="vote")
    fault.inject(hosts, aimed)
    left = machines.disks.contents[2][VOTE]
    assert b"{}".startswith(left)
    assert left != b"{}"
    assert f"the last {2 - len(left)} bytes cut off" in fault.measure_effect(hosts, aimed).evidence
    fault.heal(hosts, aimed)
    assert machines.processes.is_running(2)
    assert fault.measure_heal(hosts, aimed).confirmed


OTHER_LOG = "log/b-0/00000000000000000000.log"


def test_a_misdirected_write_goes_to_another_file_of_its_kind(machines: FakeMachines) -> None:
    """Of the same kind, as far as that goes; zeros are where it belongs."""
    fault, hosts = find("disk.misdirected"), machines.hosts()
    before = {LOG: bytes([7]) * 600, OTHER_LOG: bytes([8]) * 40}
    machines.disks.contents[2] = before | {VOTE: b"{}"}
    aimed = injection(fault, seed=next(n for n in range(99) if _strays_from(LOG, OTHER_LOG, n)))
    fault.inject(hosts, aimed)
    assert not machines.processes.is_running(2)
    after = machines.disks.contents[2]
    assert after[LOG] == bytes([7]) * 512 + bytes(88)
    assert after[OTHER_LOG] == bytes([7]) * 40
    assert after[VOTE] == b"{}"
    effect = fault.measure_effect(hosts, aimed)
    assert f"the last 88 bytes, from 512 on, went to {OTHER_LOG}, from 0 on" in effect.evidence
    assert effect.damaged == {2: [LOG, OTHER_LOG]}
    fault.heal(hosts, aimed)
    assert fault.measure_heal(hosts, aimed).confirmed


def _strays_from(path: str, other: str, seed: int) -> bool:
    """Whether an injection of that seed takes the first file's write to the other."""
    key = injection(find("disk.misdirected"), seed=seed).detail("key")
    rng = random.Random(f"{key}/2")
    return rng.choice([path, other]) == path and rng.choice([other, path]) == other


def test_a_misdirected_write_without_another_place_is_lost(machines: FakeMachines) -> None:
    """The only file of its kind, of one sector."""
    fault, hosts = find("disk.misdirected"), machines.hosts()
    aimed = injection(fault)
    fault.inject(hosts, aimed)
    assert machines.disks.contents[2][LOG] == bytes(200)
    assert "went nowhere" in fault.measure_effect(hosts, aimed).evidence


@pytest.mark.parametrize("sectors", [0, 1, 2])
def test_a_misdirected_write_never_keeps_its_position_in_another_log(
    machines: FakeMachines, sectors: int
) -> None:
    """There it would be whole batches, and nothing tells whose; elsewhere it may go."""
    fault, hosts = find("disk.misdirected"), machines.hosts()
    at, landed = 512 * sectors, set[bool]()
    for seed in range(20):
        machines.disks.contents[2] = {LOG: bytes([7]) * (at + 200), OTHER_LOG: bytes([8]) * 1600}
        fault.inject(hosts, injection(fault, seed=seed))
        other = machines.disks.contents[2][OTHER_LOG]
        assert 7 not in other[at : at + 512]
        landed.add(7 in other)
    assert True in landed


def test_a_stale_copy_is_restored_when_it_is_old_enough(machines: FakeMachines) -> None:
    """The node runs on until then; files that did not change stay as they are."""
    fault, hosts = find("disk.stale-copy"), machines.hosts()
    aimed = injection(fault, age_ms="1000")
    fault.inject(hosts, aimed)
    machines.disks.contents[2][LOG] += b"new"
    fault.tick(hosts, aimed, 999)
    assert machines.processes.is_running(2)
    assert not fault.measure_effect(hosts, aimed).confirmed
    fault.tick(hosts, aimed, 1001)
    fault.tick(hosts, aimed, 1251)
    assert machines.disks.contents[2][LOG] == bytes(range(200))
    effect = fault.measure_effect(hosts, aimed)
    assert effect.confirmed
    restored = f"restored to an earlier state, 1,001 ms ago: {LOG} (203 to 200 bytes)"
    assert restored in effect.evidence
    assert effect.damaged == {2: [LOG]}
    fault.heal(hosts, aimed)
    assert machines.disks.copies == {}
    assert machines.processes.is_running(2)


def test_a_stale_copy_of_unchanged_files_has_no_effect(machines: FakeMachines) -> None:
    """And that is what is said."""
    fault, hosts = find("disk.stale-copy"), machines.hosts()
    aimed = injection(fault)
    fault.inject(hosts, aimed)
    fault.tick(hosts, aimed, 5000)
    effect = fault.measure_effect(hosts, aimed)
    assert not effect.confirmed
    assert "no file had changed" in effect.evidence


@pytest.mark.parametrize(
    "name", ["disk.bit-flip", "disk.cut-tail", "disk.misdirected", "disk.stale-copy"]
)
def test_damage_without_files_is_not_applicable(name: str, machines: FakeMachines) -> None:
    """A node without such a file is not even killed."""
    fault = find(name)
    with pytest.raises(NotApplicable, match="no file of kind snapshot"):
        fault.inject(machines.hosts(), injection(fault, file="snapshot"))
    assert machines.processes.is_running(2)


def test_a_slow_disk_without_a_limit_is_not_applicable(machines: FakeMachines) -> None:
    """Neither bytes nor operations."""
    fault = find("disk.slow")
    aimed = injection(fault, bytes_per_s="0")
    with pytest.raises(NotApplicable):
        fault.inject(machines.hosts(), aimed)
    assert machines.disks.limited == set()


def test_invalid_disk_parameters_are_refused() -> None:
    """They say what there is."""
    with pytest.raises(BadSchedule, match="epoch-cache"):
        injection(find("disk.bit-flip"), file="tea")
    with pytest.raises(BadSchedule, match="whole number"):
        injection(find("disk.slow"), bytes_per_s="quick")
    with pytest.raises(BadSchedule, match="milliseconds"):
        injection(find("disk.stale-copy"), age_ms="-1")


def test_every_file_kind_has_a_unique_pattern() -> None:
    """Each name is of one kind; others are of none."""
    names = {
        "log/a-0/00000000000000000000.log": "log",
        "log/__cluster_metadata-0/00000000000000000000.log": "metadata-log",
        "log/a-0/00000000000000000000.index": "index",
        "log/a-0/00000000000000000000.timeindex": "index",
        "log/a-0/00000000000000000042.snapshot": "producer-snapshot",
        "log/a-0/leader-epoch-checkpoint": "epoch-cache",
        "log/recovery-point-offset-checkpoint": "checkpoint",
        "log/replication-offset-checkpoint": "checkpoint",
        "log/__cluster_metadata-0/quorum-state": "vote",
        "log/__cluster_metadata-0/00000000000000000010-0000000001.checkpoint": "snapshot",
        "log/meta.properties": None,
        "log/a-0/partition.metadata": None,
    }
    for name, kind in names.items():
        found = [each for each, pattern in KINDS.items() if pattern.fullmatch(name)]
        assert found == ([] if kind is None else [kind]), name


def test_lost_bytes_name_the_largest_logs() -> None:
    """The others are counted."""
    lost = {f"log/t-{number}": number + 1 for number in range(6)}
    assert describe_lost_bytes(lost) == (
        "21 bytes of logs (t-5 6, t-4 5, t-3 4, t-2 3 and 2 more), 0 of the metadata log, "
        "0 of other files"
    )


def test_the_catalogue_has_all_disk_faults() -> None:
    """Each says what it does, what it needs, and has a name like its family's."""
    for fault in FAULTS:
        assert fault.name.startswith("disk.") or fault.name in ("power-loss", "failed-fsync")
        assert fault.about
        assert fault.needs
        assert find(fault.name) is fault
