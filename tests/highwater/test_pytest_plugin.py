"""The pytest plugin, as its users run it: pytest in a process of its own, on files of the docs."""

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.support.require import require
from tests.support.tiers import at_turn
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "pytest.md"
INSTALLED = "highwater" in entry_points(group="pytest11").names


def text_of(mark: str) -> str:
    """The code block of the documentation with this mark."""
    (found,) = (text for kind, text in blocks(PAGE) if kind == mark)
    return found


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a folder with nothing but the plugin."""
    plugin = () if INSTALLED else ("-p", "highwater.pytest_plugin")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "-p", "no:randomly", "-p", "no:cacheprovider",
         "--rootdir", str(folder), "--basetemp", str(folder / "temporary"), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120"},
    )  # fmt: skip


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A folder with the program and the test of the documentation."""
    require("netns")
    (tmp_path / "writer.py").write_text(text_of("writer"))
    (tmp_path / "test_orders.py").write_text(text_of("orders"))
    return tmp_path


@pytest.mark.slow
@at_turn(
    1,
    2,
    "highwater/test_pytest_plugin.py::test_the_verdict_of_a_plan_is_in_the_output_and_in_the_junit_file",
)
def test_the_right_program_passes_and_the_naive_one_fails_with_values_and_fault(
    orders: Path,
) -> None:
    assert len([line for line in text_of("orders").splitlines() if line]) <= 15
    ended = run_pytest(orders)
    shown = ended.stdout
    assert "1 failed, 1 passed" in shown, shown + ended.stderr
    assert "FAILED test_orders.py::test_no_acknowledged_order_is_lost[1]" in shown
    assert re.search(r"assert not \['1-\d+', '1-\d+'", shown), shown
    assert re.search(r"fault 1: partition.isolate-one node \d, from .* \d+ packets dropped", shown)


@pytest.mark.slow
def test_workers_of_xdist_have_a_cluster_each_and_leave_nothing(orders: Path) -> None:
    ended = run_pytest(orders, "-n", "2")
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    runs = list(orders.glob("temporary/**/journal.jsonl"))
    assert len(runs) == 2
    assert all('"undone"' in path.read_text().splitlines()[-1] for path in runs)


FAULTS = """
import pytest

def test_an_error_in_the_block_heals_the_fault(kafka_cluster, faults):
    with pytest.raises(ZeroDivisionError), faults.kill("node:1"):
        1 / 0
    assert faults.in_force == ()

def test_a_fault_that_is_left_is_healed_after_the_test(kafka_cluster, faults):
    faults.pause("node:2")

def test_the_cluster_has_recovered_for_the_next_test(kafka_cluster):
    kafka_cluster.create_topic("next")
    assert len(kafka_cluster.produce("next", [b"1"])) == 1

def test_a_fault_without_effect_fails_the_test(kafka_cluster, faults):
    with faults.inject("cut.port", "node:1", port=12345, prove_s=0.5):
        pass

def test_a_misspelt_fault_is_named(kafka_cluster, faults):
    faults.inject("kil")

def test_a_fault_that_this_cluster_cannot_have_says_why(kafka_cluster, faults):
    faults.inject("disk.full", "one")
"""


@pytest.mark.slow
def test_faults_are_healed_and_proved_and_errors_are_clear(tmp_path: Path) -> None:
    require("netns")
    (tmp_path / "test_faults.py").write_text(FAULTS)
    ended = run_pytest(tmp_path, "--kafka-scope", "module", "--kafka-nodes", "3")
    shown = ended.stdout
    assert "3 failed, 3 passed" in shown, shown + ended.stderr
    assert "cut.port node 1 had no effect: 0 packets dropped" in shown
    assert "there is no fault 'kil' (did you mean kill?)" in shown
    assert "disk.full cannot be injected here" in shown
    assert "highwater doctor" in shown


@pytest.mark.slow
@at_turn(
    0,
    2,
    "highwater/test_pytest_plugin.py::test_the_right_program_passes_and_the_naive_one_fails_with_values_and_fault",
)
def test_the_verdict_of_a_plan_is_in_the_output_and_in_the_junit_file(tmp_path: Path) -> None:
    (tmp_path / "test_chaos.py").write_text(text_of("chaos"))
    ended = run_pytest(tmp_path, "--junit-xml", "junit.xml")
    shown = ended.stdout
    assert "1 failed" in shown, shown + ended.stderr
    assert "EXPECTATION FAILED" in shown
    assert re.search(r"[\d,]+ lost-write in t", shown), shown
    assert "fault 0 (partition.isolate-leader" in shown
    assert re.search(r"values: \d+:\d+", shown)
    (report,) = re.findall(r"^report: (.*report.html)$", shown, re.MULTILINE)
    assert Path(report).is_file()
    assert f'name="highwater_report" value="{report}"' in (tmp_path / "junit.xml").read_text()


MISTAKES = """
import pytest

def test_without_a_marker(verdict):
    pass

@pytest.mark.chaos(plan="no-such-plan")
def test_of_an_unknown_plan():
    pass

@pytest.mark.chaos
def test_without_a_plan(verdict):
    pass
"""


def test_mistakes_with_the_marker_are_told(tmp_path: Path) -> None:
    (tmp_path / "test_mistakes.py").write_text(MISTAKES)
    ended = run_pytest(tmp_path, "--strict-markers")
    assert "3 errors" in ended.stdout, ended.stdout
    assert "needs a plan: mark the test with" in ended.stdout
    assert "chaos: plan no-such-plan: cannot be read" in ended.stdout
    assert "write the marker as" in ended.stdout


def test_a_cluster_that_cannot_start_fails_the_test_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "test_nodes.py").write_text("def test_it(kafka_cluster):\n    pass\n")
    ended = run_pytest(tmp_path, "--kafka-nodes", "99")
    assert "1 error" in ended.stdout
    assert "nodes" in ended.stdout
    assert "15" in ended.stdout
