"""The examples of packages that extend highwater, installed beside it: examples/plugin-*."""

import json
from pathlib import Path

import pytest

from tests.support.plugins import ROOT, highwater, install
from tests.support.require import require
from tests.support.tiers import at_turn

pytestmark = pytest.mark.slow

NAMES = ("fault", "detector", "system", "target", "client", "workload")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all packages in its `site`."""
    made = tmp_path_factory.mktemp("plugins")
    install(made, *NAMES)
    return made


@at_turn(1, 2, "system/test_plugins.py::test_fault_of_another_package_is_one_of_highwater")
def test_packages_are_listed(folder: Path) -> None:
    """With what each of them adds."""
    found = {each["what"]: each for each in json.loads(highwater(folder, "plugins", "--json"))}
    assert {what: list(each["names"]) for what, each in found.items()} == {
        "faults": ["stutter"],
        "detectors": ["late-ack"],
        "systems": ["careful"],
        "targets": ["one-cpu"],
        "clients": ["batcher"],
        "workloads": ["ping-pong"],
    }
    assert "The topic of the requests." in found["workloads"]["keys"]["ping-pong"]["requests"]
    assert not any(each["problems"] for each in found.values())
    assert found["systems"]["names"]["careful"] == "highwater-careful 0.1.0"


@at_turn(0, 2, "system/test_plugins.py::test_packages_are_listed")
def test_fault_of_another_package_is_one_of_highwater(folder: Path) -> None:
    """It is listed, and a simulated run injects it."""
    assert "SIGSTOP and SIGCONT in turn" in highwater(folder, "faults", "stutter")
    wanted = ("--seeds", "1..1", "--faults", "stutter", "--duration", "8", "--json")
    result = json.loads(highwater(folder, "simulate", *wanted, codes=(0, 1)))
    assert result["met"]["fault stutter"] > 0


def test_rows_of_a_detector_are_in_the_contract(folder: Path) -> None:
    """They stand behind ours."""
    rows = json.loads(highwater(folder, "contract", "late-ack", "--json"))
    assert [row["judgement"] for row in rows] == ["informational", "forbidden"]


@at_turn(0, 2, "system/test_plugins.py::test_workload_of_another_package_is_judged")
def test_system_target_client_and_detector_make_one_run(folder: Path) -> None:
    """A leader pauses, so that acknowledgements come late. The verdict and the report say so, and
    the plan keeps the names."""
    require("netns")
    wanted = ("--system", "careful", "--target", "one-cpu", "--client", "batcher")
    load = ("--duration", "8", "--faults", "pause", "--seed", "4")
    printed = highwater(folder, "run", "quick", *wanted, *load, codes=(0, 1))
    assert "batcher 0.1.0" in printed
    run = (folder / "store/latest").resolve()
    plan, verdict = (json.loads((run / f"{name}.json").read_text()) for name in ("plan", "verdict"))
    assert (plan["system"], plan["target"]) == ("careful", "one-cpu")
    assert plan["workload"]["client"] == "batcher"
    assert "flush.messages=1" in (run / "nodes/1/server.properties").read_text()
    # Which acknowledgements were late depends on the machine; that they were looked for does not.
    detectors = {each["name"]: each["status"] for each in verdict["detectors"]}
    assert detectors["late-ack"] == "ok"
    assert verdict["verdict"] in ("VALID", "INVALID")
    assert "our callers" in (run / "report.html").read_text()


@at_turn(1, 2, "system/test_plugins.py::test_system_target_client_and_detector_make_one_run")
def test_workload_of_another_package_is_judged(folder: Path) -> None:
    """Every request has a reply in the end, and our contract holds for both topics; only the
    package's detector may find late acknowledgements. The run can be judged without the packages.
    """
    require("netns")
    wanted = (str(ROOT / "examples/plugin-workload/ping-pong.toml"), "--duration", "12")
    highwater(folder, "run", *wanted, "--seed", "3", codes=(0, 1))
    run = (folder / "store/latest").resolve()
    verdict = json.loads((run / "verdict.json").read_text())
    forbidden = {a["kind"] for a in verdict["anomalies"] if a["judgement"] == "forbidden"}
    assert forbidden <= {"late-ack"}
    requests, replies = verdict["topics"]
    assert (requests["topic"], replies["topic"]) == ("requests", "replies")
    assert requests["acked"] >= 20
    assert replies["acked"] >= 0.9 * requests["acked"]
    (folder / "without").mkdir()
    assert "✓ VALID" in highwater(folder / "without", "check", str(run))
