"""Nodes in containers of a daemon that was started for the tests."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pyarrow.parquet as pq
import pytest

from harness.recording.journal import Journal
from harness.targets.clean import undo
from harness.targets.docker import image
from harness.targets.docker.containers import Containers, SharedFiles
from harness.targets.docker.undo import RUN_LABEL
from harness.targets.linux import kernel
from harness.targets.linux.clean import CleanOutcome
from harness.targets.linux.disks import throttles
from harness.targets.linux.disks.volumes import Volume
from harness.targets.linux.target import LinuxTarget
from tests.support.require import require
from tests.support.targets.docker_daemon import BASE, daemon
from tests.support.targets.machine import leftovers, limits, marked, new_run_id
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

RUN_TIMEOUT_S = 280
SOON_S = 20.0
PLAN = """
name = "in-containers"
seed = 7
duration_s = {duration_s}
warmup_s = 1
topics = [{{ name = "t", acks = "all" }}]
workload = {{ rate_per_s = 50 }}
"""
EVENT = """
[[nemesis.events]]
fault = "{fault}"
at_ms = {at_ms}
targets = "{target}"
duration_ms = 1_500
"""
FAULTS = ("partition.isolate-leader", "kill", "pause", "disk.stall", "power-loss", "clock.jump")
KAFKA = """
[broker]
"broker.session.timeout.ms" = 9000
"controller.quorum.fetch.timeout.ms" = 4000
"controller.quorum.election.timeout.ms" = 3000
"""


def plan(place: Path, *faults: str, more: str = "") -> Path:
    """One fault after the other."""
    place.mkdir(exist_ok=True)
    events = [
        EVENT.format(
            fault=fault,
            at_ms=1000 + 2500 * n,
            target="leader:t/0" if fault.startswith("partition") else "one",
        )
        for n, fault in enumerate(faults)
    ]
    path = place / "plan.toml"
    head = PLAN.format(duration_s=2 + 2.5 * len(faults))
    path.write_text("".join((head, more, *events)))
    return path


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A daemon with the image, built without a registry and without a network."""
    require("docker")
    with daemon() as found:
        image.build(found, BASE)
        yield found


@pytest.fixture(scope="module", autouse=True)
def _no_other(address: str) -> Iterator[None]:
    """Nobody asks another daemon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", address)
        yield


def containers(address: str, run_id: str) -> list[str]:
    """The run's containers that are there, running or not."""
    client = docker.DockerClient(base_url=address)
    try:
        label = f"{RUN_LABEL}={run_id}"
        return [each.name for each in client.containers.list(all=True, filters={"label": label})]
    finally:
        client.close()


@contextmanager
def target_in(place: Path, address: str, nodes: int = 1) -> Iterator[tuple[LinuxTarget, str]]:
    """A target that is up, and afterwards down, and its run's id."""
    registry, run_dir, run_id = place / "registry", place / "run", new_run_id()
    registry.mkdir()
    run_dir.mkdir()
    with Journal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry) as journal:
        made = Containers(address, image.tag(), run_id, journal, SharedFiles())
        numbers = range(1, nodes + 1)
        target = LinuxTarget(
            run_id, run_dir, numbers, journal, volume=Volume.IMAGE_EXT4, machines=made
        )
        try:
            target.up()
            yield target, run_id
        finally:
            target.down()
            journal.finish()
    assert leftovers(run_id, run_dir) == []
    assert containers(address, run_id) == []


def runs(target: LinuxTarget, script: str) -> Path:
    """Start a shell in node 1; the file of its output."""
    log = target.home(1) / "log"
    target.set_command(1, ["sh", "-c", script], target.environment(1), log)
    target.start(1)
    return log


def says(log: Path, text: str) -> bool:
    """Whether the output has it soon."""
    return kernel.wait_until(lambda: log.exists() and text in log.read_text(), SOON_S)


def test_a_container_has_no_privileges_and_only_the_runs_network(
    tmp_path: Path, address: str
) -> None:
    """No capability, no way to get one, a read-only root."""
    script = "cat /proc/self/status; ls /sys/class/net; touch /x || echo refused; echo done"
    with target_in(tmp_path, address) as (target, run_id):
        assert containers(address, run_id) == [target.network.namespace(1).name]
        log = runs(target, script)
        assert says(log, "done")
        output = log.read_text()
        for field in ("CapEff", "CapPrm", "CapBnd"):
            assert f"{field}:\t{0:016x}" in output
        assert "NoNewPrivs:\t1" in output
        assert "\neth0\nlo\n" in output
        assert "refused" in output
        assert f"exec -it {target.network.name}-n1 sh" in target.enter(1)


def test_signals_reach_the_processes_in_a_container(tmp_path: Path, address: str) -> None:
    """States and exit codes are those of processes on this machine."""
    with target_in(tmp_path, address) as (target, _):
        log = runs(target, "trap 'exit 7' TERM; echo up; while :; do sleep 0.1; done")
        assert says(log, "up")
        target.pause(1)
        assert target.state(1) in "TD"  # D: it stops as soon as what it has forked runs
        assert target.exit_code(1) is None
        target.resume(1)
        assert target.stop(1)
        assert target.exit_code(1) == 7
        target.start(1)
        target.kill(1)
        assert not target.is_running(1)
        assert target.exit_code(1) == -signal.SIGKILL
        runs(target, "exit 3")
        assert kernel.wait_until(lambda: target.exit_code(1) == 3, SOON_S)


