"""A real Spark cluster on this machine: a master, two workers, and one of them killed meanwhile.

    python -m tests.tools.spark_standalone --operations 300000

writes a synthetic run with planted anomalies, analyzes it with the embedded engine and on the
cluster, kills a worker when the cluster has begun to work, and compares the two answers. Exits with
1 when they differ. Everything is on loopback, bounded, and ended by its own process id.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyspark

from checkers.engines.spark_sessions import sized
from tests.support.checkers.scale_history import Size, write_run

MEMORY = "4g"
"""Of each worker, and of its executor."""
START_S = 60.0
ANALYZE_S = 900.0
WORKERS = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, analyze twice, compare, print."""
    parser = argparse.ArgumentParser(description="Analyze on a cluster that loses a worker.")
    parser.add_argument("--operations", type=int, default=300_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--timeout-s", type=float, default=ANALYZE_S, help="of each analysis")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is ended then, too
    with (
        tempfile.TemporaryDirectory(prefix="highwater-standalone-") as made,
        _cluster(Path(made)) as cluster,
    ):
        run = Path(made) / "run"
        write_run(run, Size(sends=chosen.operations // 3, partitions=chosen.partitions))
        limit_s = chosen.timeout_s
        began_s = time.monotonic()
        here = _analyze(limit_s, run, Path(made) / "here", "--engine", "duckdb")
        print(f"{time.monotonic() - began_s:.1f} s on the embedded engine", flush=True)
        killed = threading.Thread(target=cluster.kill_one_at_work, args=(limit_s,), daemon=True)
        killed.start()
        began_s = time.monotonic()
        there = _analyze(limit_s, run, Path(made) / "there", "--master", cluster.master)
        took_s = time.monotonic() - began_s
        killed.join(5)
        when = f"after {cluster.killed_s - began_s:.1f} s" if cluster.killed else "never"
        print(f"{took_s:.1f} s on the cluster; a worker was killed while it worked: {when}; "
              f"{len(here['anomalies'])} groups of anomalies; the answers "
              f"{'agree' if here == there else 'differ'}")  # fmt: skip
        return 0 if here == there and cluster.killed else 1


class Cluster:
    """A master and its workers, each a process of ours."""

    def __init__(self, master: str, ui: str, workers: list[subprocess.Popen[bytes]]) -> None:
        self.master = master
        self.killed_s: float = 0
        self._ui = ui
        self._workers = workers

    @property
    def killed(self) -> bool:
        """Whether a worker was killed."""
        return self.killed_s > 0

    def alive(self) -> dict[str, Any]:
        """What the master says of itself."""
        with urllib.request.urlopen(f"{self._ui}/json/", timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def kill_one_at_work(self, limit_s: float) -> None:
        """Kill a worker with its executors once an application holds both workers' cores."""
        deadline_s = time.monotonic() + limit_s
        while time.monotonic() < deadline_s:
            if self.alive()["coresused"] >= WORKERS:
                time.sleep(3.0)  # let it have done some of the work
                _end(self._workers[0])
                self.killed_s = time.monotonic()
                return
            time.sleep(0.2)


@contextlib.contextmanager
def _cluster(folder: Path) -> Iterator[Cluster]:
    port, ui = _free_port(), _free_port()
    master = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as ends:

        def start(name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
            process = _spawn(folder, name, f"org.apache.spark.deploy.{kind}", *arguments)
            ends.callback(_end, process)
            return process

        start("master", "master.Master", "--host", "127.0.0.1", "--port", str(port),
              "--webui-port", str(ui))  # fmt: skip
        workers = [
            start(f"worker-{n}", "worker.Worker", "--host", "127.0.0.1", "--cores", "1",
                  "--memory", MEMORY, "--webui-port", str(_free_port()), "--work-dir",
                  str(folder / f"work-{n}"), master)
            for n in range(WORKERS)
        ]  # fmt: skip
        cluster = Cluster(master, f"http://127.0.0.1:{ui}", workers)
        deadline_s = time.monotonic() + START_S
        while True:
            with contextlib.suppress(OSError, ValueError):
                if cluster.alive()["aliveworkers"] == WORKERS:
                    break
            if time.monotonic() > deadline_s:
                raise SystemExit(f"the cluster did not start in {START_S:.0f} s; see {folder}")
            time.sleep(0.3)
        yield cluster


def _spawn(folder: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [home / "bin" / "spark-class", *arguments],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """With what it started: a worker's executors are in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _settings(run: Path, out: Path) -> Path:
    """The folder of Spark's settings for a run of that size: it would cut every shuffle of a little
    one into 200 parts."""
    folder = out.with_name("conf")
    folder.mkdir(exist_ok=True)
    settings = sized([run]) | {"spark.executor.memory": MEMORY}
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return folder


def _analyze(limit_s: float, run: Path, out: Path, *arguments: str) -> dict[str, Any]:
    """The answer of `highwater analyze`, without what may differ."""
    copy = out.with_name(f"{out.name}-run")
    shutil.copytree(run, copy)
    (copy / "run.json").write_text(
        json.dumps({"run_id": "x", "started_wall_ns": 0, "monotonic_base_ns": 0})
    )
    here = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(_settings(run, out))}
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "analyze", str(copy), "--out", str(out),
         "--no-report", *arguments],
        capture_output=True, text=True, timeout=limit_s, check=False,
        env=os.environ | here,
    )  # fmt: skip
    if done.returncode not in (0, 1, 2):
        raise SystemExit(done.stderr[-2000:])
    verdict: dict[str, Any] = json.loads((out / "verdicts" / "0.json").read_text())
    for name in ("engine", "checked_at", "run"):
        del verdict[name]
    for detector in verdict["detectors"]:
        del detector["seconds"]
    return verdict


if __name__ == "__main__":
    sys.exit(main())
