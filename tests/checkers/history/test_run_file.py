"""What a run says of itself, and that nonsense says nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.check import check
from checkers.history.run_file import NOTHING_SAID, Broken, RunFile, read_run_file
from checkers.verdict import Outcome
from tests.support.histories.golden import ALL_GOLDEN
from tests.support.histories.story import WHOLE, S, healthy


def test_phases_and_problems_are_read(tmp_path: Path) -> None:
    """Phases and problems, in their order."""
    said = {
        "finished": ["deploy", "settle"],
        "epoch_problems": ["a-0 has no leader"],
        "refused": [{"node": 3, "text": "no"}, {"node": 4}, 5],
        "broken_invariant": {"name": "one-leader", "sentence": "two lead", "at_ns": 7},
        "more": 1,
    }
    (tmp_path / "run.json").write_text(json.dumps(said))
    found = read_run_file(tmp_path)
    assert found == RunFile(
        finished=("deploy", "settle"),
        epoch_problems=("a-0 has no leader",),
        refused=((3, "no"),),
        broken=Broken(name="one-leader", sentence="two lead", at_ns=7),
    )


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[1]",
        '{"broken_invariant": {"name": "one-leader"}}',
        '{"refused": {"node": 1}}',
        '{"finished": 3}',
        '{"finished": null}',
        "{",
    ],
)
def test_missing_or_broken_run_file_is_empty(tmp_path: Path, text: str | None) -> None:
    """Neither a missing file nor a broken one is an error."""
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    assert read_run_file(tmp_path) == NOTHING_SAID


@pytest.mark.parametrize(
    ("run_file", "why"),
    [
        (NOTHING_SAID, "they were not recorded"),
        (RunFile(finished=("deploy",)), "the run ended before"),
        (RunFile(finished=(), epoch_problems=()), "they were not recorded"),
        (RunFile(epoch_problems=("a-10: gone", "a-1: refused", "b")), "a-1: refused"),
        (RunFile(epoch_problems=("the monitor is not running",)), "the monitor is not running"),
    ],
)
def test_reason_for_unread_epochs_is_named(run_file: RunFile, why: str) -> None:
    """The partition's own problem before everybody's."""
    assert run_file.why_epochs_unread("a-1") == why


@pytest.mark.parametrize(
    ("run_file", "judgements"),
    [
        (RunFile(finished=("deploy",)), {"unknown"}),
        (RunFile(finished=("deploy",), epoch_problems=("all-0 has no leader",)), {"forbidden"}),
    ],
)
def test_missing_leaders_mean_something_only_after_epochs_were_read(
    run_file: RunFile, judgements: set[str]
) -> None:
    """Before that, whoever led last may be seen by none; after it, no epoch is needed to know."""
    story = ALL_GOLDEN[
        "end_goes_back_long_after_the_leader_changed_and_nobody_leads_in_the_end"
    ].story()
    verdict = check(replace(story.sources(), run_file=run_file), story.plan)
    kinds = ("uncommitted-read", "watermark-regression")
    found = [each for each in verdict.anomalies if each.kind in kinds]
    assert len(found) == len(kinds)
    assert {each.judgement.value for each in found} == judgements


SAID = "node 3 refused its damaged files (fault 4, disk.cut-tail node 3): node cannot run"


@pytest.mark.parametrize(
    ("out", "refused", "outcome"),
    [
        (3, ((3, SAID),), Outcome.VALID),
        (3, (), Outcome.UNKNOWN),
        (1, ((3, SAID),), Outcome.UNKNOWN),
    ],
)
def test_node_that_refused_its_files_may_be_missing_from_the_isr(
    out: int, refused: tuple[tuple[int, str], ...], outcome: Outcome
) -> None:
    """Node `out` never came back into any in-sync set; only who refused may be missing."""
    story = healthy()
    story.replicas = [row for row in story.replicas if row["node"] != out]
    story.replica_ends = [row for row in story.replica_ends if row["node"] != out]
    for row in story.cluster:
        if row["kind"] == "leader" and row["at_ns"] >= 16 * S:
            row["isr"] = [node for node in (1, 2, 3) if node != out]
    sources = replace(story.sources(), run_file=replace(WHOLE, refused=refused))
    verdict = check(sources, story.plan)
    assert verdict.outcome is outcome, verdict.reasons
    told = [each.detail for each in verdict.assumptions if each.name == "no node refused its files"]
    assert told == [SAID if refused else ""]


DIED = "node 2 died by itself in phase final reads, by SIGKILL"


@pytest.mark.parametrize(("refused", "told"), [((), DIED), (((2, SAID),), "")])
def test_a_node_that_died_after_all_was_settled_is_named_and_decides_nothing(
    refused: tuple[tuple[int, str], ...], told: str
) -> None:
    """The cluster has to stand it. Who refused its files has a line of its own."""
    story = healthy()
    died = replace(WHOLE, deaths=((2, DIED),), refused=refused)
    sources = replace(story.sources(), run_file=died)
    verdict = check(sources, story.plan)
    assert verdict.outcome is Outcome.VALID, verdict.reasons
    (said,) = [each for each in verdict.assumptions if each.name == "no node died by itself"]
    assert (said.holds, said.detail, said.decisive) == (not told, told, False)
