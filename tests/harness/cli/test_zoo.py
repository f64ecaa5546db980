"""`highwater zoo`: its list of broken brokers, and its end by a signal."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli.zoo import zoo
from harness.plans.plan import PlanError
from harness.zoo import mutants

WITHIN_S = 120


def test_list_prints_each_mutant_with_bug_sources_and_what_it_breaks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line per mutant, in the order of the names."""
    zoo(list_only=True)
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["name", "bug", "sources", "breaks"]
    assert [line.split()[0] for line in lines] == list(mutants.NAMES)
    assert [line.split()[-1] for line in lines if line.startswith("isr_of_one ")] == ["safety"]
    (line,) = (line for line in lines if line.startswith("stands_without_asking "))
    assert "no pre-vote" in line
    assert "KIP-996, KIP-650" in line
    assert line.split()[-1] == "liveness"


def test_list_as_json_has_all_data_of_the_named_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    """Names on the command line select; `breaks` tells safety and liveness apart."""
    zoo(["isr_of_one", "leads_without_majority"], list_only=True, as_json=True)
    first, second = json.loads(capsys.readouterr().out)
    assert first == {
        "name": "isr_of_one",
        "bug": "an ISR of one is enough",
        "sources": ["Call me maybe: Kafka 0.8", "KAFKA-1555"],
        "breaks": "safety",
        "anomalies": ["lost-write", "truncated-read", "inconsistent-offset"],
        "module": "harness.zoo.mutants.isr_of_one",
        "scenario": "isr-of-one",
        "schedule": True,
    }
    assert (second["breaks"], second["scenario"], second["schedule"]) == ("liveness", None, True)


def test_list_of_an_unknown_name_is_a_plan_error() -> None:
    """The message lists the known names."""
    with pytest.raises(
        PlanError, match="there is no broken broker nobody; there are aborts_without_fencing, "
    ):
        zoo(["nobody"], list_only=True)


def workers_of(pid: int) -> list[int]:
    """Return the children of a process, without the resource tracker."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [each for task in tasks for each in (task / "children").read_text().split()]
    return [int(child) for child in children if "from multiprocessing.spawn" in _command(child)]


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended
        return ""


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    until_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < until_s, "the condition did not hold in time"
        time.sleep(0.005)


@pytest.mark.slow
def test_search_ended_by_sigterm_leaves_no_process(tmp_path: Path) -> None:
    """The worker processes end too, as with Ctrl-C, although the first has only begun."""
    name = "same_leader_skips_truncation"
    options = ("--worlds", "0", "--random", "1000", "--searches", "1", "--jobs", "1")
    command = (sys.executable, "-m", "harness.cli.main", "zoo", name, *options)
    with subprocess.Popen([*command, "--store", str(tmp_path)], stderr=subprocess.PIPE) as search:
        eventually(lambda: bool(workers_of(search.pid)))
        workers = workers_of(search.pid)
        search.send_signal(signal.SIGTERM)
        _, errors = search.communicate(timeout=WITHIN_S)
    assert search.returncode == 255
    assert errors.splitlines() == [
        b"highwater: interrupted; `highwater clean` removes what may still be running"
    ]
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
