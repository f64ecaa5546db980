"""A harness that is killed while a fault is in force leaves nothing after the undo."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from harness.targets.abilities import NEEDS
from nemesis.faults.catalogue import FAULTS
from nemesis.faults.fault import Ability
from tests.support.require import require
from tests.support.tiers import in_turn

ELSEWHERE = {Ability.FAILED_SYNCS, Ability.MACHINE_POWER, Ability.PROGRAM_SIGNALS}
"""What only simulated disks, virtual machines and runs with a tested program can do."""

LOCAL = [name for name, fault in FAULTS.items() if not fault.needs & ELSEWHERE]


@pytest.fixture(scope="module")
def killer() -> Iterator["subprocess.Popen[str]"]:
    """The process that lets harnesses die, and adopts what they leave."""
    require("root", "netns")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.tools.undo_kills", "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    "name",
    in_turn(
        "system/test_undo_faults.py::test_a_harness_killed_while_a_fault_is_in_force_leaves_nothing",
        LOCAL,
        of=3,
    ),
)
def test_a_harness_killed_while_a_fault_is_in_force_leaves_nothing(
    name: str, killer: "subprocess.Popen[str]"
) -> None:
    """No namespace, mount, loop device, limit, ballast, skewed clock, process, registry entry."""
    require(*(name for ability in sorted(FAULTS[name].needs) for name in NEEDS[ability]))
    assert killer.stdin is not None
    assert killer.stdout is not None
    killer.stdin.write(f"{name} in-force\n")
    killer.stdin.flush()
    death = json.loads(killer.stdout.readline())
    assert death["left"] == []
    assert any("namespace" in what for what in death["removed"])
