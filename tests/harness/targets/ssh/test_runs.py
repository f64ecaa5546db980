"""Whole runs on machines reached by SSH, with a correct broker, a mutant and Apache Kafka."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.plans.plan import build, load
from harness.targets.ssh.kind import SshKind
from harness.targets.ssh.target import NETWORK
from nemesis.faults.fault import Ability
from tests.scenarios import path_of
from tests.support.require import require
from tests.support.targets.ssh_hosts import Hosts, hosts
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

RUN_TIMEOUT_S = 400.0
CUT = """\
[[events]]
at_ms = 500
fault = "partition.isolate-leader"
targets = "leader:acks-all/0"
duration_ms = 6000
"""

KAFKA = """\
events = [
    { at_ms = 1_000, fault = "partition.isolate-leader", duration_ms = 4_000 },
    { at_ms = 7_000, fault = "kill", targets = "leader:acks-all/0", duration_ms = 2_000 },
    { at_ms = 14_000, fault = "pause", targets = "one", duration_ms = 3_000 },
]
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Three hosts."""
    require("root", "netns", "loop", "faketime", "sshd")
    with hosts(tmp_path_factory.mktemp("h")) as made:
        yield made


def run(lab: Hosts, *more: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the verdict of the scenario."""
    command = (sys.executable, "-m", "harness.cli.main", "run", str(path_of("anywhere")), "--json")
    target = ("--target", "ssh", "--inventory", str(lab.inventory_path))
    done = subprocess.run(
        [*command, *target, "--store", str(lab.place / "store"), *more],
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@at_turn(1, 2, "harness/targets/docker/test_containers.py::test_a_correct_broker_is_valid")
def test_a_correct_broker_is_valid(lab: Hosts) -> None:
    """A partition, a kill, a pause, a disk stall, a power loss and a clock jump, each proven."""
    code, verdict = run(lab)
    assert (code, verdict["verdict"]) == (0, "VALID"), verdict["reasons"]
    nodes = Path(verdict["run"]) / "nodes"
    assert len(list(nodes.glob("*/data/log/acks-all-*/*.log"))) >= 6, "their files were fetched"
    assert len(list(nodes.glob("*/node.log"))) == 3
    assert lab.left() == []


@pytest.mark.nightly("system/test_whole_runs.py::test_acknowledging_before_replication_is_caught")
def test_a_mutant_is_invalid(lab: Hosts) -> None:
    """Its source is copied to the machines; cutting off the leader reveals it."""
    (lab.place / "cut.toml").write_text(CUT)
    module = ("--broker-module", "harness.zoo.mutants.ack_before_replication")
    code, verdict = run(lab, *module, "--schedule", str(lab.place / "cut.toml"), "--duration", "9")
    assert (code, verdict["verdict"]) == (1, "INVALID"), verdict["reasons"]
    assert lab.left() == []


@pytest.mark.nightly("harness/targets/docker/test_containers.py::test_kafka_in_containers_is_valid")
def test_apache_kafka_is_valid(lab: Hosts) -> None:
    """Its jars are copied, the machines' Java runs them; a partition, a kill, a pause."""
    require("java", "kafka")
    plan = ("--system", "kafka", "--schedule", str(lab.place / "kafka.toml"), "--duration", "20")
    (lab.place / "kafka.toml").write_text(KAFKA)
    code, verdict = run(lab, *plan)
    assert (code, verdict["verdict"]) == (0, "VALID"), verdict["reasons"]
    nodes = Path(verdict["run"]) / "nodes"
    assert len(list(nodes.glob("*/data/log/acks-all-*/*.log"))) >= 6, "their files were fetched"
    assert lab.left() == []


@at_turn(0, 2, "harness/targets/ssh/test_runs.py::test_a_correct_broker_is_valid")
def test_without_root_here_network_faults_are_missing(
    lab: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets to the clients cannot be dropped; all other faults are possible."""
    flags = {"target": "ssh", "inventory": str(lab.inventory_path)}
    kind = SshKind(build(load(str(path_of("anywhere"))), where="anywhere", flags=flags))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lacks = kind.missing_abilities(set(Ability))
    assert set(lacks) == NETWORK | {
        Ability.FAILED_SYNCS,
        Ability.MACHINE_POWER,
        Ability.PROGRAM_CUTS,
    }
    assert lacks[Ability.PACKET_DROPS].endswith("run highwater as root")
