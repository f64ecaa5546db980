"""Scripted schedules of single messages: the broker comes through, and its mutants do not."""

import re

import pytest

from harness.targets.sim.invariants import InvariantBroken
from tests import mutants
from tests.harness.targets.sim.schedules import SCHEDULES
from tests.harness.targets.sim.schedules.stage import Stage, Unmet

CAUGHT_BY = {
    "counts_zombies": "isr-has-all-committed",
    "joins_below_epoch_start": "isr-has-all-committed",
    "trusts_old_incarnations": "isr-has-all-committed",
    "takes_high_watermark_first": "follower-high-watermark",
    "leads_a_damaged_log": "leader-has-all-committed",
    "leads_an_epoch_twice": "log-matching",
    "votes_in_memory": "votes-are-on-disk",
    "commits_earlier_epochs": "commits-its-own-epoch",
    "leads_without_majority": "still leads, without a majority",
    "stands_without_asking": "came back, and epoch",
    "goes_on_after_errors": "goes on with a log",
    "beats_while_the_disk_hangs": "not within 15 s: somebody else leads",
    "accepts_gaps": "sequences",
    "refuses_repeats": "a batch that is there is answered",
}


def test_every_schedule_has_an_expectation() -> None:
    """None is played without being checked."""
    assert set(CAUGHT_BY) == set(SCHEDULES) <= set(mutants.NAMES)


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_unmodified_broker_comes_through(name: str) -> None:
    """No invariant breaks, nothing acknowledged is lost, everything converges."""
    Stage(SCHEDULES[name], seed=1).run()


@pytest.mark.parametrize("name", SCHEDULES)
def test_its_mutant_does_not(name: str) -> None:
    """The bug that the schedule is named after is found, by the rule that forbids it."""
    undo = mutants.load(name).apply()
    try:
        with pytest.raises((InvariantBroken, Unmet), match=re.escape(CAUGHT_BY[name])):
            Stage(SCHEDULES[name], seed=1).run()
    finally:
        undo()
