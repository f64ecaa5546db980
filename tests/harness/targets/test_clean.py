"""Clean removes everything of a dead run, and nothing of a running one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from harness.recording.journal import Journal, registered
from harness.targets import clean as clean_module
from harness.targets.clean import clean, undo
from harness.targets.linux import kernel, processes
from harness.targets.linux.clean import CleanedRun, CleanOutcome
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from tests.support.require import require
from tests.support.targets.machine import leftovers, local_target, marked, new_run_id

HARNESS = """
import sys, pathlib, time
from harness.recording.journal import Journal
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from nemesis.hosts import Cut
run_dir, registry = map(pathlib.Path, sys.argv[1:3])
run_id, mark = sys.argv[3:]
journal = Journal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry)
target = LocalTarget(run_id, run_dir, [1, 2, 3], journal, volume=Volume.IMAGE_EXT4, uplink=True)
target.up()
script = 'cd "$0" && while :; do echo x >> file; done #' + mark
for node in (1, 2, 3):
    target.set_command(node, ["sh", "-c", script, str(target.data_dir(node))], {}, run_dir / "log")
    target.start(node)
target.spawn_client(["sh", "-c", "while :; do sleep 1; done #" + mark])
target.disks.freeze(1)
target.pause(2)
target.links.block(Cut(1, 3))
target.stop(3, timeout_s=0)
target.disks.freeze(3)
target.start(3)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """A registry of the test's own: other runs on this machine are none of its business."""
    path = tmp_path / "registry"
    path.mkdir()
    return path


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run directory in a store."""
    path = tmp_path / "store/plan/20260101T000000.000Z"
    path.mkdir(parents=True)
    return path


@contextmanager
def living_harness(run_dir: Path, registry: Path, run_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the middle of a run: nodes, clients, and every kind of fault in force."""
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, run_dir, registry, run_id, f"mark-{run_id}"],
        stdout=subprocess.PIPE,
    ) as harness:
        try:
            assert harness.stdout is not None
            assert harness.stdout.readline() == b"ready\n"
            yield harness
        finally:
            harness.kill()
            harness.wait()
            undo(run_dir / "journal.jsonl", registry=registry)


def outcomes(cleaned: Sequence[CleanedRun]) -> list[CleanOutcome]:
    """What became of each run."""
    return [one.outcome for one in cleaned]


def test_clean_removes_everything_of_a_killed_harness(run_dir: Path, registry: Path) -> None:
    """Frozen disks, paused nodes, clients, mounts, the uplink; stored files stay."""
    require("root", "netns", "loop")
    run_id = new_run_id()
    with living_harness(run_dir, registry, run_id) as harness:
        assert outcomes(clean(registry=registry)) == [CleanOutcome.ALIVE]
        assert len(marked(f"mark-{run_id}")) >= 4
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        assert leftovers(run_id, run_dir) != []
        [cleaned] = clean(registry=registry)
        assert cleaned.problems == ()
        assert cleaned.outcome is CleanOutcome.UNDONE
        assert cleaned.run_id == run_id
        assert len([what for what in cleaned.removed if "namespace" in what]) == 5
        assert leftovers(run_id, run_dir) == []
        assert marked(f"mark-{run_id}") == []
        assert (run_dir / "nodes/1/data.img").exists()
        assert clean(run_dir.parents[1], registry=registry) == []
        again = undo(run_dir / "journal.jsonl", registry=registry)
        assert (again.outcome, again.removed) == (CleanOutcome.UNDONE, ())


class Crash(BaseException):
    """The harness dies here."""


class CrashingJournal(Journal):
    """A journal whose owner dies at one record: before it, in the middle of it, or just after."""

    at = 10**9
    torn_bytes: int | None = None

    def record(self, kind: str, /, **fields: object) -> None:
        """Write the record, or die."""
        if self.at > 1:
            self.at -= 1
            super().record(kind, **fields)
            return
        super().record(kind, **fields)
        if self.torn_bytes is not None:
            whole = self.path.read_bytes()
            last = whole.rstrip(b"\n").rfind(b"\n") + 1
            os.truncate(self.path, last + self.torn_bytes)
        raise Crash


def make_everything(target: LocalTarget, run_dir: Path) -> None:
    """Two nodes that run and whose disks are frozen: eleven records after the header."""
    target.up()
    for node in target.node_ids():
        target.set_command(node, ["sleep", "1000"], {"PATH": os.environ["PATH"]}, run_dir / "log")
        target.start(node)
        target.disks.freeze(node)


LAST_RECORD = 12
"""One more than there are: then the harness dies only after everything was made."""


