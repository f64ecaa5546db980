"""Group coordinators that die, stop and are cut off lose no acknowledged commit."""

import pytest

from tests.support.simulation.commits import GROUPS, Commits


@pytest.mark.parametrize("seed", range(10))
def test_acknowledged_commits_survive_their_coordinators(seed: int) -> None:
    """With three replicas, of which two are in sync; and live state is what the log says."""
    outcome = Commits(seed).run()
    for group, history in outcome.groups.items():
        assert history.final in history.allowed, (group, history)
        assert history.acknowledgements > 10, (group, history)
    assert outcome.coordinators > 1
    assert outcome.replayed >= 3
    assert len(outcome.groups) == len(GROUPS)


def test_equal_seeds_have_equal_traces() -> None:
    """A run with coordinators is a function of its seed."""
    assert Commits(1).run().digest == Commits(1).run().digest
