"""Whole nights, with a stub in place of `highwater`."""

import json
import re
import sys
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.nightly import night as nights
from harness.nightly import retention
from harness.nightly.cells import Cell, cells_of
from harness.nightly.markdown import LIMIT_BYTES, markdown
from harness.nightly.results import Outcome, Result
from harness.nightly.run_night import NightRunner, open_night
from harness.nightly.suite import Retention, Suite
from tests.support.nightly_stub import SENTENCE

STUB = (sys.executable, "-m", "tests.support.nightly_stub")
CELLS = ["good", "lost", "open", "broken"]
ANSWERS = {"lost": "INVALID", "open": "UNKNOWN", "broken": "fails", "bird": "INVALID"}


class World:
    """A store, a suite, and what its cells answer."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = tmp_path / "store"
        self.answers = tmp_path / "answers.json"
        self.said: list[str] = []
        monkeypatch.setenv("STUB_ANSWERS", str(self.answers))

    def suite(self, **raw: object) -> Suite:
        cells = [
            {"plan": "random", "name": name, "duration_s": 1, "faults": "kill,pause"}
            for name in CELLS
        ]
        canary = [{"plan": "random", "name": "bird", "duration_s": 1}]
        parts: dict[str, object] = {"name": "s", "cell": cells, "canary": canary, "parallel": 2}
        return Suite.from_json({**parts, **raw}, "suite")

    def night(
        self, suite: Suite, answers: Mapping[str, str], *, stop_at: int | None = None
    ) -> tuple[int, list[Result]]:
        """One night, stopped after so many results if asked."""
        self.answers.write_text(json.dumps(answers))
        cells = cells_of(suite, Path("/nowhere"))
        opened = open_night(self.store, suite, cells, new=False, say=self.said.append)
        runner = NightRunner(opened, self.said.append)
        runner._trials.command = STUB
        if stop_at is not None:
            listener = runner.ended

            def ended(result: Result) -> None:
                listener(result)
                if len(opened.results) >= stop_at:
                    runner.stop()

            runner._trials.listener = Stopping(runner, ended)
        return runner.run(), opened.results

    def last(self) -> nights.Night:
        return nights.nights(self.store, "s")[-1]


class Stopping:
    def __init__(self, runner: NightRunner, ended: Callable[[Result], None]) -> None:
        self.began, self.ended = runner.began, ended


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_night_continues_after_failures_and_writes_all_files(world: World) -> None:
    """Every cell has its result, all files agree, and the exit code is the worst."""
    code, results = world.night(world.suite(), ANSWERS)
    assert code == 1
    assert {r.cell: r.outcome for r in results} == {
        "good": Outcome.PASSED,
        "lost": Outcome.VIOLATION,
        "open": Outcome.UNKNOWN,
        "broken": Outcome.ERROR,
        "bird": Outcome.PASSED,
    }
    lost = next(r for r in results if r.cell == "lost")
    assert (lost.acked, lost.p99_ms, lost.unavailable_ms) == (1500, 12.5, 2500.0)
    assert lost.replay is not None
    broken = next(r for r in results if r.cell == "broken")
    assert broken.said == "the disk of node 1 cannot be made nothing was started"

    path = world.last().path
    root = ElementTree.parse(path / "junit.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("5", "1", "2")
    (failed,) = [suite for suite in root if suite.get("failures") == "1"]
    assert failed.find("testcase/failure") is not None
    said = {p.get("name"): p.get("value") for p in failed.iter("property")}
    assert said["acks"] == "0,1,all"
    assert said["faults"] == "kill,pause"
    assert said["seed"] == str(lost.seed)
    assert said["replay"] == lost.replay
    text = (path / "summary.md").read_text()
    assert "it is INVALID: a \\| b" in text
    assert "- 12 lost-write" in text
    metrics = (path / "metrics.prom").read_text()
    assert 'highwater_nightly_runs{outcome="violation",suite="s"} 1.0' in metrics
    assert 'highwater_nightly_exit_code{suite="s"} 1.0' in metrics
    night = world.last()
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
    }
    assert samples["highwater_nightly_began_seconds"] == night.began_s, "in full precision"
    assert samples["highwater_nightly_ended_seconds"] == night.ended_s
    page = (world.store / "nightly/s/trend.html").read_text()
    assert "canary: must fail" in page
    assert "it is INVALID: a | b" in page


def test_permitted_loss_passes_and_is_shown_in_every_file(world: World) -> None:
    """It is no failure, but looks different from other successes."""
    code, results = world.night(world.suite(), {"good": "lossy", "lost": "VALID"})
    (lossy,) = [result for result in results if result.cell == "good"]
    assert lossy.outcome is Outcome.LOSSES
    assert lossy.lost == {"all": 934}
    line = "CONTRACT KEPT; ACKNOWLEDGED WRITES LOST: 934 acks=all, permitted by"
    assert lossy.said.startswith(line)
    assert code == 1, "the canary was not found"
    path = world.last().path
    root = ElementTree.parse(path / "junit.xml").getroot()
    (suite,) = [each for each in root if each.get("name") == "s.good"]
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "0")
    assert (suite.findtext("testcase/system-out") or "").startswith(line)
    said = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert said["acknowledged_lost_acks_all"] == "934"
    text = (path / "summary.md").read_text()
    assert "acknowledged writes lost: 934 acks=all" in text
    assert "| 934 acks=all |" in text
    metrics = (path / "metrics.prom").read_text()
    lost = 'highwater_nightly_acknowledged_lost{acks="all",cell="good",suite="s"} 934.0'
    assert lost in metrics
    page = (world.store / "nightly/s/trend.html").read_text()
    assert 'class="mark losses"' in page
    assert line in page


def test_failed_expectation_has_its_own_junit_case(world: World) -> None:
    """Apart from the contract, which was kept."""
    code, results = world.night(world.suite(), {"good": "unmet", "lost": "VALID"})
    assert code == 1
    (unmet,) = [result for result in results if result.cell == "good"]
    assert unmet.outcome is Outcome.UNMET
    assert unmet.said == "EXPECTATION FAILED: lost <= 5, measured 83"
    path = world.last().path
    root = ElementTree.parse(path / "junit.xml").getroot()
    (suite,) = [each for each in root if each.get("name") == "s.good"]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    contract, failed, met = suite.iter("testcase")
    assert contract.find("failure") is None
    assert met.find("failure") is None
    assert (failed.get("name") or "").endswith(": lost <= 5")
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("type") == "expectation failed"
    assert failure.get("message") == "EXPECTATION FAILED: lost <= 5, measured 83"
    text = (path / "summary.md").read_text()
    assert "### ❌ expectation failed: good" in text
    assert "- EXPECTATION FAILED: lost <= 5, measured 83" in text
    metrics = (path / "metrics.prom").read_text()
    assert 'expectations{cell="good",outcome="failed",suite="s"} 1.0' in metrics
    assert 'class="mark unmet"' in (world.store / "nightly/s/trend.html").read_text()


CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testsuite", "properties", "testcase", "system-out", "system-err"},
    "properties": {"property"},
    "property": set(),
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
    "failure": set(),
    "error": set(),
    "skipped": set(),
    "system-out": set(),
}
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "time", "skipped", "timestamp",
                  "hostname", "id", "package", "group", "file", "log", "url", "version"},
    "properties": set(),
    "property": {"name", "value"},
    "testcase": {"name", "time", "classname", "group"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
}  # fmt: skip
"""What junit-10.xsd of Jenkins's xUnit plugin allows, as far as it is used here."""


