"""The nodes' own wall clocks, as the nodes' processes read them."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.targets.base import NotInForce, Unsupported
from harness.targets.linux import clean, clocks, kernel, processes, undo
from harness.targets.local import LocalTarget
from nemesis.faults.catalogue import find
from nemesis.faults.fault import Injection, Params
from tests.support.require import require
from tests.support.targets.machine import local_target, new_run_id

HOUR_MS = 3_600_000
PATIENCE_S = 30.0

# What a node says: its wall clock, and how long half a tenth of a second took it, waited for in the
# ways that an event loop and its threads wait.
NODE = """
import json, select, threading, time
while True:
    before = time.monotonic()
    threading.Event().wait(0.025)
    select.epoll().poll(0.025)
    passed = time.monotonic() - before
    print(json.dumps({"wall_ns": time.time_ns(), "passed_s": passed}), flush=True)
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[LocalTarget]:
    """Two nodes with clocks of their own, which say what they show."""
    require("root", "netns", "faketime")
    with local_target(tmp_path, 2, clocks=True) as made:
        run_nodes(made)
        yield made


def run_nodes(target: LocalTarget) -> None:
    """Start what says the time on every node."""
    for node in target.node_ids():
        argv = [sys.executable, "-c", NODE]
        target.set_command(node, argv, dict(os.environ), log_of(target, node))
        target.start(node)


def log_of(target: LocalTarget, node: int) -> Path:
    """Where the node says it."""
    return target.data_dir(node).with_name("log")


def node_clock(target: LocalTarget, node: int) -> dict[str, Any]:
    """What the node says from now on, with `ahead_ms`: how far its clock is ahead of ours."""
    log = log_of(target, node)
    start = log.stat().st_size
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        lines = log.read_bytes()[start:].splitlines(keepends=True)
        # The first may be an old one; the last may be half a line.
        whole = [line for line in lines[1:] if line.endswith(b"\n")]
        if whole:
            found: dict[str, Any] = json.loads(whole[0])
            found["ahead_ms"] = (found["wall_ns"] - time.time_ns()) / 1e6
            return found
        time.sleep(0.01)
    raise AssertionError(f"node {node} says nothing: {log.read_text()[-500:]}")


def about(measured_ms: float, wanted_ms: float) -> bool:
    """To within half a minute: a busy machine answers late, and hours are told apart."""
    return abs(measured_ms - wanted_ms) < 30_000


def hosts(target: LocalTarget) -> Any:
    """What clock faults ask for of a cluster."""
    return SimpleNamespace(processes=target, clocks=target.clocks)


@pytest.mark.parametrize("offset_ms", [HOUR_MS, -HOUR_MS])
def test_a_skewed_node_reads_another_time_and_its_neighbour_the_true_time(
    target: LocalTarget, offset_ms: int
) -> None:
    """From the next reading on; durations stay correct; the heal ends it."""
    assert about(node_clock(target, 1)["ahead_ms"], 0)
    target.clocks.skew(1, "a", offset_ms)
    assert about(node_clock(target, 1)["ahead_ms"], offset_ms)
    assert about(node_clock(target, 2)["ahead_ms"], 0)
    assert node_clock(target, 1)["passed_s"] < PATIENCE_S
    shown = target.clocks.read(1)
    assert shown is not None
    assert shown.allows(offset_ms)
    assert shown.looked
    assert shown.most_ms - shown.least_ms < HOUR_MS / 2

    target.clocks.unskew(1, "a")
    target.clocks.unskew(1, "a")
    assert about(node_clock(target, 1)["ahead_ms"], 0)


def test_offsets_of_layers_add_up_and_end_separately(target: LocalTarget) -> None:
    """An hour and a day are 25 hours, and a day without the hour."""
    target.clocks.skew(1, "hour", HOUR_MS)
    target.clocks.skew(1, "day", 24 * HOUR_MS)
    assert target.clocks.requested_offset_ms(1) == 25 * HOUR_MS
    assert about(node_clock(target, 1)["ahead_ms"], 25 * HOUR_MS)
    target.clocks.unskew(1, "hour")
    assert about(node_clock(target, 1)["ahead_ms"], 24 * HOUR_MS)
    assert (target.clocks.requested_offset_ms(1), target.clocks.requested_offset_ms(1, "hour")) == (
        24 * HOUR_MS,
        0,
    )


