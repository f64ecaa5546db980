"""Brokers come and go under load: two join three, one leaves, one is killed during the move.

`python -m tests.tools.elasticity` is the full measure: 60 partitions of three replicas, acks=all;
the test suite runs a smaller one. Exit code 0 when the verdict is VALID, replicas are balanced, and
no more than WORTH times the bytes moved that have to move. Balanced is within one, or as even as
the replicas of the leaving broker alone can make it: none can move to where its partition has one.

What has moved is measured on the brokers' disks: every appearance of a partition on a broker costs
what the partition held when the step that moves it was ordered, so that a copy that was made twice,
or for nothing, counts. What had to move is measured in the same sizes: whatever clients write after
the order has to reach the partition's replicas wherever they are, and is nobody's move.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.admin import balance, inspection, reassignments, replica_moves, scaling, topics
from harness.admin.balance import Assignment
from harness.admin.client import AdminClient
from harness.admin.scaling import MoveOptions, MoveTotals
from harness.plans.plan import build
from harness.run.prepare import prepare
from harness.run.progress import for_terminal
from harness.run.runner import RunContext, Runner, RunOutcome
from harness.systems.base import call_in_client_network
from harness.systems.node_roles import Layout
from nodes.ids import TopicPartition

WORTH: Final = 1.2
SAMPLE_S: Final = 0.1
PATIENCE_S: Final = 120.0
TOPIC: Final = "elastic"
LEAVES: Final = 2
KILLED: Final = 3
DEAD_S: Final = 3.0

Placement = Mapping[TopicPartition, Sequence[int]]
Replica = tuple[int, TopicPartition]
"""A broker, and a partition of which it has a copy."""


@dataclass
class Result:
    """What a run has shown."""

    verdict: str = ""
    replicas: dict[int, int] = field(default_factory=dict)
    """How many each broker holds at the end."""
    leaders: dict[int, int] = field(default_factory=dict)
    moved_bytes: int = 0
    least_bytes: int = 0
    replication_factors: set[int] = field(default_factory=set)
    steps_s: dict[str, float] = field(default_factory=dict)
    moving_when_killed: int = 0
    """Partitions that were still on their way after the broker was dead."""

    even_within: int = 1
    """The difference of replicas between two brokers that moving only those of the leaving broker
    leaves, at least 1."""

    @property
    def balanced(self) -> bool:
        """Whether replicas are as even as they have to be."""
        return difference(self.replicas.values()) <= self.even_within

    @property
    def ratio(self) -> float:
        """Moved bytes to those that had to move."""
        return self.moved_bytes / max(1, self.least_bytes)


class Copies:
    """What the copies cost that appear on brokers, in the partitions' sizes at the last order."""

    def __init__(self, present: Iterable[Replica]) -> None:
        self._present = set(present)
        self._sizes: Mapping[TopicPartition, int] = {}
        self.bytes = 0

    def order(self, sizes: Mapping[TopicPartition, int]) -> None:
        """A step that moves is ordered now, when partitions have these sizes."""
        self._sizes = sizes

    def see(self, present: Iterable[Replica]) -> None:
        """These replicas are there now; those that were not before are copies."""
        before, self._present = self._present, set(present)
        self.bytes += sum(self._sizes.get(name, 0) for _, name in self._present - before)