@pytest.mark.parametrize("torn_bytes", [None, 0, 1, 30])
@pytest.mark.parametrize("at", range(1, LAST_RECORD + 1))
def test_a_crash_after_any_record_can_be_undone(
    run_dir: Path, registry: Path, at: int, torn_bytes: int | None
) -> None:
    """Whatever was half-made when the journal ended, and also with a torn last line."""
    require("root", "netns", "loop")
    run_id = new_run_id()
    journal = CrashingJournal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry)
    assert isinstance(journal, CrashingJournal)
    journal.at, journal.torn_bytes = at, torn_bytes
    target = LocalTarget(run_id, run_dir, [1, 2], journal, volume=Volume.IMAGE_EXT4, uplink=True)
    with journal, suppress(Crash):
        make_everything(target, run_dir)
        assert at == LAST_RECORD
    [cleaned] = clean(registry=registry)
    assert cleaned.problems == ()
    assert leftovers(run_id, run_dir) == []
    target.down()  # reaps the test's own children; nothing else is left to do


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("at", range(1, 7))
def test_a_crash_before_or_after_any_mount_can_be_undone(
    run_dir: Path, registry: Path, monkeypatch: pytest.MonkeyPatch, at: int, done: bool
) -> None:
    """For example a loop device without its mount, or a namespace's file without its namespace."""
    require("root", "netns", "loop")
    really, calls = kernel.mount, []

    def mount(source: str, mountpoint: Path, fs_type: str | None, flags: int) -> None:
        calls.append(mountpoint)
        if done or len(calls) != at:
            really(source, mountpoint, fs_type, flags)
        if len(calls) == at:
            raise Crash

    monkeypatch.setattr(kernel, "mount", mount)
    run_id = new_run_id()
    with Journal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry) as journal:
        target = LocalTarget(run_id, run_dir, [1, 2], journal, volume=Volume.IMAGE_EXT4)
        with pytest.raises(Crash):
            target.up()
    assert len(calls) == at
    [cleaned] = clean(registry=registry)
    assert cleaned.problems == ()
    assert leftovers(run_id, run_dir) == []


def test_a_process_without_record_ends_with_its_namespace(
    tmp_path: Path,
) -> None:
    """The harness may die between a process's start and its record."""
    require("root", "netns")
    with local_target(tmp_path) as target:
        client = processes.spawn(
            ["sleep", "1000"], target.network.namespace(1), env=None, log_path=None
        )
        target.down()
        assert client.wait(60) == -9


def test_another_process_with_a_journalled_pid_is_left_alone(run_dir: Path, registry: Path) -> None:
    """The kernel may have reused the pid of a dead node."""
    path = run_dir / "journal.jsonl"
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        identity = processes.identify(stranger.pid)
        assert identity is not None
        with Journal.create(path, run_id="r", registry=registry) as journal:
            fields = {**asdict(identity), "start_ticks": identity.start_ticks - 5}
            journal.record("local.process", machine=1, **fields)
        assert outcomes(clean(registry=registry)) == [CleanOutcome.UNDONE]
        assert processes.is_alive(identity)
        stranger.kill()


def test_a_detached_cluster_runs_until_it_is_taken_down(run_dir: Path, registry: Path) -> None:
    """Until `everything` or its name is given."""
    require("root", "netns")
    path, run_id = run_dir / "journal.jsonl", new_run_id()
    with Journal.create(path, run_id=run_id, detached=True, registry=registry) as journal:
        target = LocalTarget(run_id, run_dir, [1], journal, volume=Volume.DIRECTORY)
        target.up()
        target.set_command(1, ["sleep", "1000"], {"PATH": os.environ["PATH"]}, run_dir / "log")
        target.start(1)
    try:
        assert outcomes(clean(run_dir.parents[1], registry=registry)) == [CleanOutcome.ALIVE]
        assert target.is_running(1)
    finally:
        assert outcomes(clean(everything=True, registry=registry)) == [CleanOutcome.UNDONE]
    assert not target.is_running(1)
    assert leftovers(run_id, run_dir) == []
    target.kill(1)


def test_a_detached_cluster_without_processes_is_cleaned(run_dir: Path, registry: Path) -> None:
    """The next clean removes its namespaces."""
    require("root", "netns")
    path, run_id = run_dir / "journal.jsonl", new_run_id()
    with Journal.create(path, run_id=run_id, detached=True, registry=registry) as journal:
        LocalTarget(run_id, run_dir, [1], journal, volume=Volume.DIRECTORY).up()
    assert outcomes(clean(registry=registry)) == [CleanOutcome.UNDONE]
    assert leftovers(run_id, run_dir) == []


