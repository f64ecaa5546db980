"""A soak run of a broken broker, followed: how soon the alarm comes, and what is carried meanwhile.

    python -m tests.tools.follow_soak --minutes 10 --rotate-s 30

runs real nodes that acknowledge before they replicate. Nothing that happens to them can show it
until, a minute before the end, a leader is cut off from the others. Beside the run `highwater
analyze --follow` waits for its alarm, and the same follower, here, is weighed at every look. When
the run is over, a one-shot `highwater analyze` judges it whole.

Exits with 1 when the alarm is missing, comes later than a segment after the segment of the bad
read, or says what the whole does not; or when what is carried still grew in the last third of the
run. Ends what it started by its own process id; leaves the run below --store.
"""

import argparse
import gc
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from checkers.following.follow import Follower
from checkers.history.history import HISTORY, load_plan, load_run
from checkers.verdict import Anomaly
from harness.judging.growing_run import FollowedRun
from harness.recording import store

LOOK_S = 2.0
START_S = 120.0
OVERTIME_S = 600.0
GROWTH = 1.05
RATE_PER_S = 100
MUTANT = "harness.zoo.mutants.ack_before_replication"
TOPIC = "soak"

EVENT = """
[[nemesis.events]]
at_ms = {at_ms}
fault = "{fault}"
targets = "{targets}"
duration_ms = {duration_ms}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What was carried after a look. at_s: since the run began."""

    at_s: float
    segments: int
    entries: int
    size: int
    look_s: float


@dataclass(slots=True)
class Watched:
    """What following in this process has shown; alarm_s: since the run began."""

    weights: list[Weighed] = field(default_factory=list)
    alarm: tuple[Anomaly, ...] = ()
    alarm_s: float | None = None


def plan(minutes: float, rotate_s: float) -> str:
    """Followers that pause briefly all the time, and one leader that is cut off at last."""
    length_ms = round(minutes * 60_000)
    last_ms = max(5_000, length_ms - 60_000)
    quiet = [(at, "pause", f"isr-one:{TOPIC}/0", 1_000) for at in range(15_000, last_ms, 30_000)]
    events = [*quiet, (last_ms, "partition.isolate-leader", f"leader:{TOPIC}/0", 10_000)]
    listed = "".join(
        EVENT.format(at_ms=at, fault=fault, targets=targets, duration_ms=duration)
        for at, fault, targets, duration in events
    )
    return f"""
name = "soak"
seed = 6
nodes = 3
warmup_s = 2
duration_s = {length_ms / 1000}
rotate_s = {rotate_s}
broker_module = "{MUTANT}"

[[topics]]
name = "{TOPIC}"
acks = "all"
partitions = 1
idempotence = true

[workload]
producers = 2
consumers = 1
rate_per_s = {RATE_PER_S}
{listed}"""


def weigh(thing: object) -> int:
    """Bytes of everything that can be reached from something, code left out."""
    seen: set[int] = set()
    left, total = [thing], 0
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type | ModuleType):
            continue
        seen.add(id(each))
        total += sys.getsizeof(each)
        left += gc.get_referents(each)
    return total


def watch(run_dir: Path, until_s: float) -> Watched:
    """Follow a run as `analyze --follow` does, to its end."""
    run = store.open_run(run_dir)
    followed = FollowedRun(run.path)
    follower = Follower(plan=load_plan(run.path), live=followed.sources)
    base_ns = int(json.loads((run_dir / "run.json").read_text())["monotonic_base_ns"])
    watched, taken = Watched(), 0
    while time.monotonic() < until_s:
        followed.read_new()
        over = followed.over
        began_s = time.monotonic()
        found = follower.look(run.history_dir) or (follower.finish() if over else ())
        now_s = time.monotonic()
        if found and not watched.alarm:
            watched.alarm, watched.alarm_s = found, now_s - base_ns / 1e9
            print(f"{watched.alarm_s:7.1f} s  ALARM", flush=True)
        if follower.segments != taken:
            taken = follower.segments
            held = Weighed(
                at_s=now_s - base_ns / 1e9, segments=taken,
                entries=follower.history_state.size() + followed.remembered.size(),
                size=weigh((follower.history_state, followed)), look_s=now_s - began_s,
            )  # fmt: skip
            watched.weights.append(held)
            print(f"{held.at_s:7.1f} s  {held.segments:5} segments  {held.entries:7,} entries  "
                  f"{held.size / 1e6:6.2f} MB  look {held.look_s:.2f} s", flush=True)  # fmt: skip
        if over:
            return watched
        time.sleep(LOOK_S)
    raise SystemExit(f"{run_dir}: the run did not end in time")