class Disks:
    """The partitions on the brokers' disks, watched from outside in a thread of its own."""

    def __init__(self, stage: RunContext) -> None:
        self._stage = stage
        self.copies = Copies(self._present())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="disks", daemon=True)
        self._thread.start()

    def sizes(self) -> dict[TopicPartition, int]:
        """The bytes of each partition: its largest replica."""
        found: dict[TopicPartition, int] = {}
        for (_, name), size in self._replicas():
            found[name] = max(found.get(name, 0), size)
        return found

    def stop(self) -> None:
        """Watch no longer."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_S):
            self.copies.see(self._present())

    def _present(self) -> list[Replica]:
        return [replica for replica, _ in self._replicas()]

    def _replicas(self) -> list[tuple[Replica, int]]:
        found = []
        for node in self._stage.system.layout.brokers:
            try:
                log_dir = self._stage.target.data_dir(node) / "log"
                paths = sorted(log_dir.glob(f"{TOPIC}-*"))
            except Exception:  # the node is gone since
                continue
            for path in paths:
                topic, _, number = path.name.rpartition("-")
                if number.isdigit():  # the others are being deleted
                    size = sum(_size(segment) for segment in path.glob("*.log"))
                    found.append(((node, TopicPartition(topic, int(number))), size))
        return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def least_bytes(
    placement: Placement, brokers: Sequence[int], sizes: Mapping[TopicPartition, int]
) -> int:
    """What has to move at least for an even load on `brokers`: each broker's cheapest replicas
    beyond its share, and everything that is elsewhere.
    """
    held: dict[int, list[int]] = {node: [] for node in brokers}
    outside = 0
    for name, replicas in placement.items():
        for node in replicas:
            if node in held:
                held[node].append(sizes.get(name, 0))
            else:
                outside += sizes.get(name, 0)
    share, more = divmod(sum(len(each) for each in placement.values()), len(brokers))
    fullest = sorted(held.values(), key=len, reverse=True)
    return outside + sum(
        sum(sorted(each)[: max(0, len(each) - share - (rank < more))])
        for rank, each in enumerate(fullest)
    )


class Elastic:
    """The script: what an administrator does while clients write and a broker dies."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.result = Result()
        self._say = say

    def __call__(self, stage: RunContext) -> None:
        disks = Disks(stage)
        try:
            self._step("start", lambda: self._start(stage, 2))
            killer = threading.Thread(target=self._kill, args=(stage,), name="killer", daemon=True)
            killer.start()
            self._move(stage, disks, "add", stage.system.layout.brokers, scaling.rebalance)
            killer.join(PATIENCE_S)

            async def drain(admin: AdminClient, watch: MoveOptions) -> MoveTotals:
                before = await replica_moves.assignment(admin)
                self.result.even_within = max(1, difference_after_drain(before, rest))
                return await scaling.drain(admin, [LEAVES], watch)

            rest = [node for node in stage.system.layout.brokers if node != LEAVES]
            self._move(stage, disks, "remove", rest, drain)
            self._step("stop", lambda: self._remove(stage))
            self._read_end(stage)
        finally:
            disks.stop()
            self.result.moved_bytes = disks.copies.bytes

    def _start(self, stage: RunContext, count: int) -> None:
        for _ in range(count):
            node = stage.system.add_broker()
            stage.monitor.add_broker(node, stage.system.brokers[node])

    def _move(
        self,
        stage: RunContext,
        disks: Disks,
        name: str,
        onto: Sequence[int],
        work: Callable[[AdminClient, MoveOptions], Awaitable[MoveTotals]],
    ) -> None:
        everyone = len(stage.system.layout.brokers)

        async def all_up(admin: AdminClient) -> Placement:
            deadline = time.monotonic() + PATIENCE_S
            while len((await topics.cluster(admin)).live) < everyone:
                assert time.monotonic() < deadline, "not all brokers are up"
            return await replica_moves.assignment(admin)

        async def move(admin: AdminClient) -> MoveTotals:
            return await work(admin, MoveOptions(report=self._say, give_up_s=PATIENCE_S))

        placement = self._administer(stage, all_up)
        sizes = disks.sizes()
        disks.copies.order(sizes)
        self.result.least_bytes += least_bytes(placement, onto, sizes)
        self._step(name, lambda: self._administer(stage, move))

    def _kill(self, stage: RunContext) -> None:
        """SIGKILL a broker as soon as something moves, and start it again a little later."""

        async def moves(admin: AdminClient) -> int:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                if await reassignments.ongoing(admin) or time.monotonic() > deadline:
                    break
            stage.target.kill(KILLED)
            return len(await reassignments.ongoing(admin))

        self.result.moving_when_killed = self._administer(stage, moves, without=KILLED)
        self._say(f"killed broker {KILLED}: {self.result.moving_when_killed} partitions move")
        stage.stop.wait(DEAD_S)
        stage.target.start(KILLED)

    def _remove(self, stage: RunContext) -> None:
        stage.monitor.remove_broker(LEAVES)
        assert stage.system.stop_node(LEAVES), "the emptied broker did not stop in order"

        async def forget(admin: AdminClient) -> None:
            await inspection.unregister(admin, LEAVES)

        self._administer(stage, forget, without=LEAVES)
        stage.system.remove_node(LEAVES)

    def _read_end(self, stage: RunContext) -> None:
        placement = self._administer(stage, replica_moves.assignment)
        brokers = stage.system.layout.brokers
        held = Counter(node for replicas in placement.values() for node in replicas)
        led = Counter(replicas[0] for replicas in placement.values())
        assert set(held) <= set(brokers)
        self.result.replicas = {node: held[node] for node in brokers}
        self.result.leaders = {node: led[node] for node in brokers}
        self.result.replication_factors = {len(each) for each in placement.values()}

    def _administer(
        self, stage: RunContext, work: Callable[[AdminClient], Any], *, without: int | None = None
    ) -> Any:
        bootstrap = [each for node, each in stage.system.brokers.items() if node != without]

        async def connected() -> Any:
            async with AdminClient(bootstrap, timeout_s=PATIENCE_S) as admin:
                return await work(admin)

        return call_in_client_network(stage.target, connected)

    def _step(self, name: str, work: Callable[[], object]) -> None:
        began = time.monotonic()
        work()
        self.result.steps_s[name] = round(time.monotonic() - began, 1)
        self._say(f"{name}: {self.result.steps_s[name]} s")