def test_junit_file_follows_the_schema(world: World) -> None:
    """Elements, attributes, the form of times; and what has to be there."""
    known = [{"cell": "lost", "anomaly": "lost-write", "reason": "it is <so> & stays"}]
    world.night(world.suite(known=known), ANSWERS | {"good": "INVALID"})
    root = ElementTree.parse(world.last().path / "junit.xml").getroot()
    for element in root.iter():
        assert {child.tag for child in element} <= CHILDREN[element.tag]
        assert set(element.keys()) <= ATTRIBUTES[element.tag]
        assert re.fullmatch(r"\d+(\.\d{1,3})?", element.get("time", "0"))
        if element.tag == "testsuite":
            assert set(element.keys()) >= {"name", "tests", "failures", "errors"}
    assert {each.tag for each in root.iter()} == set(CHILDREN)


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"bird": "INVALID"}, 0),
        ({"bird": "VALID"}, 1),
        ({"bird": "INVALID", "open": "UNKNOWN"}, 2),
        ({"bird": "INVALID", "open": "UNKNOWN", "broken": "fails"}, 255),
    ],
)
def test_exit_codes_of_nights(world: World, answers: Mapping[str, str], code: int) -> None:
    """A canary that is not detected is a violation: the suite is blind."""
    assert world.night(world.suite(), answers)[0] == code


