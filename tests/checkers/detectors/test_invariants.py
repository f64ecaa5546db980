"""What stopped a simulated run is forbidden, whatever the detectors think of the record."""

from dataclasses import replace

from checkers.check import check
from checkers.contract.contract import Judgement
from checkers.history.run_file import Broken, RunFile
from checkers.verdict import Outcome
from tests.support.histories.story import healthy

BROKEN = Broken(name="one-leader", sentence="two lead epoch 3", at_ns=7)


def test_a_broken_invariant_is_a_finding_of_its_own() -> None:
    """A record that shows nothing wrong is INVALID by it, and VALID without."""
    story = healthy()
    assert check(story.sources(), story.plan).outcome is Outcome.VALID
    stopped = replace(story.sources(), run_file=RunFile(broken=BROKEN))
    verdict = check(stopped, story.plan)
    assert verdict.outcome is Outcome.INVALID
    assert verdict.reasons[0] == "1 one-leader (two lead epoch 3)"
    first = verdict.anomalies[0]
    assert (first.kind, first.judgement) == ("one-leader", Judgement.FORBIDDEN)
    assert first.examples == ({"invoke_ns": 7, "complete_ns": 7},)
