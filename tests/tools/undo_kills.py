"""Kill a harness during each fault, check that nothing is left: `python -m tests.tools.undo_kills`.

For every fault of the catalogue, harnesses are killed (SIGKILL) at four moments: in the middle of
the injection, while the fault is in force, in the middle of the heal, and right after the heal. The
middle is a random function call or return, C functions included; an earlier harness, which was
killed later, has counted them. Then the run is undone by its journal, and leftovers are counted.

A harness is forked from this process, which has one thread and adopts the children of a dead
harness. The nodes are small processes that write to their disks and to each other. Nodes join and
leave as real machines, of a fake cluster.
"""

import argparse
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from harness.recording import journal as journals
from harness.recording.journal import Journal
from harness.run.hosts import hosts_of
from harness.targets.clean import undo
from harness.targets.linux import kernel
from harness.targets.linux.disks import volumes
from harness.targets.linux.disks.volumes import Volume
from harness.targets.local import LocalTarget
from nemesis.administration import Placement
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability, Fault, Injection, Params
from nemesis.hosts import CLIENTS, Hosts
from nemesis.selectors import resolve
from tests.support.nemesis.administration import FakeAdministration
from tests.support.nemesis.fakes import FakeView
from tests.support.targets.machine import leftovers, limits, new_run_id

MOMENTS: Final = ("injecting", "in-force", "healing", "healed")
PULSES_MS: Final = range(0, 4000, 250)
"""The times passed to faults that act repeatedly."""
DEADLINE_S: Final = 60.0
"""How long a harness may take until it is killed."""
GONE_S: Final = 5.0
"""How long processes may take to end."""
_DISKS: Final = frozenset(
    {
        Ability.DISK_STALLS,
        Ability.DISK_FAULTS,
        Ability.DISK_READ_ONLY,
        Ability.DISK_SPEED,
        Ability.POWER_LOSS,
    }
)
_PR_SET_CHILD_SUBREAPER: Final = 36
_LOG: Final = "log/t-0/00000000000000000000.log"
_NODE: Final = """
mkdir -p $0/log/t-0 $0/log/__cluster_metadata-0
echo vote > $0/log/__cluster_metadata-0/quorum-state
while :; do
  echo x >> $0/$2
  for peer in $1; do echo x > /dev/udp/$peer/9092; done
  sleep 0.02
done 2> /dev/null
"""


class Unavailable(Exception):
    """This machine cannot make the fault; the text says what it lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillResult:
    """The result of one killed harness."""

    fault: str
    moment: str
    steps: Mapping[str, int]
    """How many steps its injection and its heal took, if they were completed."""
    removed: tuple[str, ...] = ()
    """The objects that the undo removed."""
    left: tuple[str, ...] = ()
    """Leftovers and errors; empty if all is well."""


# -- the harness


class FakeCluster(FakeAdministration):
    """A fake cluster whose brokers join and leave as real machines."""

    def __init__(self, target: LocalTarget, run_dir: Path) -> None:
        super().__init__()
        self._target, self._run_dir = target, run_dir
        self.live = list(target.node_ids())
        self.settings["a", "cleanup.policy"] = "compact"
        self.placed = {
            ("a", 0): Placement(2, (1, 2), (1, 2)),
            ("a", 1): Placement(3, (2, 3), (2, 3)),
        }

    def join(self, layer: str, *, voter: bool = False) -> int:
        """Add a machine."""
        node = FakeAdministration.join(self, layer, voter=voter)
        self._target.add_node(node)
        start(self._target, node, self._run_dir)
        return node

    def leave(self, layer: str, node: int) -> None:
        """Kill the node and wipe its disk."""
        FakeAdministration.leave(self, layer, node)
        self._target.kill(node)
        self._target.disks.wipe(node)

    def undo(self, layer: str) -> None:
        """Remove the machine of a node that joined; start a node that left."""
        FakeAdministration.undo(self, layer)
        if (node := self.members.pop(layer, None)) is not None:
            self._target.remove_node(node)
        for node in sorted(self.left):
            start(self._target, node, self._run_dir)
        self.left.clear()


def start(target: LocalTarget, node: int, run_dir: Path) -> None:
    """Start a node's process, which writes to its disk and to the other nodes."""
    others = (*(each for each in target.node_ids() if each != node), CLIENTS)
    peers = " ".join(target.address(each) for each in others)
    argv = ["bash", "-c", _NODE, str(target.data_dir(node)), peers, _LOG]
    target.set_command(node, argv, {"PATH": os.environ["PATH"]}, run_dir / "log")
    target.start(node)


