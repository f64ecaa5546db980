"""TLC judges traces, and the specifications themselves. Each start of TLC takes a second or more,
so one start judges many traces."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.plans.plan import build, load
from harness.simulation.campaign import Task, prepared
from harness.simulation.validation import tlc
from harness.simulation.validation.observe import traces_of
from harness.simulation.validation.traces import Trace
from tests.harness.simulation.validation import quorum_traces, replication_traces
from tests.support.require import require
from tests.support.tiers import in_turn

pytestmark = pytest.mark.slow

QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""TLC is at work for seconds here: better machine code would not pay for itself."""


@pytest.fixture(autouse=True)
def _quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every start of TLC."""
    monkeypatch.setattr(tlc, "JVM_OPTIONS", QUICK_START)


def refused(good: Mapping[str, Trace], bad: Mapping[str, Trace]) -> None:
    """The specification refuses the last entry of each bad trace, and nothing else."""
    judged = tlc.judge([*good.values(), *bad.values()])
    reasons = {each.trace.name: each.reason for each in judged}
    assert {name for name, reason in reasons.items() if reason} == set(bad), reasons
    for name, each in bad.items():
        assert f"leads to entry {len(each.entries)} of {len(each.entries)}," in reasons[name]


def test_quorum_specification_allows_and_refuses_traces_made_by_hand() -> None:
    """What elections, commits, truncation and restarts may and may not do."""
    require("tlc")
    refused(
        {name: quorum_traces.trace(name, each) for name, each in quorum_traces.GOOD.items()},
        {name: quorum_traces.trace(name, each) for name, each in quorum_traces.BAD.items()},
    )


def test_replication_specification_allows_and_refuses_traces_made_by_hand() -> None:
    """What commits, ISR changes, elections and truncation may and may not do."""
    require("tlc")
    made = replication_traces
    refused(
        {name: made.trace(name, each) for name, each in made.GOOD.items()},
        {name: made.trace(name, each) for name, each in made.BAD.items()},
    )


def seed(number: int, module: str = "nodes") -> list[Trace]:
    plan = build(load("simulation"), where="simulation").model_copy(
        update={"broker_module": module}
    )
    return traces_of(prepared(Task(plan=plan, root=Path()), number), f"{module}, seed {number}")


def test_traces_of_the_broker_are_accepted() -> None:
    """python -m tests.tools.validate_traces does this for many seeds."""
    require("tlc")
    judged = tlc.judge([each for number in (1, 2) for each in seed(number)])
    assert [each.reason for each in judged if not each.accepted] == []


@pytest.mark.parametrize(
    ("mutant", "number", "specification"),
    in_turn(
        "harness/simulation/validation/test_specifications.py::test_traces_of_a_mutant_are_refused",
        [
            ("commits_earlier_epochs", 2, "Quorum"),
            ("leads_an_epoch_twice", 3, "Quorum"),
            ("metadata_in_page_cache", 2, "Quorum"),
            ("isr_of_one", 3, "Replication"),
            ("truncate_to_high_watermark", 4, "Replication"),
            ("commits_by_proposed_isr", 2, "Replication"),
        ],
        of=6,
    ),
)
def test_traces_of_a_mutant_are_refused(mutant: str, number: int, specification: str) -> None:
    """Bugs of the zoo that the simulation plan reaches with this seed."""
    require("tlc")
    judged = tlc.judge(seed(number, f"harness.zoo.mutants.{mutant}"))
    reasons = [each.reason for each in judged if not each.accepted]
    assert len(reasons) == 1
    assert f"no step of {specification}.tla leads to entry" in reasons[0]


def explored(
    tmp_path: Path, specification: str, *, depth: int, old: str = "", new: str = ""
) -> str:
    """TLC's answer to the behaviours of a model with `depth` steps. In the specification, a text
    may be replaced."""
    require("tlc")
    for source in (*tlc.SPECIFICATIONS.glob("*.tla"), *tlc.SPECIFICATIONS.glob("*Model.cfg")):
        text = source.read_text()
        if source.stem == specification:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / source.name).write_text(re.sub(r"Depth = \d+", f"Depth = {depth}", text))
    return tlc.run(tlc.find_jar(), tmp_path, f"{specification}Model")


@pytest.mark.parametrize(
    "specification",
    in_turn(
        "harness/simulation/validation/test_specifications.py"
        "::test_short_behaviours_of_a_specification_keep_its_invariants",
        ["Quorum", "Replication"],
        of=2,
    ),
)
def test_short_behaviours_of_a_specification_keep_its_invariants(
    tmp_path: Path, specification: str
) -> None:
    """Of three steps, from a state in which a mistake would show."""
    said = explored(tmp_path, specification, depth=3)
    assert "Model checking completed. No error has been found." in said, said


@pytest.mark.parametrize(
    ("specification", "old", "new", "broken"),
    in_turn(
        "harness/simulation/validation/test_specifications.py"
        "::test_invariants_find_a_rule_that_is_missing",
        [
            ("Quorum", "  /\\ IsAtLeast(c, s.log)\n", "", "LeaderHasAllCommitted"),
            ("Replication", "Max(s.hw, leaders[s.epoch].start)", "s.hw", "MembersHaveAllCommitted"),
            ("Quorum", "  /\\ s.vote = 0\n", "", "OneVotePerEpoch"),
            ("Quorum", "ELSE End(s.log)\n", "ELSE 0\n", "MajorityHasCommitted"),
            (
                "Replication",
                ": Claimed(s.epoch, m) >= end\n",
                ": TRUE\n",
                "MembersHaveAllCommitted",
            ),
        ],
        of=5,
    ),
)
def test_invariants_find_a_rule_that_is_missing(
    tmp_path: Path, specification: str, old: str, new: str, broken: str
) -> None:
    """TLC stops at the first behaviour that shows it; this takes up to five steps."""
    said = explored(tmp_path, specification, depth=6, old=old, new=new)
    assert f"Invariant {broken} is violated" in said