def test_a_container_sees_its_disk_after_a_power_loss(tmp_path: Path, address: str) -> None:
    """The disk is another mount then; limits and stalls hold inside."""
    with target_in(tmp_path, address) as (target, _):
        data = target.data_dir(1)
        log = runs(target, f"echo kept > {data}/a; sync {data}/a; echo lost > {data}/b; echo up")
        assert says(log, "up")
        assert kernel.wait_until(lambda: not target.is_running(1), SOON_S)
        target.kill(1)
        target.disks.cut_power([1])
        log = runs(target, f"cat {data}/a; cat {data}/b; echo new > {data}/c; echo again")
        assert says(log, "again")
        assert "kept" in log.read_text()
        assert "lost" not in log.read_text()
        assert (data / "c").read_text() == "new\n"
        if throttles.groups():
            log = runs(target, "while :; do sleep 1; done")
            pid = target.pid(1)
            assert pid is not None
            target.disks.limit(1, bytes_per_s=1_000_000, operations_per_s=0)
            device = throttles.device_numbers(kernel.loops_over(data.with_name("data.img"))[0])
            inside = throttles.groups(pid)
            assert [group for group in inside if "docker" in str(group.directory)]
            assert all(group.limits(device) for group in inside)
            target.disks.unlimit(1)
            assert not any(group.limits(device) for group in inside)
    assert limits() == []


def test_a_node_is_added_and_removed(tmp_path: Path, address: str) -> None:
    """It works like the other nodes, and leaves nothing behind."""
    with target_in(tmp_path, address) as (target, run_id):
        target.add_node(2)
        assert len(containers(address, run_id)) == 2
        target.remove_node(2)
        assert containers(address, run_id) == [target.network.namespace(1).name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that ended by itself."""

    exit_code: int
    verdict: dict[str, Any]
    faults: list[dict[str, Any]]


def ended(address: str, path: Path, *arguments: str, store: Path | None = None) -> Ended:
    """Run the plan, a file or one that is packaged, to its end; nothing is left."""
    store = store or path.parent / "store"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "harness.cli.main", "run", path, "--target", "docker"),
            *("--store", store, "--json", *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    run = Path(verdict["run"])
    run_id = json.loads((run / "run.json").read_text())["run_id"]
    assert leftovers(run_id, run) == []
    assert containers(address, run_id) == []
    rows = pq.read_table(run / "faults.parquet").to_pylist()
    return Ended(exit_code=done.returncode, verdict=verdict, faults=rows)


@at_turn(0, 2, "harness/targets/ssh/test_runs.py::test_a_correct_broker_is_valid")
def test_a_correct_broker_is_valid(tmp_path: Path, address: str) -> None:
    """A partition, a kill, a pause, a disk stall, a power loss and a clock jump, each proven."""
    run = ended(address, plan(tmp_path, *FAULTS))
    assert run.verdict["verdict"] == "VALID", run.verdict["reasons"]
    assert run.exit_code == 0
    assert [row["fault"] for row in run.faults] == list(FAULTS)
    assert all(row["took_effect"] and row["healed_ns"] for row in run.faults), run.faults


@pytest.mark.nightly("system/test_whole_runs.py::test_acknowledging_before_replication_is_caught")
def test_a_mutant_is_invalid(tmp_path: Path, address: str) -> None:
    """The broker is the harness's present source, whatever the image contains."""
    path = Path("acks-all-leader-cut-off")
    mutant = ("--broker-module", "harness.zoo.mutants.ack_before_replication")
    run = ended(address, path, *mutant, store=tmp_path / "store")
    assert run.verdict["verdict"] == "INVALID"
    assert run.exit_code == 1


@at_turn(1, 2, "system/test_kafka_runs.py::test_kafka_is_run_broken_and_judged")
def test_kafka_in_containers_is_valid(tmp_path: Path, address: str) -> None:
    """With this machine's Java and jars."""
    require("kafka")
    run = ended(address, plan(tmp_path, "kill", more=KAFKA), "--system", "kafka")
    assert run.verdict["verdict"] == "VALID", run.verdict["reasons"]


def test_clean_removes_what_a_killed_harness_left(tmp_path: Path, address: str) -> None:
    """With faults in force: containers, namespaces, mounts, loop devices, clients."""
    path, registry = plan(tmp_path, "disk.stall"), tmp_path / "runtime"
    registry.mkdir()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "harness.cli.main", "run", path, "--target", "docker"),
            *("--store", tmp_path / "store"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        journals: list[Path] = []

        def strikes() -> bool:
            journals[:] = tmp_path.glob("store/*/*/journal.jsonl")
            return bool(journals) and '"local.freeze"' in journals[0].read_text()

        assert kernel.wait_until(strikes, RUN_TIMEOUT_S, 0.1)
    finally:
        process.kill()
        process.wait()
    run = journals[0].parent
    run_id = json.loads((run / "run.json").read_text())["run_id"]
    assert len(containers(address, run_id)) == 3
    done = undo(journals[0])
    assert done.outcome is CleanOutcome.UNDONE, done.problems
    assert len([what for what in done.removed if what.startswith("container")]) == 3
    assert leftovers(run_id, run) == []
    assert containers(address, run_id) == []
    assert kernel.wait_until(lambda: not marked(str(run)), SOON_S)
    assert undo(journals[0]).removed == ()
