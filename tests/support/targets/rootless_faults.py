"""Make every fault that the doctor calls available without root; run by a user who is not root.

The program prints a JSON object with a list of problems for each fault. The list is empty when the
fault was made, proven and healed, or when the doctor calls it unavailable and the target agrees.
"""

from harness.targets.local.rootless import ensure_privileges

ensure_privileges()

import json  # noqa: E402 - the rest runs inside the user namespace
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

from harness.recording.journal import Journal  # noqa: E402
from harness.run.hosts import hosts_of  # noqa: E402
from harness.targets import abilities  # noqa: E402
from harness.targets.linux import kernel  # noqa: E402
from nemesis.faults.catalogue import FAULTS  # noqa: E402
from nemesis.faults.fault import Ability, Fault, Injection  # noqa: E402
from nemesis.hosts import Hosts  # noqa: E402
from tests.support.nemesis.fakes import FakeView  # noqa: E402
from tests.support.targets.machine import new_run_id  # noqa: E402
from tests.tools import undo_kills  # noqa: E402

UNPROVEN = ("cut.port", "response-lost", "reset", "request-delayed", "records.compact")
"""Their proof takes TCP connections or a log cleaner, which nobody has here."""
PROOF_S = 10.0


def main(names: Sequence[str]) -> None:
    """Try these faults."""
    rows = [r for r in abilities.fault_availability() if r.target == abilities.WITHOUT_ROOT]
    rows = [r for r in rows if r.fault in names]
    print(json.dumps({r.fault: attempt(FAULTS[r.fault], bool(r.available)) for r in rows}))


def attempt(fault: Fault, offered: bool) -> list[str]:
    """What went wrong."""
    with tempfile.TemporaryDirectory() as place:
        run_dir, run_id = Path(place), new_run_id()
        with Journal.create(run_dir / "journal.jsonl", run_id=run_id) as journal:
            try:
                target = undo_kills.make_target(fault, journal, run_dir, run_id)
            except undo_kills.Unavailable as error:
                journal.finish()
                return [f"it was offered, but {error}"] if offered else []
            try:
                if not offered:
                    return ["it was not offered, but the target has all that it needs"]
                undo_kills.start_processes(target, run_dir)
                hosts = hosts_of(target, FakeView(), undo_kills.FakeCluster(target, run_dir))
                return made(fault, hosts, undo_kills.planned_injection(fault, hosts, "1"))
            except Exception as error:  # an answer: it could not be made
                return [f"{type(error).__name__}: {error}"]
            finally:
                target.down()
                journal.finish()


def made(fault: Fault, hosts: Hosts, injection: Injection) -> list[str]:
    """Inject, prove and heal it."""
    began_s = time.monotonic()
    fault.inject(hosts, injection)

    def proven() -> bool:
        if fault.tick_ms is not None:
            fault.tick(hosts, injection, round(1000 * (time.monotonic() - began_s)))
        return fault.measure_effect(hosts, injection).confirmed

    wrong = []
    if fault.name not in UNPROVEN and not kernel.wait_until(proven, PROOF_S, 0.02):
        wrong.append(f"no effect: {fault.measure_effect(hosts, injection).evidence}")
    fault.heal(hosts, injection)
    healing = fault.measure_heal(hosts, injection)
    return wrong if healing.confirmed else [*wrong, f"not healed: {healing.evidence}"]


if __name__ == "__main__":
    main([n for n, fault in FAULTS.items() if Ability.PROGRAM_SIGNALS not in fault.needs])