def test_a_restarted_node_keeps_its_offset(target: LocalTarget) -> None:
    """While the node is down, its clock has no reading."""
    target.clocks.skew(1, "a", HOUR_MS)
    assert about(node_clock(target, 1)["ahead_ms"], HOUR_MS), (
        "it has started, and loaded the library"
    )
    pid = target.pid(1)
    assert Path(f"/dev/shm/faketime_shm_{pid}").exists()
    target.kill(1)
    assert traces(pid or 0) == []
    assert target.clocks.read(1) is None
    target.start(1)
    assert about(node_clock(target, 1)["ahead_ms"], HOUR_MS)


def test_a_paused_node_has_not_read_its_clock(target: LocalTarget) -> None:
    """The harness's own reading does not count as the node's."""
    target.pause(1)
    target.clocks.skew(1, "a", HOUR_MS)
    for _ in range(2):
        shown = target.clocks.read(1)
        assert shown is not None
        assert (shown.allows(HOUR_MS), shown.looked) == (True, False)
    target.resume(1)
    node_clock(target, 1)
    shown = target.clocks.read(1)
    assert shown is not None
    assert shown.looked


@pytest.mark.parametrize("name", ["clock.jump", "clock.strobe", "clock.drift"])
def test_each_clock_fault_proves_its_effect_and_its_heal(target: LocalTarget, name: str) -> None:
    """With the clocks of all nodes that it hits."""
    fault, params = (
        find(name),
        {"clock.drift": {"rate": "1.5"}, "clock.jump": {"offset_ms": "5000"}},
    )
    given = {"offset_ms": "20000"} if name == "clock.strobe" else params[name]
    injection = Injection(
        nodes=(1, 2),
        details=tuple(
            sorted(
                {
                    **Params.of(fault.options, given).values,
                    "layer": "a",
                    "clocks": "1,2",
                }.items()
            )
        ),
    )
    fault.inject(hosts(target), injection)
    if name == "clock.drift":
        assert not fault.measure_effect(hosts(target), injection).confirmed, (
            "nothing has come together yet"
        )
        fault.tick(hosts(target), injection, 20_000)
    effect = fault.measure_effect(hosts(target), injection)
    assert effect.confirmed, effect.evidence
    fault.heal(hosts(target), injection)
    proof = fault.measure_heal(hosts(target), injection)
    assert proof.confirmed, proof.evidence
    assert about(node_clock(target, 1)["ahead_ms"], 0)


def test_clocks_are_set_quickly(target: LocalTarget) -> None:
    """The median of twenty is far below the 50 ms that a fault may take."""
    spans = []
    for number in range(20):
        began = time.monotonic()
        target.clocks.skew(1, f"{number}", 1000)
        target.clocks.unskew(1, f"{number}")
        spans.append(time.monotonic() - began)
    assert statistics.median(spans) < 1, "even on a busy machine"


@contextmanager
def asleep(
    target: LocalTarget, start: Callable[[Mapping[str, str]], "subprocess.Popen[bytes]"]
) -> Iterator[int]:
    """The pid of what `start` made with a clock of its own, once that has left its traces."""
    process = start(target.clocks.environment(1, {"PATH": os.environ["PATH"]}))
    try:
        assert kernel.wait_until(lambda: uses_traces(process.pid), PATIENCE_S)
        yield process.pid
    finally:
        process.kill()
        process.wait(PATIENCE_S)
        clocks.remove_shared_memory(process.pid)


def uses_traces(pid: int) -> bool:
    """Whether the process has made its files, and mapped them, which it does a moment later."""
    return len(traces(pid)) == 2 and not clocks.shared_memory_of(pid)


def traces(pid: int) -> list[Path]:
    """What the library keeps for a process in shared memory."""
    return list(Path("/dev/shm").glob(f"*faketime_*_{pid}"))


