"""Detectors of other packages."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

import checkers.check
from checkers.check import check
from checkers.detectors import plugged, registry
from checkers.detectors.plugged import GROUP, Plugged, collect
from checkers.detectors.registry import DETECTORS, RULES
from checkers.engines.engine import Frame
from checkers.frames.evidence import evidence
from checkers.frames.frames import Frames
from checkers.verdict import Outcome
from harness.reports import words
from tests.support.checkers.plugged import ONE
from tests.support.histories.story import healthy

DECLARED = "tests.support.checkers.plugged"


def point(name: str) -> EntryPoint:
    """An entry point of an installed package."""
    return EntryPoint(name.lower(), f"{DECLARED}:{name}", GROUP)


def test_detector_and_tuple_of_detectors_are_loaded() -> None:
    """In the order of the entry points' names."""
    found = collect([point("SEVERAL"), point("ONE")], {"lost-write"}, {"lost-write"})
    assert [each.name for each in found.detectors] == ["one", "first", "second"]
    assert found.problems == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MISSING", "has no attribute 'MISSING'"),
        ("NUMBER", "3, which is no Detector (checkers.detectors.detector)"),
        ("NO_RULES", "detector lawless has no rules, so nothing judges what it finds"),
        ("NO_WORDS", "detector mute: anomaly odd has no words"),
        ("TAKEN", "there is another detector one; give it another name"),
        ("SAME_KIND", "detector other: there is another anomaly odd; give it another name"),
    ],
)
def test_what_cannot_be_used_is_left_out_with_its_reason(name: str, said: str) -> None:
    """The rest is used."""
    taken = {"one"} if name == "TAKEN" else {"lost-write"}
    wanted = point("ONE" if name == "TAKEN" else name)
    kinds = {"odd"} if name == "SAME_KIND" else {"lost-write"}
    found = collect([wanted, point("SEVERAL")], taken, kinds)
    assert [each.name for each in found.detectors] == ["first", "second"]
    (problem,) = found.problems
    assert f"the entry point {wanted.name} of package ? cannot be used" in problem
    assert said in problem


def test_detector_that_cannot_be_used_leaves_the_verdict_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it would have found is not known."""
    monkeypatch.setattr(checkers.check, "OF_OTHERS", Plugged((), ("it cannot be used",), {}))
    story = healthy()
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome is Outcome.UNKNOWN
    assert verdict.reasons == ("it cannot be used",)


def test_what_a_plugged_detector_finds_is_judged_by_its_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The verdict has its rules in the contract, and the report its words."""

    def every_send(frames: Frames) -> Iterator[Frame]:
        kind = frames.engine.functions.lit("odd")
        yield evidence(frames.engine, frames.acked, kind=kind)

    found = replace(ONE, find=every_send)
    monkeypatch.setattr(checkers.check, "DETECTORS", (*DETECTORS, found))
    monkeypatch.setattr(checkers.check, "RULES", (*RULES, *ONE.rules))
    monkeypatch.setattr(registry, "OF_OTHERS", Plugged((found,), (), {}))
    monkeypatch.setattr(plugged, "installed", lambda: True)
    story = healthy()
    verdict = check(story.sources(), story.plan)
    assert verdict.outcome is Outcome.INVALID
    forbidden = {a.kind for a in verdict.anomalies if a.judgement == "forbidden"}
    assert forbidden == {"odd"}
    assert verdict.contract[-1]["anomaly"] == "odd"
    assert words.meaning("odd") == "It is odd."
    assert "shows 20 oddities" in words.why(verdict.as_json())