def bad_read_s(run_dir: Path, alarm: Sequence[Anomaly]) -> float:
    """When a consumer was first given what shows one of the anomalies: another record at or beyond
    the offset in their evidence."""
    tables = [
        pyarrow.parquet.read_table(each, schema=HISTORY) if isinstance(each, Path) else each
        for each in load_run(run_dir).history
    ]
    columns = ["f", "topic", "partition", "offset", "value", "complete_ns"]
    polls = [
        row
        for row in pa.concat_tables(tables).select(columns).to_pylist()
        if row["f"] == "poll" and row["offset"] is not None
    ]
    times = [
        row["complete_ns"]
        for each in alarm
        for example in each.examples
        for row in polls
        if (row["topic"], row["partition"]) == (each.topic, each.partition)
        and row["offset"] >= example.get("offset", 0)
        and row["value"] != example.get("value")
    ]
    return min(times, default=0) / 1e9


@contextmanager
def started(*arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command of ours, asked to end when we do."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", *arguments], stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(120)


def run_dir_of(root: Path, process: subprocess.Popen[bytes]) -> Path:
    """The run that was begun below `root`, once it records."""
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and process.poll() is None:
        for path in sorted((root / "soak").glob("*/run.json")):
            if list((path.parent / "history").glob("*.arrows")):
                return path.parent
        time.sleep(0.5)
    raise SystemExit(f"no run was begun below {root}; see run.log there")


def forbidden(verdict: dict[str, Any]) -> set[tuple[str, str, int]]:
    """(kind, topic, partition) of what a verdict forbids."""
    return {
        (each["kind"], each["topic"], each["partition"])
        for each in verdict["anomalies"]
        if each["judgement"] == "forbidden"
    }


def grown(weights: Sequence[Weighed]) -> bool:
    """Whether more was carried in the last third of the run than in the second."""
    end_s = weights[-1].at_s
    second = [each.size for each in weights if end_s / 3 < each.at_s <= 2 * end_s / 3]
    last = [each.size for each in weights if each.at_s > 2 * end_s / 3]
    return max(last) > GROWTH * max(second, default=0)


def main(argv: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rotate-s", type=float, default=30.0)
    parser.add_argument("--store", type=Path, required=True, help="where the run is kept")
    chosen = parser.parse_args(argv)
    root = chosen.store.resolve()
    root.mkdir(parents=True, exist_ok=True)
    (root / "soak.toml").write_text(plan(chosen.minutes, chosen.rotate_s))
    arguments = ("run", str(root / "soak.toml"), "--store", str(root), "--no-report")
    with started(*arguments, log=root / "run.log") as running:
        run_dir = run_dir_of(root, running)
        with started("analyze", "--follow", str(run_dir), log=root / "follow.log") as beside:
            watched = watch(run_dir, time.monotonic() + chosen.minutes * 60 + OVERTIME_S)
            beside.wait(120)
        running.wait(OVERTIME_S)
    whole = root / "whole"
    with started("analyze", str(run_dir), "--out", str(whole), "--no-report",
                 log=root / "analyze.log") as once:  # fmt: skip
        once.wait(OVERTIME_S)
    return _tell(watched, run_dir, beside.returncode, whole, chosen.rotate_s)


def _tell(watched: Watched, run_dir: Path, code: int, whole: Path, rotate_s: float) -> int:
    verdict = json.loads((whole / "verdicts" / "0.json").read_text())
    alarm = run_dir / "alarm.json"
    told = json.loads(alarm.read_text()) if alarm.is_file() else {"anomalies": []}
    confirmed = forbidden(told) <= forbidden(verdict)
    print(f"analyze --follow ended with {code} and told of {sorted(forbidden(told))}; the whole is "
          f"{verdict['verdict']} and {'says so too' if confirmed else 'does not'}")  # fmt: skip
    if not watched.weights or watched.alarm_s is None or code != 1:
        print("no alarm")
        return 1
    read_s = bad_read_s(run_dir, watched.alarm)
    late_s = watched.alarm_s - read_s
    print(f"read at {read_s:.1f} s, alarm at {watched.alarm_s:.1f} s: {late_s:.1f} s later, with "
          f"segments of {rotate_s:g} s")  # fmt: skip
    more = grown(watched.weights)
    print(f"what is carried {'grew' if more else 'did not grow'} in the last third: "
          f"{watched.weights[-1].size / 1e6:.2f} MB")  # fmt: skip
    return int(not confirmed or late_s > 2 * rotate_s or more)


if __name__ == "__main__":
    sys.exit(main())