def test_stopped_night_is_resumed(world: World) -> None:
    """Results are kept, and the other trials run with the same seeds."""
    code, first = world.night(world.suite(parallel=1), ANSWERS, stop_at=2)
    assert code in (1, 255)
    assert len(first) == 2
    seeds = {(t.cell, t.seed) for t in world.last().trials}
    code, both = world.night(world.suite(parallel=1), ANSWERS)
    assert code == 1
    assert both[:2] == first
    assert {(r.cell, r.seed) for r in both} == seeds
    assert len(nights.nights(world.store, "s")) == 1
    assert any("resuming the night" in said for said in world.said)


def test_night_with_a_cut_journal_is_resumed(world: World) -> None:
    """An incomplete line is no result and does not damage later lines."""
    world.night(world.suite(parallel=1), ANSWERS, stop_at=2)
    path = world.last().path / nights.TRIALS
    path.write_bytes(path.read_bytes()[:-20])
    _, results = world.night(world.suite(parallel=1), ANSWERS)
    assert sorted(r.cell for r in results) == sorted([*CELLS, "bird"])


def test_second_night_shows_new_and_fixed_failures(world: World) -> None:
    """With seeds of its own."""
    world.night(world.suite(), {"bird": "INVALID", "good": "INVALID"})
    before = world.last()
    world.night(world.suite(), {"bird": "INVALID", "lost": "INVALID"})
    after = world.last()
    assert after.path != before.path
    assert {t.seed for t in after.trials}.isdisjoint({t.seed for t in before.trials})
    page = (world.store / "nightly/s/trend.html").read_text()
    assert '<span class="badge new">new</span>' in page
    assert '<span class="badge fixed">fixed</span>' in page
    assert (world.last().path / "summary.md").read_text().count("| new |") == 1


def test_what_has_no_time_is_left_out_and_said(world: World) -> None:
    """And is no failure, unless nothing was tried at all."""
    code, results = world.night(world.suite(budget_min=0.01), ANSWERS)
    assert code == 2
    assert {r.outcome for r in results} == {Outcome.LEFT_OUT}


def test_a_trial_that_takes_too_long_is_ended(world: World) -> None:
    """That is the harness's failure, and the others go on."""
    suite = world.suite(timeout_min=0.02, cell=[{"plan": "quick", "name": "slow"}], canary=[])
    code, results = world.night(suite, {"slow": "hangs"})
    assert code == 255
    assert "took longer" in results[0].said


def test_old_runs_go_and_what_was_said_of_them_stays(world: World) -> None:
    """Those that passed go early, the others late."""
    world.night(world.suite(), ANSWERS)
    first = world.last()
    world.night(world.suite(), ANSWERS)
    old = retention.outdated(nights.nights(world.store, "s"), Retention(passed=1, failed=2))
    gone = {path.name.rpartition("-")[0] for path in old}
    assert gone == {"good", "bird"}
    assert all(path.parent.parent == first.path for path in old)
    assert retention.remove(old) == []
    assert not any(path.exists() for path in old)
    assert len(first.results()) == 5