def test_an_unfinished_run_is_found_in_the_store_without_the_registry(
    run_dir: Path, registry: Path
) -> None:
    """The registry is in a temporary directory, so the store is searched; finished runs stay."""
    Journal.create(run_dir / "journal.jsonl", run_id="r", registry=registry).close()
    for link in registry.iterdir():
        link.unlink()
    store = run_dir.parents[1]
    assert clean(registry=registry) == []
    assert outcomes(clean(store, registry=registry)) == [CleanOutcome.UNDONE]
    assert clean(store, registry=registry) == []


def test_an_object_that_cannot_be_removed_is_reported_and_tried_again(
    run_dir: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failure prevents neither the other removals nor a later attempt."""
    tried = []

    def refuse(fields: object) -> str:
        tried.append(fields)
        raise OSError("the kernel said no")

    monkeypatch.setattr(clean_module, "UNDO", {"bad": refuse, "good": lambda _fields: "one thing"})
    with Journal.create(run_dir / "journal.jsonl", run_id="r", registry=registry) as journal:
        for kind in ("good", "bad", "good"):
            journal.record(kind)
    [cleaned] = clean(registry=registry)
    assert cleaned.outcome is CleanOutcome.FAILED
    assert "the kernel said no" in cleaned.problems[0]
    assert cleaned.removed == ("one thing", "one thing")
    assert len(registered(registry)) == 1
    monkeypatch.undo()
    assert outcomes(clean(registry=registry)) == [CleanOutcome.UNDONE]
    assert registered(registry) == []


def test_a_deleted_journal_is_reported_once(run_dir: Path, registry: Path) -> None:
    """The message says where to look for leftovers."""
    path = run_dir / "journal.jsonl"
    Journal.create(path, run_id="r", registry=registry).close()
    path.unlink()
    for copy in registry.glob("*.jsonl"):
        copy.unlink()
    [cleaned] = clean(registry=registry)
    assert cleaned.outcome is CleanOutcome.FAILED
    assert "/run/netns" in cleaned.problems[0]
    assert clean(registry=registry) == []


@pytest.mark.slow
def test_twenty_runs_leave_no_resources_behind() -> None:
    """No descriptor, thread, process, mount, loop device, control group or memory."""
    require("root", "netns")
    argv = [sys.executable, "-m", "tests.tools.run_cycles", "--cycles", "20"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["nothing is left"]), done


def test_a_run_whose_store_was_removed_is_undone(
    run_dir: Path, registry: Path, tmp_path: Path
) -> None:
    """The registry has a copy of the journal: namespaces, mounts, loop devices and processes are
    removed, whether the harness is killed afterwards or ends normally.
    """
    require("root", "netns", "loop")
    run_id = new_run_id()
    argv = [sys.executable, "-c", HARNESS, run_dir, registry, run_id, f"mark-{run_id}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as harness:
        try:
            assert harness.stdout is not None
            assert harness.stdout.readline() == b"ready\n"
            kept = (run_dir / "journal.jsonl").read_bytes()
            for name in ("journal.jsonl", "log"):
                (run_dir / name).unlink()
            for image in run_dir.rglob("*.img"):
                image.unlink()
            [alive] = clean(registry=registry)
            assert (alive.outcome, alive.run_id) == (CleanOutcome.ALIVE, run_id)
            harness.kill()
            harness.wait()
            [cleaned] = clean(registry=registry)
        finally:
            harness.kill()
            undo(run_dir / "journal.jsonl", registry=registry) if registered(registry) else None
    assert cleaned.outcome is CleanOutcome.UNDONE, cleaned.problems
    assert cleaned.run_id == run_id
    (run_dir / "journal.jsonl").write_bytes(kept)  # by which the test looks for leftovers
    assert leftovers(run_id, run_dir) == []
    assert marked(f"mark-{run_id}") == []
    assert clean(registry=registry) == []
    assert list(registry.iterdir()) == []


def test_a_harness_whose_store_was_removed_undoes_its_own_run(
    run_dir: Path, registry: Path
) -> None:
    """It knows the records that it has written."""
    require("root", "netns")
    run_id = new_run_id()
    path = run_dir / "journal.jsonl"
    with Journal.create(path, run_id=run_id, registry=registry) as journal:
        target = LocalTarget(run_id, run_dir, [1], journal)
        target.up()
        kept = path.read_bytes()
        path.unlink()
        target.down()
        journal.finish()
    path.write_bytes(kept)  # by which the test looks for leftovers
    assert leftovers(run_id, run_dir) == []
    assert list(registry.iterdir()) == []
