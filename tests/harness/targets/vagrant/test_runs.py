"""A whole run on the machines that are up: `NODES=3 vagrant up` before, `vagrant destroy` after.

Not for CI: emulated machines take ten minutes or more. `HIGHWATER_REQUIRE=vagrant` insists.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.require import require

pytestmark = pytest.mark.slow

PLAN = Path(__file__).with_name("slow-machines.toml")
RUN_TIMEOUT_S = 1_800.0


def test_a_run_on_virtual_machines_is_valid(tmp_path: Path) -> None:
    """A partition, a kill, a pause, a disk stall, a power loss, and the power loss of a machine
    while its clock is skewed, all proven.
    """
    require("vagrant")
    done = subprocess.run(
        (sys.executable, "-m", "harness.cli.main", "run", str(PLAN), "--target", "vagrant",
         "--json",
         "--store", str(tmp_path)),
        capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["verdict"]) == (0, "VALID"), verdict["reasons"]