def test_a_web_hook_is_told_once(world: World) -> None:
    """And who does not answer is complained of, no more."""
    heard: list[dict[str, object]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        Thread(target=server.handle_request).start()
        url = f"http://127.0.0.1:{server.server_port}/x"
        world.night(world.suite(webhook=url), ANSWERS)
    assert heard[0]["exit_code"] == 1
    code, _ = world.night(world.suite(webhook=url), {"bird": "INVALID"})
    assert code == 0
    assert any("web hook could not be called" in said for said in world.said)


def test_summary_stays_within_the_limit_and_counts_the_rest(world: World) -> None:
    """For any number of failures."""
    world.night(world.suite(), ANSWERS)
    many = [
        Result(cell=f"c{n}", seed=n, outcome=Outcome.VIOLATION, said="x" * 900) for n in range(3000)
    ]
    text = markdown(world.last(), many, {})
    assert len(text.encode()) <= LIMIT_BYTES
    assert "more cells" in text
    assert "more lines did not fit" in text


@pytest.mark.parametrize(
    "changed",
    [{"canary": []}, {"canary": [{"plan": "quick", "name": "bird", "nodes": 5}]}, {"seeds": 2}],
)
def test_changed_cells_start_a_new_night(world: World, changed: Mapping[str, object]) -> None:
    """An interrupted night of other cells with the same names is not resumed."""
    world.night(world.suite(parallel=1), ANSWERS, stop_at=1)
    world.night(world.suite(**changed), ANSWERS, stop_at=1)
    assert len(nights.nights(world.store, "s")) == 2
    assert isinstance(cells_of(world.suite(), Path("/nowhere"))[0], Cell)


def test_other_budget_or_parallelism_resumes_the_night(world: World) -> None:
    """They do not change the trials."""
    world.night(world.suite(parallel=1), ANSWERS, stop_at=1)
    world.night(world.suite(parallel=2, budget_min=30), ANSWERS)
    assert len(nights.nights(world.store, "s")) == 1


def test_simulated_cells_are_judged_like_real_runs(world: World) -> None:
    """A broken invariant is a violation; a failed simulation is an error."""
    answers = {"lost": "INVALID", "open": "UNKNOWN", "shaky": "broken", "failed": "fails"}
    cells = [{"plan": "simulation", "name": name, "target": "sim"} for name in ("good", *answers)]
    _, results = world.night(world.suite(cell=cells, canary=[]), answers)
    found = {r.cell: r for r in results}
    assert {cell: r.outcome for cell, r in found.items()} == {
        "good": Outcome.PASSED,
        "lost": Outcome.VIOLATION,
        "open": Outcome.UNKNOWN,
        "shaky": Outcome.VIOLATION,
        "failed": Outcome.ERROR,
    }
    assert found["shaky"].said == SENTENCE
    assert found["shaky"].anomalies == {"one-leader": 1}
    assert found["failed"].said == "in phase 'chaos': no such thing"


def test_violation_of_a_trial_that_took_too_long_counts(world: World) -> None:
    """A trial that is ended may still have found something."""
    suite = world.suite(cell=[{"plan": "quick", "name": "slow"}], canary=[], timeout_min=0.02)
    opened = open_night(
        world.store, suite, cells_of(suite, Path("/nowhere")), new=False, say=world.said.append
    )
    runner = NightRunner(opened, world.said.append)
    said = {"verdict": "INVALID", "reasons": ["so it is"], "anomalies": [], "topics": []}
    script = f"trap 'exit 1' TERM; echo '{json.dumps(said)}'; sleep 5 & wait"
    runner._trials.command = ("sh", "-c", script)
    assert runner.run() == 1
    assert opened.results[0].outcome is Outcome.VIOLATION