def difference(held: Iterable[int]) -> int:
    """The greatest difference between two brokers' numbers of replicas."""
    numbers = list(held)
    return max(numbers) - min(numbers)


def difference_after_drain(before: Assignment, rest: Sequence[int]) -> int:
    """The difference if only the replicas move that are not on `rest`."""
    after = {**before, **balance.drain(before, dict.fromkeys(rest)).targets}
    held = Counter(node for replicas in after.values() for node in replicas)
    return difference(held[node] for node in rest)


def run(
    store: Path,
    *,
    partitions: int,
    warmup_s: float,
    value_bytes: int,
    rate_per_s: float,
    say: Callable[[str], None],
) -> tuple[RunOutcome, Result]:
    """One run of the whole scenario."""
    raw = {
        "name": "elasticity",
        "seed": 1,
        "nodes": 4,
        "duration_s": 1,
        "warmup_s": warmup_s,
        "settle_timeout_s": PATIENCE_S,
        "broker": {"broker.session.timeout.ms": 6000},
        "topics": [{"name": TOPIC, "acks": "all", "idempotence": True, "partitions": partitions}],
        "workload": {
            "producers": 2,
            "rate_per_s": rate_per_s,
            "value_bytes": value_bytes,
            "message_timeout_ms": 60_000,
        },
    }
    script = Elastic(say)
    prepared = prepare(build(raw, where="elasticity"))
    with for_terminal(prepared.plan) as progress:
        outcome = Runner(
            prepared,
            root=store,
            progress=progress,
            layout=Layout.split(controllers=1, brokers=3),
            script=script,
        ).run()
    if outcome.verdict is not None:
        script.result.verdict = outcome.verdict["verdict"]
    return outcome, script.result


def main(argv: Sequence[str]) -> int:
    """The full measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.elasticity")
    parser.add_argument("--partitions", type=int, default=60)
    parser.add_argument("--warmup", type=float, default=30.0, help="seconds of filling")
    parser.add_argument("--rate", type=float, default=400.0, help="sends/s of two producers each")
    parser.add_argument("--value-bytes", type=int, default=4096)
    parser.add_argument("--store", type=Path, default=Path(tempfile.gettempdir()) / "elasticity")
    asked = parser.parse_args(argv)
    outcome, result = run(
        asked.store,
        partitions=asked.partitions,
        warmup_s=asked.warmup,
        value_bytes=asked.value_bytes,
        rate_per_s=asked.rate,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    shown = {
        "verdict": result.verdict or f"failed in {outcome.failed_phase}: {outcome.error}",
        "replicas": result.replicas,
        "leaders": result.leaders,
        "moved_bytes": result.moved_bytes,
        "least_bytes": result.least_bytes,
        "ratio": round(result.ratio, 3),
        "moving_when_killed": result.moving_when_killed,
        "steps_s": result.steps_s,
        "run": str(outcome.run.path),
    }
    print(json.dumps(shown))
    good = result.verdict == "VALID" and result.balanced and result.ratio <= WORTH
    good = good and result.moving_when_killed > 0
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