def test_the_shared_memory_of_a_zombie_is_removed(target: LocalTarget) -> None:
    """As of a node whose harness was killed."""
    with asleep(target, lambda env: subprocess.Popen(["sleep", "1000"], env=env)) as pid:
        clocks.remove_shared_memory(pid)
        assert len(traces(pid)) == 2
        os.kill(pid, signal.SIGKILL)
        assert kernel.wait_until(lambda: getattr(processes.stat(pid), "state", "") == "Z", 30)
        clocks.remove_shared_memory(pid)
        assert traces(pid) == []


def test_the_shared_memory_of_a_process_without_record_is_removed(target: LocalTarget) -> None:
    """The harness was killed before the record; the process is found by its namespace."""
    space = target.network.namespace(1)

    def start(env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        return processes.spawn(["sleep", "1000"], space, env=env, log_path=None)

    with asleep(target, start) as pid:
        undo.UNDO["local.netns"]({"path": str(space)})
        assert traces(pid) == []


def test_a_slow_clock_measurement_leaves_no_shared_memory(
    target: LocalTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that does not answer in time is killed."""
    asked: list[int] = []
    remove = clocks.remove_shared_memory
    monkeypatch.setattr(
        clocks, "remove_shared_memory", lambda pid: [asked.append(pid), remove(pid)]
    )
    monkeypatch.setattr(clocks, "_DATE", ("sleep", "1000"))
    monkeypatch.setattr(clocks, "_DATE_TIMEOUT_S", 1.0)
    with pytest.raises(NotInForce, match="cannot be read by `date`"):
        clocks.measure(target.clocks.environment(1, {"PATH": os.environ["PATH"]}))
    [pid] = asked
    assert traces(pid) == []


def test_without_own_clocks_the_library_is_not_loaded(tmp_path: Path) -> None:
    """The fault is refused."""
    require("root", "netns")
    with local_target(tmp_path, 1) as target:
        run_nodes(target)
        node_clock(target, 1)
        environ = Path(f"/proc/{target.pid(1)}/environ").read_text()
        assert "FAKETIME" not in environ
        with pytest.raises(Unsupported):
            target.clocks.skew(1, "a", HOUR_MS)
        with pytest.raises(NotInForce):
            target.clocks.read(1)


# A harness that sets a node's clock and is killed before it sets it right.
HARNESS = """
import sys, time
from pathlib import Path
from harness.recording.journal import Journal
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
place = Path(sys.argv[1])
with Journal.create(place / "journal.jsonl", run_id=sys.argv[2], registry=place / "registry") as j:
    target = LocalTarget(sys.argv[2], place, [1], j, volume=Volume.DIRECTORY, clocks=True)
    target.up()
    target.set_command(1, ["sleep", "1000"], {"PATH": sys.argv[3]}, place / "log")
    target.start(1)
    target.clocks.skew(1, "a", 3600000)
    print("set", flush=True)
    time.sleep(1000)
"""


def test_clean_removes_the_clocks_of_a_dead_harness(tmp_path: Path) -> None:
    """A second call finds nothing to do."""
    require("root", "netns", "faketime")
    (tmp_path / "registry").mkdir()
    argv = [sys.executable, "-c", HARNESS, str(tmp_path), new_run_id(), os.environ["PATH"]]
    harness = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert harness.stdout is not None
    with harness.stdout:
        assert harness.stdout.readline() == b"set\n"
        harness.send_signal(signal.SIGKILL)
        harness.wait(PATIENCE_S)
    file = tmp_path / "clocks" / "1"
    assert clocks.is_skewed(file)
    done = clean.undo(tmp_path / "journal.jsonl", registry=tmp_path / "registry")
    assert done.outcome is clean.CleanOutcome.UNDONE
    assert any("clock" in what for what in done.removed)
    assert not clocks.is_skewed(file)
    again = clean.undo(tmp_path / "journal.jsonl", registry=tmp_path / "registry")
    assert again.removed == ()