class StepCounter:
    """Counts calls and returns of all threads, and kills the process at one of them."""

    def __init__(self, deadly: int | None) -> None:
        self.count = 0
        self._deadly = deadly

    def __call__(self, frame: FrameType, event: str, what: object) -> None:
        """Count one step."""
        self.count += 1
        if self.count == self._deadly:
            die()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the steps of the block, in this thread and in those that it starts."""
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def die() -> None:
    """Kill this process with all its threads at once."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def make_target(fault: Fault, journal: Journal, run_dir: Path, run_id: str) -> LocalTarget:
    """Return a target, which is up, with the machines that a fault needs. Raises Unavailable."""
    nodes = range(1, max(3, fault.min_nodes) + 1)
    volume = volumes.best_volume() if fault.needs & _DISKS else Volume.DIRECTORY  # quicker
    needs_clocks = Ability.CLOCKS in fault.needs
    target = LocalTarget(run_id, run_dir, nodes, journal, volume=volume, clocks=needs_clocks)
    if lacking := set(fault.needs) - target.abilities - {Ability.ADMINISTRATION}:
        raise Unavailable(f"this machine lacks {', '.join(sorted(lacking))}")
    target.up()
    return target


def start_processes(target: LocalTarget, run_dir: Path) -> None:
    """Start all processes, and wait until every node has written something."""
    nodes = target.node_ids()
    for node in nodes:
        start(target, node, run_dir)
    clients, peers = run_dir / "clients", " ".join(map(target.address, nodes))
    target.spawn_client(["bash", "-c", _NODE, str(clients), peers, _LOG])
    logs = [target.data_dir(node) / _LOG for node in nodes]
    kernel.wait_until(lambda: all(log.exists() and log.stat().st_size for log in logs), GONE_S)


def run_as_harness(
    fault: Fault, moment: str, deadly: int | None, run_dir: Path, run_id: str
) -> None:
    """Run as a harness until it is killed. Raises Unavailable, and the fault's errors."""
    registry = run_dir.with_name("registry")
    journal = Journal.create(run_dir / "journal.jsonl", run_id=run_id, registry=registry)
    target = make_target(fault, journal, run_dir, run_id)
    start_processes(target, run_dir)
    hosts = hosts_of(target, FakeView(), FakeCluster(target, run_dir))
    injection = planned_injection(fault, hosts, run_id)
    journal.record("fault", **injection.as_json())
    steps = {}
    for phase, end in (("inject", "injecting"), ("heal", "healing")):
        counter = StepCounter(deadly if moment == end else None)
        with counter.counting():
            for step in (fault.prepare, fault.inject) if phase == "inject" else (fault.heal,):
                step(hosts, injection)
        steps[phase] = counter.count
        (run_dir / "steps.json").write_text(json.dumps(steps))
        if moment == end:
            die()
        if phase == "inject":
            for elapsed_ms in PULSES_MS if fault.tick_ms is not None else ():
                fault.tick(hosts, injection, elapsed_ms)
            if moment == "in-force":
                die()
    die()


def planned_injection(fault: Fault, hosts: Hosts, seed: str) -> Injection:
    """Return an injection with the fault's default selector and parameters."""
    nodes, rng = hosts.processes.node_ids(), random.Random(seed)
    targets = resolve(fault.default_selector, nodes, hosts.view, rng).nodes
    return fault.plan_injection(targets, nodes, rng, Params.of(fault.options, {}))


# -- the observer


class Subreaper:
    """Adopts the children of dead harnesses and reaps them."""

    def __init__(self) -> None:
        """Make this process the subreaper; call it in the main thread."""
        self.ended: dict[int, int] = {}
        """Exit codes of children (negative: the signal), by pid."""
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        signal.signal(signal.SIGCHLD, self._reap)

    def _reap(self, number: int, frame: FrameType | None) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.ended[pid] = os.waitstatus_to_exitcode(status)

    def children(self) -> list[int]:
        """Return the pids of all children, own and adopted."""
        return [int(pid) for pid in Path("/proc/thread-self/children").read_text().split()]

    def exit_code_of(self, pid: int) -> int:
        """Wait for a child and return its exit code; kill it after `DEADLINE_S`."""
        if not kernel.wait_until(lambda: pid in self.ended, DEADLINE_S):
            os.kill(pid, signal.SIGKILL)
            return 0
        return self.ended[pid]


