"""A node is killed at each of many moments after the cluster settled, as the kernel's memory
killer would: no such run may be INVALID, and each must name the node that died.

`python -m tests.tools.late_kills --moments 20` runs `highwater run quick` once without a kill, to
learn how long its nodes live after it settled, and then once for each of so many moments of that
time: the final reads and the collecting. Exit code 0 when all went well. The test suite does a few
moments of a shorter plan.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.recording import journal

LIMIT_S: Final = 600.0
"""How long one run may take."""
LOOK_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """One run. after_s: how long after the settling a node was killed, or the nodes were gone
    without that; node: which, None where none was left."""

    after_s: float
    node: int | None
    outcome: str
    reasons: tuple[str, ...]
    deaths: tuple[str, ...]
    said: str

    @property
    def well(self) -> bool:
        """Not INVALID, and whoever was killed is named."""
        named = self.node is None or any(f"node {self.node} " in each for each in self.deaths)
        return self.outcome in ("VALID", "UNKNOWN") and named

    def __str__(self) -> str:
        who = "nobody was left to kill" if self.node is None else f"node {self.node} killed"
        said = "; ".join((*self.reasons, *self.deaths)) or "nothing more is said"
        return f"{self.after_s:6.2f} s after settling, {who}: {self.outcome}; {said}"


def run_and_kill(plan: str, store: Path, after_s: float | None, node: int = 1) -> Late:
    """Run the plan; kill a node so long after the cluster settled, or none, and wait for the end.
    Raises TimeoutError where no run settles or ends in time.
    """
    argv = [sys.executable, "-m", "harness.cli.main", "run", plan, "--store", str(store)]
    # Every run tells its own time, by a store of its own.
    store.mkdir()
    deadline_s = time.monotonic() + LIMIT_S
    with (store / "said").open("wb") as said:
        running = subprocess.Popen(argv, stdout=said, stderr=said, start_new_session=True)
    try:
        run_dir = _settled(store, running, deadline_s)
        began_s = time.monotonic()
        killed = None
        if after_s is not None:
            time.sleep(after_s)
            killed = node if _kill(run_dir, node) else None
        while after_s is None and _pid(run_dir, node) is not None:
            time.sleep(LOOK_S)
            _check(deadline_s, "the nodes do not end")
        gone_s = time.monotonic() - began_s
        running.wait(max(0.0, deadline_s - time.monotonic()))
    finally:
        running.terminate()
        running.wait()
    run = json.loads((run_dir / "run.json").read_text())
    verdict: dict[str, Any] = {}
    with suppress(OSError):
        verdict = json.loads((run_dir / "verdict.json").read_text())
    return Late(
        after_s=gone_s if after_s is None else after_s,
        node=killed,
        outcome=verdict.get("verdict", f"none, exit code {running.returncode}"),
        reasons=tuple(verdict.get("reasons", ())),
        deaths=tuple(each["text"] for each in run.get("deaths", ())),
        said=(store / "said").read_text(),
    )


def _settled(store: Path, running: "subprocess.Popen[bytes]", deadline_s: float) -> Path:
    """The run's directory, once the run has settled."""
    while running.poll() is None:
        _check(deadline_s, "the run does not settle")
        latest = store / "latest"
        with suppress(OSError, ValueError):
            if "settle" in json.loads((latest / "run.json").read_text()).get("finished", ()):
                return latest.resolve()
        time.sleep(LOOK_S)
    raise TimeoutError(f"the run ended before it settled: {(store / 'said').read_text()}")


def _check(deadline_s: float, what: str) -> None:
    if time.monotonic() > deadline_s:
        raise TimeoutError(f"{what} within {LIMIT_S:.0f} s")


def _pid(run_dir: Path, node: int) -> int | None:
    """The process of a node that is alive, from the journal."""
    records = journal.read(run_dir / "journal.jsonl")
    pids = [
        record["pid"]
        for record in records
        if record["kind"] == "local.process" and record["machine"] == node
    ]
    if not pids or not isinstance(pids[-1], int):
        return None
    with suppress(OSError):
        command = Path(f"/proc/{pids[-1]}/cmdline").read_bytes()
        if b"nodes" in command:  # nothing of a zombie, and not a stranger's
            return pids[-1]
    return None


def _kill(run_dir: Path, node: int) -> bool:
    pid = _pid(run_dir, node)
    if pid is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", default="quick")
    parser.add_argument("--moments", type=int, default=20)
    parser.add_argument("--store", type=Path, help="where runs are kept")
    options = parser.parse_args(arguments)
    store = options.store or Path(tempfile.mkdtemp(prefix="late-kills-"))
    store.mkdir(exist_ok=True, parents=True)
    whole = run_and_kill(options.plan, store / "whole", None)
    print(f"without a kill the nodes are gone {whole.after_s:.2f} s after settling; {store}")
    bad = 0
    for moment in range(options.moments):
        after_s = whole.after_s * moment / max(1, options.moments - 1)
        late = run_and_kill(options.plan, store / f"{moment}", after_s, node=1 + moment % 3)
        bad += not late.well
        print(f"{'ok ' if late.well else 'BAD'} {late}", flush=True)
    print(f"{options.moments - bad} of {options.moments} as they should be")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