def kill_harness(
    subreaper: Subreaper, fault: Fault, moment: str, place: Path, deadly: int | None = None
) -> KillResult:
    """Kill one harness, undo its run, and look for leftovers. Raises Unavailable."""
    run_dir, registry, run_id = place / "run", place / "registry", new_run_id()
    run_dir.mkdir()
    registry.mkdir()
    before, patient = set(limits()), kernel.can_expedite_rcu()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _run_child(fault, moment, deadly, run_dir, run_id)
    exit_code = subreaper.exit_code_of(pid)
    cleaned = undo(run_dir / "journal.jsonl", registry=registry)
    if (reason := run_dir / "unavailable").exists():
        raise Unavailable(reason.read_text())
    kernel.wait_until(lambda: not subreaper.children(), GONE_S)
    again = undo(run_dir / "journal.jsonl", registry=registry)
    left = [
        *(
            []
            if exit_code == -signal.SIGKILL
            else [f"the harness ended with {exit_code}: see its output"]
        ),
        *cleaned.problems,
        *leftovers(run_id, run_dir),
        *(f"process {pid}: {_command(pid)}" for pid in subreaper.children()),
        *(f"limit {limit}" for limit in limits() if limit not in before),
        *(["RCU is still expedited"] if patient and not kernel.can_expedite_rcu() else []),
        *(f"journal {path}" for path in journals.registered(registry)),
        *(f"ballast in {path}" for path in sorted(run_dir.rglob("data.img")) if _has_ballast(path)),
        *(f"removed only by the second undo: {what}" for what in again.removed),
    ]
    steps = run_dir / "steps.json"
    return KillResult(
        fault=fault.name,
        moment=moment,
        steps=json.loads(steps.read_text()) if steps.exists() else {},
        removed=cleaned.removed,
        left=tuple(left),
    )


def _run_child(fault: Fault, moment: str, deadly: int | None, run_dir: Path, run_id: str) -> None:
    try:
        run_as_harness(fault, moment, deadly, run_dir, run_id)
    except Unavailable as error:
        (run_dir / "unavailable").write_text(str(error))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return "gone"


def _has_ballast(image: Path) -> bool:
    done = subprocess.run(
        ["debugfs", "-R", "ls /", str(image)], capture_output=True, text=True, check=True
    )
    return "highwater-ballast" in done.stdout


def sweep(
    subreaper: Subreaper, fault: Fault, rng: random.Random, each: int = 1
) -> Iterator[KillResult]:
    """Kill at every moment; in the middle `each` times, at steps drawn from the counted ones."""
    steps: dict[str, int] = {}
    for moment in ("in-force", "healed", *("injecting", "healing") * each):
        phase = {"injecting": "inject", "healing": "heal"}.get(moment)
        deadly = rng.randint(1, max(1, steps.get(phase, 1))) if phase else None
        with tempfile.TemporaryDirectory(prefix="highwater-undoing-") as place:
            result = kill_harness(subreaper, fault, moment, Path(place), deadly)
        steps.update(result.steps)
        yield result


def main(argv: Sequence[str] | None = None) -> int:
    """Kill harnesses and print a line for each fault; return 1 when something was left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", default=list(FAULTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=3, help="kills in each injection and heal")
    parser.add_argument(
        "--serve", action="store_true", help="read faults from stdin, answer in JSON"
    )
    options = parser.parse_args(argv)
    subreaper = Subreaper()
    if options.serve:
        return _serve(subreaper)
    bad = 0
    for name in options.faults:
        began_s, left, count = time.monotonic(), [], 0
        try:
            for result in sweep(subreaper, FAULTS[name], random.Random(options.seed), options.each):
                count += 1
                left += [f"  {result.moment}: {what}" for what in result.left]
        except Unavailable as error:
            print(f"{name:28} {error}", flush=True)
            continue
        bad += bool(left)
        verdict = "something is left" if left else "nothing is left"
        seconds = time.monotonic() - began_s
        print(f"{name:28} {count} kills, {verdict} ({seconds:.1f} s)", *left, sep="\n", flush=True)
    return int(bad > 0)


def _serve(subreaper: Subreaper) -> int:
    """Read lines `FAULT MOMENT`; print a KillResult, or why the fault is unavailable."""
    for line in sys.stdin:
        name, moment = line.split()
        with tempfile.TemporaryDirectory(prefix="highwater-undoing-") as place:
            try:
                answer = asdict(kill_harness(subreaper, FAULTS[name], moment, Path(place)))
            except Unavailable as error:
                answer = {"unavailable": str(error)}
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
